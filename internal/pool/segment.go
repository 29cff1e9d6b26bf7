package pool

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// segment is memory in which blocks lie one behind the other: an allocation of the source, or a range of addresses to
// parts of which memory is mapped. The other parts are blocks of state unmapped.
type segment struct {
	id      int
	cache   *cache
	small   bool // for small blocks
	buf     kernels.Buffer
	first   *Block        // lowest address
	pages   kernels.Range // nil: it is no range
	handles []handle      // what is mapped, in order of address; unused if parts of it can be unmapped
}

// handle is memory that was mapped at once, and is unmapped at once.
type handle struct{ at, n int }

const (
	unit      = 2 << 20   // segments are multiples, if memory suffices
	maxHandle = 256 << 20 // bytes
)

// unitFor is what segments are multiples of under a limit: what is left of them is little beside it.
func unitFor(limit int) int {
	if limit == 0 {
		return unit
	}
	return min(max(1<<max(0, bits.Len(uint(limit))-9), smallSize), unit) // a 256th, or half of that
}

// newSegment makes a segment of buf, one block that is in no list. mu is held.
func (p *Pool) newSegment(c *cache, small bool, buf kernels.Buffer) (*segment, *Block) {
	p.segments++
	s := &segment{id: p.segments, cache: c, small: small, buf: buf}
	b := p.blank()
	b.seg, b.at, b.cap, b.poisoned = s, 0, buf.Bytes(), false
	s.first = b
	c.segments = append(c.segments, s)
	return s, b
}

// more takes memory for a block of size bytes from the source, and that block from it, for stream c. grow is held, mu
// is not.
func (p *Pool) more(c *cache, size int, o Owner, n int) (*Block, error) {
	p.mu.Lock()
	reserved, room := p.stats.Reserved, math.MaxInt
	if p.stats.Limit > 0 {
		room = p.stats.Limit - reserved
	}
	unit := unitFor(p.stats.Limit)
	p.mu.Unlock()
	least := max(size, smallSize) // when memory is short; less would make many small segments
	err, tried := error(errLimit), 0
	for _, try := range [...]struct{ need, slack, unit int }{
		{roundUp(size, unit), min(roundUp(reserved/256, unit), maxHandle), unit}, {roundUp(size, unit), 0, unit},
		{least, 0, granule}} {
		most := max(try.need, try.slack)
		if try.slack > room-try.need || most == tried && p.reserver == nil {
			continue
		}
		tried = most
		var b *Block
		b, err = p.extend(c, try.need, try.slack, try.unit, size, room, o, n)
		if err == nil || errors.Is(err, kernels.ErrDevice) {
			return b, err
		}
	}
	return nil, err
}

// extend adds need bytes, or slack if that is more, by mapping in multiples of unit or by an allocation, and takes a
// block of size bytes.
func (p *Pool) extend(c *cache, need, slack, unit, size, room int, o Owner, n int) (*Block, error) {
	if p.reserver != nil {
		err := p.mapMore(c, size < smallSize, need, slack, unit, room)
		if err == nil {
			return p.takeLocked(c, size, &o, n), nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		p.reserver = nil
	}
	want := max(need, slack, p.releaseIdle(c, size < smallSize))
	buf, err := p.src.Alloc(want)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserve(want)
	s, b := p.newSegment(c, size < smallSize, buf)
	s.heap().insert(b)
	return p.take(c, size, &o, n), nil
}

// mapMore maps memory, up to multiples of unit, to the addresses of stream c so that want bytes are free in one piece,
// at their end slack bytes if that is more.
func (p *Pool) mapMore(c *cache, small bool, want, slack, unit, room int) error {
	i := slices.IndexFunc(c.segments, func(s *segment) bool { return s.pages != nil && s.small == small })
	if i < 0 {
		r, err := p.reserver.Reserve()
		if err != nil {
			return err
		}
		p.mu.Lock()
		i = len(c.segments)
		s, b := p.newSegment(c, small, r.Buffer())
		s.pages, b.state = r, unmapped
		p.mu.Unlock()
	}
	s := c.segments[i]
	p.mu.Lock()
	s.heap().settle(p)
	unit = max(unit, s.pages.Granularity())
	hole, n := s.hole(want, unit)
	p.mu.Unlock()
	if hole == nil {
		return kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes requested of a range of addresses of %d", want,
			s.buf.Bytes())
	}
	if hole.after == nil {
		n = min(max(n, slack-hole.at%unit), hole.cap)
	}
	if n > room {
		return errLimit
	}
	var done int
	for done < n { // only who has grow changes what is not mapped
		piece := min(n-done, maxHandle)
		if err := s.pages.Map(hole.at+done, piece); err != nil {
			for back := 0; back < done; back += maxHandle {
				s.pages.Unmap(hole.at+back, min(done-back, maxHandle))
			}
			return err
		}
		done += piece
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := hole.at
	if hole.cap > n {
		rest := p.split(hole, n)
		rest.state = unmapped
	}
	for done = 0; done < n; done += maxHandle {
		p.reserve(min(n-done, maxHandle))
		if !s.pages.Divisible() {
			s.handles = append(s.handles, handle{at + done, min(n-done, maxHandle)})
		}
	}
	slices.SortFunc(s.handles, func(a, b handle) int { return a.at - b.at })
	hole.poisoned = false
	s.heap().put(p, hole)
	s.heap().settle(p)
	return nil
}

// heap is where free blocks of s are.
func (s *segment) heap() *heap {
	if s.small {
		return &s.cache.small
	}
	return &s.cache.large
}

// hole is the unmapped block to whose start n bytes are to be mapped so that want are free together with its
// neighbours, where n is least. If there is room they end at a multiple of unit, as huge pages do. mu is held.
func (s *segment) hole(want, unit int) (best *Block, n int) {
	for b := s.first; b != nil; b = b.after {
		if b.state != unmapped {
			continue
		}
		have := 0
		if b.before != nil && b.before.state == free {
			have = b.before.cap
		}
		need := roundUp(b.at+max(want-have, 1), unit) - b.at
		if need > b.cap && b.after != nil && b.after.state == free && have+b.cap+b.after.cap >= want {
			need = b.cap
		}
		if need <= b.cap && (best == nil || need < n) {
			best, n = b, need
		}
	}
	return best, n
}

// release gives free memory back to the source, the largest pieces first, until need bytes are, and returns how many
// are. grow is held, mu is not.
func (p *Pool) release(need int) (freed int) {
	if p.frozen.Load() {
		return 0
	}
	p.mu.Lock()
	caches := p.caches
	p.mu.Unlock()
	for _, c := range caches {
		freed += p.releasePages(c, need-freed)
		for freed < need {
			n := p.releaseOne(c)
			if n == 0 {
				break
			}
			freed += n
		}
	}
	p.forgetViews()
	return freed
}

// forgetViews lets go of memory that blocks had before.
func (p *Pool) forgetViews() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := p.spare; b != nil; b = b.next {
		b.Buf = nil
	}
	for _, c := range p.caches {
		for _, s := range c.segments {
			for b := s.first; b != nil; b = b.after {
				if !b.viewed {
					b.Buf = nil
				}
			}
		}
	}
}

// releasePages gives what is free back of ranges of a stream of which parts can be unmapped, until need bytes are, and
// returns how many are.
func (p *Pool) releasePages(c *cache, need int) (freed int) {
	type piece struct {
		pages kernels.Range
		at, n int
	}
	var pieces []piece
	p.mu.Lock()
	p.consolidate(c)
	for _, s := range c.segments {
		if s.pages == nil || !s.pages.Divisible() {
			continue
		}
		unit := s.pages.Granularity()
		for b := s.first; b != nil && freed < need; b = b.after {
			at, end := roundUp(b.at, unit), (b.at+b.cap)/unit*unit
			if b.state == free && at < end {
				b = p.cutOut(b, at, end-at)
				pieces = append(pieces, piece{s.pages, at, end - at})
				freed += end - at
			}
		}
	}
	p.mu.Unlock()
	for _, x := range pieces {
		x.pages.Unmap(x.at, x.n) // an error is the device's: its memory is lost with it
	}
	return freed
}

// releaseOne gives the largest free segment or handle of a stream back, and returns its size; 0 if there is none.
func (p *Pool) releaseOne(c *cache) (n int) {
	p.mu.Lock()
	p.consolidate(c)
	var largest *segment
	handle := -1
	for _, s := range c.segments {
		if s.pages != nil {
			if i := s.freeHandle(); i >= 0 && s.handles[i].n > n {
				largest, handle, n = s, i, s.handles[i].n
			}
		} else if b := s.first; b.state == free && b.after == nil && b.cap > n {
			largest, handle, n = s, -1, b.cap
		}
	}
	switch {
	case largest == nil:
		p.mu.Unlock()
	case handle >= 0:
		h := largest.handles[handle]
		largest.handles = slices.Delete(largest.handles, handle, handle+1)
		b := largest.first
		for b.at+b.cap <= h.at {
			b = b.after
		}
		p.cutOut(b, h.at, h.n)
		p.mu.Unlock()
		largest.pages.Unmap(h.at, h.n) // an error is the device's, as above
	default:
		p.forget(largest)
		p.mu.Unlock()
		p.src.Free(largest.buf)
	}
	return n
}

// releaseIdle gives back the segments of a stream, small or large ones, that are free, none of which has room for a
// request: one that takes the place of all serves more.
func (p *Pool) releaseIdle(c *cache, small bool) (freed int) {
	p.mu.Lock()
	p.consolidate(c)
	var idle []*segment
	for _, s := range c.segments {
		if b := s.first; s.small == small && b.state == free && b.after == nil {
			idle = append(idle, s)
			freed += b.cap
		}
	}
	for _, s := range idle {
		p.forget(s)
	}
	p.mu.Unlock()
	for _, s := range idle {
		p.src.Free(s.buf)
	}
	return freed
}

// forget takes out a segment that is one free block. mu is held.
func (p *Pool) forget(s *segment) {
	s.heap().remove(s.first)
	p.reserve(-s.first.cap)
	c := s.cache
	c.segments = slices.DeleteFunc(c.segments, func(x *segment) bool { return x == s })
	p.drop(s.first)
}

// freeHandle is the largest handle of a range that lies in a free block; -1 if there is none. mu is held.
func (s *segment) freeHandle() int {
	best, b := -1, s.first
	for i, h := range s.handles {
		for b.at+b.cap <= h.at {
			b = b.after
		}
		if b.state == free && h.at+h.n <= b.at+b.cap && (best < 0 || h.n > s.handles[best].n) {
			best = i
		}
	}
	return best
}

// cutOut makes n bytes at an address in b, which is free, unmapped, and returns the block that has them. mu is held.
func (p *Pool) cutOut(b *Block, at, n int) *Block {
	h := b.seg.heap()
	h.remove(b)
	if b.at < at {
		rest := p.split(b, at-b.at)
		h.insert(b)
		b = rest
	}
	if b.cap > n {
		h.insert(p.split(b, n))
	}
	b.state, b.poisoned = unmapped, false
	if x := b.before; x != nil && x.state == unmapped {
		b = p.join(x, b)
	}
	if x := b.after; x != nil && x.state == unmapped {
		p.join(b, x)
	}
	p.reserve(-n)
	return b
}
