package pool

import "github.com/weft-ml/weft/kernels"

// Stats returns the current values.
func (p *Pool) Stats() kernels.MemoryStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// ResetPeak makes the present sizes the largest ones.
func (p *Pool) ResetPeak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Peak = p.stats.MemorySizes
	for i := range p.stats.Categories {
		c := &p.stats.Categories[i]
		c.Peak = c.Allocated
	}
}

// grown counts b, which has become live; mu is held.
func (p *Pool) grown(b *Block) {
	s := &p.stats
	s.Allocs++
	s.Blocks++
	s.Requested += b.size
	s.Allocated += b.cap
	s.Active += b.cap
	s.Inactive -= b.cap
	s.Total.Requested += b.size
	s.Total.Allocated += b.cap
	s.Total.Active += b.cap
	s.Peak.Requested = max(s.Peak.Requested, s.Requested)
	s.Peak.Allocated = max(s.Peak.Allocated, s.Allocated)
	s.Peak.Active = max(s.Peak.Active, s.Active)
	s.Peak.Inactive = max(s.Peak.Inactive, s.Inactive)
	c := &s.Categories[b.owner.Use]
	c.Allocated += b.cap
	c.Total += b.cap
	c.Peak = max(c.Peak, c.Allocated)
}

// shrunk is its counterpart for a block that is freed; mu is held.
func (p *Pool) shrunk(b *Block) {
	s := &p.stats
	s.Frees++
	if b.state == kept {
		s.Kept -= b.cap
	} else {
		s.Blocks--
	}
	s.Requested -= b.size
	s.Allocated -= b.cap
	s.Categories[b.owner.Use].Allocated -= b.cap
}

// reserve counts n bytes more, or less, that are held from the source; mu is held.
func (p *Pool) reserve(n int) {
	s := &p.stats
	s.Reserved += n
	s.Inactive += n
	if n > 0 {
		s.SourceAllocs++
		s.Total.Reserved += n
		s.Peak.Reserved = max(s.Peak.Reserved, s.Reserved)
	} else {
		s.SourceFrees++
	}
}

// unused counts n bytes as no longer active; mu is held.
func (p *Pool) unused(n int) {
	s := &p.stats
	s.Active -= n
	s.Inactive += n
	s.Peak.Inactive = max(s.Peak.Inactive, s.Inactive)
}
