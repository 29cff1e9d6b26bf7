package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var cast Op

func init() {
	define(&cast, Op{
		Op:    kernels.Op{Name: "cast", Expr: expr.Must("x", []string{"x"}, nil)},
		Doc:   "x in another type; floats to integers round to 0 and saturate, NaN gives 0",
		Args:  []string{"x"},
		Shape: func(c *Ctx) { c.result(DType(c.Ints[0]), c.Shape(0)) },
		VJP:   func(c *Ctx, g *Tensor) []*Tensor { return []*Tensor{g.To(c.In[0].dtype)} },
		// A weight that is cast once and used often so gets the sum of its half gradients in float32, not rounded each time.
		Sum: func(c *Ctx) DType { return widest(c.In[0].dtype, c.Out[0].dtype) },
		Samples: func() []Sample {
			// Differences need float64 throughout; autograd's TestCast has the other types.
			same := func(x []*Tensor) *Tensor { return Apply(&cast, x, []int{int(x[0].dtype)}, nil) }
			return []Sample{
				{Name: "same", In: []Arg{{Shape: []int{2, 3}, Lo: -2, Hi: 2}}, Call: same},
				{Name: "rank 0", In: []Arg{{Lo: -2, Hi: 2}}, Call: same},
				{Name: "empty", In: []Arg{{Shape: []int{0, 3}, Lo: -2, Hi: 2}}, Call: same},
			}
		},
	})
}

// To is t in another element type. Floating numbers become integers by rounding towards 0; what does not
// fit saturates, and NaN gives 0. Any number but 0 is true. It is t itself if it has the type already.
func (t *Tensor) To(dt DType) *Tensor {
	if t == nil {
		Fail(ErrStep, "cast", "the operand is nil")
	}
	if t.dtype == dt {
		return t
	}
	return Apply(&cast, []*Tensor{t}, []int{int(dt)}, nil)
}
