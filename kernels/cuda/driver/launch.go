//go:build cuda && cgo && linux

package driver

/*
#include "shim.h"
#cgo noescape weft_launch_all
#cgo nocallback weft_launch_all
*/
import "C"

import "unsafe"

// Limits of a launch.
const (
	MaxArgs      = C.WEFT_MAX_ARGS
	MaxArgBytes  = C.WEFT_MAX_ARG_BYTES
	ArgAlignment = C.WEFT_ARG_ALIGNMENT // of the packed arguments of a launch
)

// Dim is the size of a grid, in blocks, or of a block, in threads. An array would be passed through memory.
type Dim struct{ X, Y, Z uint32 }

// Launch is the struct weft_launch of shim.h. Arguments are packed as the members of a C struct would be, each at a
// multiple of its alignment, in the order of the kernel's parameters.
type Launch struct {
	function    uintptr
	Grid, Block Dim
	Shared      uint32 // dynamic shared memory in bytes
	Values      uint32 // first byte of the packed arguments, a multiple of ArgAlignment
	Bytes       uint32 // their size
	Offsets     uint32 // first of the arguments' offsets, which count from Values
	Count       uint32 // number of arguments
}

// Both structs have one size.
var _ [unsafe.Sizeof(C.weft_launch{})]byte = [unsafe.Sizeof(Launch{})]byte{}

// Launch begins the description of a launch.
func (f Function) Launch(grid, block Dim, shared int, values, offsets int) Launch {
	return Launch{function: f.handle, Grid: grid, Block: block, Shared: uint32(shared), Values: uint32(values),
		Offsets: uint32(offsets)}
}

// Launch queues launches in order. Where progress is not 0, the device then writes mark to that address. done is the
// number of launches queued, all on success.
func (c Context) Launch(s Stream, launches []Launch, values []byte, offsets []uint32, progress Ptr, mark uint32) (
	done int32, rc Result) {
	rc = Result(C.weft_launch_all(c.handle, s.handle, (*C.weft_launch)(unsafe.Pointer(unsafe.SliceData(launches))),
		C.int(len(launches)), (*C.uint8_t)(unsafe.SliceData(values)), (*C.uint32_t)(unsafe.SliceData(offsets)),
		C.CUdeviceptr(progress), C.uint32_t(mark), (*C.int)(&done)))
	return done, rc
}
