package data

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Token is a number that stands for a piece of text.
type Token interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

// Sequences are rows of tokens in which each is to be predicted from those before. Tensors are int64 [rows length].
type Sequences struct {
	X *tensor.Tensor // tokens; 0 for padding
	Y *tensor.Tensor // the next token of the same document; -100, which cross-entropy ignores, where there is none

	// Positions count the tokens of each part of a document from 0. Segments number these parts in a row from 1;
	// padding has 0.
	Positions, Segments *tensor.Tensor

	// Targets is how many tokens Y really has: the number of terms for autograd.Accumulate, with the sum of the losses.
	// It is 0 if a batch has nothing but last tokens of documents, whose mean loss is NaN.
	Targets int
}

// Mask says which keys a query may see, as attention takes it: bool [rows 1 length length], true for those up to itself
// in the same part of a document.
func (s Sequences) Mask() *tensor.Tensor {
	if s.Segments == nil {
		engine.Fail(tensor.ErrValue, "mask", "the sequences have no segments")
	}
	if s.Segments.DType() != tensor.Int64 || len(s.Segments.Shape()) != 2 {
		engine.Fail(tensor.ErrShape, "mask", "segments are %v, want int64 [rows length]", s.Segments)
	}
	segments := s.Segments.Contiguous()
	rows, n := segments.Dim(0), segments.Dim(1)
	of := seam.Elems[int64](engine.Bytes(segments))
	mask := tensor.Zeros(tensor.Bool, rows, 1, n, n)
	see := seam.Elems[bool](engine.Bytes(mask))
	for r := range rows {
		row := of[r*n : (r+1)*n]
		for q, segment := range row {
			for k := range q + 1 {
				see[(r*n+q)*n+k] = segment > 0 && row[k] == segment
			}
		}
	}
	return mask
}

// rowsOfTokens is the memory of Sequences.
type rowsOfTokens struct {
	Sequences
	x, y, positions, segments []int64
	length                    int
}

func newRows(rows, length int) (s rowsOfTokens, err error) {
	s.length = length
	for _, t := range []struct {
		tensor **tensor.Tensor
		values *[]int64
	}{{&s.X, &s.x}, {&s.Y, &s.y}, {&s.Positions, &s.positions}, {&s.Segments, &s.segments}} {
		if *t.tensor, *t.values, err = unset[int64](rows, length); err != nil {
			return s, err
		}
		clear(*t.values)
	}
	for i := range s.y {
		s.y[i] = seam.IgnoreIndex
	}
	return s, nil
}

// put writes n tokens of a document, from one on, to a row, as a segment.
func put[I Token](s *rowsOfTokens, row, column int, document []I, from, n, segment int) {
	at := row*s.length + column
	for i := range n {
		s.x[at+i] = int64(document[from+i])
		s.positions[at+i], s.segments[at+i] = int64(i), int64(segment)
		if next := from + i + 1; next < len(document) {
			s.y[at+i] = int64(document[next])
			s.Targets++
		}
	}
}

// NextTokens makes rows of documents, one a row, padded to a length: the collate function of [BucketByLength] for
// documents of tokens. The last token of each has no target.
func NextTokens[I Token](documents [][]I, length int) (Sequences, error) {
	s, err := newRows(len(documents), length)
	if err != nil {
		return Sequences{}, err
	}
	for row, document := range documents {
		if len(document) > length {
			return Sequences{}, fmt.Errorf("data: a document of %d tokens for rows of %d", len(document), length)
		}
		put(&s, row, 0, document, 0, len(document), 1)
	}
	return s.Sequences, nil
}

// Pad makes a tensor [len(rows) length] of rows that are shorter, with fill behind their ends.
func Pad[T tensor.Elem](rows [][]T, length int, fill T) (*tensor.Tensor, error) {
	t, v, err := unset[T](len(rows), length)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if len(row) > length {
			return nil, fmt.Errorf("data: row %d has %d elements, to be padded to %d", i, len(row), length)
		}
		for k := copy(v[i*length:], row); k < length; k++ {
			v[i*length+k] = fill
		}
	}
	return t, nil
}

// Pack makes batches of so many rows of length tokens, in each of which there are whole documents, as many as fit: a
// document goes to the first row with room, and waits for the next batch if there is none; a batch is complete when
// some documents wait. Those that are longer than a row are cut into parts. With cut, every document is cut where a row
// ends, so that there is no padding. Options are those of [Batches]; all batches have the same shape, so ranks need no
// [FillLast], and rows are a multiple of their number.
func Pack[I Token](p *Pipeline[[]I], rows, length int, cut bool, options ...BatchOption) *Batched[Sequences] {
	b, m := newBatched[[]I, Sequences](p, fmt.Sprintf("pack %d x %d, cut %t", rows, length, cut), options)
	b.joins, b.cuts = true, true
	b.wrong(rows < 1 || rows > mostRows || length < 1, "want 1 to %d rows, and at least one token in a row", mostRows)
	b.wrong(b.config.ranks > 0 && rows%max(b.config.ranks, 1) != 0, "want a multiple of the %d ranks", b.config.ranks)
	b.wrong(b.config.fill != nil, "what is missing in a row is padding; it takes no FillLast")
	wait := 0
	if !cut {
		wait = min(max(rows, 16), 256)
	}
	m.length = func(document []I) int { return len(document) }
	m.group = func() grouping[[]I] { return &packing[[]I]{rows: rows, length: length, wait: wait, cut: cut} }
	m.collate = func(g group[[]I]) (Sequences, error) {
		each := rows / b.config.ranks
		first := b.config.rank * each
		s, err := newRows(each, length)
		if err != nil {
			return Sequences{}, err
		}
		segments := make([]int, rows)
		for _, x := range g.items {
			if segments[x.row]++; x.row >= first && x.row < first+each {
				put(&s, x.row-first, x.column, x.x, x.from, x.n, segments[x.row])
			}
		}
		return s.Sequences, nil
	}
	b.run = m.grouped
	return b
}

// mostRows is how many rows of documents a batch may have: each needs a number while they are filled.
const mostRows = 1 << 20

// packing is the grouping of [Pack]: documents in the first row with room for them. T is a document.
type packing[T any] struct {
	rows, length, wait int
	cut                bool

	queue []item[T] // that wait, of which the first tried have found no row
	tried int
	used  []int // tokens in each row; nil: none
	parts []item[T]
}

func (g *packing[T]) add(x item[T]) error {
	if x.from == x.length {
		return errDropped // there is nothing in it
	}
	g.queue = append(g.queue, x)
	return nil
}

// place puts parts of the document into rows until it is all there, which is true, or there is no room.
func (g *packing[T]) place(x *item[T]) bool {
	if g.used == nil {
		g.used = make([]int, g.rows)
	}
	for row := 0; row < g.rows && x.from < x.length; {
		part, room := *x, g.length-g.used[row]
		part.n = min(x.length-x.from, g.length)
		if g.cut {
			part.n = min(part.n, room)
		}
		if part.n > room || part.n == 0 {
			row++
			continue
		}
		part.row, part.column = row, g.used[row]
		if part.from+part.n < part.length {
			part.bytes = 0
		}
		part.length = part.n // for the share of padding
		g.used[row] += part.n
		x.from += part.n
		g.parts = append(g.parts, part)
	}
	return x.from == x.length
}

func (g *packing[T]) next() (group[T], bool) {
	for g.tried < len(g.queue) {
		x := &g.queue[g.tried]
		if g.place(x) {
			g.queue = append(g.queue[:g.tried:g.tried], g.queue[g.tried+1:]...)
		} else if g.tried++; g.tried > g.wait {
			return g.complete(), true
		}
	}
	return group[T]{}, false
}

// complete is what is in the rows.
func (g *packing[T]) complete() group[T] {
	out := group[T]{items: g.parts, length: g.length, full: g.rows, tokens: g.rows * g.length}
	g.parts, g.used, g.tried = nil, nil, 0
	return out
}

func (g *packing[T]) last() (group[T], bool) {
	if len(g.parts) == 0 {
		return group[T]{}, false
	}
	// It is short if it is the last one, and has room.
	short := len(g.queue) == 0 && slices.ContainsFunc(g.used, func(used int) bool { return used < g.length })
	out := g.complete()
	out.short = short
	return out, true
}

func (g *packing[T]) waiting() []item[T] { return g.queue }
