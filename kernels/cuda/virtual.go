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
	if err := b.check("reserve", "asking for the granularity", int(C.weft_granularity(b.ctx.handle, C.CUdevice(b.ctx.dev), &granularity))); err != nil {
		return nil, err
	}
	n = roundUp(max(n, 1), int(granularity))
	if err := b.check("reserve", "reserving "+itoa(n)+" bytes of addresses", int(C.weft_reserve(b.ctx.handle, C.size_t(n), &addr))); err != nil {
		return nil, err
	}
	r := &Range{buffer: buffer{b: b, ptr: cu.DevicePtr(addr), n: n}, granularity: int(granularity)}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.ranges[r] = struct{}{}
	return r, nil
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
	rc := C.weft_map(b.ctx.handle, C.CUdevice(b.ctx.dev), C.CUdeviceptr(r.ptr)+C.CUdeviceptr(r.mapped), C.size_t(more))
	if err := b.check("grow", "mapping "+itoa(more)+" bytes", int(rc)); err != nil {
		return err
	}
	r.mapped += more
	return nil
}

// Free gives memory and addresses back, when no work uses them any more. [Backend.Close] does it for ranges that are left.
func (r *Range) Free() error {
	b := r.b
	if err := b.usable("free"); err != nil {
		return err
	}
	b.wait("free")
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	delete(b.ranges, r)
	return b.check("free", "freeing a range of addresses", r.release())
}

// release gives the range to the driver, which answers with an error code.
func (r *Range) release() int {
	ctx, addr := r.b.ctx.handle, C.CUdeviceptr(r.ptr)
	if r.mapped > 0 {
		if rc := C.weft_unmap(ctx, addr, C.size_t(r.mapped)); rc != C.CUDA_SUCCESS {
			return int(rc)
		}
		r.mapped = 0
	}
	return int(C.weft_unreserve(ctx, addr, C.size_t(r.n)))
}
