package data

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Stream is a set of examples that can be read in their order only, such as a log that is compressed, or the answers of
// a server. Where it can be read at any place, a [Source] is better: a stream has no [Shuffle], and one goroutine reads
// it, ahead of the workers.
//
// A stream may have a method Fingerprint() string as a [Source] may.
type Stream[T any] interface {
	// Open begins to read an epoch behind the example with which a StreamReader has returned the cursor, at no more
	// cost than at the beginning, which is "". The same epoch has the same examples each time. ctx is done when the
	// iteration ends; what waits must end then.
	Open(ctx context.Context, epoch int, cursor string) (StreamReader[T], error)
}

// StreamReader reads a [Stream]. One goroutine at a time uses it.
type StreamReader[T any] interface {
	// Next is the next example, and the cursor behind it: text of at most 256 bytes. The error is io.EOF at the end.
	// With another error that is the error of one example, which [Tolerate] may leave out; it has a cursor, too.
	Next() (x T, cursor string, err error)
	Close() error
}

// mostCursor is how many bytes the cursor of a stream may have, so that states stay small.
const mostCursor = 256

// FromStream is the pipeline of a stream. The state of an iteration has the stream's cursor.
func FromStream[T any](stream Stream[T]) *Pipeline[T] {
	s := newStage(unknown, nil, "stream %T", stream)
	s.wrong(stream == nil, "there is no stream")
	s.fingerprint(stream)
	return sequential(s, nil, func(o opening) reader[T] {
		r := &streaming[T]{opening: o, stage: s, stream: stream, size: measured[T](), at: cursor{At: o.count()}}
		if o.at != nil {
			r.at.Cursor = o.at.Cursor
		}
		return reader[T]{r.next, r.close}
	})
}

// streaming is a way through a stream.
type streaming[T any] struct {
	opening
	stage  *stage
	stream Stream[T]
	open   StreamReader[T] // nil before the first example
	at     cursor
	size   func(x *T) int64
}

func (r *streaming[T]) next() (d made[T], err error) {
	c := r.c
	memory := &c.crew.memory
	c.wait(func() bool { return memory.used <= memory.limit || c.next() })
	c.begin(r.epoch)
	c.stage, c.example = r.stage, origin{index: r.at.At}
	over := false
	c.guard(&d.err, func() (err error) {
		if r.open == nil {
			if r.open, err = r.stream.Open(c.ctx, r.epoch, r.at.Cursor); err == nil && r.open == nil {
				err = errors.New("the stream has opened no reader")
			}
			if err != nil {
				return err
			}
		}
		begin := c.clock()
		x, at, err := r.open.Next()
		c.spent(r.stage, 1, begin)
		if over = err == io.EOF; over {
			return nil
		}
		if d.x, r.at.Cursor = x, at; len(at) > mostCursor {
			return fmt.Errorf("a cursor of %d bytes, want at most %d", len(at), mostCursor)
		}
		return err
	})
	if c.ctx.Err() != nil {
		return d, context.Cause(c.ctx)
	}
	if over {
		return d, io.EOF
	}
	d.example.index = r.at.At
	r.at.At++
	at := r.at
	d.after = &at
	if d.err == nil {
		d.bytes = r.size(&d.x)
		memory.change(d.bytes, 0, 0)
	}
	return d, nil
}

func (r *streaming[T]) close() {
	if r.open != nil {
		r.open.Close()
	}
}
