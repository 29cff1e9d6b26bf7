package data

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// ordered runs functions on the goroutines of a crew and hands out their results in the order of the functions.
type ordered[R any] struct {
	crew  *crew
	next  func() (f func(*call, *R), ok bool) // called from one goroutine at a time
	queue chan *task[R]                       // in order
	tasks sync.Pool                           // whose results were taken
	end   func()                              // after the last call of next; may be nil
	ahead permits                             // one for each task that Next has not returned
	*progress
}

// progress is how many tasks there have been, how many the crew has done, and how many results Next has returned.
type progress struct {
	begun, finished, taken atomic.Int64
	asked                  atomic.Int64 // results that somebody has asked for, with those returned
	stopped                atomic.Bool  // nobody needs the results any more
	user                   *progress    // of the tasks that need the results; nil if the loop does
	joins                  bool         // what other tasks have made
}

// next tells whether the loop needs the result of task number for its next batch.
func (p *progress) next(number int64) bool {
	if p.user == nil {
		return p.taken.Load() == number
	}
	return p.stopped.Load() || p.asked.Load() == number+1 && p.user.next(p.user.begun.Load()-1)
}

// task is a function whose result is there when done has something. A task is used again once its result is taken.
type task[R any] struct {
	f      func(*call, *R)
	r      R
	done   chan struct{} // with room for one
	of     *progress
	number int64
}

// newOrdered begins with the functions that next returns; the crew is at most crew.ahead functions ahead. What
// the loop needs is made before what other functions need, as p says. end is called when next is not any more.
func newOrdered[R any](w *crew, p *progress, next func() (func(*call, *R), bool), end func()) *ordered[R] {
	o := &ordered[R]{crew: w, next: next, progress: p, end: end}
	w.add(o)
	if w.own != nil {
		return o
	}
	o.queue = make(chan *task[R], w.most) // so that it is never full
	w.all.Go(func() {
		returned := false
		defer close(o.queue)
		defer o.finish()
		defer func() {
			if !returned {
				w.cancel(errors.New("data: a Stream has ended the goroutine (runtime.Goexit, or FailNow of a test)"))
			}
		}()
		o.generate()
		returned = true
	})
	return o
}

// generate queues the tasks.
func (o *ordered[R]) generate() {
	w, p := o.crew, o.progress
	for o.ahead.take(w.ctx) {
		number := p.begun.Add(1) - 1
		f, ok := o.next()
		if !ok || w.ctx.Err() != nil {
			return
		}
		t, _ := o.tasks.Get().(*task[R])
		if t == nil {
			t = &task[R]{done: make(chan struct{}, 1), of: p}
		}
		t.f, t.number = f, number
		o.queue <- t
		w.run(t, p.joins)
	}
}

// finish calls end once.
func (o *ordered[R]) finish() {
	if end := o.end; end != nil {
		o.end = nil
		end()
	}
}

// stop ends it before its results are all taken; drop gets those that were made.
func (o *ordered[R]) stop(drop func(R)) {
	w := o.crew
	w.remove(o)
	if w.own != nil {
		o.finish()
		return
	}
	o.stopped.Store(true)
	o.ahead.stop()
	w.memory.moved()
	w.all.Go(func() {
		for t := range o.queue {
			select {
			case <-t.done:
				drop(t.r)
			case <-w.ctx.Done():
				return
			}
		}
	})
}

// run makes the result, unless nobody waits for it any more. It is done also if f ends the goroutine.
func (t *task[R]) run(c *call) {
	defer func() {
		t.of.finished.Add(1)
		t.done <- struct{}{}
	}()
	if c.ctx.Err() == nil {
		c.of, c.number = t.of, t.number
		t.f(c, &t.r)
	}
}

// resize changes how far the crew is ahead. All workers have something to do while more is waited for.
func (o *ordered[R]) resize(ahead int) { o.ahead.resize(ahead, 2*o.crew.workers) }

// ready is how many results are made that Next has not returned.
func (o *ordered[R]) ready() int { return int(o.finished.Load() - o.taken.Load()) }

// Next is the next result; ok is false if there are no more, or the context is done.
func (o *ordered[R]) Next() (r R, ok bool) {
	ctx := o.crew.ctx
	if ctx.Err() != nil {
		return r, false
	}
	if o.crew.own != nil {
		f, ok := o.next()
		if !ok {
			return r, false
		}
		made := new(R)
		f(o.crew.own, made)
		return *made, true
	}
	o.asked.Add(1)
	o.crew.memory.moved()
	t, ok := receive(ctx, o.queue)
	if !ok {
		return r, false
	}
	if _, ok := receive(ctx, t.done); !ok {
		return r, false
	}
	r = t.r
	*t = task[R]{done: t.done, of: t.of}
	o.tasks.Put(t)
	o.taken.Add(1)
	o.ahead.give()
	o.crew.memory.moved()
	return r, ctx.Err() == nil
}

// receive is what comes next from a channel; ok is false if it is closed, or the context is done.
func receive[T any](ctx context.Context, from <-chan T) (x T, ok bool) {
	select { // one case takes a fraction of the time of two
	case x, ok = <-from:
		return x, ok
	default:
	}
	select {
	case x, ok = <-from:
	case <-ctx.Done():
	}
	return x, ok
}

// panicked is what a function of the user's panicked with, as an error.
type panicked struct {
	value any
	line  string
}

func (p *panicked) Error() string {
	return strings.Join(strings.Fields(fmt.Sprintf("panic at %s: %v", p.line, p.value)), " ")
}

// Unwrap is the error that the function panicked with, if it is one.
func (p *panicked) Unwrap() error { err, _ := p.value.(error); return err }

// guard runs f, which calls functions of the user's, and sets err, also where f panics or ends the goroutine. The error
// says which stage ran, on which example.
func (c *call) guard(err *error, f func() error) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			*err = &panicked{v, panicLine()}
		} else if !returned {
			*err = &panicked{"the goroutine was ended (runtime.Goexit, or FailNow of a test)", panicLine()}
		}
		if *err != nil && *err != errDropped && c.stage != nil {
			*err = fmt.Errorf("example %d: %s: %w", c.example.index, c.stage.name, *err)
		}
	}()
	*err = f()
	returned = true
}

// panicLine is the line that panicked; it is called by the deferred function that recovers.
func panicLine() string {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") || !more {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
	}
}
