package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of max_unpool are the sizes of the result's spatial axes.
var maxUnpool Op

func init() {
	define(&maxUnpool, entry{
		Op:   kernels.Op{Name: "max_unpool", CPU: cpu.MaxUnpool, Ref: maxUnpoolRef},
		Doc:  "the elements of x at their indices in a plane of the last axes, zero elsewhere",
		Args: []string{"x", "indices"},
		Ints: []string{"size", "sizes..."},
		Shape: func(c *ctx) {
			c.wantFloat(0)
			c.wantIndices(1)
			c.wantRank(0, len(c.Ints))
			if !sameShape(c.In[0], c.In[1]) {
				c.fail(ErrShape, "x %v and indices %v must have one shape", c.In[0], c.In[1])
			}
			shape := c.shape(0)
			c.result(c.In[0].dtype, slices.Concat(shape[:len(shape)-len(c.Ints)], c.Ints)...)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			x := c.shape(0)
			lead := len(x) - len(c.Ints)
			indices := c.In[1].Reshape(planeOf(x, lead)...)
			return []*Tensor{g.Reshape(planeOf(g.layout.Shape, lead)...).Gather(lead, indices).Reshape(x...), nil}
		},
		Saves: []saves{saveIn(1)},
		Samples: func() []opSample {
			sample := func(name string, shape, sizes []int, indices ...float64) opSample {
				return opSample{Name: name, In: append(randomArgs(shape), indexArg(shape, indices...)),
					Call: func(x []*Tensor) *Tensor { return x[0].MaxUnpool(x[1], sizes...) }}
			}
			return []opSample{
				sample("1-D", []int{2, 3}, []int{5}, 4, 0, 2, 1, 3, 0),
				sample("2-D", []int{1, 2, 2}, []int{3, 2}, 5, 0, 2, 1),
				sample("no axes before", []int{1, 2}, []int{2, 2}, 3, 0), sample("size 1", []int{1, 1}, []int{1}, 0),
				sample("empty", []int{0, 2}, []int{4}),
			}
		},
	})
}

// MaxUnpool puts elements back to where [Tensor.MaxPoolIndices] has found them: [.. H' W'] and indices of that shape
// give [.. sizes..], zero elsewhere. Of elements with one index the last stays, and all get the gradient there, as in
// PyTorch. Floating types; indices outside the plane are refused.
func (t *Tensor) MaxUnpool(indices *Tensor, sizes ...int) *Tensor {
	const op = "max_unpool"
	t.wantPlane(op, len(sizes))
	checkShape(op, sizes)
	if n := kernels.Count(sizes); n > math.MaxInt32 {
		fail(ErrShape, op, "a plane %v has %d elements, at most %d are taken", slices.Clone(sizes), n, math.MaxInt32)
	}
	return apply(&maxUnpool, []*Tensor{t, indices}, sizes, nil)
}

func maxUnpoolRef(l *kernels.Launch) {
	shape := l.In[0].Shape
	lead, plane := len(shape)-len(l.Ints), kernels.Count(l.Ints)
	x, y, indices := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0]), integersOf(l.In[1])
	clear(y[:l.Out[0].Len()])
	eachIndex(shape, func(i int, index []int) {
		at := int(indices[i])
		if at < 0 || at >= plane {
			panic(kernels.IndexError(l.Op.Name, shape, i, at, plane, nil, 0))
		}
		y[offsetOf(shape[:lead], index[:lead])*plane+at] = x[i]
	})
}
