//go:build cuda && cgo && linux

package cuda

import (
	"errors"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// addresses is a range of them, to parts of which memory is mapped: the segment of the memory pool.
type addresses struct {
	buffer
	granularity int
	mapped      map[int]int // bytes, by the offset of what was mapped at once
}

var _ kernels.Reserver = (*Backend)(nil)

// Reserve takes addresses for twice the memory of the device, so that there is room for what cannot be joined. A driver
// without virtual memory is [errors.ErrUnsupported].
func (b *Backend) Reserve() (kernels.Range, error) {
	if err := b.usable("reserve"); err != nil {
		return nil, err
	}
	granularity, rc := b.ctx.Granularity()
	if rc != driver.Success || granularity <= 0 {
		return nil, errors.ErrUnsupported
	}
	n := roundUp(2*max(b.gpu.Memory, 1), granularity)
	addr, rc := b.ctx.Reserve(n)
	if rc != driver.Success {
		return nil, errors.ErrUnsupported
	}
	r := &addresses{buffer{b: b, ptr: addr, n: n}, granularity, map[int]int{}}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.ranges[r] = struct{}{}
	return r, nil
}

// Buffer is the whole range.
func (r *addresses) Buffer() kernels.Buffer { return &r.buffer }

// Granularity is the driver's.
func (r *addresses) Granularity() int { return r.granularity }

// Divisible is false: the driver unmaps what was mapped at once.
func (r *addresses) Divisible() bool { return false }

// headroom is the share of the device's memory that is left to modules, local memory of kernels and other libraries.
const headroom = 100

// Map puts n bytes of memory behind the addresses from offset off on.
func (r *addresses) Map(off, n int) error {
	b := r.b
	if err := b.usable("map"); err != nil {
		return err
	}
	b.waits.Note("for memory from the driver")
	free, total, rc := b.ctx.MemoryInfo()
	if err := b.check("map", "asking for free memory", rc); err != nil {
		return err
	}
	if n <= free-total/headroom {
		rc = b.ctx.Map(r.ptr+driver.Ptr(off), n, b.gpu.Peers)
	} else {
		rc = driver.OutOfMemory
	}
	if rc == driver.OutOfMemory {
		return kernels.Errorf(kernels.ErrMemory, "alloc",
			"%d bytes on %s: %d of its %d bytes are free, of which %d are left to the driver", n, b.Name(), free, total,
			total/headroom)
	}
	if err := b.check("map", "mapping "+itoa(n)+" bytes", rc); err != nil {
		return err
	}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	r.mapped[off] = n
	return nil
}

// Unmap gives back n bytes that were mapped at once. Unmapping is not ordered with streams, so it waits for all.
func (r *addresses) Unmap(off, n int) error {
	b := r.b
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	if _, open := b.ranges[r]; !open || r.mapped[off] != n {
		return nil // the device was closed before
	}
	if b.fault.Load() == nil {
		b.waits.Note("to give memory back to the driver")
		b.wait("unmap")
	}
	delete(r.mapped, off)
	if b.fault.Load() != nil {
		return nil // the memory went with the context
	}
	return b.check("unmap", "unmapping "+itoa(n)+" bytes", b.ctx.Unmap(r.ptr+driver.Ptr(off), n))
}

// release gives the range to the driver. No work uses it; the context is current. After a fault nothing can be
// unmapped, and addresses with memory behind them must not be freed: they stay.
func (r *addresses) release() {
	if r.b.fault.Load() != nil {
		return
	}
	for off, n := range r.mapped {
		r.b.ctx.Unmap(r.ptr+driver.Ptr(off), n)
	}
	r.b.ctx.Unreserve(r.ptr, r.n)
}
