package tensor

import (
	"runtime"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// block is memory with a count of its owners. Inside a step the owners are the region that made it, tape nodes that
// saved it, and gradients of a running backward pass; all belong to one goroutine. Blocks outside steps are shared:
// they are not counted, and Go's garbage collector decides when they are free.
type block struct {
	buf    kernels.Buffer
	mem    *pool.Block // nil: Go heap
	dev    *Device     // nil: host data
	refs   int32
	shared bool
	grads  bool          // gradients of an arena, which are written in place and live until the next ones
	late   bool          // a sum that waits, see sumLater
	slot   bool          // of a ring of slots, see slots
	op     string        // the operation that made it; once it is gone, with the line, if that is known
	closed string        // what ended its lifetime for users, such as a region; "" while it lives
	loose  *loose        // how its region owns it; nil: as usual
	number atomic.Uint64 // among those that recycle may take; 0: it lasts
}

// layer is the path of a region: its name behind those of the regions around it. nil is the step itself.
type layer struct {
	up   *layer
	name string
}

// String is such as "blocks.0/attn".
func (l *layer) String() string {
	if l == nil {
		return ""
	}
	if l.up == nil {
		return l.name
	}
	return l.up.String() + "/" + l.name
}

// siteBytes is the size from which on memory knows the line that made it. To find that takes 0.2 us, which is much
// for an operation on few elements. Where memory is poisoned all of it does.
const siteBytes = 256 << 10

// alive tells whether b has its memory.
func (b *block) alive() bool { return b.shared || b.refs > 0 }

// retain adds an owner.
func (b *block) retain() {
	if !b.shared {
		b.refs++
	}
}

// release removes an owner; the last one returns the memory to the pool.
func (b *block) release(why string) {
	if b.shared {
		return
	}
	if b.refs--; b.refs == 0 {
		if b.closed == "" {
			b.closed = why
		}
		if site := b.mem.Site(); site != "" {
			b.op += " at " + site
		}
		b.dev.shared.pool.Free(b.mem)
		b.buf, b.mem = nil, nil
	}
}

// refused fails with the error of an allocation.
func refused(op string, err error) {
	e, ok := err.(*Error)
	if !ok {
		e = kernels.Errorf(ErrMemory, op, "%v", err)
	}
	fail(e.Kind, op, "%s", e.Msg)
}

// hostMemory is n bytes on the Go heap, all 0.
func hostMemory(op string, n int) kernels.Buffer {
	return ofHost(op, func() (kernels.Buffer, error) { return cpu.Backend{}.Alloc(n) })
}

// makeHost is n elements on the Go heap, all 0.
func makeHost[T Elem](op string, n int) []T {
	return ofHost(op, func() ([]T, error) { return cpu.Make[T](n) })
}

// ofHost is what alloc takes of the host's memory, if need be of that which the pool has cached.
func ofHost[T any](op string, alloc func() (T, error)) T {
	v, err := alloc()
	if err != nil {
		devicesMu.Lock()
		shared := devices["cpu"]
		devicesMu.Unlock()
		cpu.Collect() // tensors that the program has dropped go to the pool
		if shared != nil {
			shared.pool.Trim()
		}
		if v, err = alloc(); err != nil {
			refused(op, err)
		}
	}
	return v
}

// hostBlock wraps memory on the Go heap.
func hostBlock(buf kernels.Buffer, op string) *block {
	return &block{buf: buf, refs: 1, shared: true, op: op}
}

// deviceBlock takes n bytes from the device's pool for what the category says.
func (d *Device) deviceBlock(op string, n int, use kernels.MemoryCategory) *block {
	b := &block{}
	d.fillBlock(nil, b, op, n, &pool.Owner{Use: use, Op: op, Site: caller.Site()})
	return b
}

// fillBlock makes b, which is zero, a block of n bytes from the device's pool. If there are not so many, nothing waits
// in s any longer.
func (d *Device) fillBlock(s *Scope, b *block, op string, n int, owner *pool.Owner) {
	mem, err := d.shared.pool.Alloc(n, *owner)
	if err != nil && s != nil && len(s.waiting.to)+len(s.sums.to) > 0 {
		s.runWaiting()
		mem, err = d.shared.pool.Alloc(n, *owner)
	}
	if err != nil {
		refused(op, err)
	}
	b.buf, b.mem, b.dev, b.refs, b.op = mem.Buf, mem, d, 1, op
}

// give gives y, a result of op, its memory.
func (s *Scope) give(op string, y *Tensor, use kernels.MemoryCategory) {
	n := y.layout.Len() * y.dtype.Size()
	o := pool.Owner{Use: use, Op: op, Layer: s.layer(), What: y}
	if n >= siteBytes || s.dev.shared.pool.Poisoned() {
		o.Site = caller.Site()
	}
	s.dev.fillBlock(s, y.blk, op, n, &o)
}

// checkGuard fails if the operation wrote past the end of its result. It reads the guard bytes, and so waits, only if
// memory is poisoned.
func (b *block) checkGuard(op string) {
	if b.mem == nil {
		return
	}
	from, to := b.mem.Guard()
	if from == to {
		return
	}
	guard := make([]byte, to-from)
	b.dev.read(op, guard, b.buf, from)
	if n := pool.Overwritten(guard); n > 0 {
		b.mem.Unguard()
		fail(ErrDevice, op, "the kernel wrote %d bytes behind the %d bytes of its result", n, from)
	}
}

// disown makes a block of a step shared: Go's garbage collector returns it to the pool, unless the cleanup is stopped.
func (b *block) disown() (returns runtime.Cleanup) {
	if b.shared {
		return returns
	}
	b.shared, b.closed = true, "" // the region of a gradient that a hook keeps has ended
	b.takeOver()
	p, mem := b.dev.shared.pool, b.mem
	p.Keep(mem, caller.Site())
	return runtime.AddCleanup(b, func(m *pool.Block) { p.Free(m) }, mem)
}
