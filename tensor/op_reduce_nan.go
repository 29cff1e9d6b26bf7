package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var nansum Op

func init() {
	define(&nansum, entry{
		Op: kernels.Op{Name: "nansum", CPU: cpu.NaNSum, Ref: foldRef(0, func(a, b float64) float64 {
			if b != b {
				return a
			}
			return a + b
		}, 0, add[int64])},
		Cast:  seam.CastFull,
		Doc:   "the sum over axes of those x that are not NaN",
		Ints:  []string{"axes..."},
		Shape: func(c *ctx) { c.wantFloat(0); c.reduced(c.In[0].dtype) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{c.unreduce(g).MaskedFill(c.In[0].IsNaN(), 0)}
		},
		Saves:   []saves{saveIn(0)},
		Flops:   perElement(1),
		Samples: func() []opSample { return reductionSamples(-2, 2, true, (*Tensor).NaNSum) },
		CPUOnly: "a GPU runs the operations that it is composed of",
	})
}

// NaNSum is [Tensor.Sum] of the elements that are not NaN; the others have gradient 0.
func (t *Tensor) NaNSum(axes ...int) *Tensor {
	if !t.given("nansum").dtype.IsFloat() {
		return t.Sum(axes...)
	}
	if d := t.Device(); d == nil || d.Name() == "cpu" {
		return t.reduce(&nansum, axes)
	}
	return t.MaskedFill(t.IsNaN(), 0).Sum(axes...)
}

// NaNMean is [Tensor.Mean] of the elements that are not NaN, and NaN where there are none.
func (t *Tensor) NaNMean(axes ...int) *Tensor {
	if !t.given("nanmean").dtype.IsFloat() {
		return t.Mean(axes...)
	}
	wide := statistic(t.dtype)
	count := t.IsNaN().Not().Sum(axes...).To(wide)
	return t.To(wide).NaNSum(axes...).Div(count).To(t.dtype)
}
