package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/kernels"
)

// Source is where a pool gets memory: the memory half of [kernels.Backend].
type Source interface {
	Alloc(n int) (kernels.Buffer, error) // n bytes
	Free(b kernels.Buffer)
}

// Refuser is a source that may refuse a request of n bytes before the cache is asked: tests find out with it what
// lack of memory does at each place.
type Refuser interface{ Refuse(n int) error }

// Pool is a cache of the memory of one source. Its methods may be called from many goroutines.
type Pool struct {
	src    Source
	refuse Refuser // src, if it is one

	// grow serialises what changes the reserved size, so that the limit is exact and only one
	// goroutine at a time gives blocks back to the source. It is taken before mu.
	grow    sync.Mutex
	reclaim func()
	recall  func()

	// mu guards the rest. It is held for a few instructions, never during a call of the source.
	mu    sync.Mutex
	stats kernels.MemoryStats
	free  [numClasses]*Block // cached blocks of each class, the last freed first

	poison atomic.Bool
}

// Block is memory handed out by a pool.
type Block struct {
	Buf kernels.Buffer // at least Size bytes; the content is undefined

	pool     *Pool
	next     *Block // in the list of free blocks
	size     int    // bytes requested
	cap      int    // bytes of Buf
	class    int    // noClass: an exact size outside the classes, never cached
	category kernels.MemoryCategory
	state    state
	poisoned bool // all bytes are poisonByte, and the host can check it
	guarded  bool // the bytes behind size were poisoned when it was handed out
}

type state uint8

const (
	cached state = iota
	live
	kept
)

func (s state) String() string { return [...]string{"free", "live", "kept"}[s] }

const noClass = -1

// Size is the number of bytes requested.
func (b *Block) Size() int { return b.size }

// New makes a pool over src that reserves at most limit bytes; 0 means no limit.
func New(src Source, limit int) *Pool {
	p := &Pool{src: src, stats: kernels.MemoryStats{Limit: limit}}
	p.refuse, _ = src.(Refuser)
	return p
}

// SetLimit changes the limit of the reserved size; 0 means none. Cached blocks over the limit go
// back to the source at once, live ones when they are freed.
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

// SetReclaim sets a function that is called when the limit or the device is reached, before cached blocks are given
// back: it may free blocks, for example by running the Go collector. No lock of the pool is held.
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

// Alloc returns a block of n bytes for the given use. The error is a [*kernels.Error] of kind [kernels.ErrMemory], or
// of kind [kernels.ErrDevice] if the source reports that the device failed; the pool stays usable.
func (p *Pool) Alloc(n int, use kernels.MemoryCategory) (*Block, error) {
	b, class, size, err := p.fromCache(n, use)
	if b == nil && err == nil {
		b, err = p.slow(n, class, size, use)
	}
	return b, err
}

// Try is Alloc that asks nobody to make room: it returns what is cached, or what the source has left.
func (p *Pool) Try(n int, use kernels.MemoryCategory) (*Block, error) {
	b, class, size, err := p.fromCache(n, use)
	if b == nil && err == nil {
		p.grow.Lock()
		defer p.grow.Unlock()
		b, err = p.fromSource(n, class, size, use)
	}
	return b, err
}

// fromCache is a block of n bytes from the cache; nil if there is none of the class.
func (p *Pool) fromCache(n int, use kernels.MemoryCategory) (b *Block, class, size int, err error) {
	if n < 0 {
		return nil, 0, 0, kernels.Errorf(kernels.ErrValue, "alloc", "%d bytes requested", n)
	}
	if n > maxBytes {
		return nil, 0, 0, p.outOfMemory(n, 0, nil)
	}
	if p.refuse != nil {
		if err := p.refuse.Refuse(n); err != nil {
			return nil, 0, 0, p.outOfMemory(n, 0, err)
		}
	}
	guarded := n
	if p.poison.Load() {
		guarded += guardBytes
	}
	class, size = classOf(guarded)
	return p.take(class, n, use), class, size, nil
}

// take serves a request from the cache, or returns nil.
func (p *Pool) take(class, n int, use kernels.MemoryCategory) *Block {
	p.mu.Lock()
	b := p.free[class]
	for larger := class + 1; b == nil && larger < min(class+reach, numClasses); larger++ {
		b = p.free[larger]
	}
	if b == nil {
		p.mu.Unlock()
		return nil
	}
	p.free[b.class] = b.next
	b.next = nil
	p.stats.Hits++
	p.handOut(b, n, use)
	p.mu.Unlock()
	b.guarded = false
	if p.poison.Load() {
		b.check()
		b.fill()
	}
	return b
}

// handOut makes b live. mu is held.
func (p *Pool) handOut(b *Block, n int, use kernels.MemoryCategory) {
	b.state, b.size, b.category = live, n, use
	p.grown(b)
}

// slow serves a request for which the cache has no block.
func (p *Pool) slow(n, class, size int, use kernels.MemoryCategory) (*Block, error) {
	p.grow.Lock()
	defer p.grow.Unlock()
	if b := p.take(class, n, use); b != nil { // freed or given back while waiting for the lock
		return b, nil
	}
	b, err := p.fromSource(n, class, size, use)
	if err == nil {
		return b, nil
	}
	if errors.Is(err, kernels.ErrDevice) {
		return nil, err // the device failed; it is not full
	}

	p.mu.Lock()
	p.stats.Retries++
	p.mu.Unlock()
	p.unlocked(p.reclaim) // others need not wait for a collection
	if b := p.take(class, n, use); b != nil {
		return b, nil
	}
	need := maxBytes
	if errors.Is(err, errLimit) {
		p.mu.Lock()
		need = p.stats.Reserved + size - p.stats.Limit
		p.mu.Unlock()
	}
	released := p.release(need)
	if b, err := p.fromSource(n, class, size, use); err == nil {
		return b, nil
	}
	// Up to an eighth of the request is rounding: without it the request may still fit.
	if exact := (max(n, 1) + granule - 1) / granule * granule; exact < size {
		class, size = noClass, exact
	}
	released += p.release(maxBytes)
	if b, err = p.fromSource(n, class, size, use); err == nil {
		return b, nil
	}
	p.unlocked(p.recall)
	released += p.release(maxBytes)
	if b, err = p.fromSource(n, class, size, use); err == nil {
		return b, nil
	}
	return nil, p.outOfMemory(n, released, err)
}

// errLimit says that a request was not passed to the source.
var errLimit = errors.New("the limit is reached")

// fromSource asks the source for a block and makes it live. grow is held.
func (p *Pool) fromSource(n, class, size int, use kernels.MemoryCategory) (*Block, error) {
	p.mu.Lock()
	full := p.stats.Limit > 0 && size > p.stats.Limit-p.stats.Reserved
	p.mu.Unlock()
	if full {
		return nil, errLimit
	}
	buf, err := p.src.Alloc(size)
	if err != nil {
		return nil, err
	}
	b := &Block{Buf: buf, pool: p, cap: size, class: class}
	if p.poison.Load() {
		b.fill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserve(size)
	p.handOut(b, n, use)
	return b, nil
}

// Keep leaves b to the Go collector: it is no longer counted as live, though its memory stays reserved. Its owner
// arranges that Free(b) is called when it becomes unreachable (runtime.AddCleanup).
func (p *Pool) Keep(b *Block) {
	p.lock(b, "keep", live, live)
	b.state = kept
	p.stats.Blocks--
	p.stats.Kept += b.cap
	p.mu.Unlock()
}

// Free puts b, live or kept, into the cache. The caller does not use it again.
func (p *Pool) Free(b *Block) {
	p.lock(b, "free", live, kept)
	p.shrunk(b)
	p.unused(b.cap)
	b.state = cached
	s := &p.stats
	drop := b.class == noClass || s.Limit > 0 && s.Reserved > s.Limit
	if !drop && !p.poison.Load() {
		b.poisoned = false
		p.push(b)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if drop {
		p.giveBack(b)
		return
	}
	b.fill()
	p.mu.Lock()
	p.push(b)
	p.mu.Unlock()
}

// push makes b the first block of its class. mu is held.
func (p *Pool) push(b *Block) {
	b.next = p.free[b.class]
	p.free[b.class] = b
}

// lock locks mu. It panics, with mu unlocked, if b is not a block of p in state s1 or s2.
func (p *Pool) lock(b *Block, verb string, s1, s2 state) {
	if b == nil || b.pool != p {
		panic("pool: " + verb + " of a block of another pool")
	}
	p.mu.Lock()
	if is := b.state; is != s1 && is != s2 {
		p.mu.Unlock()
		panic(fmt.Sprintf("pool: %s of a block of %d bytes that is %s", verb, b.cap, is))
	}
}

// Trim returns all cached blocks to the source, those too that can be recalled, and how many bytes that freed.
func (p *Pool) Trim() (freed int) {
	p.grow.Lock()
	defer p.grow.Unlock()
	p.unlocked(p.recall)
	return p.release(maxBytes)
}

// release gives cached blocks back, the largest first, until need bytes are free, and returns how many are.
func (p *Pool) release(need int) (freed int) {
	for class := numClasses - 1; class >= 0 && freed < need; class-- {
		for freed < need {
			p.mu.Lock()
			b := p.free[class]
			if b != nil {
				p.free[class] = b.next
			}
			p.mu.Unlock()
			if b == nil {
				break
			}
			freed += b.cap
			p.giveBack(b)
		}
	}
	return freed
}

// giveBack returns a block that is in no list to the source.
func (p *Pool) giveBack(b *Block) {
	p.src.Free(b.Buf)
	b.Buf, b.next = nil, nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserve(-b.cap)
}
