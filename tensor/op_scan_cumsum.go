package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of cumsum are the axis and reverse (0 or 1).
var cumsum Op

func init() {
	define(&cumsum, entry{
		Op:   kernels.Op{Name: "cumsum", CPU: cpu.CumSum, Types: summable, Ref: cumsumRef},
		Cast: seam.CastFull,
		Doc:  "y[i] = x[0] + ... + x[i] along an axis, or x[n-1] + ... + x[i] in reverse",
		Ints: []string{"axis", "reverse"},
		Shape: func(c *ctx) {
			c.result(accumulated(c.In[0].dtype), c.shape(0)...)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{g.alongAxis(&cumsum, c.Ints[0], 1-c.Ints[1])}
		},
		Samples: func() []opSample { return axisSamples(-2, 2, (*Tensor).CumSum) },
	})
}

// summable are the types for which the CPU has loops of cumsum.
var summable = []DType{Float32, Int64, Int32, Uint8, Bool}

// CumSum is the running sum along an axis: each element plus all before it, added in order in float64. The sums of
// integers and bools are int64.
func (t *Tensor) CumSum(axis int) *Tensor { return t.alongAxis(&cumsum, axis, 0) }

func cumsumRef(l *kernels.Launch) {
	x, out := l.In[0], l.Out[0]
	if out.DType == kernels.Int64 {
		y := cpu.Slice[int64](out)
		copy(y, integersOf(x))
		running(y, x.Shape, l.Ints)
		return
	}
	y := cpu.Slice[float64](out)[:out.Len()]
	copy(y, cpu.Slice[float64](x))
	running(y, x.Shape, l.Ints)
}

// running replaces the elements of y by their running sums.
func running[T int64 | float64](y []T, shape, ints []int) {
	eachLine(shape, ints[0], func(start, stride, n int) {
		if ints[1] == 1 {
			start, stride = start+(n-1)*stride, -stride
		}
		for i := 1; i < n; i++ {
			y[start+i*stride] += y[start+(i-1)*stride]
		}
	})
}
