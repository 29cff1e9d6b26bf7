//go:build cuda && cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"gorgonia.org/cu"

	"github.com/weft-ml/weft/kernels"
)

// Range is a range of addresses of the device, behind which memory comes from the start on: what lies there need not
// move when it grows.
type Range struct {
	buffer
	granularity int
	mapped      int
}

// Reserve takes a range of at least n bytes without memory.
func (b *Backend) Reserve(n int) (*Range, error) {
	if err := b.usable("reserve"); err != nil {
		return nil, err
	}
	var granularity C.size_t
	var addr C.CUdeviceptr
	if err := b.check("reserve", "asking for the granularity", int(C.weft_granularity(b.ctx.handle, C.CUdevice(b.gpu.Ordinal), &granularity))); err != nil {
		return nil, err
	}
	n = roundUp(max(n, 1), int(granularity))
	if err := b.check("reserve", "reserving "+itoa(n)+" bytes of addresses", int(C.weft_reserve(b.ctx.handle, C.size_t(n), &addr))); err != nil {
		return nil, err
	}
	return &Range{buffer: buffer{b: b, ptr: cu.DevicePtr(addr), n: n}, granularity: int(granularity)}, nil
}

// Buffer is the whole range; only what has been mapped may be used.
func (r *Range) Buffer() kernels.Buffer { return &r.buffer }

// Mapped is the number of bytes with memory.
func (r *Range) Mapped() int { return r.mapped }

// Grow puts memory behind the first n bytes at least. The driver's answer to too much is an error of kind [kernels.ErrMemory].
func (r *Range) Grow(n int) error {
	b, more := r.b, roundUp(n, r.granularity)-r.mapped
	if n > r.n {
		return kernels.Errorf(kernels.ErrMemory, "grow", "%d bytes of a range of %d", n, r.n)
	}
	if more <= 0 {
		return nil
	}
	rc := C.weft_map(b.ctx.handle, C.CUdevice(b.gpu.Ordinal), C.CUdeviceptr(r.ptr)+C.CUdeviceptr(r.mapped), C.size_t(more))
	if err := b.check("grow", "mapping "+itoa(more)+" bytes", int(rc)); err != nil {
		return err
	}
	r.mapped += more
	return nil
}

// Free gives memory and addresses back, when no work uses them any more.
func (r *Range) Free() error {
	b := r.b
	b.wait("free")
	if r.mapped > 0 {
		if err := b.check("free", "unmapping a range", int(C.weft_unmap(b.ctx.handle, C.CUdeviceptr(r.ptr), C.size_t(r.mapped)))); err != nil {
			return err
		}
		r.mapped = 0
	}
	return b.check("free", "freeing a range of addresses", int(C.weft_unreserve(b.ctx.handle, C.CUdeviceptr(r.ptr), C.size_t(r.n))))
}
