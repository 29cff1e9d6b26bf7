package par

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// piecesPerWorker is how many pieces For makes for each worker. More than one lets a worker that was
// interrupted by the operating system be overtaken; many more would cost locality.
const piecesPerWorker = 4

// A helper without work watches for more for the time of watch, then sleeps, and ends when nothing woke it.
// Starting a goroutine on another processor takes 60 microseconds and more, waking a sleeping thread about 5.
const (
	watch = 30 * time.Microsecond
	sleep = 100 * time.Millisecond
)

// Workers returns how many goroutines a call made now would use at most.
func Workers() int { return runtime.GOMAXPROCS(0) }

// For calls f on contiguous ranges [lo, hi) that cover [0, n) once. Each range has at least grain elements
// (one call with everything when n < 2*grain), so grain states the work that is worth a second thread:
// about ten microseconds. Several ranges may run at once; f must not depend on their borders.
// A panic in f stops the handing out of ranges and comes back to the caller when all goroutines have left f.
func For(n, grain int, f func(lo, hi int)) { ForAligned(n, grain, 1, f) }

// ForAligned is For with the inner borders of the ranges at multiples of align.
func ForAligned(n, grain, align int, f func(lo, hi int)) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	workers := 1
	if n >= 2*grain {
		workers = Workers()
	}
	if workers == 1 {
		f(0, n)
		return
	}
	pieces := min(n/grain, workers*piecesPerWorker)
	size := (n + pieces - 1) / pieces
	size = (size + align - 1) / align * align
	j := jobs.Get().(*job)
	j.each, j.size, j.n = f, size, n
	j.run((n+size-1)/size, workers)
}

// Tiles calls f(worker, i) once for each i in [0, n), handing the tiles out in ascending order to whoever is free.
// Calls with equal worker do not overlap, and 0 <= worker < Workers(), so worker may select scratch memory.
// A panic in f is treated as in For.
func Tiles(n int, f func(worker, i int)) { TilesOn(Workers(), n, f) }

// TilesOn is Tiles with at most the given number of workers.
func TilesOn(workers, n int, f func(worker, i int)) {
	if workers > 1 && n > 1 {
		workers = min(workers, Workers())
	}
	if workers <= 1 || n <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	j := jobs.Get().(*job)
	j.tile = f
	j.run(n, workers)
}

// A job is one call of For or Tiles that is open to helpers.
type job struct {
	each func(lo, hi int) // set by For, with
	size int              // the length of a range and
	n    int              // the number of elements
	tile func(worker, i int)

	items int          // ranges or tiles
	next  atomic.Int64 // first item not handed out

	inside atomic.Int32 // helpers at work now; only grows under pool.mu
	// Guarded by pool.mu.
	room   int  // helpers that may still join
	joined int  // helpers that have joined
	parked bool // the caller waits for the last of them on done
	caught any  // value of the first panic

	done chan struct{}
}

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// pool is the shared state of all calls.
var pool struct {
	mu       sync.Mutex
	open     []*job        // jobs that helpers may join, oldest first
	working  int           // goroutines at work: callers and helpers that have joined
	seeking  int           // helpers that have not joined: starting, watching or asleep
	sleeping int           // those asleep
	posted   atomic.Uint32 // number of jobs opened so far, which helpers without work watch; changes under mu
}

// run executes the job with up to workers goroutines and gives it back to the pool of jobs.
func (j *job) run(items, workers int) {
	j.items = items
	j.next.Store(0)

	pool.mu.Lock()
	pool.working++
	j.room = min(items, workers, workers-pool.working+1) - 1
	j.joined, j.parked, j.caught = 0, false, nil
	wake, start := 0, 0
	if j.room > 0 {
		pool.open = append(pool.open, j)
		pool.posted.Add(1)
		missing := max(0, j.room-(pool.seeking-pool.sleeping))
		wake = min(missing, pool.sleeping)
		start = max(0, j.room-pool.seeking)
		pool.seeking += start
	}
	pool.mu.Unlock()

	if wake > 0 {
		futexWake(&pool.posted, wake)
	}
	for range start {
		go help()
	}
	j.work(0)

	pool.mu.Lock()
	j.close()
	pool.working--
	pool.mu.Unlock()
	j.wait()

	caught := j.caught
	j.each, j.tile, j.caught = nil, nil, nil
	jobs.Put(j)
	if caught != nil {
		panic(caught)
	}
}

// wait returns when no helper is inside the job, which is closed. Their last items are mostly about to end.
func (j *job) wait() {
	if spin(func() bool { return j.inside.Load() == 0 }) {
		return
	}
	pool.mu.Lock()
	j.parked = j.inside.Load() > 0
	parked := j.parked
	pool.mu.Unlock()
	if parked {
		<-j.done
	}
}

// spin polls for a condition for the time of watch and reports whether it came true. Other goroutines that are
// ready to run get the processor in between.
func spin(condition func() bool) bool {
	for begin := time.Now(); ; runtime.Gosched() {
		for range 100 {
			if condition() {
				return true
			}
		}
		if time.Since(begin) > watch {
			return false
		}
	}
}

// close takes the job out of the open ones. The caller holds pool.mu.
func (j *job) close() {
	for i, o := range pool.open {
		if o == j {
			last := len(pool.open) - 1
			copy(pool.open[i:], pool.open[i+1:])
			pool.open[last] = nil
			pool.open = pool.open[:last]
			return
		}
	}
}

// work does items until none is left. A panic is kept in the job and stops the handing out of items.
func (j *job) work(worker int) {
	finished := false
	defer func() {
		if finished {
			return
		}
		j.next.Store(int64(j.items))
		caught := recover()
		pool.mu.Lock()
		if j.caught == nil {
			j.caught = caught
		}
		pool.mu.Unlock()
	}()
	for {
		i := int(j.next.Add(1)) - 1
		if i >= j.items {
			break
		}
		if j.tile != nil {
			j.tile(worker, i)
		} else {
			j.each(i*j.size, min((i+1)*j.size, j.n))
		}
	}
	finished = true
}

// help joins open jobs until there has been none for a while.
func help() {
	for {
		posted := pool.posted.Load()
		j, worker := join()
		if j != nil {
			j.work(worker)
			j.leave()
		} else if !await(posted) {
			return
		}
	}
}

// join enters the oldest open job that has room and items left.
func join() (*job, int) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	for _, j := range pool.open {
		if j.room > 0 && int(j.next.Load()) < j.items {
			j.room--
			j.joined++
			j.inside.Add(1)
			pool.working++
			pool.seeking--
			return j, j.joined
		}
	}
	return nil, 0
}

// leave ends a helper's part in the job and wakes the caller if that was the last one.
func (j *job) leave() {
	pool.mu.Lock()
	pool.working--
	pool.seeking++
	wake := j.inside.Add(-1) == 0 && j.parked // after this the job may be in use again
	pool.mu.Unlock()
	if wake {
		j.done <- struct{}{}
	}
}

// await waits for a job to be opened after the given count was read. It reports false, and the helper no longer
// counts as seeking, when none came.
func await(posted uint32) bool {
	if spin(func() bool { return pool.posted.Load() != posted }) {
		return true
	}
	pool.mu.Lock()
	pool.sleeping++
	pool.mu.Unlock()
	futexWait(&pool.posted, posted, sleep)
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.sleeping--
	if pool.posted.Load() != posted {
		return true
	}
	pool.seeking--
	return false
}
