package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var amax, amin Op

func init() {
	extreme(&amax, kernels.Op{Name: "max", CPU: cpu.Max, Types: cpu.Folded,
		Ref: foldRef(math.Inf(-1), larger[float64], math.MinInt64, larger[int64])},
		"the largest element of x over axes", (*Tensor).Max)
	extreme(&amin, kernels.Op{Name: "min", CPU: cpu.Min, Types: cpu.Folded,
		Ref: foldRef(math.Inf(1), smaller[float64], math.MaxInt64, smaller[int64])},
		"the smallest element of x over axes", (*Tensor).Min)
}

func larger[T float64 | int64](a, b T) T  { return max(a, b) }
func smaller[T float64 | int64](a, b T) T { return min(a, b) }

// extreme defines max or min.
func extreme(o *Op, k kernels.Op, doc string, call func(x *Tensor, axes ...int) *Tensor) {
	define(o, entry{
		Op:   k,
		Doc:  doc,
		Ints: []string{"axes..."},
		Shape: func(c *ctx) {
			c.reduced(c.In[0].dtype)
			c.wantElements()
		},
		VJP:     extremeVJP,
		Saves:   []saves{saveIn(0) | saveOut(0)},
		Flops:   perElement(1),
		Samples: func() []opSample { return reductionSamples(-2, 2, false, call) },
	})
}

// extremeVJP shares the gradient evenly among the elements that equal the result.
func extremeVJP(c *ctx, g *Tensor) []*Tensor {
	x, y := c.In[0], c.Out[0]
	ties := x.Equal(c.unreduce(y))
	wide := statistic(g.dtype) // halves do not have all counts
	share := g.To(wide).Div(ties.Sum(c.Ints...).To(wide)).To(g.dtype)
	return []*Tensor{c.unreduce(share).Mul(ties.To(g.dtype))}
}

// Max is the largest element over the given axes, which disappear, or over all axes if none are given. Negative axes
// count from the end. A NaN makes the result NaN; equal elements share the gradient; the maximum of no elements is an
// error. [Tensor.MaxIndex] also returns the index.
func (t *Tensor) Max(axes ...int) *Tensor { return t.reduce(&amax, axes) }

// Min is the smallest element over the given axes; the rules are those of [Tensor.Max].
func (t *Tensor) Min(axes ...int) *Tensor { return t.reduce(&amin, axes) }

// AMinMax is [Tensor.Min] and [Tensor.Max].
func (t *Tensor) AMinMax(axes ...int) (smallest, largest *Tensor) {
	return t.Min(axes...), t.Max(axes...)
}
