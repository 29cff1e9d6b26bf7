package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"

	"github.com/weft-ml/weft/tensor"
)

// Batched describes the batches of a pipeline; [Batches] makes it. Nothing runs before [Batched.Start]. It is
// [Resumable].
type Batched[B any] struct {
	*stage          // of the whole
	config   config // what the options say
	size     int
	run      func(w *crew, from position) *ordered[result[B]]
	joins    bool                     // examples may wait for others
	cuts     bool                     // an example may be in several batches
	position atomic.Pointer[position] // after the batch delivered last, or of Restore; nil: the beginning
	restored atomic.Pointer[position] // where the next Start without a state begins; nil: at the beginning
}

// position is where an iteration is.
type position struct {
	Epoch   int `json:"epoch"`
	Batch   int `json:"batch"`    // of the epoch
	Slot    int `json:"position"` // of the pipeline, in the epoch: those before are used
	LeftOut int `json:"left_out"` // damaged examples, over all epochs

	// Waiting are examples of this epoch before Slot that are in no batch so far, as waitingOf writes them.
	Waiting []byte `json:"waiting,omitempty"`
	// Cursor is where a pipeline is that is read in order: before the first of Waiting, else before Slot.
	Cursor *cursor `json:"cursor,omitempty"`
	// Longest is, from 1, which batch of epoch 0 came first, until the others have come to where it was.
	Longest int `json:"longest,omitempty"`
}

// result is a batch, or the error instead of it.
type result[B any] struct {
	batch B
	err   error
	after position
	bytes int64  // of the batch
	since uint64 // what engine.Recycle is told: tensors of the batch are newer
}

// A BatchOption changes how [Batches] go through a pipeline. The zero BatchOption changes nothing.
type BatchOption struct{ set func(*config) }

type config struct {
	epochs, workers, prefetch, tolerate, budget int
	rank, ranks                                 int
	dropLast                                    bool
	fill                                        any // a func(T) T
	device                                      *tensor.Device
	on                                          bool // the device
}

// Epochs goes through the pipeline n times, without end if n is [Forever]; once without this option. No batch has
// examples of two epochs; see [Repeat] for one that may.
func Epochs(n int) BatchOption { return BatchOption{func(c *config) { c.epochs = n }} }

// DropLast leaves out the last batch of an epoch if it is smaller than the others.
func DropLast() BatchOption { return BatchOption{func(c *config) { c.dropLast = true }} }

// Workers is how many goroutines make batches: so many, or [Auto], as without this option. With 0 the loop over the
// batches makes them. No batch depends on it.
//
// Auto lowers the time between batches as the loop sees it, so workers that slow the loop down are taken away. It tries
// more than GOMAXPROCS workers only while that helps, as it does where examples wait for files.
func Workers(n int) BatchOption { return BatchOption{func(c *config) { c.workers = n }} }

// Prefetch is how many batches are made ahead of the loop, at least one if there are workers, or [Auto], as without
// this option: twice as many as workers, and more where the loop waits although workers have time. No batch depends on
// it.
func Prefetch(n int) BatchOption { return BatchOption{func(c *config) { c.prefetch = n }} }

// MemoryBudget is how many bytes examples and batches may have that were made and not delivered; without this option
// 1/8 of the memory that the process may have more of, its container's limit considered, and at most 1 GiB. What the
// next batch of the loop takes is made in any case. The size of what T and the batches lead to is measured; a method
// Bytes() int of a type says it instead. An example that is larger than those before can exceed the budget by itself.
func MemoryBudget(bytes int) BatchOption { return BatchOption{func(c *config) { c.budget = bytes }} }

// Tolerate leaves out up to n examples, over all epochs, that the source or a function has answered with an error. The
// error of the next one is that of its batch. Panics are not tolerated.
func Tolerate(n int) BatchOption { return BatchOption{func(c *config) { c.tolerate = n }} }

// Batches makes batches of size examples, the last of an epoch may have fewer. collate makes a batch of examples, and
// may keep the slice; like the functions of [Map] it runs on any goroutine and depends on its argument alone. Nothing
// of the batch is used again.
func Batches[T, B any](p *Pipeline[T], size int, collate func(examples []T) (B, error),
	options ...BatchOption) *Batched[B] {
	b, m := newBatched[T, B](p, fmt.Sprintf("batches of %d", size), options)
	b.size = size
	b.wrong(size < 1, "want at least one example in a batch")
	b.wrong(collate == nil, "there is no function")
	b.wrong(b.config.ranks > 1 && !b.config.dropLast && b.config.fill == nil, "ranks need DropLast or FillLast")
	b.wrong(b.config.ranks > 0 && size%max(b.config.ranks, 1) != 0, "want a multiple of the %d ranks", b.config.ranks)
	b.wrong(b.config.dropLast && b.n != Forever && b.n < size, "nothing is left: the pipeline has %d examples", b.n)
	m.collateRows(func(rows []T, _ group[T]) (B, error) { return collate(rows) })
	m.group = func() grouping[T] { return &bySize[T]{size: size} }
	b.run = m.grouped
	if !b.sparse && b.seq == nil && b.config.tolerate == 0 {
		b.run = func(w *crew, at position) *ordered[result[B]] { return m.direct(w, at, collate) }
	}
	return b
}

// newBatched are the batches of a pipeline, without what decides which these are, and their maker.
func newBatched[T, B any](p *Pipeline[T], name string, options []BatchOption) (*Batched[B], *maker[T, B]) {
	c := config{epochs: 1, workers: Auto, prefetch: Auto, ranks: 1}
	for _, o := range options {
		if o.set != nil {
			o.set(&c)
		}
	}
	from := given(p)
	b := &Batched[B]{stage: newStage(from.n, []*stage{from}, "%s", name), config: c, size: mostMade}
	b.seq = from.seq
	if c.dropLast {
		b.name += ", the last dropped"
	}
	b.wrong(c.epochs < Forever, "%d epochs, want 0 or more, or Forever", c.epochs)
	b.wrong(c.workers < Auto || c.workers > maxWorkers, "%d workers, want 0 to %d, or Auto", c.workers, maxWorkers)
	b.wrong(c.prefetch < Auto || c.prefetch > maxAhead, "prefetch %d, want 0 to %d, or Auto", c.prefetch, maxAhead)
	b.wrong(c.budget < 0, "a memory budget of %d bytes, want 1 or more, or 0 for the usual one", c.budget)
	b.wrong(c.tolerate < 0, "tolerate %d, want 0 or more", c.tolerate)
	b.wrong(c.on && c.device == nil, "On a device that is nil")
	b.wrong(from.n == 0, "the pipeline has no examples")
	return b, &maker[T, B]{b: b, p: p, part: partOf[T](c, b.stage), bytes: measured[B]()}
}

// maker makes the batches of b.
type maker[T, B any] struct {
	b       *Batched[B]
	p       *Pipeline[T]
	part    part[T]
	group   func() grouping[T]
	length  func(x T) int               // may be nil
	collate func(g group[T]) (B, error) // for the rank
	bytes   func(*B) int64

	longestFirst bool
}

// end is where the positions of an epoch end.
func (b *Batched[B]) end() int {
	if b.n == Forever {
		return math.MaxInt
	}
	return b.n
}

// over tells whether at is behind the last epoch.
func (b *Batched[B]) over(at position) bool {
	return b.config.epochs != Forever && at.Epoch >= b.config.epochs
}

// failed is the error err of the batch before at.
func (at position) failed(err error) error {
	return fmt.Errorf("data: epoch %d, batch %d: %w", at.Epoch, at.Batch-1, err)
}

// next is the beginning of the next epoch.
func (at position) next() position { return position{Epoch: at.Epoch + 1, LeftOut: at.LeftOut} }

// direct is for pipelines where each position has an example: batches are made on their own.
func (m *maker[T, B]) direct(w *crew, at position, collate func(examples []T) (B, error)) *ordered[result[B]] {
	b := m.b
	example := examplesOf[T](w)
	return newOrdered(w, new(progress), func() (func(*call, *result[B]), bool) {
		if rest := b.end() - at.Slot; rest == 0 || b.config.dropLast && rest < b.size {
			at = at.next()
		}
		if b.over(at) {
			return nil, false
		}
		first, n := at.Slot, min(b.size, b.end()-at.Slot)
		at.Batch++
		at.Slot += n
		after := at
		return func(c *call, r *result[B]) {
			r.after = after
			c.guard(&r.err, func() error {
				lo, hi := m.part.rows(n, b.size)
				l := c.lease(hi - lo)
				defer func() { l.end(r.bytes) }()
				examples, err := grown[T](nil, hi-lo)
				if err != nil {
					return err
				}
				for i := lo; i < hi; i++ {
					c.begin(after.Epoch)
					at := i
					if i >= n {
						at = 0 // to be marked
					}
					x, err := m.p.at(c, first+at)
					if err != nil {
						return err
					}
					if i >= n {
						x = m.part.mark(x)
					}
					examples = append(examples, x)
					l.add(example(&examples[i-lo]))
				}
				return m.collated(c, r, len(examples), func() (B, error) { return collate(examples) })
			})
		}, true
	}, nil)
}

// collated makes the batch r of so many examples.
func (m *maker[T, B]) collated(c *call, r *result[B], examples int, collate func() (B, error)) (err error) {
	c.stage = nil // collate has many examples
	begin := c.clock()
	r.since = engine.Recyclables()
	r.batch, err = collate()
	c.spent(m.b.stage, examples, begin)
	r.bytes = m.bytes(&r.batch)
	return err
}

// gathering is the state of grouped: what has been made and is not in a batch.
type gathering[T any] struct {
	grouping[T]
	pieces *ordered[[]made[T]]
	piece  []made[T]
	waits  int  // examples at the beginning of the pieces that had been read before
	ended  bool // all of the epoch has been read
}

// next is what the pieces have next; ok is false if there are no more.
func (g *gathering[T]) read() (d made[T], ok bool) {
	for len(g.piece) == 0 {
		if g.piece, ok = g.pieces.Next(); !ok {
			return d, false
		}
	}
	d, g.piece = g.piece[0], g.piece[1:]
	return d, true
}

// gathering begins to gather the batches from at on, up to an epoch.
func (m *maker[T, B]) gathering(w *crew, at position, end int, waiting []where, user *progress) *gathering[T] {
	p := &pieces[T]{w: w, p: m.p, user: user, size: m.b.size, epoch: at.Epoch, slot: at.Slot, at: at.Cursor, end: end,
		waiting: waiting, read: at.Slot, length: m.length}
	if m.p.seq != nil && len(waiting) > 0 {
		p.slot = waiting[0].position
	}
	return &gathering[T]{grouping: m.group(), pieces: p.start(), waits: len(waiting)}
}

// grouped is for pipelines where positions may have no example, and for batches that are not so many neighbouring
// examples: what is there is made first, then grouped in order, then collated.
func (m *maker[T, B]) grouped(w *crew, at position) *ordered[result[B]] {
	waiting, err := readWaiting(at.Waiting, at.Slot)
	if err != nil {
		panic(err) // parse has read them
	}
	at.Waiting = nil
	used := &progress{joins: true}
	g := m.gathering(w, at, m.b.config.epochs, waiting, used)
	first := m.longestFirst && at.Epoch == 0 && at.Batch == 0 && m.b.config.epochs != 0
	return newOrdered(w, used, func() (func(*call, *result[B]), bool) {
		if first {
			first = false
			batch, err := m.longest(w, &at, used)
			at.Batch = 1
			return m.join(at, batch, err), true
		}
		for {
			if g.ended && g.waits == 0 && len(g.waiting()) == 0 {
				at = at.next()
				g.ended = false
			}
			if m.b.over(at) {
				return nil, false
			}
			batch, ok, err := m.gather(g, &at)
			if !ok {
				return nil, false
			}
			dropped := m.drops(batch)
			again := err == nil && !dropped && at.Longest > 0 && at.Batch == at.Longest
			if again {
				at.Longest = 0
			}
			if again || dropped {
				w.memory.change(-batch.memory(), 0, 0)
				batch.items = nil
			}
			if len(batch.items) == 0 && at.Batch == 0 && len(g.waiting()) == 0 && err == nil {
				err = errors.New("an epoch has no batch") // else an epoch without batches, and so on
			}
			if len(batch.items) > 0 || err != nil {
				at.Batch++
				after := at
				if waiting := g.waiting(); len(waiting) > 0 {
					after.Waiting, after.Cursor = waitingOf(waiting), waiting[0].before
				}
				return m.join(after, batch, err), true
			}
		}
	}, nil)
}

// drops tells whether a batch is the end of an epoch that is left out. It counts as none.
func (m *maker[T, B]) drops(batch group[T]) bool { return m.b.config.dropLast && batch.short }

// longest is the batch of epoch 0 with the most tokens, which at.Longest tells then. It reads all examples for it.
func (m *maker[T, B]) longest(w *crew, at *position, user *progress) (most group[T], err error) {
	from := *at
	g := m.gathering(w, from, 1, nil, user)
	for number := 1; !g.ended || len(g.waiting()) > 0; {
		batch, ok, err := m.gather(g, &from)
		if !ok || err != nil {
			return most, err
		}
		if !m.drops(batch) {
			if batch.tokens > most.tokens {
				most, batch, at.Longest = batch, most, number
			}
			number++
		}
		w.memory.change(-batch.memory(), 0, 0)
	}
	if at.Longest == 0 {
		return most, errors.New("an epoch has no batch")
	}
	return most, nil
}

// gather is the next batch, without examples if the epoch has no more; ok is false if the iteration ends.
func (m *maker[T, B]) gather(g *gathering[T], at *position) (batch group[T], ok bool, err error) {
	for {
		if g.waits == 0 {
			if batch, ok = g.next(); ok {
				return batch, true, nil
			}
			if g.ended {
				batch, _ = g.last()
				return batch, true, nil
			}
		}
		d, ok := g.read()
		if !ok {
			return batch, false, nil
		}
		if d.err == errEnd {
			g.ended = true
			continue
		}
		again := g.waits > 0
		if again {
			g.waits--
		} else {
			at.Slot++
			at.Cursor = d.after
		}
		if d.err == nil {
			d.err = g.add(item[T]{x: d.x, where: d.where, bytes: d.bytes, length: d.length, before: d.before})
			if d.err != nil {
				g.pieces.crew.memory.change(-d.bytes, 0, 0)
			}
		}
		switch {
		case d.err == nil, d.err == errDropped:
		case at.LeftOut < m.b.config.tolerate && !isPanic(d.err):
			at.LeftOut++
		default:
			return batch, true, d.err
		}
	}
}

// collateRows has batches made by f from the rank's examples of a group.
func (m *maker[T, B]) collateRows(f func(rows []T, g group[T]) (B, error)) {
	m.collate = func(g group[T]) (B, error) {
		examples := make([]T, len(g.items))
		for i := range g.items {
			examples[i] = g.items[i].x
		}
		rows, err := m.part.of(examples, g.full)
		if err != nil {
			var none B
			return none, err
		}
		return f(rows, g)
	}
}

// join collates a batch, unless making it has failed.
func (m *maker[T, B]) join(after position, g group[T], err error) func(*call, *result[B]) {
	return func(c *call, r *result[B]) {
		r.after, r.err = after, err
		if err == nil {
			c.begin(after.Epoch)
			c.guard(&r.err, func() error {
				return m.collated(c, r, len(g.items), func() (B, error) { return m.collate(g) })
			})
			c.crew.memory.change(r.bytes-g.memory(), 0, 0)
			c.crew.padding.add(g.real(), g.tokens)
		}
	}
}

func isPanic(err error) bool {
	_, is := errors.AsType[*panicked](err)
	return is
}

// Iterator is one way through the batches of a [Batched]. One goroutine uses it.
type Iterator[B any] struct {
	of      *Batched[B]
	ctx     context.Context
	crew    *crew
	results *delivery[B]
	tuner   *tuner
	at      position
	err     error // that ended it
}

// Start begins an iteration: at the batch after the one that state belongs to, which [Iterator.State] of an earlier run
// returned; nothing is skipped. Without a state it begins where [Batched.Restore] said since the last one, or at the
// beginning. What is wrong with the description is an error, a state of other data or of another description is a
// [*FormatError] that names the difference. When ctx is done, its cause is the error of the next batch. The caller
// closes the iterator.
func (b *Batched[B]) Start(ctx context.Context, state []byte) (*Iterator[B], error) {
	if b == nil || b.stage == nil {
		return nil, errors.New("data: batches are nil")
	}
	if b.err != nil {
		return nil, b.err
	}
	if ctx == nil {
		return nil, errors.New("data: the context is nil")
	}
	var at position
	if state != nil {
		var err error
		if at, err = b.parse(state); err != nil {
			return nil, err
		}
	} else if p := b.restored.Swap(nil); p != nil {
		at = *p
	}
	t := b.config.tuner(ctx)
	it := &Iterator[B]{of: b, ctx: ctx, crew: t.crew, tuner: t, at: at}
	var err error
	if it.results, err = deliver(b.config.device, b.run(t.crew, at)); err != nil {
		t.crew.Close()
		return nil, err
	}
	t.ready = it.results.ready
	return it, nil
}

// All is the sequence of the batches that are left. An error is yielded once, instead of its batch, and ends the
// sequence. A loop that breaks can be followed by another one, which goes on.
func (it *Iterator[B]) All() iter.Seq2[B, error] {
	it.given("all")
	return func(yield func(B, error) bool) {
		for it.err == nil {
			it.tuner.asks()
			r, ok := it.results.Next()
			switch {
			case it.ctx.Err() != nil:
				it.err = context.Cause(it.ctx)
			case !ok && it.crew.ctx.Err() != nil:
				it.err = context.Cause(it.crew.ctx)
			case !ok:
				return
			case r.err != nil:
				it.err = r.after.failed(r.err)
			}
			if it.err != nil {
				break
			}
			it.tuner.gets(r.bytes)
			it.at = r.after
			at := r.after // alone: r need not be kept
			it.of.position.Store(&at)
			if !yield(r.batch, nil) {
				return
			}
		}
		var none B
		yield(none, it.err)
	}
}

// Position tells which batch the loop has: number batch of an epoch, both from 0; -1 before the first of an epoch.
func (it *Iterator[B]) Position() (epoch, batch int) {
	it.given("position")
	return it.at.Epoch, it.at.Batch - 1
}

// LeftOut is the number of damaged examples up to the batch that the loop has; see [Tolerate].
func (it *Iterator[B]) LeftOut() int { return it.given("left_out").at.LeftOut }

// State is where the iteration is after the batch that the loop has, as JSON: less than 4 KiB, and some bytes for each
// example that waits for a batch and each stream that is open. What was made ahead comes again.
func (it *Iterator[B]) State() []byte { return it.given("state").of.state(it.at) }

// Close ends the iteration and its goroutines. It waits for functions of the pipeline that are running; their
// [Sample] has a context that is done then. Closing again does nothing.
func (it *Iterator[B]) Close() { it.given("close").results.close() }

// given is it; it fails for one that Start has not made.
func (it *Iterator[B]) given(op string) *Iterator[B] {
	if it == nil || it.of == nil {
		engine.Fail(tensor.ErrValue, op, "the iterator is nil; Batched.Start makes it")
	}
	return it
}
