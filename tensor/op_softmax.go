package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var softmax, softmaxGrad Op

func init() {
	define(&softmax, Op{
		Op:    kernels.Op{Name: "softmax", CPU: cpu.Softmax, Ref: softmaxRef},
		Cast:  CastFull,
		Doc:   "exp(x - m) / sum(exp(x - m)) along an axis, with m = max(x)",
		Shape: sameFloats,
		VJP: func(c *Ctx, g *Tensor) []*Tensor {
			return []*Tensor{Apply(&softmaxGrad, []*Tensor{c.Out[0], g}, c.Ints, nil)}
		},
		Saves:   []Saves{SaveOut(0)},
		Flops:   perElement(5),
		Samples: func() []Sample { return axisSamples(-2, 2, (*Tensor).Softmax) },
		Bench:   func() []Benchmark { return rowBenchmarks(2, (*Tensor).Softmax) },
	})
	define(&softmaxGrad, Op{
		Op:    kernels.Op{Name: "softmax_grad", CPU: cpu.SoftmaxGrad, Ref: softmaxGradRef},
		Doc:   "y*(g - sum(g*y)) along an axis",
		Args:  []string{"y", "g"},
		Shape: sameFloats,
		Compose: func(c *Ctx) *Tensor {
			y, g := c.In[0], c.In[1]
			return y.Mul(g.Sub(g.Mul(y).SumKeep(c.Ints[0])))
		},
		Flops:   perElement(4),
		Samples: func() []Sample { return gradSamples(&softmaxGrad, 0.1, 0.9) },
	})
}

// Softmax is exp(t) divided by its sum along an axis, computed without overflow. Negative axes count from the end. If
// all elements are -Inf, the result is NaN.
func (t *Tensor) Softmax(axis int) *Tensor { return t.alongAxis(&softmax, axis) }

// alongAxis applies an operation whose first attribute is an axis.
func (t *Tensor) alongAxis(op *Op, axis int, more ...int) *Tensor {
	t.alive(op.Name)
	return Apply(op, []*Tensor{t}, append([]int{t.axis(op.Name, axis)}, more...), nil)
}

// sameFloats is the shape rule of operations whose result has the floating type and the shape of the first operand.
func sameFloats(c *Ctx) {
	c.wantFloat(0)
	c.result(c.In[0].dtype, c.Shape(0))
}

// gradSamples are the samples of a gradient along an axis whose operands are the result and its gradient.
func gradSamples(op *Op, lo, hi float64) []Sample {
	sample := func(name string, axis int, shape ...int) Sample {
		return Sample{Name: name, In: []Arg{{Shape: shape, Lo: lo, Hi: hi}, {Shape: shape, Lo: -2, Hi: 2}},
			Call: func(x []*Tensor) *Tensor { return Apply(op, x, []int{axis}, nil) }}
	}
	return []Sample{
		sample("last", 1, 3, 4), sample("first", 0, 4, 2), sample("size 1", 1, 2, 1), sample("empty", 1, 0, 3),
	}
}

// rowBenchmarks time an operation along rows; passes is how many times it reads or writes all elements.
func rowBenchmarks(passes float64, call func(x *Tensor, axis int) *Tensor) []Benchmark {
	bench := func(name string, rows, n int) Benchmark {
		return Benchmark{Name: name, Bytes: 4 * passes * float64(rows*n),
			In:   []Arg{{Shape: []int{rows, n}, Lo: -4, Hi: 4}},
			Call: func(x []*Tensor) *Tensor { return call(x[0], -1) }}
	}
	return []Benchmark{bench("rows of 10", 128, 10), bench("rows of 64", 16384, 64), bench("rows of 1024", 1000, 1024)}
}

// maxAndSum is m = max(x) and sum(exp(x - m)) of n elements.
func maxAndSum(x []float64, start, stride, n int) (m, sum float64) {
	m = math.Inf(-1)
	for i := range n {
		m = max(m, x[start+i*stride])
	}
	for i := range n {
		sum += math.Exp(x[start+i*stride] - m)
	}
	return m, sum
}

func softmaxRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		m, sum := maxAndSum(x, start, stride, n)
		for i := range n {
			y[start+i*stride] = math.Exp(x[start+i*stride]-m) / sum
		}
	})
}

func softmaxGradRef(l *kernels.Launch) {
	y, g, dx := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		dot := 0.0
		for i := range n {
			dot += g[start+i*stride] * y[start+i*stride]
		}
		for i := range n {
			dx[start+i*stride] = y[start+i*stride] * (g[start+i*stride] - dot)
		}
	})
}
