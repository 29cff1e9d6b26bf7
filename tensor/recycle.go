package tensor

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/kernels/cpu"
)

// batchEnded is why the tensors of a batch are gone when its loop has asked for the next one.
const batchEnded = "the turn of its batch"

// Host data of batches that have ended gives its memory to later batches of the same size, which nobody need clear.
// data.On tells when a batch ends.
var (
	recycled    [64]sync.Pool // of *cpu.Mem, by the length of their size in bits
	recyclables atomic.Uint64 // how many newRecyclable has made
	underWay    atomic.Int64  // steps under way, on all devices: they may use a batch that has ended
)

// newRecyclable is host data whose memory recycle may take, and whose values may be any.
func newRecyclable(dt DType, shape []int) *Tensor {
	n := sizeOf("batch", shape) * dt.Size()
	m, _ := recycled[bits.Len(uint(n))].Get().(*cpu.Mem)
	if m == nil || m.Bytes() != n {
		m = hostMemory("batch", n).(*cpu.Mem)
	}
	b := hostBlock(m, "batch")
	b.number.Store(recyclables.Add(1))
	return newTensor(b, dt, shape, nil)
}

// recycle ends the life of t, and of all that shares its memory, if newRecyclable has made that since so many others,
// and nothing has made it last.
func (t *Tensor) recycle(since uint64) {
	b := t.given("recycle").blk
	if b == nil {
		return
	}
	n := b.number.Load()
	if n <= since || !b.number.CompareAndSwap(n, 0) {
		return
	}
	b.closed = batchEnded
	if underWay.Load() == 0 {
		m := b.buf.(*cpu.Mem)
		recycled[bits.Len(uint(m.Bytes()))].Put(m)
		b.buf = nil
	}
}

// last makes t's memory last, whatever becomes of its batch.
func (t *Tensor) last() {
	if t.blk != nil {
		t.blk.number.Store(0)
	}
}
