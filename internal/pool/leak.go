package pool

import (
	"fmt"
	"runtime/metrics"
)

// Leak is kept blocks of one origin that pile up: the program refers to all of them.
type Leak struct {
	Owner         // of the last one; Site is where they are kept
	Blocks, Bytes int
}

// String says what leaks, and what helps.
func (l Leak) String() string {
	return fmt.Sprintf("%d kept tensors, %s, are never released: the last is %v; keep fewer, or their values (Item, "+
		"ToSlice)", l.Blocks, Bytes(l.Bytes), l.Owner)
}

// leakWatch looks for leaks where blocks are kept. That many of one origin exist says little, since Go's collector may
// not have run: but one that is there after a whole cycle that began after it was kept is referred to.
type leakWatch struct {
	report func(Leak)
	counts map[origin]*pile // guarded by the pool's mu
}

// origin is what kept blocks have in common.
type origin struct{ op, site string }

// pile counts kept blocks of one origin: those that come, and those that are there when it is looked at.
type pile struct{ count, look int }

// firstLook is the number of kept blocks of one origin at which it is looked at first. It is then looked at again when
// there may be twice as many.
const firstLook = 256

// WatchLeaks has report called when tensors that are kept at one line pile up: 256 are there, half of them or more
// referred to by the program, and again at each doubling. It replaces the watch before it; nil ends that.
func (p *Pool) WatchLeaks(report func(Leak)) {
	if report == nil {
		p.leaks.Store(nil)
		return
	}
	p.leaks.Store(&leakWatch{report: report, counts: map[origin]*pile{}})
}

// Cycles is how many cycles of Go's collector have ended.
func Cycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// kept counts b, which has just been kept.
func (w *leakWatch) kept(p *Pool, b *Block) {
	now := Cycles()
	if leak := w.look(p, b, now); leak.Blocks > 0 {
		w.report(leak)
	}
}

// look is a leak if that is due and there is one.
func (w *leakWatch) look(p *Pool, b *Block, now uint64) (leak Leak) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.keptAt = now
	key := origin{b.owner.Op, b.owner.Site}
	c := w.counts[key]
	if c == nil {
		c = &pile{look: firstLook}
		w.counts[key] = c
	}
	if c.count++; c.count < c.look {
		return Leak{}
	}
	old := 0
	leak.Owner = b.owner
	for x := range p.live() {
		if x.state == kept && (origin{x.owner.Op, x.owner.Site}) == key {
			leak.Blocks++
			leak.Bytes += x.cap
			if x.keptAt+2 <= now { // the cycle that ran when it was kept has ended, and one more
				old++
			}
		}
	}
	c.count = leak.Blocks
	if leak.Blocks < firstLook || 2*old < leak.Blocks {
		c.look = leak.Blocks + firstLook
		return Leak{}
	}
	c.look = 2 * leak.Blocks
	return leak
}
