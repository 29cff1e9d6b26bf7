package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

var logsumexp Op

func init() {
	define(&logsumexp, entry{
		Op:   kernels.Op{Name: "logsumexp", CPU: cpu.LogSumExp, Ref: logsumexpRef},
		Cast: seam.CastFull,
		Doc:  "m + log(sum(exp(x - m))) over axes, with m = max(x)",
		Ints: []string{"axes..."},
		Shape: func(c *ctx) {
			c.wantFloat(0)
			c.reduced(c.In[0].dtype)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor { // softmax(x) = exp(x - y)
			x, y := c.In[0], c.Out[0]
			if x.dtype.IsHalf() { // y is too coarse for a difference
				x = x.To(Float32)
				y = x.LogSumExp(c.Ints...)
			}
			return []*Tensor{x.Sub(c.unreduce(y)).Exp().Mul(c.unreduce(g)).To(c.In[0].dtype)}
		},
		Saves:   []saves{saveIn(0) | saveOut(0)},
		Flops:   perElement(4),
		Samples: func() []opSample { return reductionSamples(-2, 2, false, (*Tensor).LogSumExp) },
	})
}

// LogSumExp is log(sum(exp(t))) over the given axes, which disappear, or over all axes if none are given, computed
// without overflow. It is -Inf if there are no elements or all are -Inf.
func (t *Tensor) LogSumExp(axes ...int) *Tensor { return t.reduce(&logsumexp, axes) }

func logsumexpRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	m := make([]float64, len(y))
	for o := range m {
		m[o] = math.Inf(-1)
	}
	eachReduced(l, func(i, o int) { m[o] = max(m[o], x[i]) })
	for o, v := range m {
		if math.IsInf(v, 0) { // Inf - Inf would be NaN
			m[o] = 0
		}
	}
	clear(y)
	eachReduced(l, func(i, o int) { y[o] += double.Exp(x[i] - m[o]) })
	for o := range y {
		y[o] = m[o] + double.Log(y[o])
	}
}
