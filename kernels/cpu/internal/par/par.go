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
// Starting a goroutine on another processor takes 60 microseconds and more, waking a sleeping thread about 5. While a
// helper sleeps Go's scheduler takes its processor away, and the timer of any goroutine then costs the kernels that
// follow a millisecond: the serial parts of a training step should not put helpers to sleep. Who watches for longer
// than polite leaves the processor to other threads in between.
const (
	watch  = 500 * time.Microsecond
	polite = 20 * time.Microsecond
	sleep  = 100 * time.Millisecond
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
	procs := 1
	if n >= 2*grain {
		procs = Workers()
	}
	if procs == 1 {
		f(0, n)
		return
	}
	pieces := min(n/grain, procs*piecesPerWorker)
	size := (n + pieces - 1) / pieces
	size = (size + align - 1) / align * align
	j := jobs.Get().(*job)
	j.each, j.size, j.n = f, size, n
	j.run((n+size-1)/size, procs, procs)
}

// Tiles calls f(worker, i) once for each i in [0, n), with at most the given number of workers. Each worker begins with
// its own stretch of neighbouring tiles, in ascending order, and then takes what others have left of theirs. Calls with
// equal worker do not overlap, and 0 <= worker < Workers(), so worker may select scratch memory. A panic in f is
// treated as in For.
func Tiles(workers, n int, f func(worker, i int)) {
	procs := 1
	if workers > 1 && n > 1 {
		procs = Workers()
	}
	if procs == 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	j := jobs.Get().(*job)
	j.tile = f
	j.run(n, workers, procs)
}

// A job is one call of For or Tiles that is open to helpers.
type job struct {
	each func(lo, hi int) // set by For, with
	size int              // the length of a range and
	n    int              // the number of elements
	tile func(worker, i int)

	shares []share // one for each worker

	inside atomic.Int32 // helpers at work now; only grows under pool.mu
	// Guarded by pool.mu.
	vacant int    // helpers that may still join
	busy   []bool // which workers have joined
	parked bool   // the caller waits for the last of them on done
	caught any    // value of the first panic

	done chan struct{}
}

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// A share is a contiguous range of the items of a job, the one with which a worker begins. In successive kernels a
// worker has the same range of the tensors, which its cache may still hold.
type share struct {
	next atomic.Int64 // first item not handed out
	end  int64
	_    [48]byte // keeps shares in cache lines of their own
}

// split makes the shares and forgets the workers of the last run.
func (j *job) split(items, workers int) {
	if cap(j.shares) < workers {
		j.shares = make([]share, workers)
		j.busy = make([]bool, workers)
	}
	j.shares, j.busy = j.shares[:workers], j.busy[:workers]
	clear(j.busy)
	for w := range j.shares {
		j.shares[w].next.Store(int64(items * w / workers))
		j.shares[w].end = int64(items * (w + 1) / workers)
	}
}

// take returns the next item for a worker, of its own share if there is one left.
func (j *job) take(worker int) (item int, ok bool) {
	for i := range j.shares {
		s := &j.shares[(worker+i)%len(j.shares)]
		if s.next.Load() < s.end {
			if item := s.next.Add(1) - 1; item < s.end {
				return int(item), true
			}
		}
	}
	return 0, false
}

// cancel drops the items that have not been handed out.
func (j *job) cancel() {
	for w := range j.shares {
		j.shares[w].next.Store(j.shares[w].end)
	}
}

// pool is the shared state of all calls.
var pool struct {
	mu       sync.Mutex
	open     []*job        // jobs that helpers may join, oldest first
	working  int           // goroutines at work: callers and helpers that have joined
	seeking  int           // helpers that have not joined: starting, watching or asleep
	numbers  []bool        // which helper numbers are in use
	sleeping int           // those asleep
	awake    int           // helpers that are not
	posted   atomic.Uint32 // number of jobs opened so far, which helpers without work watch; changes under mu

	background atomic.Pointer[background] // nil: none; set under mu, cleared by who takes its last range
}

// run executes the job and gives it back to the pool of jobs. It uses at most the given number of workers, and as many
// as keep the goroutines at work in all calls within procs.
func (j *job) run(items, workers, procs int) {
	pool.mu.Lock()
	pool.working++
	j.vacant = max(0, min(items, workers, procs-pool.working+1)-1)
	j.split(items, j.vacant+1)
	j.parked, j.caught = false, nil
	wake, start := 0, 0
	if j.vacant > 0 {
		pool.open = append(pool.open, j)
		pool.posted.Add(1)
		missing := max(0, j.vacant-(pool.seeking-pool.sleeping))
		wake = min(missing, pool.sleeping)
		start = max(0, j.vacant-pool.seeking)
		pool.seeking += start
		pool.awake += start
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
// ready to run get the processor in between, and then other threads that the system has for it.
func spin(condition func() bool) bool {
	for begin := time.Now(); ; runtime.Gosched() {
		for range 100 {
			if condition() {
				return true
			}
			step()
		}
		switch since := time.Since(begin); {
		case since > watch:
			return false
		case since > polite:
			yield()
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
		j.cancel()
		caught := recover()
		pool.mu.Lock()
		if j.caught == nil {
			j.caught = caught
		}
		pool.mu.Unlock()
	}()
	for i, ok := j.take(worker); ok; i, ok = j.take(worker) {
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
	number := enlist()
	for {
		posted := pool.posted.Load()
		j, worker := join(number)
		if j != nil {
			j.work(worker)
			j.leave()
		} else if !await(posted, number) {
			return
		}
	}
}

// enlist returns the lowest number, from 1 on, that no other helper has.
func enlist() int {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	for i, used := range pool.numbers {
		if !used {
			pool.numbers[i] = true
			return i + 1
		}
	}
	pool.numbers = append(pool.numbers, true)
	return len(pool.numbers)
}

// join enters the oldest open job that has a vacancy; the worker has the helper's number if possible.
func join(number int) (*job, int) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	for _, j := range pool.open {
		if j.vacant == 0 {
			continue
		}
		worker := number
		if worker >= len(j.busy) || j.busy[worker] {
			for worker = 1; j.busy[worker]; worker++ {
			}
		}
		j.busy[worker] = true
		j.vacant--
		j.inside.Add(1)
		pool.working++
		pool.seeking--
		return j, worker
	}
	return nil, 0
}

// leave ends a helper's work on the job and wakes the caller if that helper was the last one.
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
func await(posted uint32, number int) bool {
	if spin(func() bool { return pool.posted.Load() != posted }) {
		return true
	}
	pool.mu.Lock()
	if pool.background.Load() != nil {
		pool.mu.Unlock()
		return true
	}
	pool.sleeping++
	pool.awake--
	pool.mu.Unlock()
	futexWait(&pool.posted, posted, sleep)
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.sleeping--
	if pool.posted.Load() != posted {
		pool.awake++
		return true
	}
	pool.seeking--
	pool.numbers[number-1] = false
	return false
}
