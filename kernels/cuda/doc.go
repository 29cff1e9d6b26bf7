// Package cuda runs operations on NVIDIA GPUs. A program has it when it is built with -tags cuda on Linux with cgo;
// package tensor then imports it, and tensor.Open("cuda") or "cuda:1" opens a GPU. In any other build the package
// says that it is not there.
//
// Nothing of CUDA is needed to build or to start (package driver); the command "weft cuda-env" tells cgo where the
// headers are. A program without a driver can use the CPU.
//
// Files in the order in which an op call passes through them:
//
//	gpu.go                GPUs, the driver and errors; nocuda.go in builds without CUDA
//	backend.go            kernels.Backend: devices, memory, streams, events
//	staging.go, peer.go   copies, through rings of pinned memory, and between GPUs
//	plan.go               which plan makes the kernel launches of an operation
//	layout.go, row.go     shapes, strides and rows as kernels take them
//	strided_copy.go       strided copies
//	plan_pointwise.go     expressions
//	plan_copy.go          contiguous, cat, stack, flip, pad, tril
//	plan_copies.go        many tensors by one launch: gradients, casts of parameters
//	plan_index.go         gather, embedding, index_add, scatter_add, scatter, one_hot
//	plan_reduce.go        sums and extremes along any axes
//	plan_reduce_row.go    variances, argmax, the gradient of prod
//	plan_softmax.go       softmax, log-softmax, logsumexp
//	plan_scan.go          running sums, products, extremes
//	plan_sort.go          sorting, and searching in what is sorted
//	plan_norm.go          layer and RMS norm
//	plan_cross_entropy.go the loss and its gradient
//	plan_matmul.go        matrix products
//	plan_attention.go     attention; plan_attention_flash.go on tensor cores
//	image.go              compiled kernels, loaded when they are first used
//	compile.go, cache.go  kernels of users' expressions, by NVRTC, kept on disk
//	forget.go             their end, when nobody uses the expression any more
//	cowmap.go             maps that every launch reads, without locks
//	launch.go             packed arguments, and the call of C that queues launches
//	index_error.go        indices outside their axis, which kernels record and the host asks for later
//	graph.go              op calls that are captured, to be queued together
//	log.go, fault.go      launches that may have caused a fault; what errors mean, and what follows from them
//	virtual.go            ranges of addresses that grow
//	probe.go              what units of the device do by themselves, for "weft probe"
//
// Package driver has the driver's API, package src the sources of kernels, package images the compiled ones.
//
// Work is asynchronous: a launch or a copy is queued on a stream and the call returns. Goroutines may use one
// device at the same time.
//
// Environment variables:
//
//	WEFT_CUDA_DRIVER  path of the driver library, in place of libcuda.so.1
//	WEFT_NVRTC        path of the compiler library, in place of libnvrtc.so.12 or .13
//	WEFT_CACHE        folder for what that compiled, in place of the user's cache; "off" for none
//	WEFT_BLOCKING_WAITS=1
//	                  sleep while the host waits for the device, in place of spinning: for machines with few cores
//	WEFT_CUDA_SYNC=1  wait after every launch, so that a fault is reported by the one that made it
//
// Without the last, the report of a fault lists the launches that may have made it, each with the line of the program
// that asked for it.
package cuda
