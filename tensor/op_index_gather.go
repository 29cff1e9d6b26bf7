package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of gather is the axis.
var gather Op

func init() {
	define(&gather, entry{
		Op:    kernels.Op{Name: "gather", CPU: cpu.Gather, Types: kernels.DTypes(), Ref: gatherRef},
		Doc:   "y[i, j, ..] = x[indices[i, j, ..], j, ..] for axis 0, and so on",
		Args:  []string{"x", "indices"},
		Ints:  []string{"axis"},
		Shape: func(c *ctx) { c.wantAlong(0, 1); c.result(c.In[0].dtype, c.shape(1)...) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{apply(&scatterAdd, []*Tensor{c.zeros(0), c.In[1], g}, c.Ints, nil), nil}
		},
		Saves: []saves{saveIn(1)},
		Samples: func() []opSample {
			return gatherSamples(func(name string, x []int, axis int, shape []int, indices ...float64) opSample {
				return opSample{Name: name, In: append(randomArgs(x), indexArg(shape, indices...)),
					Call: func(x []*Tensor) *Tensor { return x[0].Gather(axis, x[1]) }}
			})
		},
	})
}

// gatherSamples are the samples of gather and scatter_add: the shape of x, the axis, and the indices with their shape.
func gatherSamples(sample func(name string, x []int, axis int, shape []int, indices ...float64) opSample) []opSample {
	return []opSample{
		sample("rows", []int{3, 2}, 0, []int{2, 2}, 2, 0, 2, 1),
		sample("columns", []int{2, 3}, -1, []int{2, 4}, 2, 2, 0, 1, 0, 0, 0, 2),
		sample("smaller", []int{2, 3, 2}, 1, []int{1, 2, 1}, 2, 1),
		sample("one index", []int{2, 3, 2}, 1, []int{1, 2, 1}, 2, 2),
		sample("vector", []int{3}, 0, []int{2}, 1, 1), sample("size 1", []int{1, 1}, 0, []int{1, 1}, 0),
		sample("empty", []int{3, 2}, 0, []int{0, 2}),
	}
}

// Gather is t[indices[i, j, ..], j, ..] for axis 0, and so on for other axes: an element of the result is that of t
// with the given index along the axis and with the same other indices. indices has as many axes as t; only along the
// given axis it may be longer than t. Indices are int64, int32 or uint8; all outside the axis are refused, negative
// ones, too.
func (t *Tensor) Gather(axis int, indices *Tensor) *Tensor {
	return apply(&gather, []*Tensor{t, indices}, []int{t.axis("gather", axis)}, nil)
}

// wantAlong fails unless operand i holds indices along axis Ints[0] of operand x, and its other axes are not longer
// than those of x.
func (c *ctx) wantAlong(x, i int) {
	c.wantIndices(i)
	s, n := c.shape(x), c.shape(i)
	if len(s) != len(n) {
		c.fail(ErrShape, "indices %v have %d axes, %s %v has %d", n, len(n), c.argName(x), s, len(s))
	}
	for d := range s {
		if d != c.Ints[0] && n[d] > s[d] {
			c.fail(ErrShape, "indices %v have %d on axis %d, %s %v has only %d", n, n[d], d, c.argName(x), s, s[d])
		}
	}
}

func gatherRef(l *kernels.Launch) {
	offset := offsetAlong(l)
	copyRef(l, nil, func(index []int) (int, int) { return 0, offset(index) })
}

// offsetAlong maps an index of the indices of gather and scatter_add to the offset in x.
func offsetAlong(l *kernels.Launch) func(index []int) int {
	axis, shape := l.Ints[0], l.In[0].Shape
	indices := indicesOf(l, 1, shape[axis])
	return func(index []int) int {
		x := slices.Clone(index)
		x[axis] = indices[offsetOf(l.In[1].Shape, index)]
		return offsetOf(shape, x)
	}
}
