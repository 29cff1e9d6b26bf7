package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var cast Op

func init() {
	define(&cast, entry{
		Op:    kernels.Op{Name: "cast", Expr: expr.Must("x", []string{"x"}, nil)},
		Ints:  []string{"dtype"},
		Doc:   "x in another type; floats to integers round to 0 and saturate, NaN gives 0",
		Shape: func(c *ctx) { c.result(kernels.DTypeOf(c.Ints[0]), c.shape(0)...) },
		VJP:   func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.To(c.In[0].dtype)} },
		// A weight that is cast once and used often so gets the sum of its half gradients in float32, not rounded each
		// time.
		Sum: func(c *ctx) DType { return widest(c.In[0].dtype, c.Out[0].dtype) },
		Samples: func() []opSample {
			// Differences need float64 throughout; autograd's TestCast has the other types.
			same := func(x []*Tensor) *Tensor { return apply(&cast, x, []int{x[0].dtype.Code()}, nil) }
			return []opSample{
				{Name: "same", In: []seam.Arg{{Shape: []int{2, 3}, Lo: -2, Hi: 2}}, Call: same},
				{Name: "rank 0", In: []seam.Arg{{Lo: -2, Hi: 2}}, Call: same},
				{Name: "empty", In: []seam.Arg{{Shape: []int{0, 3}, Lo: -2, Hi: 2}}, Call: same},
			}
		},
	})
}

// Target is what [Tensor.To] makes of a tensor: another element type, a [DType], or the same on another [Device].
type Target interface{ Target() }

// To is t in another element type or on another device, and t itself if it is so already.
//
// Floating numbers become integers by rounding towards 0; what does not fit saturates, and NaN gives 0. Any number but
// 0 is true.
//
// Copies between GPUs are queued like operations: nothing waits. A copy to the CPU waits until it has arrived. Both are
// differentiable. What belongs to no step, as host data, is copied to stay, as by Keep.
func (t *Tensor) To(target Target) *Tensor {
	t.given("to")
	switch to := target.(type) {
	case DType:
		if t.dtype == to {
			return t
		}
		return apply(&cast, []*Tensor{t}, []int{to.Code()}, nil)
	case *Device:
		return t.toDevice(to)
	}
	fail(ErrValue, "to", "%T is neither an element type nor a device", target)
	return nil
}
