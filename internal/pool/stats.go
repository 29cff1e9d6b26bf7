package pool

// Sizes are amounts of memory in bytes. Each contains the one before: Requested <= Allocated <= Active <= Reserved.
type Sizes struct {
	Requested int // asked for by live blocks
	Allocated int // in live blocks, rounding included
	Active    int // in live and kept blocks
	Reserved  int // held from the source
}

// Stats describes a pool at one moment.
type Stats struct {
	Sizes        // now
	Peak   Sizes // the largest of each since the pool was made
	Limit  int   // of Reserved; 0 means none
	Blocks int   // live blocks

	// Events since the pool was made.
	Allocs       int // blocks handed out
	Frees        int // blocks that came back
	Hits         int // allocations served by the cache
	SourceAllocs int // allocations the source served
	SourceFrees  int // blocks returned to the source
	Retries      int // allocations that reached the limit or a full device at first
	OOMs         int // allocations that failed
}

// Kept is the number of bytes owned by the Go collector, see [Pool.Keep].
func (s Stats) Kept() int { return s.Active - s.Allocated }

// Cached is the number of bytes ready for reuse.
func (s Stats) Cached() int { return s.Reserved - s.Active }

// Fragmentation is the share of the reserved memory that was not in use at the peaks: 1 - peak active/peak reserved.
func (s Stats) Fragmentation() float64 {
	if s.Peak.Reserved == 0 {
		return 0
	}
	return 1 - float64(s.Peak.Active)/float64(s.Peak.Reserved)
}

// Stats returns the current values.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// updatePeaks is called with mu held, after sizes have grown.
func (s *Stats) updatePeaks() {
	s.Peak.Requested = max(s.Peak.Requested, s.Requested)
	s.Peak.Allocated = max(s.Peak.Allocated, s.Allocated)
	s.Peak.Active = max(s.Peak.Active, s.Active)
	s.Peak.Reserved = max(s.Peak.Reserved, s.Reserved)
}
