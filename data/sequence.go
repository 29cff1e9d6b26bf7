package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// sequence is the way through a stage whose examples come in their order only, because it takes those before to know
// which one is next: a [Stream], and what counts examples where some are left out.
type sequence struct {
	stage *stage
	open  func(o opening) reader[any]
	// reads is what the stage reads when it is at a number, as many as a cursor has From; false: no such number.
	reads func(at int) (operands []*stage, ok bool)
}

// cursor is where a stage is in an epoch: the tree of what it and its operands have read. nil is the beginning.
type cursor struct {
	At     int       `json:"at,omitempty"`     // positions of a stage that has such, else what it counts
	Cursor string    `json:"cursor,omitempty"` // of a Stream
	From   []*cursor `json:"from,omitempty"`   // of the operands
}

// fits tells whether c can be where s is.
func (s *stage) fits(c *cursor) bool {
	switch {
	case c == nil:
		return true
	case c.At < 0:
		return false
	case s.seq == nil:
		return c.Cursor == "" && len(c.From) == 0 && (s.n == Forever || c.At <= s.n)
	case s.seq.reads == nil:
		return len(c.From) == 0 && len(c.Cursor) <= mostCursor
	}
	operands, ok := s.seq.reads(c.At)
	ok = ok && c.Cursor == "" && len(c.From) == len(operands)
	for i := 0; ok && i < len(operands); i++ {
		ok = operands[i].fits(c.From[i])
	}
	return ok
}

// reader is a way through an epoch of a stage. The error of next is io.EOF at the end, or that of the context; errors
// of examples are theirs.
type reader[T any] struct {
	next  func() (made[T], error)
	close func() // may be nil
}

// opening is what it takes to read an epoch of a stage from somewhere on.
type opening struct {
	c      *call // of the goroutine that reads
	epoch  int
	branch uint64
	at     *cursor
	piece  int // examples that are made at a time
}

// from is where operand k was.
func (o opening) from(k int) *cursor {
	if o.at == nil {
		return nil
	}
	return o.at.From[k]
}

// count is the number that the stage was at.
func (o opening) count() int {
	if o.at == nil {
		return 0
	}
	return o.at.At
}

// enter is o for operand k of several, as call.enter.
func (o opening) enter(k int) opening {
	o.branch = mix(o.branch + uint64(k) + 1)
	return o
}

// sequential makes the pipeline of a stage that is read in order, from operands that reads tells.
func sequential[T any](s *stage, reads func(at int) ([]*stage, bool), open func(o opening) reader[T]) *Pipeline[T] {
	s.seq = &sequence{s, func(o opening) reader[any] {
		r := open(o)
		return reader[any]{func() (made[any], error) {
			d, err := r.next()
			same := made[any]{x: d.x, err: d.err, bytes: d.bytes, example: d.example, after: d.after}
			return same, err
		}, r.close}
	}, reads}
	return finish(s, func(c *call, _ int) (T, error) {
		x, _ := c.given.(T)
		return x, nil
	})
}

// inOrder tells whether a stage that counts the examples of others has to read them in order.
func inOrder(from ...*stage) bool {
	for _, f := range from {
		if f.sparse || f.seq != nil {
			return true
		}
	}
	return false
}

// always are operands that do not change.
func always(from []*stage) func(int) ([]*stage, bool) {
	return func(int) ([]*stage, bool) { return from, true }
}

// errEnd is the error of what comes after the last example of an epoch.
var errEnd = errors.New("the epoch ends")

// made is what is at a position: an example or an error, which may be errDropped.
type made[T any] struct {
	where
	x             T
	err           error
	bytes         int64
	length        int
	example       origin
	before, after *cursor // of the pipeline, if it is read in order
}

// mostMade is how many positions a goroutine makes at a time, for grouped.
const mostMade = 64

// pieces is how the examples of a pipeline are made, some at a time, each followed by errEnd at the end of an epoch.
type pieces[T any] struct {
	w       *crew
	p       *Pipeline[T]
	user    *progress // of what needs them
	size    int       // of a piece, up to mostMade
	epoch   int
	slot    int     // position that comes next
	at      *cursor // of a pipeline that is read in order
	end     int     // epoch where they end, or Forever
	branch  uint64
	waiting []where // come first; of those before they have read
	read    int     // positions that were read before
	length  func(x T) int

	open *reader[any]
	c    *call // reads in order
}

// start begins to make them.
func (m *pieces[T]) start() *ordered[[]made[T]] {
	p := &progress{user: m.user}
	m.c = newCall(m.w.ctx)
	m.c.crew, m.c.outside = m.w, true
	m.size = min(m.size, mostMade)
	if m.w.own == nil {
		m.c.of = p
	}
	next := m.byPosition
	if m.p.seq != nil {
		next = m.bySequence
	}
	example := examplesOf[T](m.w)
	return newOrdered(m.w, p, func() (func(*call, *[]made[T]), bool) {
		if m.end != Forever && m.epoch >= m.end && len(m.waiting) == 0 {
			return nil, false
		}
		m.c.number = p.begun.Load() - 1
		epoch := m.epoch
		f := next()
		return func(c *call, out *[]made[T]) { f(c, epoch, example, out) }, true
	}, m.close)
}

// close ends the reading in order.
func (m *pieces[T]) close() {
	if m.open != nil && m.open.close != nil {
		m.open.close()
	}
	m.open = nil
}

// pieceMaker makes the examples of a piece, as many as out has when a function of the user's ends the goroutine.
type pieceMaker[T any] func(c *call, epoch int, example func(*T) int64, out *[]made[T])

// byPosition is the next piece of a pipeline that can be read anywhere.
func (m *pieces[T]) byPosition() pieceMaker[T] {
	var piece []made[T]
	for ; len(m.waiting) > 0 && len(piece) < m.size; m.waiting = m.waiting[1:] {
		piece = append(piece, made[T]{where: m.waiting[0]})
	}
	if len(piece) == 0 {
		for ; (m.p.n == Forever || m.slot < m.p.n) && len(piece) < m.size; m.slot++ {
			piece = append(piece, made[T]{where: where{m.slot, 0}})
		}
		if m.slot == m.p.n {
			piece = append(piece, made[T]{err: errEnd})
			m.epoch, m.slot = m.epoch+1, 0
		}
	}
	return func(c *call, epoch int, example func(*T) int64, out *[]made[T]) {
		*out = piece
		l := c.lease(len(piece))
		defer func() { l.end(l.used) }()
		for i := range piece {
			if piece[i].err == nil && (c.of == nil || !c.of.stopped.Load()) {
				m.make(c, &piece[i], epoch, example)
				l.add(piece[i].bytes)
			}
		}
	}
}

// make makes the example at a position.
func (m *pieces[T]) make(c *call, d *made[T], epoch int, example func(*T) int64) {
	c.begin(epoch)
	branch := c.branch
	defer func() { c.branch = branch }()
	c.branch = m.branch
	c.guard(&d.err, func() (err error) {
		if d.x, err = m.p.at(c, d.position); err == nil {
			d.bytes, d.example = example(&d.x), c.example
			if m.length != nil {
				d.length = m.length(d.x)
			}
		}
		return err
	})
}

// bySequence is the next piece of a pipeline that is read in order.
func (m *pieces[T]) bySequence() pieceMaker[T] {
	if m.open == nil {
		r := m.p.seq.open(opening{m.c, m.epoch, m.branch, m.at, m.size})
		m.open = &r
	}
	var given []made[any]
	for len(given) < m.size {
		d, err := m.open.next()
		if err != nil {
			if err == io.EOF {
				given = append(given, made[any]{err: errEnd})
			}
			m.close()
			m.epoch, m.slot, m.at, m.read = m.epoch+1, 0, nil, 0
			break
		}
		d.position, d.before = m.slot, m.at
		m.slot, m.at = m.slot+1, d.after
		if d.position < m.read {
			if len(m.waiting) == 0 || m.waiting[0].position != d.position {
				m.w.memory.change(-d.bytes, 0, 0)
				continue
			}
			d.where, m.waiting = m.waiting[0], m.waiting[1:]
		}
		given = append(given, d)
	}
	return func(c *call, epoch int, example func(*T) int64, out *[]made[T]) {
		*out = make([]made[T], 0, len(given))
		l := c.lease(len(given))
		defer func() { l.end(l.used) }()
		for _, g := range given {
			if c.of != nil && c.of.stopped.Load() {
				c.crew.memory.change(-g.bytes, 0, 0)
				continue
			}
			*out = append(*out, made[T]{where: g.where, err: g.err, example: g.example, before: g.before,
				after: g.after})
			d := &(*out)[len(*out)-1]
			if g.err == nil {
				c.given, c.example = g.x, g.example
				m.make(c, d, epoch, example)
				l.add(d.bytes)
			}
			c.crew.memory.change(-g.bytes, 0, 0)
		}
		c.given = nil
	}
}

// operand is a pipeline that a stage reads in order.
type operand[T any] struct {
	made  *ordered[[]made[T]]
	piece []made[T]
	at    *cursor // after the example read last
	ctx   context.Context
}

// read begins to read an epoch of p.
func read[T any](o opening, p *Pipeline[T], epoch int, at *cursor) *operand[T] {
	m := &pieces[T]{w: o.c.crew, p: p, user: o.c.of, size: o.piece, epoch: epoch, end: epoch + 1, branch: o.branch,
		at: at}
	if p.seq == nil && at != nil {
		m.slot = at.At
	}
	return &operand[T]{made: m.start(), at: at, ctx: m.w.ctx}
}

// next is the next example that is not left out. Its error is io.EOF at the end of the epoch; damaged examples come
// with theirs.
func (p *operand[T]) next() (d made[T], err error) {
	for {
		if len(p.piece) == 0 {
			var ok bool
			if p.piece, ok = p.made.Next(); !ok {
				return d, context.Cause(p.ctx)
			}
			continue
		}
		if d = p.piece[0]; d.err == errEnd {
			return d, io.EOF
		}
		p.piece = p.piece[1:]
		if p.at = d.after; p.at == nil {
			p.at = &cursor{At: d.position + 1}
		}
		if d.err != errDropped {
			return d, nil
		}
	}
}

// close ends the reading.
func (p *operand[T]) close() {
	free := func(piece []made[T]) {
		for _, d := range piece {
			p.made.crew.memory.change(-d.bytes, 0, 0)
		}
	}
	free(p.piece)
	p.piece = nil
	p.made.stop(free)
}

// takeInOrder is Take of n examples, which are counted.
func takeInOrder[T any](s *stage, p *Pipeline[T], n int) *Pipeline[T] {
	return sequential(s, always(s.from), func(o opening) reader[T] {
		in, at := read(o, p, o.epoch, o.first()), o.count()
		return reader[T]{func() (d made[T], err error) {
			if at >= n {
				return d, io.EOF
			}
			if d, err = in.next(); err == nil {
				at++
				d.after = &cursor{At: at, From: []*cursor{in.at}}
			}
			return d, err
		}, in.close}
	})
}

// first is where the only operand was.
func (o opening) first() *cursor { return o.from(0) }

// skipInOrder is Skip of n examples, which are counted.
func skipInOrder[T any](s *stage, p *Pipeline[T], n int) *Pipeline[T] {
	return sequential(s, always(s.from), func(o opening) reader[T] {
		in, left := read(o, p, o.epoch, o.first()), n
		if o.at != nil {
			left = 0
		}
		return reader[T]{func() (d made[T], err error) {
			for ; ; left-- {
				d, err = in.next()
				if err != nil || left == 0 {
					d.after = &cursor{From: []*cursor{in.at}}
					return d, err
				}
				o.c.crew.memory.change(-d.bytes, 0, 0)
			}
		}, in.close}
	})
}

// joined is Concat of several pipelines, and Repeat of one: the examples of parts one after another, up to where part
// says that there are no more. part also has the operand's opening and epoch.
func joined[T any](s *stage, reads func(at int) ([]*stage, bool),
	part func(o opening, k int) (*Pipeline[T], opening, bool)) *Pipeline[T] {
	return sequential(s, reads, func(o opening) reader[T] {
		k, at, some := o.count(), o.at, o.at != nil
		var in *operand[T]
		next := func() (d made[T], err error) {
			for {
				if in == nil {
					p, of, ok := part(o, k)
					if !ok {
						return d, io.EOF
					}
					var from *cursor
					if at != nil {
						from, at = at.From[0], nil
					}
					in = read(of, p, of.epoch, from)
				}
				if d, err = in.next(); err == nil {
					some = true
					d.after = &cursor{At: k, From: []*cursor{in.at}}
					if len(s.from) == 1 { // Repeat
						d.example = d.example.again(s, k)
					}
				}
				if err != io.EOF {
					return d, err
				}
				in.close()
				in = nil
				if !some && s.n == Forever {
					d.err = fmt.Errorf("%s: what it repeats has no examples", s.name)
					return d, nil
				}
				k, some = k+1, false
			}
		}
		return reader[T]{next, func() {
			if in != nil {
				in.close()
			}
		}}
	})
}

// zipInOrder is Zip of what is counted.
func zipInOrder[A, B any](s *stage, first *Pipeline[A], second *Pipeline[B]) *Pipeline[Pair[A, B]] {
	return sequential(s, always(s.from), func(o opening) reader[Pair[A, B]] {
		a, b := read(o.enter(0), first, o.epoch, o.from(0)), read(o.enter(1), second, o.epoch, o.from(1))
		return reader[Pair[A, B]]{func() (pair made[Pair[A, B]], err error) {
			y, err := b.next()
			if err != nil {
				return pair, err
			}
			x, err := a.next()
			if err != nil {
				o.c.crew.memory.change(-y.bytes, 0, 0)
				return pair, err
			}
			pair.x, pair.example, pair.bytes = Pair[A, B]{x.x, y.x}, x.example, x.bytes+y.bytes
			if pair.err = y.err; pair.err == nil {
				pair.err = x.err
			}
			pair.after = &cursor{From: []*cursor{a.at, b.at}}
			return pair, nil
		}, func() { a.close(); b.close() }}
	})
}

// interleaveInOrder is Interleave of what is counted: at position i of a round comes part[i].
func interleaveInOrder[T any](s *stage, parts []*Pipeline[T], part []int) *Pipeline[T] {
	return sequential(s, always(s.from), func(o opening) reader[T] {
		var in []*operand[T]
		for k, p := range parts {
			in = append(in, read(o.enter(k), p, o.epoch, o.from(k)))
		}
		i := o.count() % len(part)
		return reader[T]{func() (d made[T], err error) {
			if d, err = in[part[i]].next(); err == nil {
				i = (i + 1) % len(part)
				d.after = &cursor{At: i}
				for _, p := range in {
					d.after.From = append(d.after.From, p.at)
				}
			}
			return d, err
		}, func() {
			for _, p := range in {
				p.close()
			}
		}}
	})
}

// cacheInOrder is Cache of a pipeline that is read in order. What is kept of an example has the cursor behind it, so
// that reading begins where what is kept ends.
func cacheInOrder[T any](s *stage, p *Pipeline[T], limit int) *Pipeline[T] {
	var mu sync.Mutex
	var all []made[T] // of the epoch, from its beginning on
	return sequential(s, always(s.from), func(o opening) reader[T] {
		at := cursor{At: o.count(), From: []*cursor{nil}}
		if o.at != nil {
			at.From = o.at.From
		}
		o.branch = 0
		var in *operand[T]
		next := func() (d made[T], err error) {
			mu.Lock()
			kept := at.At < len(all)
			if kept {
				d = all[at.At]
			}
			mu.Unlock()
			if kept && in == nil {
				at = *d.after
				return d, nil
			}
			if in == nil {
				in = read(o, p, 0, at.From[0])
			}
			if d, err = in.next(); err != nil {
				return d, err
			}
			at = cursor{At: at.At + 1, From: []*cursor{in.at}}
			after := at
			d.after = &after
			mu.Lock()
			defer mu.Unlock()
			if at.At == len(all)+1 && at.At <= limit && d.err == nil {
				k := d
				k.bytes = 0 // is not in flight
				all = append(all, k)
			}
			return d, nil
		}
		return reader[T]{next, func() {
			if in != nil {
				in.close()
			}
		}}
	})
}
