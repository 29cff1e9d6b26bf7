package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// Row gather has the attribute axis.
var gather Op

func init() {
	define(&gather, Op{
		Op:    kernels.Op{Name: "gather", CPU: cpu.Gather, Types: kernels.DTypes(), Ref: gatherRef, Kernel: "gather"},
		Doc:   "y[i, j, ..] = x[indices[i, j, ..], j, ..], the index being that of an axis",
		Args:  []string{"x", "indices"},
		Shape: func(c *Ctx) { c.wantAlong(0, 1); c.result(c.In[0].dtype, c.Shape(1)) },
		VJP: func(c *Ctx, g *Tensor) []*Tensor {
			return []*Tensor{Apply(&scatterAdd, []*Tensor{c.zeros(0), c.In[1], g}, c.Ints, nil), nil}
		},
		Saves: []Saves{SaveIn(1)},
		Samples: func() []Sample {
			sample := func(name string, x []int, axis int, shape []int, indices ...float64) Sample {
				return Sample{Name: name, In: []Arg{{Shape: x, Lo: -2, Hi: 2}, indexArg(shape, indices...)},
					Call: func(x []*Tensor) *Tensor { return x[0].Gather(axis, x[1]) }, Fixed: false}
			}
			return []Sample{
				sample("rows", []int{3, 2}, 0, []int{2, 2}, 2, 0, 2, 1), sample("columns", []int{2, 3}, -1, []int{2, 4}, 2, 2, 0, 1, 0, 0, 0, 2),
				sample("smaller", []int{2, 3, 2}, 1, []int{1, 2, 1}, 2, 1), sample("vector", []int{3}, 0, []int{2}, 1, 1),
				sample("size 1", []int{1, 1}, 0, []int{1, 1}, 0), sample("empty", []int{3, 2}, 0, []int{0, 2}),
			}
		},
	})
}

// Gather is x[indices[i, j, ..], j, ..] for axis 0, and so on for the others: the element of t whose index along the axis
// is given, and whose other indices are those of the result. Indices have as many axes as t, none longer than that of t
// but the given one. They are int64, int32 or uint8; negative ones are refused, like all outside the axis.
func (t *Tensor) Gather(axis int, indices *Tensor) *Tensor {
	t.alive("gather")
	return Apply(&gather, []*Tensor{t, indices}, []int{t.axis("gather", axis)}, nil)
}

// wantAlong fails unless operand i holds indices along axis Ints[0] of operand x, with axes not longer than those of x.
func (c *Ctx) wantAlong(x, i int) {
	c.wantIndices(i)
	s, n := c.Shape(x), c.Shape(i)
	if len(s) != len(n) {
		c.Fail(ErrShape, "indices %v have %d axes, %s %v has %d", n, len(n), c.argName(x), s, len(s))
	}
	for d := range s {
		if d != c.Ints[0] && n[d] > s[d] {
			c.Fail(ErrShape, "indices %v have %d on axis %d, %s %v has only %d", n, n[d], d, c.argName(x), s, s[d])
		}
	}
}

func gatherRef(l *kernels.Launch) {
	axis, shape := l.Ints[0], l.In[0].Shape
	indices := intsOf(l, 1, shape[axis])
	moveRef(l, nil, func(at []int) (operand, place int) {
		from := slices.Clone(at)
		from[axis] = indices[placeOf(l.In[1].Shape, at)]
		return 0, placeOf(shape, from)
	})
}
