package tensor

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// A snapshot has the elements of tensors as they were at one moment. A copy inside a device costs a step next to
// nothing; from there it goes to the host piece by piece, on the side stream, as it is read. The memory comes from the
// device's pool, which keeps it from one snapshot to the next, and recalls it where a step would fail for want of
// memory: then the rest goes to the host at once.
type snapshot struct {
	sections []*section
	saved    []*io.SectionReader
	waited   atomic.Bool // for copies to the host's memory
}

// A section is memory of a block that is copied as a whole: that of neighbours, such as the parameters of an arena.
type section struct {
	owner  *snapshot
	blk    *block
	lo, hi int // bytes of the block

	mu   sync.Mutex
	mem  *pool.Block // the copy on the device, or
	host []byte      // in the host's memory, or
	lost error       // why there is none any more
}

// near is how many bytes between two tensors are copied with them, rather than one by one: the padding of arenas.
const near = 16 * 8

// newSnapshot is engine.Snapshot.
func newSnapshot(ts []*Tensor) (s *snapshot, err error) {
	s = &snapshot{}
	err = try(func() {
		for _, t := range ts {
			t.raw() // usable, contiguous, and of no step
		}
		s.plan(ts)
		host().do(func(step *Scope) {
			for _, t := range ts {
				if t.root != nil {
					step.touch(t.root.arena, reading)
				}
			}
			for _, sec := range s.sections {
				sec.copy()
			}
		})
	})
	if err != nil {
		s.Free()
		return nil, err
	}
	return s, nil
}

// plan makes the sections, and finds each tensor its place there.
func (s *snapshot) plan(ts []*Tensor) {
	number, order := map[*block]int{}, make([]int, len(ts))
	for i, t := range ts {
		if order[i] = i; number[t.blk] == 0 {
			number[t.blk] = len(number) + 1
		}
	}
	offset := func(t *Tensor) int { return t.layout.Offset * t.dtype.Size() }
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(number[ts[i].blk], number[ts[j].blk]), cmp.Compare(offset(ts[i]), offset(ts[j])))
	})
	s.saved = make([]*io.SectionReader, len(ts))
	var sec *section
	for _, i := range order {
		t := ts[i]
		lo, n := offset(t), t.Len()*t.dtype.Size()
		if sec == nil || sec.blk != t.blk || lo > sec.hi+near {
			sec = &section{owner: s, blk: t.blk, lo: lo}
			s.sections = append(s.sections, sec)
		}
		sec.hi = max(sec.hi, lo+n)
		s.saved[i] = io.NewSectionReader(sec, int64(lo-sec.lo), int64(n))
	}
}

// Saved is the bytes of tensor i.
func (s *snapshot) Saved(i int) *io.SectionReader { return s.saved[i] }

// Waited tells whether a device had no room for its copy, or needed it back: who took the snapshot, or a step, has
// waited until the copy was in the host's memory.
func (s *snapshot) Waited() bool { return s.waited.Load() }

// Free gives the memory back.
func (s *snapshot) Free() {
	for _, sec := range s.sections {
		sec.mu.Lock()
		sec.giveBack()
		sec.host, sec.lost = nil, kernels.Errorf(ErrStep, "snapshot", "it was freed")
		sec.mu.Unlock()
	}
}

// copy makes the copy: on the device if there is room.
func (sec *section) copy() {
	dev, n := sec.blk.dev, sec.hi-sec.lo
	if n == 0 {
		return
	}
	if dev != nil {
		mem, err := dev.shared.pool.Try(n, pool.Owner{Use: kernels.Workspace, Op: "snapshot"})
		if err == nil {
			sec.mem = mem
			b := dev.shared.backend
			copied("snapshot", b.Copy(0, mem.Buf, 0, sec.blk.buf, sec.lo, n))
			b.Wait(kernels.Side, b.Record(0))
			dev.shared.lent.add(sec)
			return
		}
		if errors.Is(err, ErrDevice) {
			copied("snapshot", err) // it failed; it is not full
		}
		sec.owner.waited.Store(true)
	}
	memory, err := cpu.Make[byte](n)
	if err != nil {
		refused("snapshot", err)
	}
	if m, ok := sec.blk.buf.(*cpu.Mem); ok && (dev == nil || dev.inHostMemory()) {
		copy(memory, m.Data()[sec.lo:sec.hi])
	} else {
		dev.read("snapshot", memory, sec.blk.buf, sec.lo)
	}
	sec.host = memory
}

// ReadAt copies bytes from off on to p. It waits for them alone, not for what steps have queued on the device.
func (sec *section) ReadAt(p []byte, off int64) (n int, err error) {
	n = int(min(int64(len(p)), max(0, int64(sec.hi-sec.lo)-off)))
	sec.mu.Lock()
	defer sec.mu.Unlock()
	if err := sec.read(p[:n], int(off)); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read copies bytes of the copy, from offset off on. mu is held.
func (sec *section) read(p []byte, off int) error {
	if sec.lost != nil {
		return sec.lost
	}
	if sec.mem == nil {
		copy(p, sec.host[off:])
		return nil
	}
	dev := sec.blk.dev
	if m, ok := sec.mem.Buf.(*cpu.Mem); ok && dev.inHostMemory() {
		copy(p, m.Data()[off:])
		return nil
	}
	b := dev.shared.backend
	return cmp.Or(b.CopyOut(kernels.Side, p, sec.mem.Buf, off), b.Synchronize(kernels.Side))
}

// move takes the copy off the device, to the host's memory. Without that it is lost.
func (sec *section) move() {
	sec.mu.Lock()
	defer sec.mu.Unlock()
	if sec.mem == nil {
		return
	}
	memory, err := cpu.Make[byte](sec.hi - sec.lo)
	if err == nil {
		err = sec.read(memory, 0)
	}
	sec.giveBack()
	sec.host, sec.lost = memory, err
	sec.owner.waited.Store(true)
}

// giveBack gives the memory on the device back. mu is held.
func (sec *section) giveBack() {
	if sec.mem != nil {
		shared := sec.blk.dev.shared
		shared.lent.drop(sec)
		shared.pool.Free(sec.mem)
		sec.mem = nil
	}
}

// lent is the memory of a device that snapshots have.
type lent struct {
	mu  sync.Mutex
	all map[*section]bool
}

func (l *lent) add(sec *section) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*section]bool{}
	}
	l.all[sec] = true
}

func (l *lent) drop(sec *section) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, sec)
}

// recall has all of it given back.
func (l *lent) recall() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.all))
	l.mu.Unlock()
	for _, sec := range all {
		sec.move()
	}
}
