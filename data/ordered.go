package data

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// More than these are no use, and what they take of memory cannot be refused.
const (
	maxWorkers = 1 << 12 // goroutines
	maxAhead   = 1 << 16 // batches that are ready
)

// ordered runs functions on several goroutines and hands out their results in the order of the functions.
type ordered[R any] struct {
	ctx    context.Context
	cancel context.CancelFunc
	next   func() (f func(*call, *R), ok bool) // called from one goroutine at a time
	own    *call                               // without workers: the caller of Next runs f
	source interface{ Close() }                // what next waits for; may be nil

	queue  chan *task[R] // in order
	tokens chan struct{} // one for each task that Next has not returned
	all    sync.WaitGroup
}

// task is a function whose result is there when done is closed.
type task[R any] struct {
	f    func(*call, *R)
	r    R
	done chan struct{}
}

// newOrdered starts the workers; they are at most depth functions ahead, at least one.
func newOrdered[R any](ctx context.Context, workers, depth int, next func() (func(*call, *R), bool)) *ordered[R] {
	o := &ordered[R]{next: next}
	o.ctx, o.cancel = context.WithCancel(ctx)
	if workers == 0 {
		o.own = newCall(o.ctx)
		return o
	}
	depth = max(depth, 1)
	o.queue, o.tokens = make(chan *task[R], depth), make(chan struct{}, depth)
	work := make(chan *task[R], depth) // as queue, so that neither ever blocks
	o.all.Go(func() {
		defer close(o.queue)
		defer close(work)
		for {
			select {
			case o.tokens <- struct{}{}:
			case <-o.ctx.Done():
				return
			}
			f, ok := o.next()
			if !ok || o.ctx.Err() != nil {
				return
			}
			t := &task[R]{f: f, done: make(chan struct{})}
			work <- t
			o.queue <- t
		}
	})
	for range workers {
		o.all.Go(func() {
			c := newCall(o.ctx)
			for t := range work {
				t.run(c)
			}
		})
	}
	return o
}

// run makes the result, unless nobody waits for it any more. It closes done also if f ends the goroutine.
func (t *task[R]) run(c *call) {
	defer close(t.done)
	if c.ctx.Err() == nil {
		t.f(c, &t.r)
	}
}

// Next is the next result; ok is false if there are no more, or the context is done.
func (o *ordered[R]) Next() (r R, ok bool) {
	if o.ctx.Err() != nil {
		return r, false
	}
	if o.own != nil {
		f, ok := o.next()
		if !ok {
			return r, false
		}
		f(o.own, &r)
		return r, true
	}
	select {
	case t, ok := <-o.queue:
		if !ok {
			return r, false
		}
		select {
		case <-t.done:
			<-o.tokens
			return t.r, o.ctx.Err() == nil
		case <-o.ctx.Done():
		}
	case <-o.ctx.Done():
	}
	return r, false
}

// Close ends the goroutines and waits for them.
func (o *ordered[R]) Close() {
	o.cancel()
	if o.source != nil {
		o.source.Close()
	}
	o.all.Wait()
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
			*err = fmt.Errorf("example %d: %s: %w", c.example, c.stage.name, *err)
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
