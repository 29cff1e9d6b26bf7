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

// linger is how long a helper looks for more work before it ends. Starting one costs about as much.
const linger = 20 * time.Microsecond

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
	workers = min(workers, Workers())
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

	// Guarded by pool.mu.
	room   int  // helpers that may still join
	joined int  // helpers that have joined
	inside int  // helpers at work now
	left   bool // the caller waits for the last of them on done
	caught any  // value of the first panic

	done chan struct{}
}

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// pool is the shared state of all calls.
var pool struct {
	mu      sync.Mutex
	open    []*job       // jobs that helpers may join, oldest first
	working int          // goroutines at work: callers and helpers that have joined
	seeking int          // helpers started or lingering that have not joined
	posted  atomic.Int64 // number of jobs opened so far; lingering helpers watch it
}

// run executes the job with up to workers goroutines and gives it back to the pool of jobs.
func (j *job) run(items, workers int) {
	j.items = items
	j.next.Store(0)

	pool.mu.Lock()
	j.room = min(items, workers, workers-pool.working) - 1
	j.joined, j.inside, j.left, j.caught = 0, 0, false, nil
	start := 0
	if j.room > 0 {
		pool.open = append(pool.open, j)
		start = max(0, j.room-pool.seeking)
		pool.seeking += start
	}
	pool.working++
	pool.mu.Unlock()

	if j.room > 0 {
		pool.posted.Add(1)
		for range start {
			go help()
		}
	}
	j.work(0)

	pool.mu.Lock()
	j.close()
	pool.working--
	wait := j.inside > 0
	j.left = wait
	pool.mu.Unlock()
	if wait {
		<-j.done
	}

	caught := j.caught
	j.each, j.tile, j.caught = nil, nil, nil
	jobs.Put(j)
	if caught != nil {
		panic(caught)
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
		if j == nil {
			if !await(posted) {
				return
			}
			continue
		}
		j.work(worker)
		j.leave()
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
			j.inside++
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
	j.inside--
	pool.working--
	pool.seeking++
	wake := j.left && j.inside == 0
	pool.mu.Unlock()
	if wake {
		j.done <- struct{}{}
	}
}

// await watches for a job opened after the given count was read. It reports false, and the helper no longer counts
// as seeking, when none has come for the time of linger.
func await(posted int64) bool {
	for begin := time.Now(); time.Since(begin) < linger; {
		for range 64 {
			if pool.posted.Load() != posted {
				return true
			}
		}
		runtime.Gosched()
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.posted.Load() != posted {
		return true
	}
	pool.seeking--
	return false
}
