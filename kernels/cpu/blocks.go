package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

const (
	chunk       = 1024 // elements that a program computes at a time: 4 KiB of float32, so that L1 holds some registers
	tileRows    = 16   // rows of a block with transposed operands: elements of a column in one cache line
	tileColumns = 256  // columns of such a block
)

// mode says how the elements of an operand reach the program.
type mode uint8

const (
	contiguous mode = iota // in the order of the result: read in place
	uniform                // one element
	rowwise                // each block is a contiguous piece of one row: read in place
	repeated               // every block has the same elements: copied once
	blocked                // copied block by block
)

// An operand is an input as seen by the blocks of a [space].
type operand struct {
	dtype  kernels.DType
	data   []byte // the whole buffer
	offset int    // of the first element
	mode   mode
	dims   kernels.Dims // those of the space, with the operand's strides
}

// A space is the elements of an op call, cut into blocks. The last dimension is the columns, the others together are
// the rows. The results are contiguous.
//
// If the columns fit, a block is a number of whole rows, and so a contiguous piece of the result. If not, it is a piece
// of one row, or of 16 rows if there are transposed operands, whose columns are then read by whole cache lines.
type space struct {
	kernels.Space
	n             int // elements
	rows, columns int
	high, wide    int // rows and columns of a block
	across        int // blocks along a row
	blocks        int
	operands      []operand
}

// describe sets s to the elements of an op call.
func (s *space) describe(in []kernels.Arg, shape []int) {
	s.operands = slices.Grow(s.operands[:0], len(in))[:len(in)]
	s.n = kernels.Count(shape)
	s.Collapse(shape, in)
	for i := range in {
		a, o := &in[i], &s.operands[i] // an Arg is large
		o.dtype, o.data, o.offset = a.DType, a.Buf.(*Mem).data, a.Offset
		s.SetDims(&o.dims, a.Strides)
	}
	if s.Rank == 0 { // one element
		s.Rank, s.Shape[0] = 1, 1
	}
	s.columns = s.Shape[s.Rank-1]
	s.rows = 1
	if s.columns > 0 {
		s.rows = s.n / s.columns
	}
	s.cut()
}

// cut chooses the blocks, and with them the modes of the operands.
func (s *space) cut() {
	last := s.Rank - 1
	transposed := false
	for i := range s.operands {
		o := &s.operands[i]
		switch {
		case s.n > 1 && isZero(o.dims.Strides[:s.Rank]):
			o.mode = uniform
		case s.n == 1 || s.Rank == 1 && o.dims.Strides[0] == 1:
			o.mode = contiguous
		default:
			o.mode = blocked
			transposed = transposed || last > 0 && o.dims.Strides[last] > 1 || o.dims.Strides[last] < 0
		}
	}
	limit, high := chunk, 1
	if transposed {
		limit, high = tileColumns, tileRows
	}
	if s.columns <= limit {
		s.wide, s.across = s.columns, 1
		s.high = min(max(high, chunk/max(s.columns, 1)), s.rows)
	} else {
		s.across = (s.columns + limit - 1) / limit
		s.wide = ((s.columns+s.across-1)/s.across + 15) &^ 15 // blocks of about equal width
		s.across = (s.columns + s.wide - 1) / s.wide
		s.high = min(high, s.rows)
	}
	s.blocks = 0
	if s.n > 0 {
		s.blocks = (s.rows + s.high - 1) / s.high * s.across
	}
	for i := range s.operands {
		if o := &s.operands[i]; o.mode == blocked {
			o.mode = s.refine(o)
		}
	}
}

// refine finds the mode of an operand that is neither uniform nor contiguous in one dimension.
func (s *space) refine(o *operand) mode {
	last := s.Rank - 1
	switch {
	case o.dims.Contiguous():
		return contiguous
	case s.across == 1 && isZero(o.dims.Strides[:last]):
		return repeated
	case s.high == 1 && o.dims.Strides[last] == 1:
		return rowwise
	}
	return blocked
}

func isZero(strides []int) bool {
	for _, st := range strides {
		if st != 0 {
			return false
		}
	}
	return true
}

// A block is the elements in rows [row, row+high) and columns [column, column+wide).
type block struct{ row, column, high, wide int }

func (s *space) block(i int) block {
	row, column := i/s.across*s.high, i%s.across*s.wide
	return block{row, column, min(s.high, s.rows-row), min(s.wide, s.columns-column)}
}

// offsets sets starts to the offsets of the first elements of the block's rows.
func (s *space) offsets(starts []int, o *operand, b block) {
	first := o.offset + b.column*o.dims.Strides[s.Rank-1]
	if s.Rank == 2 {
		for r := range starts {
			starts[r] = first + (b.row+r)*o.dims.Strides[0]
		}
		return
	}
	at := o.dims.Cursor(b.row * s.columns)
	for r := range starts {
		starts[r] = first + at.Offset
		at.Skip(s.columns)
	}
}

// gather copies a block of an operand to dst, without changing the elements. The rows of dst are pitch elements apart.
func (s *space) gather(dst []byte, o *operand, b block, pitch int, starts []int) {
	starts = starts[:b.high]
	s.offsets(starts, o, b)
	gatherBytes(dst, o.data, starts, b.wide, o.dims.Strides[s.Rank-1], pitch, o.dtype.Size())
}

// gatherBytes is gather for elements of a size in bytes.
func gatherBytes(dst, src []byte, starts []int, n, stride, pitch, size int) {
	switch size {
	case 1:
		gather(dst, src, starts, n, stride, pitch)
	case 2:
		gather(view[uint16](dst), view[uint16](src), starts, n, stride, pitch)
	case 4:
		gather(view[uint32](dst), view[uint32](src), starts, n, stride, pitch)
	case 8:
		gather(view[uint64](dst), view[uint64](src), starts, n, stride, pitch)
	}
}

// gather copies a row of n strided elements from each of the given offsets, to contiguous rows pitch elements apart.
func gather[T uint8 | uint16 | uint32 | uint64 | float32](dst, src []T, starts []int, n, stride, pitch int) {
	switch stride {
	case 1:
		for r, from := range starts {
			copy(dst[r*pitch:][:n], src[from:])
		}
	case 0:
		for r, from := range starts {
			fill(dst[r*pitch:][:n], src[from])
		}
	default:
		r := 0
		for ; r+4 <= len(starts) && consecutive(starts[r:r+4]); r += 4 {
			transpose(dst[r*pitch:], src[starts[r]:], n, stride, pitch)
		}
		for c := range n {
			for r := r; r < len(starts); r++ {
				dst[r*pitch+c] = src[starts[r]+c*stride]
			}
		}
	}
}

// consecutive tells whether each offset is one more than the one before.
func consecutive(offsets []int) bool {
	for i, offset := range offsets {
		if offset != offsets[0]+i {
			return false
		}
	}
	return true
}

// transpose copies n columns of four contiguous elements, stride apart, to four contiguous rows, pitch apart.
func transpose[T uint8 | uint16 | uint32 | uint64 | float32](dst, src []T, n, stride, pitch int) {
	row0, row1, row2, row3 := dst[:n], dst[pitch:][:n], dst[2*pitch:][:n], dst[3*pitch:][:n]
	c := 0
	for ; c+4 <= n; c += 4 {
		a, b := (*[4]T)(src[c*stride:]), (*[4]T)(src[(c+1)*stride:])
		x, y := (*[4]T)(src[(c+2)*stride:]), (*[4]T)(src[(c+3)*stride:])
		*(*[4]T)(row0[c:]) = [4]T{a[0], b[0], x[0], y[0]}
		*(*[4]T)(row1[c:]) = [4]T{a[1], b[1], x[1], y[1]}
		*(*[4]T)(row2[c:]) = [4]T{a[2], b[2], x[2], y[2]}
		*(*[4]T)(row3[c:]) = [4]T{a[3], b[3], x[3], y[3]}
	}
	for ; c < n; c++ {
		a := src[c*stride:]
		row0[c], row1[c], row2[c], row3[c] = a[0], a[1], a[2], a[3]
	}
}

// fill sets all elements to v: the first 32 one by one, the others by copying what is set.
func fill[T any](dst []T, v T) {
	n := min(len(dst), 32)
	for i := range dst[:n] {
		dst[i] = v
	}
	for ; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
