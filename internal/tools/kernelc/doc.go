// Kernelc compiles the kernels of kernels/cuda/src into the images of kernels/cuda/images, and checks the machine
// code. Run it by "make kernels" and "make kernels-check", which fetch the compilers first; docs/KERNEL-IMAGES.md is
// its manual.
//
//	kernelc build   compile what has changed and write the images
//	kernelc check   compile everything, compare with the images, and pass all gates
//	kernelc check -only 'norm_*'   compile some kernels, pass the gates and print their rows
//
// Reading order:
//
//	source.go            a source file, what it includes, and which targets it is for
//	toolchain.go         the compilers as processes
//	cache.go             what they made, kept for the next run
//	compile.go           one image of each kernel and target
//	build.go             packs and manifest
//	ptx.go, log.go,      what is read from the texts of the compilers
//	sass.go
//	graph.go, path.go    the path on which all elements of a row or chunk exist, and what a thread does on it
//	budget.go, gpu.go    what a kernel may use, and how many blocks then fit
//	predict.go           how fast a GPU should be on a path
//	gate.go              the gates: each takes such facts and returns what is wrong
//	check.go, table.go   all of it together, and the table that is printed
package main
