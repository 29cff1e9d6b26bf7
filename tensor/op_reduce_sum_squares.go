package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var sumSquares Op

func init() {
	define(&sumSquares, entry{
		Op:    kernels.Op{Name: "sum_squares", CPU: cpu.SumSquares, Ref: sumSquaresRef},
		Cast:  seam.CastFull,
		Doc:   "the sum of (x*factor)^2 over axes",
		Args:  []string{"x", "factor?"},
		Ints:  []string{"axes..."},
		Shape: sumSquaresShape,
		VJP:   sumSquaresVJP,
		Saves: []saves{saveIn(0, 1), saveIn(0, 1)},
		Flops: perElement(3),
		Samples: func() []opSample {
			all := reductionSamples(-2, 2, true, func(x *Tensor, axes ...int) *Tensor {
				return x.SumSquares(nil, axes...)
			})
			for _, factor := range []seam.Arg{{Values: []float64{0.7}}, {Shape: []int{1, 1}, Values: []float64{-3}}} {
				all = append(all, opSample{Name: "factor", In: []seam.Arg{{Shape: []int{3, 5}, Lo: -2, Hi: 2}, factor},
					Call: func(x []*Tensor) *Tensor { return x[0].SumSquares(x[1], 0) }})
			}
			return all
		},
		Bench: func() []benchmark {
			const n = 1 << 20
			in := []seam.Arg{{Shape: []int{n}, Lo: -1, Hi: 1}}
			return []benchmark{{Name: "all", In: in, Flops: 2 * n, Bytes: 4 * n,
				Call: func(x []*Tensor) *Tensor { return x[0].SumSquares(nil) }}}
		},
	})
}

// SumSquares is the sum of (t*factor)^2 over the given axes, which disappear, or over all axes if none are given, in
// one pass and without memory for the squares. Negative axes count from the end. factor has one element; nil stands for
// 1. The sum of float16 and bfloat16 is float32.
func (t *Tensor) SumSquares(factor *Tensor, axes ...int) *Tensor {
	in := []*Tensor{t}
	if factor != nil {
		t.given(sumSquares.Name)
		in = append(in, factor.To(statistic(t.dtype)))
	}
	return reduce(&sumSquares, in, axes, nil)
}

func sumSquaresShape(c *ctx) {
	c.wantFloat(0)
	dt := statistic(c.In[0].dtype)
	if len(c.In) > 1 {
		c.wantDType(1, dt)
		if c.In[1].Len() != 1 {
			c.fail(ErrShape, "the factor %v must have one element", c.In[1])
		}
	}
	c.reduced(dt)
}

// sumSquaresVJP is 2 d factor g and the sum of 2 d x g, with d = x*factor.
func sumSquaresVJP(c *ctx, g *Tensor) []*Tensor {
	x := c.In[0]
	twice := c.unreduce(g.Scale(2))
	if len(c.In) == 1 {
		return []*Tensor{twice.Mul(x).To(x.dtype)}
	}
	factor, grads := c.In[1], make([]*Tensor, 2)
	twice = twice.Mul(x).Mul(factor)
	if c.needs(0) {
		grads[0] = twice.Mul(factor).To(x.dtype)
	}
	if c.needs(1) {
		grads[1] = twice.Mul(x).Sum().Reshape(factor.layout.Shape...)
	}
	return grads
}

func sumSquaresRef(l *kernels.Launch) {
	factor := 1.0
	if len(l.In) > 1 {
		factor = cpu.Slice[float64](l.In[1])[0]
	}
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	clear(y)
	eachReduced(l, func(i, o int) {
		d := x[i] * factor
		y[o] += float64(d * d)
	})
}
