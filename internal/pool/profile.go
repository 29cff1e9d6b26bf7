package pool

import (
	"runtime"
	"slices"
	"time"

	"github.com/weft-ml/weft/kernels"
)

// Profile counts what a pool hands out, by the Go stack and by what it is for. It also has how many bytes each of these
// held when all together held most: a change of a holding first notes what it held if there was a new peak since the
// change before, so that a peak costs nothing.
type Profile struct {
	pool *Pool // its mu guards the rest

	now      int // bytes held
	peak     int
	peaks    int // how often there was a new peak
	holdings map[holder]*Holding
	timeline timeline
}

// maxStack is how many frames of a stack are kept.
const maxStack = 64

// holder tells holdings apart.
type holder struct {
	stack     [maxStack]uintptr
	op, layer string
	use       kernels.MemoryCategory
}

// Holding is what the blocks that one stack made for one purpose hold.
type Holding struct {
	Stack     []uintptr // return addresses, the innermost call first; none: from before the profile
	Op, Layer string    // the operation, and the path of the regions around it
	Use       kernels.MemoryCategory
	Total     Amount // made since the profile began, and what there was
	Now       Amount
	Peak      Amount // when all together held most bytes

	peaks int // of the profile, when Peak was noted
}

// Amount is a number of blocks and their bytes.
type Amount struct{ Blocks, Bytes int }

func (a *Amount) add(blocks, bytes int) { a.Blocks += blocks; a.Bytes += bytes }

// StartProfile begins a profile of all that the pool hands out and of what is live now. It replaces one that runs,
// which then counts no more.
func (p *Pool) StartProfile() *Profile {
	r := &Profile{pool: p, holdings: map[holder]*Holding{}, timeline: timeline{start: time.Now(), each: 1}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.live() {
		r.made(b, holderOf(b))
	}
	p.profile.Store(r)
	return r
}

// Stop ends the profile. What it has counted stays.
func (r *Profile) Stop() { r.pool.profile.CompareAndSwap(r, nil) }

// holderOf is the holder of b, without a stack.
func holderOf(b *Block) holder {
	return holder{op: b.owner.Op, layer: b.owner.layer(), use: b.owner.Use}
}

// allocated counts b, with the stack of the caller of the pool, unless StartProfile has found it or r has ended.
func (r *Profile) allocated(b *Block) {
	h := holderOf(b)
	runtime.Callers(4, h.stack[:])
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if b.profile != r && r.runs() {
		r.made(b, h)
	}
}

// runs tells whether r counts.
func (r *Profile) runs() bool { return r.pool.profile.Load() == r }

// made counts b as made by h. mu is held.
func (r *Profile) made(b *Block, h holder) {
	x := r.holdings[h]
	if x == nil {
		x = &Holding{Op: h.op, Layer: h.layer, Use: h.use}
		if n := slices.Index(h.stack[:], 0); n >= 0 {
			x.Stack = slices.Clone(h.stack[:n])
		} else {
			x.Stack = slices.Clone(h.stack[:])
		}
		r.holdings[h] = x
	}
	b.profile, b.holding = r, x
	x.Total.add(1, b.cap)
	r.change(x, 1, b.cap)
}

// freed counts b, which is handed back, as gone. mu is held.
func (r *Profile) freed(b *Block) {
	if r.runs() {
		r.change(b.holding, -1, -b.cap)
	}
	b.profile, b.holding = nil, nil
}

// change is so many blocks and bytes more in x. mu is held.
func (r *Profile) change(x *Holding, blocks, bytes int) {
	x.note(r)
	x.Now.add(blocks, bytes)
	if r.now += bytes; r.now > r.peak {
		r.peak = r.now
		r.peaks++
	}
	r.timeline.change(x.Use, bytes)
}

// note brings Peak up to date: since the last peak x has not changed.
func (x *Holding) note(r *Profile) {
	if x.peaks < r.peaks {
		x.peaks, x.Peak = r.peaks, x.Now
	}
}

// Holdings are the counts up to now, in no order.
func (r *Profile) Holdings() (all []Holding) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for _, x := range r.holdings {
		x.note(r)
		all = append(all, *x)
	}
	return all
}

// Moments are the bytes of each category from the beginning of the profile on, in order of time.
func (r *Profile) Moments() []Moment {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return slices.Clone(r.timeline.moments)
}

// timeline is the bytes of each category over time, of bounded length: when it is full, two neighbours become one, and
// from then on it has a moment for twice as many changes. Of the moments that become one it has the one with the most
// bytes, so that peaks stay.
type timeline struct {
	start   time.Time
	now     Moment
	moments []Moment
	each    int // changes to a moment
	changes int // of the last moment
}

// Moment is the bytes of each category at a time since the beginning.
type Moment struct {
	At    time.Duration
	Bytes [kernels.MemoryCategories]int
}

const maxMoments = 1 << 15

func (m *Moment) total() (n int) {
	for _, b := range m.Bytes {
		n += b
	}
	return n
}

// change is so many bytes more of a category.
func (t *timeline) change(use kernels.MemoryCategory, bytes int) {
	t.now.At = time.Since(t.start)
	t.now.Bytes[use] += bytes
	if n := len(t.moments); n > 0 && t.changes < t.each {
		t.changes++
		t.moments[n-1] = larger(t.moments[n-1], t.now)
		return
	}
	if len(t.moments) == maxMoments {
		for i := range maxMoments / 2 {
			t.moments[i] = larger(t.moments[2*i], t.moments[2*i+1])
		}
		t.moments = t.moments[:maxMoments/2]
		t.each *= 2
	}
	t.moments, t.changes = append(t.moments, t.now), 1
}

func larger(a, b Moment) Moment {
	if b.total() > a.total() {
		return b
	}
	return a
}
