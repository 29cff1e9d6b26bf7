//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// Ptr is an address of the device.
type Ptr uint64

// Alloc takes n bytes of device memory, aligned to 256. Where there are not so many, free is how many there are.
func (c Context) Alloc(n int) (p Ptr, free int, rc Result) {
	rc = c.do(func() error {
		made, err := cu.MemAlloc(int64(n))
		if p = Ptr(made); resultOf(err) == OutOfMemory {
			bytes, _, _ := cu.MemInfo()
			free = int(bytes)
		}
		return err
	})
	return p, free, rc
}

// Free gives device memory back. It waits for work in flight.
func (c Context) Free(p Ptr) Result { return c.do(func() error { return cu.MemFree(cu.DevicePtr(p)) }) }

// AllocHost takes pinned memory of the host, which the device reaches at the address.
func (c Context) AllocHost(n int) (memory unsafe.Pointer, address Ptr, rc Result) {
	rc = c.call(func() C.CUresult {
		rc := C.cuMemHostAlloc(&memory, C.size_t(n), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)
		if rc != C.CUDA_SUCCESS {
			return rc
		}
		rc = C.cuMemHostGetDevicePointer((*C.CUdeviceptr)(&address), memory, 0)
		if rc != C.CUDA_SUCCESS {
			C.cuMemFreeHost(memory)
		}
		return rc
	})
	return memory, address, rc
}

// FreeHost gives pinned memory back. The context is current: see [Context.Do].
func FreeHost(memory unsafe.Pointer) { C.cuMemFreeHost(memory) }

// CopyIn queues a copy from pinned memory of the host, and an event behind it.
func (c Context) CopyIn(s Stream, to Ptr, from unsafe.Pointer, n int, after Event) Result {
	return Result(C.weft_copy_in(c.handle, s.handle, C.CUdeviceptr(to), from, C.size_t(n), after.handle))
}

// CopyOut queues a copy to pinned memory of the host, and an event behind it.
func (c Context) CopyOut(s Stream, to unsafe.Pointer, from Ptr, n int, after Event) Result {
	return Result(C.weft_copy_out(c.handle, s.handle, to, C.CUdeviceptr(from), C.size_t(n), after.handle))
}

// CopyWithin queues a copy within the device, and an event behind it.
func (c Context) CopyWithin(s Stream, to, from Ptr, n int, after Event) Result {
	return Result(C.weft_copy_within(c.handle, s.handle, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(n),
		after.handle))
}

// CopyPeer queues a copy from another device, whose memory this one reaches, on a stream of this one.
func (c Context) CopyPeer(s Stream, to Ptr, peer Context, from Ptr, n int) Result {
	return c.call(func() C.CUresult {
		return C.cuMemcpyPeerAsync(C.CUdeviceptr(to), c.handle, C.CUdeviceptr(from), peer.handle, C.size_t(n), s.handle)
	})
}

// EnablePeer lets this device reach the memory of another one.
func (c Context) EnablePeer(peer Context) Result {
	rc := c.call(func() C.CUresult { return C.cuCtxEnablePeerAccess(peer.handle, 0) })
	if rc == C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
		return Success
	}
	return rc
}

// Fill queues that n bytes become a value.
func (c Context) Fill(s Stream, p Ptr, value byte, n int) Result {
	return c.call(func() C.CUresult {
		return C.cuMemsetD8Async(C.CUdeviceptr(p), C.uchar(value), C.size_t(n), s.handle)
	})
}
