package tensor

import (
	"runtime"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
)

// A ring of slots has memory of a device for batches that come one after another: while steps use one, others are
// uploaded, on the stream kernels.Ahead, from a goroutine beside that of the steps. The device orders it by events: an
// upload waits for the steps that have used its slot, and steps wait for the upload of what they use. The host waits
// for none of it, unless the ring of pinned memory is full, and then in the goroutine of the uploads.
type slots struct {
	dev  *Device
	free chan *slot
	all  []*slot
}

// slot is the memory of one batch.
type slot struct {
	of       *slots
	mem      []*pool.Block // of each tensor; grows
	used     kernels.Event // after the steps that used the batch before; nil without one
	uploaded kernels.Event
	blocks   []*block // of the batch that is there
}

// newSlots has one slot for the batch in use, and one for that which is uploaded meanwhile.
func newSlots(d *Device) *slots {
	d.usable("on")
	if d.inHostMemory() {
		return nil
	}
	s := &slots{dev: d, free: make(chan *slot, 2)}
	for range cap(s.free) {
		one := &slot{of: s}
		s.all = append(s.all, one)
		s.free <- one
	}
	return s
}

// Free gives slots that no batch has.
func (s *slots) Free() <-chan *slot { return s.free }

// Upload queues the copies of host data to the slot and returns the tensors there. Begin is called before they are
// used.
func (s *slot) Upload(ts []*Tensor) (on []*Tensor, err error) {
	dev := s.of.dev
	b := dev.shared.backend
	err = try(func() {
		dev.usable("on")
		if s.used != nil {
			b.Wait(kernels.Ahead, s.used)
		}
		for i, t := range ts {
			from := t.Contiguous()
			n := from.Len() * from.dtype.Size()
			if i == len(s.mem) {
				s.mem = append(s.mem, nil)
			}
			if s.mem[i] == nil || s.mem[i].Size() < n {
				s.grow(i, n)
			}
			blk := &block{buf: s.mem[i].Buf, dev: dev, refs: 1, shared: true, slot: true, op: "on"}
			copied("on", b.CopyIn(kernels.Ahead, blk.buf, 0, bytesOf(from)))
			runtime.KeepAlive(from)
			s.blocks = append(s.blocks, blk)
			on = append(on, newTensor(blk, t.dtype, t.layout.Shape, nil))
		}
		s.uploaded = b.Record(kernels.Ahead)
	})
	return on, err
}

// grow has n bytes for tensor i. What others have queued on the memory before comes first.
func (s *slot) grow(i, n int) {
	shared := s.of.dev.shared
	s.drop(i)
	mem, err := shared.pool.Alloc(n, pool.Owner{Use: kernels.Data, Op: "on"})
	if err != nil {
		refused("on", err)
	}
	s.mem[i] = mem
	shared.backend.Wait(kernels.Ahead, shared.backend.Record(0))
}

// drop gives the memory of tensor i back, behind all uploads.
func (s *slot) drop(i int) {
	if shared := s.of.dev.shared; s.mem[i] != nil {
		shared.backend.Wait(0, shared.backend.Record(kernels.Ahead))
		shared.pool.Free(s.mem[i])
		s.mem[i] = nil
	}
}

// Begin makes the steps that follow wait, on the device, for the upload.
func (s *slot) Begin() { s.of.dev.shared.backend.Wait(0, s.uploaded) }

// End ends the use of the batch: its tensors are refused from now on, and the slot is free for another one, whose
// upload waits for the steps before.
func (s *slot) End() {
	for _, blk := range s.blocks {
		blk.closed = batchEnded
	}
	s.blocks = nil
	s.used = s.of.dev.shared.backend.Record(0)
	s.of.free <- s
}

// Close gives the memory back. No upload is running, and End was called for every batch that was begun.
func (s *slots) Close() {
	if s == nil {
		return
	}
	for _, one := range s.all {
		for i := range one.mem {
			one.drop(i)
		}
	}
}
