// Package lattice holds, in lattice.txt, which package of this module may import which, and tests
// that the packages keep to it. It contains nothing to import.
//
// Whoever adds a package adds its line; whoever needs a new import between packages adds it there,
// where a reviewer sees it. Run the test with -count=1: the go command does not know that the result
// depends on all packages, and would show an old one.
package lattice
