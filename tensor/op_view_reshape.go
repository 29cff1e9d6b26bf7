package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

var reshape Op

func init() {
	define(&reshape, entry{
		Op:   kernels.Op{Name: "reshape"},
		Doc:  "the elements in row-major order under another shape",
		Ints: []string{"shape..."},
		Shape: func(c *ctx) {
			c.result(c.In[0].dtype, c.Ints...)
			if x, y := c.In[0], c.Out[0]; x.Len() != y.Len() {
				c.fail(ErrShape, "%v has %d elements, shape %v has %d", x, x.Len(), c.Ints, y.Len())
			}
		},
		View: func(c *ctx, l *kernels.Layout) { kernels.RowMajor(l.Strides, l.Shape) },
		VJP:  func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.Reshape(c.shape(0)...)} },
		Samples: func() []opSample {
			sample := func(name string, from []int, to ...int) opSample {
				return unary(name, from, func(x *Tensor) *Tensor { return x.Reshape(to...) })
			}
			return []opSample{
				sample("split", []int{6, 4}, 2, 3, 4), sample("merge", []int{2, 3, 4}, 24),
				sample("infer", []int{2, 6}, 3, -1), sample("to rank 0", []int{1, 1}),
				sample("from rank 0", nil, 1), sample("empty", []int{0, 3}, 3, 0),
			}
		},
	})
}

// Reshape is t with another shape of as many elements, in row-major order. One size may be -1: it is computed from the
// others. The result shares the memory if t is contiguous, else it is a copy.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	t.given("reshape")
	if i := slices.Index(shape, -1); i >= 0 {
		given := slices.Clone(shape)
		if slices.Contains(given[i+1:], -1) {
			fail(ErrShape, "reshape", "shape %v of %v has -1 more than once; only one size can be computed", given, t)
		}
		shape = slices.Clone(shape)
		shape[i] = 1
		checkShape("reshape", shape)
		n := kernels.Count(shape)
		if n <= 0 || t.Len()%n != 0 {
			fail(ErrShape, "reshape", "the size -1 cannot be computed: "+
				"%v has %d elements, the other sizes of %v make %d", t, t.Len(), given, n)
		}
		shape[i] = t.Len() / n
	}
	checkShape("reshape", shape)
	if slices.Equal(shape, t.layout.Shape) {
		return t
	}
	return apply(&reshape, []*Tensor{t.Contiguous()}, shape, nil)
}

// Flatten is t with axes from to last (both included) merged into one.
func (t *Tensor) Flatten(from, last int) *Tensor {
	from, last = t.axis("flatten", from), t.axis("flatten", last)
	if from > last {
		fail(ErrShape, "flatten", "axis %d comes after axis %d of %v", from, last, t)
	}
	s := t.layout.Shape
	shape := slices.Concat(s[:from], []int{kernels.Count(s[from : last+1])}, s[last+1:])
	return t.Reshape(shape...)
}

// Unflatten is t with an axis split into several of the given sizes, of which one may be -1: it is computed from the
// others.
func (t *Tensor) Unflatten(axis int, sizes ...int) *Tensor {
	axis = t.axis("unflatten", axis)
	checkShape("unflatten", slices.DeleteFunc(slices.Clone(sizes), func(size int) bool { return size == -1 }))
	s, sizes := t.layout.Shape, slices.Clone(sizes)
	n, infer, others := s[axis], slices.Index(sizes, -1), 1
	for i, size := range sizes {
		if i != infer {
			others *= size
		}
	}
	if infer >= 0 && others > 0 {
		sizes[infer] = n / others
		others *= sizes[infer]
	}
	if others != n {
		fail(ErrShape, "unflatten", "sizes %v make %d, axis %d of %v has %d", sizes, others, axis, t, n)
	}
	return t.Reshape(slices.Concat(s[:axis], sizes, s[axis+1:])...)
}

// Unsqueeze is t with a new axis of size 1, which gets the given index; -1 is the last axis.
func (t *Tensor) Unsqueeze(axis int) *Tensor {
	return t.Reshape(slices.Insert(t.Shape(), t.newAxis("unsqueeze", axis), 1)...)
}

// newAxis is the index, not negative, of an axis that t does not have yet.
func (t *Tensor) newAxis(op string, axis int) int {
	n := t.Rank() + 1
	if axis < -n || axis >= n {
		fail(ErrShape, op, "axis %d is outside [%d, %d) for %v", axis, -n, n, t)
	}
	if axis < 0 {
		axis += n
	}
	return axis
}

// Squeeze is t without the given axis, whose size must be 1.
func (t *Tensor) Squeeze(axis int) *Tensor {
	axis = t.axis("squeeze", axis)
	if d := t.layout.Shape[axis]; d != 1 {
		fail(ErrShape, "squeeze", "axis %d of %v has size %d, not 1", axis, t, d)
	}
	return t.Reshape(slices.Delete(t.Shape(), axis, axis+1)...)
}
