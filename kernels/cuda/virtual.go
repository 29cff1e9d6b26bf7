//go:build cuda && cgo && linux

package cuda

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Range is a range of addresses of the device, to which memory is mapped from the start on, so that nothing moves when
// it grows. It is for the segments of the memory pool: one range, mapped in pieces.
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
	granularity, rc := b.ctx.Granularity()
	if err := b.check("reserve", "asking for the granularity", rc); err != nil {
		return nil, err
	}
	n = roundUp(max(n, 1), granularity)
	addr, rc := b.ctx.Reserve(n)
	if err := b.check("reserve", "reserving "+itoa(n)+" bytes of addresses", rc); err != nil {
		return nil, err
	}
	r := &Range{buffer: buffer{b: b, ptr: addr, n: n}, granularity: granularity}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.ranges[r] = struct{}{}
	return r, nil
}

// Buffer is the whole range; only what has been mapped may be used.
func (r *Range) Buffer() kernels.Buffer { return &r.buffer }

// Mapped is the number of bytes with memory.
func (r *Range) Mapped() int { return r.mapped }

// Grow puts memory behind the first n bytes at least. The driver's answer to too much is an error of kind
// [kernels.ErrMemory].
func (r *Range) Grow(n int) error {
	b, more := r.b, roundUp(n, r.granularity)-r.mapped
	if n > r.n {
		return kernels.Errorf(kernels.ErrMemory, "grow", "%d bytes of a range of %d", n, r.n)
	}
	if more <= 0 {
		return nil
	}
	rc := b.ctx.Map(r.ptr+driver.Ptr(r.mapped), more)
	if err := b.check("grow", "mapping "+itoa(more)+" bytes", rc); err != nil {
		return err
	}
	r.mapped += more
	return nil
}

// Free gives memory and addresses back, when no work uses them any more. [Backend.Close] does it for ranges that are
// left.
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
func (r *Range) release() driver.Result {
	ctx := r.b.ctx
	if r.mapped > 0 {
		if rc := ctx.Unmap(r.ptr, r.mapped); rc != driver.Success {
			return rc
		}
		r.mapped = 0
	}
	return ctx.Unreserve(r.ptr, r.n)
}
