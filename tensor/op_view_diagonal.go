package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// The attributes of diagonal are its number k and the axes of rows and columns.
var diagonalOp Op

func init() {
	define(&diagonalOp, entry{
		Op:   kernels.Op{Name: "diagonal"},
		Doc:  "x[.., i, i+k] over two axes, which a new last axis replaces",
		Ints: []string{"k", "rows", "columns"},
		Shape: func(c *ctx) {
			rows, columns := c.Ints[1], c.Ints[2]
			if rows == columns {
				c.fail(ErrShape, "axis %d of %v is given twice", rows, c.In[0])
			}
			var buf [kernels.MaxDims]int
			shape := append(buf[:0], c.shape(0)...)
			_, _, n := diagonalOf(shape[rows], shape[columns], c.Ints[0])
			c.result(c.In[0].dtype, append(without(shape, rows, columns), n)...)
		},
		View: func(c *ctx, l *kernels.Layout) {
			shape, strides := c.shape(0), c.In[0].layout.Strides
			row, column, _ := diagonalOf(shape[c.Ints[1]], shape[c.Ints[2]], c.Ints[0])
			down, across := strides[c.Ints[1]], strides[c.Ints[2]]
			if l.Len() > 0 { // else the offset may be outside the memory
				l.Offset += row*down + column*across
			}
			copy(l.Strides, append(without(strides, c.Ints[1], c.Ints[2]), down+across))
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			if g.Len() == 0 {
				return []*Tensor{c.zeros(0)}
			}
			rows, columns := c.Ints[1], c.Ints[2]
			return []*Tensor{g.onDiagonal(c.Ints[0], c.shape(0)[rows], c.shape(0)[columns], rows, columns)}
		},
		Samples: func() []opSample {
			sample := func(name string, shape []int, k, rows, columns int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Diagonal(k, rows, columns) })
			}
			return []opSample{
				sample("square", []int{3, 3}, 0, 0, 1), sample("wide", []int{2, 4}, 1, 0, 1),
				sample("high", []int{4, 2}, -2, 0, 1), sample("batch", []int{3, 2, 3}, -1, 0, -1),
				sample("turned", []int{3, 2, 4}, 2, -1, 0), sample("size 1", []int{1, 1}, 0, 0, 1),
				sample("far", []int{2, 2}, 9, 0, 1), sample("empty", []int{0, 3}, 0, 0, 1),
			}
		},
	})
}

// diagonalOf is where the k-th diagonal of a matrix begins, and its length.
func diagonalOf(rows, columns, k int) (row, column, n int) {
	row, column = max(-k, 0), max(k, 0)
	return row, column, max(min(rows-row, columns-column), 0)
}

// without is v without two elements.
func without(v []int, i, j int) []int {
	v = slices.Clone(v)
	return slices.Delete(slices.Delete(v, max(i, j), max(i, j)+1), min(i, j), min(i, j)+1)
}

// Diagonal is the k-th diagonal of the matrices whose rows and columns are along two axes of t; their last axis in the
// result takes the place of both. Diagonal 0 is the main one, positive ones are above it. It shares the memory.
func (t *Tensor) Diagonal(k, rows, columns int) *Tensor {
	const op = "diagonal"
	rows, columns = t.axis(op, rows), t.axis(op, columns)
	return apply(&diagonalOp, []*Tensor{t}, []int{diagonal(k), rows, columns}, nil)
}

// DiagEmbed makes square matrices of the last axis of t, which is their k-th diagonal, with zeros elsewhere: [.. n]
// gives [.. m m] with m = n + |k|.
func (t *Tensor) DiagEmbed(k int) *Tensor {
	const op = "diag_embed"
	t.given(op)
	if t.Rank() == 0 {
		fail(ErrShape, op, "%v has no axis", t)
	}
	k = diagonal(k)
	row, column, _ := diagonalOf(0, 0, k)
	n, last := t.layout.Shape[t.Rank()-1]+row+column, t.Rank()
	checkShape(op, append(slices.Clone(t.layout.Shape[:last-1]), n, n))
	return t.onDiagonal(k, n, n, last-1, last)
}

// onDiagonal makes matrices of so many rows and columns, along two axes of the result, with the last axis of t as their
// k-th diagonal and zeros elsewhere.
func (t *Tensor) onDiagonal(k, rows, columns, rowAxis, columnAxis int) *Tensor {
	row, column, n := diagonalOf(rows, columns, k)
	last := t.Rank() // the axis of columns
	// In a matrix as one row each element is columns+1 behind the one before it.
	apart, at := make([][2]int, last+1), make([][2]int, last)
	apart[last] = [2]int{0, columns}
	begin := row*columns + column
	at[last-1] = [2]int{begin, rows*columns - begin - n*(columns+1)}
	y := t.Unsqueeze(-1).Pad(0, apart...).Flatten(-2, -1).Pad(0, at...)
	y = y.Reshape(append(slices.Clone(t.layout.Shape[:last-1]), rows, columns)...)
	axes := make([]int, 0, last+1)
	for axis := range last - 1 {
		axes = append(axes, axis)
	}
	if rowAxis < columnAxis { // insert the axis that comes first, first
		axes = slices.Insert(slices.Insert(axes, rowAxis, last-1), columnAxis, last)
	} else {
		axes = slices.Insert(slices.Insert(axes, columnAxis, last), rowAxis, last-1)
	}
	return y.Permute(axes...)
}

// Trace is the sum of the main diagonal of the last two axes, which disappear.
func (t *Tensor) Trace() *Tensor {
	t.given("trace")
	if t.Rank() < 2 {
		fail(ErrShape, "trace", "%v has %d axes, at least 2 are needed", t, t.Rank())
	}
	return t.Diagonal(0, -2, -1).Sum(-1)
}
