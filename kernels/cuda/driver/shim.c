//go:build cuda && cgo && linux

#include "shim.h"

#include <string.h>

#pragma GCC visibility push(hidden)

// ENTER makes ctx current or returns the error from the function around it. It does not remember what it did: other
// CUDA code of the process may have made another context current since.
#define ENTER(ctx) \
	do { \
		CUresult entered = cuCtxSetCurrent(ctx); \
		if (__builtin_expect(entered != CUDA_SUCCESS, 0)) \
			return entered; \
	} while (0)

// launch_one passes the arguments by address, from a copy that is aligned as Go memory need not be.
static CUresult launch_one(CUstream stream, const weft_launch *l, const uint8_t *values, const uint32_t *offsets) {
	_Alignas(WEFT_ARG_ALIGNMENT) char aligned[WEFT_MAX_ARG_BYTES];
	void *params[WEFT_MAX_ARGS];
	memcpy(aligned, values + l->values, l->bytes);
	for (uint32_t i = 0; i < l->count; i++)
		params[i] = aligned + offsets[l->offsets + i];
	return cuLaunchKernel((CUfunction)l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
		l->block[2],
		l->shared, stream, params, 0);
}

CUresult weft_launch_all(CUcontext ctx, CUstream stream, const weft_launch *launches, int n, const uint8_t *values,
	const uint32_t *offsets, CUdeviceptr progress, uint32_t mark, int *done) {
	*done = 0;
	ENTER(ctx);
	for (int i = 0; i < n; i++) {
		CUresult rc = launch_one(stream, &launches[i], values, offsets);
		if (rc != CUDA_SUCCESS)
			return rc;
		++*done;
	}
	return progress ? cuStreamWriteValue32(stream, progress, mark, 0) : CUDA_SUCCESS;
}

CUresult weft_copy_in(CUcontext ctx, CUstream stream, CUdeviceptr dst, const void *src, size_t n, CUevent after) {
	ENTER(ctx);
	CUresult rc = cuMemcpyHtoDAsync(dst, src, n, stream);
	return rc != CUDA_SUCCESS ? rc : cuEventRecord(after, stream);
}

CUresult weft_copy_out(CUcontext ctx, CUstream stream, void *dst, CUdeviceptr src, size_t n, CUevent after) {
	ENTER(ctx);
	CUresult rc = cuMemcpyDtoHAsync(dst, src, n, stream);
	return rc != CUDA_SUCCESS ? rc : cuEventRecord(after, stream);
}

CUresult weft_copy_within(CUcontext ctx, CUstream stream, CUdeviceptr dst, CUdeviceptr src, size_t n, CUevent after) {
	ENTER(ctx);
	CUresult rc = cuMemcpyDtoDAsync(dst, src, n, stream);
	return rc != CUDA_SUCCESS ? rc : cuEventRecord(after, stream);
}

CUresult weft_event_record(CUcontext ctx, CUevent event, CUstream stream) {
	ENTER(ctx);
	return cuEventRecord(event, stream);
}

CUresult weft_event_query(CUcontext ctx, CUevent event) {
	ENTER(ctx);
	return cuEventQuery(event);
}

CUresult weft_stream_wait(CUcontext ctx, CUstream stream, CUevent event) {
	ENTER(ctx);
	return cuStreamWaitEvent(stream, event, 0);
}

CUresult weft_capture_begin(CUcontext ctx, CUstream stream) {
	ENTER(ctx);
	return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

CUresult weft_capture_end(CUcontext ctx, CUstream stream, CUgraphExec *graph) {
	ENTER(ctx);
	CUgraph captured;
	CUresult rc = cuStreamEndCapture(stream, &captured);
	if (rc != CUDA_SUCCESS)
		return rc;
	rc = cuGraphInstantiateWithFlags(graph, captured, 0);
	cuGraphDestroy(captured);
	return rc;
}

CUresult weft_graph_launch(CUcontext ctx, CUgraphExec graph, CUstream stream) {
	ENTER(ctx);
	return cuGraphLaunch(graph, stream);
}

CUresult weft_module_load(CUcontext ctx, const void *image, CUmodule *module, char *log, size_t n) {
	ENTER(ctx);
	log[0] = 0;
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)n};
	return cuModuleLoadDataEx(module, image, 2, options, values);
}

#pragma GCC visibility pop
