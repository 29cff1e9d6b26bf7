package data

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Auto as the number of [Workers] or of batches to [Prefetch] is chosen, and chosen anew, by the time between batches.
const Auto = -1

// More than these are no use, and what they take of memory cannot be refused.
const (
	maxWorkers = 1 << 12 // goroutines
	maxAhead   = 1 << 16 // batches that are ready
)

// permits is a semaphore of a size that may change. One goroutine takes. Where it has to wait it goes on when several
// permits are free, as each time costs the loop some microseconds.
type permits struct {
	mu      sync.Mutex
	n       int           // free and taken, those too many apart
	several int           // at most n
	free    int           // negative: so many are taken too many
	turn    chan struct{} // is closed when the one that waits may go on; nil if none waits
	over    bool          // none is given any more
}

// stop ends the waiting.
func (p *permits) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.wake()
}

// wake lets the one that waits look again. p.mu is held.
func (p *permits) wake() {
	if p.turn != nil {
		close(p.turn)
		p.turn = nil
	}
}

// add makes n permits free. p.mu is held.
func (p *permits) add(n int) {
	p.free += n
	if p.free >= p.several {
		p.wake()
	}
}

// resize makes it n permits, of which at least so many are to stay taken while one waits for others.
func (p *permits) resize(n, taken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := n - p.n
	p.n, p.several = n, max(1, min(n/2, n-taken))
	p.add(more)
}

// take waits for a permit; false if ctx is done first, or after stop.
func (p *permits) take(ctx context.Context) bool {
	for {
		p.mu.Lock()
		if p.over {
			p.mu.Unlock()
			return false
		}
		if p.free > 0 {
			p.free--
			p.mu.Unlock()
			return ctx.Err() == nil
		}
		if p.turn == nil {
			p.turn = make(chan struct{})
		}
		turn := p.turn
		p.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return false
		}
	}
}

// give gives a permit back.
func (p *permits) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(1)
}

// budget limits the bytes of examples and batches that are made, or being made, and not delivered.
type budget struct {
	limit int64

	mu       sync.Mutex
	used     int64
	most     int64 // that was ever used
	bytes    int64 // of all examples that were measured
	examples int64
	changed  chan struct{} // is closed when waiting may have an end; nil if nobody waits
	awaited  atomic.Bool   // somebody may wait
}

// mean is the size of an example so far; known is false before there is one.
func (b *budget) mean() (bytes int64, known bool) {
	if b.examples == 0 {
		return 0, false
	}
	return b.bytes / b.examples, true
}

// change changes what is used by so many bytes, counts examples of so many bytes for the mean, and wakes those who
// wait.
func (b *budget) change(used int64, examples int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += used
	b.most = max(b.most, b.used)
	b.examples += int64(examples)
	b.bytes += bytes
	b.wake()
}

// wake wakes those who wait. b.mu is held.
func (b *budget) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
		b.awaited.Store(false)
	}
}

// moved wakes those who wait, because another task is the next that is waited for.
func (b *budget) moved() {
	if b.awaited.Load() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wake()
	}
}

// crew is what makes the examples and batches of an iteration: so many goroutines at most that run tasks. Without
// workers the caller of ordered.Next runs them.
type crew struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	own     *call // without workers
	ahead   int   // tasks that each ordered may have unfinished or not taken
	most    int   // that ahead may become
	orders  []aheadOf
	memory  budget
	times   timings
	padding padding
	all     sync.WaitGroup

	mu      sync.Mutex
	workers int      // the most that may run
	running int      // of them
	pending [2][]job // those that come first, and the others
	calls   []*call  // not in use
}

// job is a task, or the going on of one.
type job interface{ run(c *call) }

// aheadOf is an ordered of any type.
type aheadOf interface {
	resize(ahead int)
	ready() int
	finish() // calls its end
}

// newCrew is a crew that makes nothing yet. ahead may become mostAhead.
func newCrew(ctx context.Context, workers, ahead, mostAhead int, bytes int64) *crew {
	w := &crew{workers: workers, ahead: max(ahead, 1), most: max(mostAhead, 1)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.memory.limit = bytes
	if workers == 0 {
		w.own = newCall(w.ctx)
		w.own.crew = w
	}
	return w
}

// add adds an ordered, which is as far ahead as the others.
func (w *crew) add(o aheadOf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.resize(w.ahead)
	w.orders = append(w.orders, o)
}

// remove is the opposite of add.
func (w *crew) remove(o aheadOf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = slices.DeleteFunc(w.orders, func(x aheadOf) bool { return x == o })
}

// resize changes how many workers there are, and how far they may be ahead.
func (w *crew) resize(workers, ahead int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workers, w.ahead = workers, ahead
	for _, o := range w.orders {
		o.resize(ahead)
	}
	for j := w.pop(w.running); j != nil; j = w.pop(w.running) {
		w.start(j)
	}
}

// unfinished is how many tasks run, or have results that were not taken.
func (w *crew) unfinished() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.orders {
		n += o.ready()
	}
	return n + w.running
}

// Close ends the goroutines and waits for them.
func (w *crew) Close() {
	w.cancel(errors.New("data: the iterator is closed"))
	w.all.Wait()
	if w.own != nil {
		for _, o := range slices.Clone(w.orders) {
			o.finish()
		}
	}
	w.orders = nil
}

// run runs a job as soon as there is a worker for it, urgent ones first, for which there is one worker more.
func (w *crew) run(j job, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := &w.pending[1]
	if urgent {
		queue = &w.pending[0]
	}
	*queue = append(*queue, j)
	if j := w.pop(w.running); j != nil {
		w.start(j)
	}
}

// pop is the next pending job that a worker may do beside so many, nil if there is none. w.mu is held.
func (w *crew) pop(beside int) job {
	for i, queue := range w.pending {
		if len(queue) > 0 && beside < w.workers+1-i {
			j := queue[0]
			w.pending[i] = slices.Delete(queue, 0, 1)
			return j
		}
	}
	return nil
}

// start begins a worker with a job. w.mu is held.
func (w *crew) start(j job) {
	w.running++
	var c *call
	if n := len(w.calls); n > 0 {
		c, w.calls = w.calls[n-1], w.calls[:n-1]
	}
	w.all.Go(func() {
		if c == nil {
			c = newCall(w.ctx)
			c.crew = w
		}
		for next := j; next != nil; next = w.after(c) {
			w.do(next, c)
		}
	})
}

// do runs a job. The worker also ends if a function of the user's ends the goroutine.
func (w *crew) do(j job, c *call) {
	ended := true
	defer func() {
		if ended {
			c.leave()
		}
	}()
	j.run(c)
	ended = false
}

// after is the next job of a worker, which ends if there is none.
func (w *crew) after(c *call) (j job) {
	if c.place != nil {
		c.leave()
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j = w.pop(w.running - 1); j == nil {
		w.running--
		w.calls = append(w.calls, c)
	}
	return j
}

// leave ends a worker, in whose place another one may begin.
func (c *call) leave() {
	if c.outside {
		return
	}
	if c.place != nil {
		close(c.place)
		c.place = nil
		return
	}
	w := c.crew
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if j := w.pop(w.running); j != nil {
		w.start(j)
	}
}

// resume makes a goroutine that has left a worker again: it waits for one, and takes its place.
func (c *call) resume() {
	if c.outside {
		return
	}
	r := substitute{make(chan struct{}), make(chan struct{})}
	c.crew.run(r, true)
	select {
	case <-r.turn:
	case <-c.ctx.Done():
	}
	c.place = r.left
}

// substitute is a worker whose place another goroutine has, from turn until it has left.
type substitute struct{ turn, left chan struct{} }

func (s substitute) run(c *call) {
	close(s.turn)
	select {
	case <-s.left:
	case <-c.ctx.Done():
	}
}

// lease is the part of the budget that a task has.
type lease struct {
	c        *call
	reserved int64
	used     int64
	made     int
	alone    bool // no example has been measured so far
}

// lease reserves memory for n examples of the mean size. It waits until there is enough, or until what the task makes
// is the next that is waited for; before the size of any example is known, all wait but that task.
func (c *call) lease(n int) *lease {
	l := &lease{c: c}
	b := &c.crew.memory
	reserve := func(next bool) bool {
		mean, known := b.mean()
		l.reserved, l.alone = int64(n)*mean, !known
		if fits := known && b.used+l.reserved <= b.limit; !fits && !next {
			return false
		}
		b.used += l.reserved
		return true
	}
	b.mu.Lock()
	fits := reserve(false)
	b.most = max(b.most, b.used)
	b.mu.Unlock()
	if !fits {
		c.wait(func() bool { return reserve(c.next()) })
	}
	return l
}

// next tells whether the result of the present task is the next that somebody waits for.
func (c *call) next() bool { return c.of == nil || c.of.next(c.number) }

// wait waits until ready, which is called under the lock of the budget, or the iteration ends. A task that waits is no
// worker.
func (c *call) wait(ready func() bool) {
	b := &c.crew.memory
	try := func() chan struct{} {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.awaited.Store(true) // before the question who is next
		if ready() || c.ctx.Err() != nil {
			b.most = max(b.most, b.used)
			b.awaited.Store(b.changed != nil)
			return nil
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		return b.changed
	}
	changed := try()
	if changed == nil {
		return
	}
	c.leave()
	for ; changed != nil; changed = try() {
		select {
		case <-changed:
		case <-c.ctx.Done():
		}
	}
	c.resume()
}

// add counts an example that was made.
func (l *lease) add(bytes int64) {
	l.used += bytes
	l.made++
	if l.alone {
		l.alone = false
		l.c.crew.memory.change(0, 1, bytes)
	}
	if more := l.used - l.reserved; more > 0 {
		b := &l.c.crew.memory
		b.change(more, 0, 0)
		l.reserved = l.used
		l.c.wait(func() bool { return b.used <= b.limit || l.c.next() })
	}
}

// end gives back what the lease has reserved but for so many bytes.
func (l *lease) end(kept int64) {
	l.c.crew.memory.change(kept-l.reserved, l.made, l.used)
}

// timings are how long functions of the stages took, for some of the examples.
type timings struct {
	mu sync.Mutex
	of map[*stage]timed
}

// timed is how long so many examples took.
type timed struct {
	examples int
	time     time.Duration
}

// get is what was added for a stage.
func (t *timings) get(s *stage) timed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[s]
}

func (t *timings) add(s *stage, examples int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[*stage]timed{}
	}
	was := t.of[s]
	t.of[s] = timed{was.examples + examples, was.time + took}
}
