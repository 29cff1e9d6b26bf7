package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync/atomic"
)

// item is an example on its way to a batch.
type item[T any] struct {
	where
	x      T
	bytes  int64 // of x; 0 if another item has it, too
	length int
	before *cursor // of a pipeline that is read in order

	row, column, n int // where n of its tokens are in a batch of documents
}

// group is what becomes a batch.
type group[T any] struct {
	items  []item[T]
	length int  // that rows are padded to
	full   int  // rows that the batch would have if it were not the last one; 0: there is no such number
	short  bool // it is the last one, and has fewer
	tokens int  // with padding
}

// grouping decides which examples are a batch. Some wait for others: which ones depends only on those that were added.
type grouping[T any] interface {
	add(x item[T]) error    // x waits from now on
	next() (group[T], bool) // a batch that is complete; false: there is none
	last() (group[T], bool) // at the end of an epoch: of those that wait; false: none do
	waiting() []item[T]     // in the order of their positions
}

// bySize is the grouping of [Batches]: so many examples, in order.
type bySize[T any] struct {
	size  int
	items []item[T]
}

func (g *bySize[T]) add(x item[T]) error { g.items = append(g.items, x); return nil }

func (g *bySize[T]) next() (group[T], bool) {
	if len(g.items) < g.size {
		return group[T]{}, false
	}
	return g.last()
}

func (g *bySize[T]) last() (group[T], bool) {
	out := group[T]{items: g.items, full: g.size, short: len(g.items) < g.size}
	g.items = nil
	return out, len(out.items) > 0
}

func (g *bySize[T]) waiting() []item[T] { return g.items }

// waitingOf writes which examples wait: for each the distance to the one before, and where it begins. They are few.
func waitingOf[T any](items []item[T]) (out []byte) {
	last := 0
	for _, x := range items {
		out = binary.AppendUvarint(out, uint64(x.position-last))
		out = binary.AppendUvarint(out, uint64(x.from))
		last = x.position
	}
	return out
}

// where is an example of an epoch: its position in the pipeline, and how much of it is in earlier batches, 0 but for
// documents that are cut.
type where struct{ position, from int }

// readWaiting is the inverse of waitingOf, for examples before a position.
func readWaiting(text []byte, before int) (out []where, err error) {
	r := bytes.NewReader(text)
	last := 0
	for r.Len() > 0 {
		distance, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, err
		}
		from, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, err
		}
		if distance == 0 && len(out) > 0 || distance >= uint64(before-last) || from > 1<<40 {
			return nil, fmt.Errorf("example %d does not wait before %d", distance, before)
		}
		last += int(distance)
		out = append(out, where{last, int(from)})
	}
	return out, nil
}

// Rank makes the batches of one of several processes, or devices, that train together: number rank of so many ranks,
// from 0. Each has its rows of every batch, as many and of the same shape as the others: rank r of R has the r-th of R
// equal parts. So all ranks together have the same batches for any R, and a state of one goes on with another R. The
// size of a batch is a multiple of R, and the last one of an epoch is dropped ([DropLast]) or filled ([FillLast]).
func Rank(rank, ranks int) BatchOption {
	return BatchOption{func(c *config) { c.rank, c.ranks = rank, ranks }}
}

// FillLast fills the last batch of an epoch, if it has fewer rows than the others, and whatever batch has not the same
// number of rows for each rank. mark makes a row that does not count of the first example of the batch, which it does
// not change: it sets the target to what the loss ignores (-100 for cross-entropy), or a weight to zero.
func FillLast[T any](mark func(x T) T) BatchOption {
	return BatchOption{func(c *config) { c.fill = mark }}
}

// part are the rows of a rank.
type part[T any] struct {
	rank, ranks int
	mark        func(x T) T // makes a row that fills; nil: there are none
}

// partOf is what the options say about ranks; what is wrong with it is noted for stage s of batches.
func partOf[T any](c config, s *stage) part[T] {
	p := part[T]{rank: c.rank, ranks: c.ranks}
	s.wrong(c.ranks < 1 || c.rank < 0 || c.rank >= c.ranks, "rank %d of %d ranks", c.rank, c.ranks)
	if c.fill != nil {
		var ok bool
		p.mark, ok = c.fill.(func(x T) T)
		s.wrong(!ok || p.mark == nil, "FillLast has %T, want %v", c.fill, reflect.TypeFor[func(x T) T]())
		s.wrong(c.dropLast, "the last batch is either dropped or filled")
		s.name += ", the last filled"
	}
	return p
}

// rows are those of the rank of a batch of n examples, which has full rows if it is filled.
func (p part[T]) rows(n, full int) (lo, hi int) {
	if p.mark != nil {
		n = max(n, full)
	}
	each := (n + p.ranks - 1) / p.ranks
	return p.rank * each, (p.rank + 1) * each
}

// of are the rows of the rank, of all examples of a batch.
func (p part[T]) of(examples []T, full int) ([]T, error) {
	lo, hi := p.rows(len(examples), full)
	if p.ranks == 1 && hi == len(examples) {
		return examples, nil
	}
	out, err := grown[T](nil, hi-lo)
	if err != nil {
		return nil, err
	}
	for i := lo; i < hi; i++ {
		if i < len(examples) {
			out = append(out, examples[i])
		} else {
			out = append(out, p.mark(examples[0]))
		}
	}
	return out, nil
}

// padding counts the tokens of batches of variable length.
type padding struct{ real, all atomic.Int64 }

// add counts those of a batch.
func (p *padding) add(tokens, all int) {
	p.real.Add(int64(tokens))
	p.all.Add(int64(all))
}

// share of the tokens that is padding.
func (p *padding) share() float64 {
	if all := p.all.Load(); all > 0 {
		return 1 - float64(p.real.Load())/float64(all)
	}
	return 0
}

// real is how many tokens the examples have.
func (g group[T]) real() (n int) {
	for _, x := range g.items {
		n += x.length
	}
	return n
}

// bytes is the memory of the examples.
func (g group[T]) memory() (n int64) {
	for _, x := range g.items {
		n += x.bytes
	}
	return n
}
