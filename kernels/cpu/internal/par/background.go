package par

import "sync/atomic"

// background is what a call of Background has left to helpers.
type background struct {
	f        func(lo, hi int)
	n, grain int64
	next     atomic.Int64 // first element not handed out
	left     atomic.Int64 // elements that are not done
	done     chan struct{}
}

// Background calls f on ranges [lo, hi) of grain elements, the last may have fewer, that cover [0, n) once, itself
// while no job of others is open. Once one is, it leaves the rest to helpers, who do it where they watch for the next
// job, and sleeps. A job that is opened waits for the call of f at that moment, so grain is worth about a microsecond.
// f does not panic.
//
// It is for goroutines that prepare what later kernels need. With a processor of their own for the whole of it, kernels
// would have one thread less meanwhile, and goroutines would be pushed from one processor, and its cache, to another.
func Background(n, grain int, f func(lo, hi int)) {
	before := pool.posted.Load() - 1 // a job may be open already
	for lo := 0; lo < n; lo += grain {
		if posted := pool.posted.Load(); posted != before {
			if b := inBackground(lo, n, grain, f); b != nil {
				<-b.done
				return
			}
			before = posted
		}
		f(lo, min(lo+grain, n))
	}
}

// inBackground leaves elements [first, n) to helpers, if there are jobs and helpers are awake; else it returns nil.
func inBackground(first, n, grain int, f func(lo, hi int)) *background {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.working == 0 || pool.awake == 0 || pool.background.Load() != nil {
		return nil
	}
	b := &background{f: f, n: int64(n), grain: int64(grain), done: make(chan struct{})}
	b.next.Store(int64(first))
	b.left.Store(int64(n - first))
	pool.background.Store(b)
	return b
}

// step does a range of the work in the background, if there is any.
func step() {
	b := pool.background.Load()
	if b == nil {
		return
	}
	hi := b.next.Add(b.grain)
	lo := hi - b.grain
	if lo >= b.n {
		return
	}
	if hi >= b.n {
		hi = b.n
		pool.background.Store(nil) // nobody sets another one before
	}
	b.f(int(lo), int(hi))
	if b.left.Add(lo-hi) == 0 {
		close(b.done)
	}
}
