package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/kernels"
)

// Source is where a pool gets memory: the memory half of [kernels.Backend]. One that is a [kernels.Reserver], too, is
// asked to map memory instead.
type Source interface {
	Alloc(n int) (kernels.Buffer, error) // n bytes
	Free(b kernels.Buffer)
}

// Refuser is a source that may refuse a request of n bytes before the cache is asked: tests find out with it what
// lack of memory does at each place.
type Refuser interface{ Refuse(n int) error }

// Pool is a cache of the memory of one source. Its methods may be called from many goroutines.
type Pool struct {
	src      Source
	refuse   Refuser          // src, if it is one
	reserver kernels.Reserver // src, if it is one

	// grow serialises what changes the reserved size, so that the limit is exact and only one
	// goroutine at a time gives memory back to the source. It is taken before mu.
	grow    sync.Mutex
	reclaim func()
	recall  func()

	// mu guards the rest. It is held for a few instructions, never during a call of the source.
	mu       sync.Mutex
	stats    kernels.MemoryStats
	main     *cache   // of stream 0
	caches   []*cache // of all streams, the main one first
	waiting  []*Block // freed, while other streams still use them
	spare    *Block   // blocks without memory
	segments int      // ever made
	short    bool     // small blocks are cut from large ones, as the last resort

	poison, frozen atomic.Bool
	profile        atomic.Pointer[Profile]   // nil: none runs
	leaks          atomic.Pointer[leakWatch] // nil: nobody wants to know
}

// cache is what the pool has for one stream.
type cache struct {
	stream       kernels.Stream
	lists        [smallSize / granule]*Block // small free blocks of each size
	small, large heap
	segments     []*segment
}

// Block is memory handed out by a pool.
type Block struct {
	Buf kernels.Buffer // at least Size bytes; the content is undefined

	pool          *Pool
	seg           *segment
	before, after *Block // neighbours in the segment
	prev, next    *Block // in a bin or list
	at, cap       int    // the bytes in the segment's memory
	size          int    // bytes requested
	owner         Owner
	profile       *Profile         // that counts it; nil: none
	holding       *Holding         // where
	keptAt        uint64           // cycles of Go's collector before it was kept, if somebody watches
	uses          []kernels.Stream // other streams that use it
	events        []kernels.Event  // behind those uses; it waits for them
	state         state
	viewed        bool // Buf is this memory
	poisoned      bool // all bytes are poisonByte, and the host can check it
	guarded       bool // the bytes behind size were poisoned when it was handed out
}

// Owner says what a block is for.
type Owner struct {
	Use  kernels.MemoryCategory
	Op   string // the operation that makes it
	Site string // the line of the program that does; "" if that is not recorded

	// Layer is the path of the regions around it, What its type and shape; nil if that is not recorded. The pool
	// refers to them as long as the block is live, to What until the block is kept, so that it may be the tensor.
	Layer, What fmt.Stringer
}

// text is what remains of a Stringer.
type text string

func (t text) String() string { return string(t) }

type state uint8

const (
	free     state = iota // in a bin
	listed                // free, in a list, or the last one
	live                  // owned by a step
	kept                  // owned by Go's collector
	waiting               // freed, and used by another stream
	unmapped              // addresses without memory
)

func (s state) String() string {
	return [...]string{free: "free", listed: "free", live: "live", kept: "kept", waiting: "waiting for a stream",
		unmapped: "unmapped"}[s]
}

// Site is the line of the program that made what is in b; "" if that is not recorded.
func (b *Block) Site() string { return b.owner.Site }

// Size is the number of bytes requested.
func (b *Block) Size() int { return b.size }

// New makes a pool over src that reserves at most limit bytes; 0 means no limit.
func New(src Source, limit int) *Pool {
	p := &Pool{src: src, stats: kernels.MemoryStats{Limit: limit}}
	p.refuse, _ = src.(Refuser)
	p.reserver, _ = src.(kernels.Reserver)
	p.main = &cache{}
	p.caches = []*cache{p.main}
	return p
}

// SetLimit changes the limit of the reserved size; 0 means none. Free memory over the limit goes back to the source at
// once, the rest when it is freed.
func (p *Pool) SetLimit(limit int) {
	p.grow.Lock()
	defer p.grow.Unlock()
	p.mu.Lock()
	p.stats.Limit = limit
	over := p.stats.Reserved - limit
	p.mu.Unlock()
	if limit > 0 && over > 0 {
		p.release(over)
	}
}

// SetReclaim sets a function that is called as the last resort when the limit or the device is reached: it may free
// blocks, for example by running the Go collector. No lock of the pool is held.
func (p *Pool) SetReclaim(f func()) {
	p.grow.Lock()
	defer p.grow.Unlock()
	p.reclaim = f
}

// SetRecall sets a function that is called when all that is cached has been given back to no avail, and by Trim: it
// frees blocks whose content can go elsewhere. No lock of the pool is held.
func (p *Pool) SetRecall(f func()) {
	p.grow.Lock()
	defer p.grow.Unlock()
	p.recall = f
}

// unlocked calls f, if there is one, without grow, which is held.
func (p *Pool) unlocked(f func()) {
	if f != nil {
		p.grow.Unlock()
		defer p.grow.Lock()
		f()
	}
}

// Freeze makes the pool leave the source alone until it is called with false: it neither takes memory from it nor gives
// any back, and asks for no events, as none of that is allowed while a graph is captured. What the pool has not is then
// out of memory.
func (p *Pool) Freeze(on bool) { p.frozen.Store(on) }

// Alloc returns a block of n bytes of stream 0. The error is a [*kernels.Error] of kind [kernels.ErrMemory], or of kind
// [kernels.ErrDevice] if the source reports that the device failed; the pool stays usable.
func (p *Pool) Alloc(n int, o Owner) (*Block, error) { return p.alloc(p.main, n, o, p.slow) }

// Try is Alloc that asks nobody to make room: it returns what is cached, or what the source has left.
func (p *Pool) Try(n int, o Owner) (*Block, error) {
	return p.alloc(p.main, n, o, func(c *cache, size int, o Owner, n int) (*Block, error) {
		p.grow.Lock()
		defer p.grow.Unlock()
		if p.frozen.Load() {
			return nil, kernels.Errorf(kernels.ErrMemory, "alloc", "%v", errFrozen)
		}
		b, err := p.more(c, size, o, n)
		if b == nil && !errors.Is(err, kernels.ErrDevice) {
			err = kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes requested: %v", n, err)
		}
		return b, err
	})
}

// alloc is Alloc for stream c; missed serves what the cache has not.
func (p *Pool) alloc(c *cache, n int, o Owner,
	missed func(c *cache, size int, o Owner, n int) (*Block, error)) (*Block, error) {
	if n < 0 {
		return nil, kernels.Errorf(kernels.ErrValue, "alloc", "%d bytes requested", n)
	}
	if n > maxBytes {
		return nil, p.outOfMemory(n, 0, nil)
	}
	if p.refuse != nil {
		if err := p.refuse.Refuse(n); err != nil {
			return nil, p.outOfMemory(n, 0, err)
		}
	}
	size := max(n, 1)
	if p.poison.Load() {
		size += guardBytes
	}
	size = roundUp(size, granule)
	b := p.takeLocked(c, size, &o, n)
	if b == nil {
		var err error
		if b, err = missed(c, size, o, n); err != nil {
			return nil, err
		}
	}
	b.guarded = false
	if p.poison.Load() {
		b.check()
		b.fill()
	}
	if r := p.profile.Load(); r != nil {
		r.allocated(b)
	}
	return b, nil
}

// takeLocked is take for who does not hold mu.
func (p *Pool) takeLocked(c *cache, size int, o *Owner, n int) *Block {
	p.mu.Lock()
	b := p.take(c, size, o, n)
	if b != nil {
		p.stats.Hits++
	}
	p.mu.Unlock()
	return b
}

// take hands out a block of size bytes, of which n are requested, from what the pool has for the stream; nil if that
// does not suffice. mu is held.
func (p *Pool) take(c *cache, size int, o *Owner, n int) *Block {
	if s := &p.stats; s.Limit > 0 && size > s.Limit-s.Active {
		return nil // reserved before the limit was set
	}
	var b *Block
	if size >= smallSize {
		b = c.large.take(p, size)
	} else if list := &c.lists[size/granule]; *list != nil {
		b = *list
		*list, b.next = b.next, nil
	} else if b = c.small.take(p, size); b == nil && p.short {
		b = c.large.take(p, size)
	}
	if b == nil {
		return nil
	}
	if !b.viewed {
		b.Buf, b.viewed = b.seg.buf.Slice(b.Buf, b.at, b.cap), true
	}
	b.state, b.size, b.owner = live, n, *o
	p.grown(b)
	return b
}

// slow serves a request for which the cache has no block.
func (p *Pool) slow(c *cache, size int, o Owner, n int) (*Block, error) {
	p.grow.Lock()
	defer p.grow.Unlock()
	if p.frozen.Load() {
		return nil, p.outOfMemory(n, 0, errFrozen)
	}
	p.finish()
	p.mu.Lock()
	p.consolidate(c)
	p.mu.Unlock()
	if b := p.takeLocked(c, size, &o, n); b != nil {
		return b, nil
	}
	b, err := p.more(c, size, o, n)
	if b != nil || errors.Is(err, kernels.ErrDevice) { // the device failed; it is not full
		return b, err
	}

	p.mu.Lock()
	p.stats.Retries++
	p.mu.Unlock()
	released := p.release(maxBytes)
	if b, err = p.more(c, size, o, n); b != nil {
		return b, nil
	}
	for _, f := range []func(){p.reclaim, p.recall} {
		if f == nil {
			continue
		}
		p.unlocked(f) // others need not wait for a collection
		if b := p.takeLocked(c, size, &o, n); b != nil {
			return b, nil
		}
		released += p.release(maxBytes)
		if b, err = p.more(c, size, o, n); b != nil {
			return b, nil
		}
	}
	if size < smallSize {
		p.mu.Lock()
		p.short = true
		b := p.take(c, size, &o, n)
		p.short = false
		p.mu.Unlock()
		if b != nil {
			return b, nil
		}
	}
	return nil, p.outOfMemory(n, released, err)
}

var (
	errLimit  = errors.New("the limit is reached") // so the request was not passed to the source
	errFrozen = errors.New("a graph is being captured, and the pool takes no memory meanwhile")
)

// consolidate joins the free blocks of a stream. mu is held.
func (p *Pool) consolidate(c *cache) {
	for i, b := range c.lists {
		c.lists[i] = nil
		for b != nil {
			next := b.next
			b.next = nil
			c.small.put(p, b)
			b = next
		}
	}
	c.small.settle(p)
	c.large.settle(p)
}

// Keep leaves b to the Go collector: steps no longer have it. Its owner arranges that Free(b) is called when it becomes
// unreachable (runtime.AddCleanup). site is the line of the program that keeps it, "" if nobody knows.
func (p *Pool) Keep(b *Block, site string) {
	var what text // refers to no tensor, which would never become unreachable
	if b != nil && b.owner.What != nil {
		what = text(b.owner.What.String())
	}
	p.lock(b, "keep", live, live)
	b.state = kept
	if b.owner.What != nil {
		b.owner.What = what
	}
	b.owner.Site = site
	p.stats.Blocks--
	p.stats.Kept += b.cap
	p.mu.Unlock()
	if w := p.leaks.Load(); w != nil {
		w.kept(p, b)
	}
}

// Unname lets go of the tensor that is in b, so that it becomes unreachable when the program drops it.
func (p *Pool) Unname(b *Block) {
	p.lock(b, "unname", live, live)
	b.owner.What = nil
	p.mu.Unlock()
}

// Free takes back b, which is live or kept. The caller does not use it again.
func (p *Pool) Free(b *Block) {
	p.lock(b, "free", live, kept)
	if b.guarded {
		b.checkGuard()
	}
	p.shrunk(b)
	if b.profile != nil {
		b.profile.freed(b)
	}
	b.owner.Layer, b.owner.What = nil, nil
	if b.uses != nil {
		b.state = waiting
		p.mu.Unlock()
		p.mark(b)
		return
	}
	p.back(b)
}

// back puts b, whose memory nobody uses, where the next request finds it. mu is held, and released.
func (p *Pool) back(b *Block) {
	b.state = waiting // no longer live, and in no list yet
	if p.poison.Load() {
		p.mu.Unlock()
		b.fill()
		p.mu.Lock()
	} else {
		b.poisoned = false
	}
	p.unused(b.cap)
	if c := b.seg.cache; b.seg.small {
		b.state = listed
		list := &c.lists[b.cap/granule]
		b.next, *list = *list, b
	} else {
		c.large.put(p, b)
	}
	over := p.stats.Limit > 0 && p.stats.Reserved > p.stats.Limit
	p.mu.Unlock()
	if over && p.grow.TryLock() { // else somebody does what is needed
		defer p.grow.Unlock()
		p.mu.Lock()
		need := p.stats.Reserved - p.stats.Limit
		p.mu.Unlock()
		p.release(need)
	}
}

// lock locks mu. It panics, with mu unlocked, if b is not a block of p in state s1 or s2.
func (p *Pool) lock(b *Block, verb string, s1, s2 state) {
	if b == nil || b.pool != p {
		panic("pool: " + verb + " of a block of another pool")
	}
	p.mu.Lock()
	if is := b.state; is != s1 && is != s2 {
		p.mu.Unlock()
		panic(fmt.Sprintf("pool: %s of a block of %d bytes that is %s", verb, b.size, is))
	}
}

// Trim returns all memory that is free to the source, that too which can be recalled, and how many bytes that freed.
func (p *Pool) Trim() (freed int) {
	p.grow.Lock()
	defer p.grow.Unlock()
	p.unlocked(p.recall)
	p.finish()
	return p.release(maxBytes)
}
