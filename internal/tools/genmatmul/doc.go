// Genmatmul writes the assembly of package kernels/cpu/internal/matmul: the micro-kernels of the matrix product, the
// packing of panels and the loops that measure the peak of the multiply-add units, each for AVX-512, AVX2 and NEON.
//
//	(cd internal/tools/genmatmul && go run .)
//
// rewrites the files z_amd64.s, z_arm64.s and their Go declarations in that package. The generator is a module of its
// own so that importers of Weft do not depend on avo.
//
// An instruction set of x86 is a value of type [isa]; the functions in kernel.go, double.go, pack.go and peak.go emit
// one assembly function each from it, so that these tiers share their structure. neon.go has the functions of arm64,
// which avo does not know.
package main
