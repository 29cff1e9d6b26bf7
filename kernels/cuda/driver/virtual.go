//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

// Virtual memory is for the segments of the memory pool: one reserved range of addresses, to which memory is mapped as
// it grows, so that nothing moves. All sizes are multiples of the granularity. Nothing here waits for work that uses
// the memory.

// Granularity is that of virtual memory.
func (c Context) Granularity() (int, Result) {
	var n C.size_t
	rc := C.weft_granularity(c.handle, C.CUdevice(c.dev), &n)
	return int(n), Result(rc)
}

// Reserve takes a range of addresses without memory.
func (c Context) Reserve(n int) (Ptr, Result) {
	var p C.CUdeviceptr
	rc := C.weft_reserve(c.handle, C.size_t(n), &p)
	return Ptr(p), Result(rc)
}

// Map puts new memory behind reserved addresses.
func (c Context) Map(p Ptr, n int) Result {
	return Result(C.weft_map(c.handle, C.CUdevice(c.dev), C.CUdeviceptr(p), C.size_t(n)))
}

// Unmap gives the memory behind addresses back.
func (c Context) Unmap(p Ptr, n int) Result {
	return Result(C.weft_unmap(c.handle, C.CUdeviceptr(p), C.size_t(n)))
}

// Unreserve gives addresses back.
func (c Context) Unreserve(p Ptr, n int) Result {
	return Result(C.weft_unreserve(c.handle, C.CUdeviceptr(p), C.size_t(n)))
}
