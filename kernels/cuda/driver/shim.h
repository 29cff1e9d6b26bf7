// What gorgonia.org/cu lacks or does not do in one call. Every function that takes a context makes it current on the
// calling thread first: goroutines move between threads, but not during a call of C.
#ifndef WEFT_SHIM_H
#define WEFT_SHIM_H

#include "include/cuda.h"

// Launches.

enum {
	WEFT_MAX_ARGS = 64,         // of a launch
	WEFT_MAX_ARG_BYTES = 4096,  // of a launch, packed
	WEFT_ARG_ALIGNMENT = 16,    // of the packed arguments of a launch
};

typedef struct {
	uintptr_t function;  // CUfunction, as a number: Go then need not look for pointers in the array
	uint32_t grid[3], block[3];
	uint32_t shared;     // dynamic shared memory in bytes
	uint32_t values;     // first byte of the packed arguments, a multiple of WEFT_ARG_ALIGNMENT
	uint32_t bytes;      // their size
	uint32_t offsets;    // first of the arguments' offsets, which count from values
	uint32_t count;      // number of arguments
} weft_launch;

// Submits n launches in order. Where progress is not 0, the device then writes mark to that address. *done is
// the number of launches submitted, n on success.
CUresult weft_launch_all(CUcontext ctx, CUstream stream, const weft_launch *launches, int n, const uint8_t *values,
	const uint32_t *offsets, CUdeviceptr progress, uint32_t mark, int *done);

// Copies between device memory and pinned host memory, and within the device, each followed by an event.

CUresult weft_copy_in(CUcontext ctx, CUstream stream, CUdeviceptr dst, const void *src, size_t n, CUevent after);
CUresult weft_copy_out(CUcontext ctx, CUstream stream, void *dst, CUdeviceptr src, size_t n, CUevent after);
CUresult weft_copy_within(CUcontext ctx, CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t n, CUevent after);

// Streams and events.

CUresult weft_event_record(CUcontext ctx, CUevent event, CUstream stream);
CUresult weft_event_query(CUcontext ctx, CUevent event);
CUresult weft_stream_wait(CUcontext ctx, CUstream stream, CUevent event);

// Graphs: what is queued on the stream between begin and end becomes a graph and does not run.

CUresult weft_capture_begin(CUcontext ctx, CUstream stream);
CUresult weft_capture_end(CUcontext ctx, CUstream stream, CUgraphExec *graph);
CUresult weft_graph_launch(CUcontext ctx, CUgraphExec graph, CUstream stream);

// Loads an image, a cubin or PTX with a zero at its end. What a compiler of the driver says goes to log, of size n.
CUresult weft_module_load(CUcontext ctx, const void *image, CUmodule *module, char *log, size_t n);

#endif
