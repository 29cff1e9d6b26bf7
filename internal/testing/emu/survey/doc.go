// Package survey lists the operations of a program that have no kernel on a GPU, for tests with the tags cuda and emu: all
// of them, where a run on the GPU itself ends at the first.
package survey
