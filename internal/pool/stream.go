package pool

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// Recorder is a source that marks points of streams, see [kernels.Backend].
type Recorder interface {
	Record(s kernels.Stream) kernels.Event
}

// AllocOn is [Pool.Alloc] of a block that belongs to stream s.
func (p *Pool) AllocOn(s kernels.Stream, n int, o Owner) (*Block, error) {
	return p.alloc(p.cacheOf(s), n, o, p.slow)
}

// cacheOf is the cache of a stream, which is made at its first use.
func (p *Pool) cacheOf(s kernels.Stream) *cache {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.caches, func(c *cache) bool { return c.stream == s }); i >= 0 {
		return p.caches[i]
	}
	c := &cache{stream: s}
	p.caches = append(slices.Clip(p.caches), c)
	return c
}

// UsedOn notes that work on stream s uses b, which belongs to another one. After Free it is not used again before the
// work queued on s until then has finished.
func (p *Pool) UsedOn(b *Block, s kernels.Stream) {
	p.lock(b, "use", live, kept)
	defer p.mu.Unlock()
	if s != b.seg.cache.stream && !slices.Contains(b.uses, s) {
		b.uses = append(b.uses, s)
	}
}

// mark makes b, which is freed, wait for the other streams that use it.
func (p *Pool) mark(b *Block) {
	if r, ok := p.src.(Recorder); ok {
		for _, s := range b.uses {
			b.events = append(b.events, r.Record(s))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.uses = nil
	p.waiting = append(p.waiting, b)
}

// finish takes back the blocks whose other streams have finished. grow is held, mu is not. An event that reports an
// error belongs to a device that has failed: nothing there uses memory any more.
func (p *Pool) finish() {
	if p.frozen.Load() {
		return
	}
	p.mu.Lock()
	all := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	var left []*Block
	for _, b := range all {
		b.events = slices.DeleteFunc(b.events, func(e kernels.Event) bool {
			done, err := e.Done()
			return done || err != nil
		})
		if len(b.events) > 0 {
			left = append(left, b)
			continue
		}
		b.events = nil
		p.mu.Lock()
		p.back(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(left, p.waiting...)
}
