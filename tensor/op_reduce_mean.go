package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var mean Op

func init() {
	define(&mean, entry{
		Op:    kernels.Op{Name: "mean", CPU: cpu.Mean, Types: []DType{Float32, Float64}, Ref: meanRef},
		Cast:  seam.CastFull,
		Doc:   "the sum of x over axes, divided by the number of elements",
		Ints:  []string{"axes..."},
		Shape: func(c *ctx) { c.reduced(averaged(c.In[0].dtype)) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{c.unreduce(g.Scale(1 / float64(c.count())))}
		},
		Flops:   perElement(1),
		Samples: func() []opSample { return reductionSamples(-2, 2, false, (*Tensor).Mean) },
	})
}

// Mean is the mean over the given axes, which disappear, or over all axes if none are given. Negative axes count from
// the end. The mean of integers and bools is float32; the mean of no elements is NaN.
func (t *Tensor) Mean(axes ...int) *Tensor { return t.reduce(&mean, axes) }

func meanRef(l *kernels.Launch) {
	x, y := valuesOf(l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	clear(y)
	eachReduced(l, func(i, o int) { y[o] += x[i] })
	n := float64(len(x)) / float64(len(y))
	for o := range y {
		y[o] /= n
	}
}
