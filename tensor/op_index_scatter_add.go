package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of scatter_add is the axis.
var scatterAdd Op

func init() {
	define(&scatterAdd, Op{
		Op:    kernels.Op{Name: "scatter_add", CPU: cpu.ScatterAdd, Types: addable, Ref: scatterAddRef},
		Cast:  CastWidest,
		Doc:   "x with y[i, j, ..] added to its element [indices[i, j, ..], j, ..] for axis 0, and so on",
		Args:  []string{"x", "indices", "y"},
		Shape: scatterAddShape,
		VJP:   func(c *Ctx, g *Tensor) []*Tensor { return addVJP(c, g, &gather) },
		Saves: []Saves{0, 0, SaveIn(1)},
		Samples: func() []Sample {
			return gatherSamples(func(name string, x []int, axis int, shape []int, indices ...float64) Sample {
				in := randomArgs(x, shape)
				return Sample{Name: name, In: []Arg{in[0], indexArg(shape, indices...), in[1]},
					Call: func(x []*Tensor) *Tensor { return x[0].ScatterAdd(axis, x[1], x[2]) }}
			})
		},
	})
}

// ScatterAdd is t with y[i, j, ..] added to its element [indices[i, j, ..], j, ..] for axis 0, and so on for other
// axes. Elements of y that go to one element of t are added in row-major order. indices has the shape of y and the
// rules of [Tensor.Gather].
func (t *Tensor) ScatterAdd(axis int, indices, y *Tensor) *Tensor {
	axis = t.axis("scatter_add", axis)
	return applyIndexed(&scatterAdd, []*Tensor{t, indices, y}, axis)
}

func scatterAddShape(c *Ctx) {
	c.wantAlong(0, 1)
	c.wantAddable()
	if !sameShape(c.In[1], c.In[2]) {
		c.Fail(ErrShape, "indices %v and y %v must have one shape", c.In[1], c.In[2])
	}
	c.Result(c.In[0].dtype, c.Shape(0)...)
}

func scatterAddRef(l *kernels.Launch) {
	addRef(l, offsetAlong(l))
}
