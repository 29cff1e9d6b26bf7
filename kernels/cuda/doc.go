// Package cuda runs operations on NVIDIA GPUs. A program has it when it is built with -tags cuda on Linux with cgo;
// package tensor then imports it, and tensor.Open("cuda") or "cuda:1" opens a GPU. In any other build the package
// says that it is not there.
//
// Nothing of CUDA is needed to build: include/cuda.h and link/libcuda.so stand in for a toolkit, and the command
// "weft cuda-env" tells cgo where they are. Nothing of CUDA is needed to start: the driver is looked for when the
// first device is opened, and a program without one can use the CPU.
//
// Reading order, from the bottom up:
//
//	include/cuda.h        the driver API as gorgonia.org/cu and this package use it
//	driver.c              passes each function on to the driver that is found at run time
//	shim.c                calls that need several steps on one thread, launches first of all
//	context.go            the context of a GPU, on whatever thread a goroutine is
//	backend.go            kernels.Backend: memory, streams, events
//	staging.go, peer.go   copies, through rings of pinned memory, and between GPUs
//	virtual.go, graph.go  ranges of addresses that grow, captured work
//	fault.go              what errors mean, and what follows from them
//	log.go                launches that may have caused a fault
//	badindex.go           indices outside their axis, which kernels note and the host asks for later
//	launch.go             how arguments reach a kernel
//	image.go, kernel.go   compiled kernels, and which operation uses which
//	table.go              what is looked up at each launch, without locks
//	compile.go, cache.go  kernels of users' expressions, by NVRTC, kept on disk
//
// Work is asynchronous: a launch or a copy is queued on a stream and the call returns. Goroutines may use one
// device at the same time; each call of C makes the device's context current on its thread first, so that no
// goroutine is bound to a thread.
//
// Environment variables:
//
//	WEFT_CUDA_DRIVER  path of the driver library, in place of libcuda.so.1
//	WEFT_NVRTC        path of the compiler library, in place of libnvrtc.so.12 or .13
//	WEFT_CACHE        folder for what that compiled, in place of the user's cache; "off" for none
//	WEFT_CUDA_SYNC=1  wait after every launch, so that a fault is reported by the one that made it
//
// Without the last, the report of a fault lists the launches that may have made it, each with the line of the program
// that asked for it.
package cuda
