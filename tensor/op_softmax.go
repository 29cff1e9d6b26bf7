package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

var softmax, softmaxGrad, logSoftmax, logSoftmaxGrad Op

func init() {
	defineSoftmax(&softmax, &softmaxGrad, (*Tensor).Softmax, 0.1, 0.9, entry{
		Op:  kernels.Op{Name: "softmax", CPU: cpu.Softmax, Ref: lineRef(softmaxRef)},
		Doc: "exp(x - m) / sum(exp(x - m)) along an axis, with m = max(x)",
	}, entry{
		Op:  kernels.Op{Name: "softmax_grad", CPU: cpu.SoftmaxGrad, Ref: lineRef(softmaxGradRef)},
		Doc: "y*(g - sum(g*y)) along an axis",
		Compose: func(c *ctx) *Tensor {
			y, g := c.In[0], c.In[1]
			return y.Mul(g.Sub(g.Mul(y).Sum(c.Ints[0], KeepDims)))
		},
	})
	defineSoftmax(&logSoftmax, &logSoftmaxGrad, (*Tensor).LogSoftmax, -2, -0.1, entry{
		Op:  kernels.Op{Name: "log_softmax", CPU: cpu.LogSoftmax, Ref: lineRef(logSoftmaxRef)},
		Doc: "(x - m) - log(sum(exp(x - m))) along an axis, with m = max(x)",
	}, entry{
		Op:  kernels.Op{Name: "log_softmax_grad", CPU: cpu.LogSoftmaxGrad, Ref: lineRef(logSoftmaxGradRef)},
		Doc: "g - exp(y)*sum(g) along an axis",
		Compose: func(c *ctx) *Tensor {
			y, g := c.In[0], c.In[1]
			return g.Sub(y.Exp().Mul(g.Sum(c.Ints[0], KeepDims)))
		},
	})
}

// defineSoftmax fills in what the softmax and its logarithm have in common, and defines each with its gradient, which
// reads the result; lo and hi are the range of results in tests.
func defineSoftmax(o, grad *Op, call func(x *Tensor, axis int) *Tensor, lo, hi float64, y, dx entry) {
	y.Cast, y.Shape = seam.CastFull, sameFloats
	y.Ints, dx.Ints = []string{"axis"}, []string{"axis"}
	y.VJP = func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{apply(grad, []*Tensor{c.Out[0], g}, c.Ints, nil)} }
	y.Saves, y.Flops = []saves{saveOut(0)}, perElement(5)
	y.Samples = func() []opSample { return axisSamples(-2, 2, call) }
	y.Bench = func() []benchmark { return rowBenchmarks(2, call) }
	define(o, y)

	dx.Args, dx.Shape, dx.Flops = []string{"y", "g"}, sameFloats, perElement(4)
	dx.Samples = func() []opSample {
		sample := func(name string, axis int, shape ...int) opSample {
			return opSample{Name: name, In: []seam.Arg{{Shape: shape, Lo: lo, Hi: hi}, {Shape: shape, Lo: -2, Hi: 2}},
				Call: func(x []*Tensor) *Tensor { return apply(grad, x, []int{axis}, nil) }}
		}
		return []opSample{
			sample("last", 1, 3, 4), sample("first", 0, 4, 2), sample("size 1", 1, 2, 1), sample("empty", 1, 0, 3),
		}
	}
	define(grad, dx)
}

// Softmax is exp(t) divided by its sum along an axis, computed without overflow. Negative axes count from the end. If
// all elements are -Inf, the result is NaN.
func (t *Tensor) Softmax(axis int) *Tensor { return t.alongAxis(&softmax, axis) }

// LogSoftmax is the logarithm of [Tensor.Softmax], accurate also where the softmax is small.
func (t *Tensor) LogSoftmax(axis int) *Tensor { return t.alongAxis(&logSoftmax, axis) }

// alongAxis applies an operation whose first attribute is an axis.
func (t *Tensor) alongAxis(op *Op, axis int, more ...int) *Tensor {
	t.given(op.Name)
	return apply(op, []*Tensor{t}, append([]int{t.axis(op.Name, axis)}, more...), nil)
}

// sameFloats is the shape rule of operations whose result has the floating type and the shape of the first operand.
func sameFloats(c *ctx) {
	c.wantFloat(0)
	c.result(c.In[0].dtype, c.shape(0)...)
}

// rowBenchmarks time an operation along rows; passes is how many times it reads or writes all elements.
func rowBenchmarks(passes float64, call func(x *Tensor, axis int) *Tensor) []benchmark {
	bench := func(name string, rows, n int) benchmark {
		return benchmark{Name: name, Bytes: 4 * passes * float64(rows*n),
			In:   []seam.Arg{{Shape: []int{rows, n}, Lo: -4, Hi: 4}},
			Call: func(x []*Tensor) *Tensor { return call(x[0], -1) }}
	}
	return []benchmark{bench("rows of 10", 128, 10), bench("rows of 64", 16384, 64), bench("rows of 1024", 1000, 1024)}
}

// maxAndSum is m = max(x) and sum(exp(x - m)).
func maxAndSum(x []float64) (m, sum float64) {
	m = math.Inf(-1)
	for _, v := range x {
		m = max(m, v)
	}
	for _, v := range x {
		sum += double.Exp(v - m)
	}
	return m, sum
}

// lineRef is the reference of an operation that computes each line of the result along an axis from those of the
// operands.
func lineRef(f func(y []float64, in ...[]float64)) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
			y, in := make([]float64, n), make([][]float64, len(l.In))
			for k, a := range l.In {
				for i := range n {
					in[k] = append(in[k], cpu.Slice[float64](a)[start+i*stride])
				}
			}
			f(y, in...)
			for i, v := range y {
				cpu.Slice[float64](l.Out[0])[start+i*stride] = v
			}
		})
	}
}

func softmaxRef(y []float64, in ...[]float64) {
	m, sum := maxAndSum(in[0])
	for i, x := range in[0] {
		y[i] = double.Exp(x-m) / sum
	}
}

func softmaxGradRef(dx []float64, in ...[]float64) {
	y, g, dot := in[0], in[1], 0.0
	for i := range g {
		dot += g[i] * y[i]
	}
	for i := range g {
		dx[i] = y[i] * (g[i] - dot)
	}
}

func logSoftmaxRef(y []float64, in ...[]float64) {
	m, sum := maxAndSum(in[0])
	for i, x := range in[0] {
		y[i] = (x - m) - double.Log(sum)
	}
}

func logSoftmaxGradRef(dx []float64, in ...[]float64) {
	y, g, sum := in[0], in[1], 0.0
	for _, v := range g {
		sum += v
	}
	for i := range g {
		dx[i] = g[i] - double.Exp(y[i])*sum
	}
}
