package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var logSoftmax, logSoftmaxGrad Op

func init() {
	define(&logSoftmax, Op{
		Op:    kernels.Op{Name: "log_softmax", CPU: cpu.LogSoftmax, Ref: logSoftmaxRef},
		Cast:  CastFull,
		Doc:   "(x - m) - log(sum(exp(x - m))) along an axis, with m = max(x)",
		Shape: sameFloats,
		VJP: func(c *Ctx, g *Tensor) []*Tensor {
			return []*Tensor{Apply(&logSoftmaxGrad, []*Tensor{c.Out[0], g}, c.Ints, nil)}
		},
		Saves:   []Saves{SaveOut(0)},
		Flops:   perElement(5),
		Samples: func() []Sample { return axisSamples(-2, 2, (*Tensor).LogSoftmax) },
		Bench:   func() []Benchmark { return rowBenchmarks(2, (*Tensor).LogSoftmax) },
	})
	define(&logSoftmaxGrad, Op{
		Op:    kernels.Op{Name: "log_softmax_grad", CPU: cpu.LogSoftmaxGrad, Ref: logSoftmaxGradRef},
		Doc:   "g - exp(y)*sum(g) along an axis",
		Args:  []string{"y", "g"},
		Shape: sameFloats,
		Compose: func(c *Ctx) *Tensor {
			y, g := c.In[0], c.In[1]
			return g.Sub(y.Exp().Mul(g.SumKeep(c.Ints[0])))
		},
		Flops:   perElement(4),
		Samples: func() []Sample { return gradSamples(&logSoftmaxGrad, -2, -0.1) },
	})
}

// LogSoftmax is the logarithm of [Tensor.Softmax], accurate also where the softmax is small.
func (t *Tensor) LogSoftmax(axis int) *Tensor { return t.alongAxis(&logSoftmax, axis) }

func logSoftmaxRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		m, sum := maxAndSum(x, start, stride, n)
		for i := range n {
			y[start+i*stride] = (x[start+i*stride] - m) - math.Log(sum)
		}
	})
}

func logSoftmaxGradRef(l *kernels.Launch) {
	y, g, dx := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		sum := 0.0
		for i := range n {
			sum += g[start+i*stride]
		}
		for i := range n {
			dx[start+i*stride] = g[start+i*stride] - math.Exp(y[start+i*stride])*sum
		}
	})
}
