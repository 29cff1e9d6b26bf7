// Package driver is the NVIDIA driver's API as package cuda uses it: devices, contexts, memory, streams, events,
// copies, modules and launches. It knows nothing of tensors or operations, keeps no state but the library, and is the
// only package with C. Functions answer with a [Result], the driver's own code; what follows from a failure, others
// decide.
//
// Nothing of CUDA is needed to build: include/cuda.h and link/libcuda.so stand in for a toolkit. Nothing of CUDA is
// needed to start: the library is looked for at the first call.
//
// Each call makes its context current on its thread first, so that no goroutine is bound to a thread.
//
// Reading order, from the bottom up:
//
//	include, link, headers.go  the driver API as gorgonia.org/cu and this package refer to it
//	library.c, library.h       passes each function on to the library that is found at run time
//	shim.c, shim.h             calls that need several steps on one thread, launches first of all
//	library.go                 the library and its version, and why there is none
//	result.go                  error codes, and what they mean for a device
//	gpu.go, device.go          what the driver says of each GPU
//	context.go                 the primary context of a GPU, on whatever thread a goroutine is
//	memory.go                  memory of the device and of the host, copies
//	stream.go                  streams and events
//	module.go                  images and the functions in them
//	launch.go                  launches with packed arguments
//	graph.go                   launches that are captured, to be queued together
//	virtual.go                 ranges of addresses that memory is mapped to
//	nvrtc.c, nvrtc.h, nvrtc.go the compiler for sources that are known at run time
package driver
