package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of scatter_add is the axis.
var scatterAdd Op

func init() {
	define(&scatterAdd, entry{
		Op:    kernels.Op{Name: "scatter_add", CPU: cpu.ScatterAdd, Types: addable, Ref: scatterAddRef},
		Cast:  seam.CastWidest,
		Doc:   "x with y[i, j, ..] added to its element [indices[i, j, ..], j, ..] for axis 0, and so on",
		Args:  []string{"x", "indices", "y"},
		Ints:  []string{"axis"},
		Shape: scatterAddShape,
		VJP:   func(c *ctx, g *Tensor) []*Tensor { return addVJP(c, g, &gather) },
		Saves: []saves{0, 0, saveIn(1)},
		Samples: func() []opSample {
			return gatherSamples(func(name string, x []int, axis int, shape []int, indices ...float64) opSample {
				in := randomArgs(x, shape)
				return opSample{Name: name, In: []seam.Arg{in[0], indexArg(shape, indices...), in[1]},
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

func scatterAddShape(c *ctx) {
	c.wantAlong(0, 1)
	c.wantAddable()
	if !sameShape(c.In[1], c.In[2]) {
		c.fail(ErrShape, "indices %v and y %v must have one shape", c.In[1], c.In[2])
	}
	c.result(c.In[0].dtype, c.shape(0)...)
}

func scatterAddRef(l *kernels.Launch) {
	addRef(l, offsetAlong(l))
}
