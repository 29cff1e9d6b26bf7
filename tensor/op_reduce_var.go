package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var variance Op

// The square root under a deviation: an infinite derivative at 0 would meet the variance's 0 and give NaN.
var rootOp = pointwise{name: "root", expr: "where(x == 0, 0, sqrt(where(x == 0, 1, x)))", lo: 0.2, hi: 3}.op()

func init() {
	define(&variance, entry{
		Op:     kernels.Op{Name: "var", CPU: cpu.Var, Ref: varRef},
		Cast:   seam.CastFull,
		Doc:    "the sum of (x - mean(x))^2 over axes, divided by the number of elements less the correction",
		Ints:   []string{"axes..."},
		Floats: []string{"correction"},
		Shape: func(c *ctx) {
			c.wantFloat(0)
			c.reduced(c.In[0].dtype)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			n, wide := max(0, float64(c.count())-c.Floats[0]), statistic(c.In[0].dtype)
			x := c.In[0].To(wide)
			dx := x.Sub(c.unreduce(x.Mean(c.Ints...))).Mul(c.unreduce(g.To(wide).Scale(2 / n)))
			return []*Tensor{dx.To(c.In[0].dtype)}
		},
		Saves: []saves{saveIn(0)},
		Flops: perElement(4),
		Samples: func() []opSample {
			biased := func(x *Tensor, axes ...int) *Tensor { return x.Var(0, axes...) }
			sample := opSample{Name: "correction 1", In: []seam.Arg{{Shape: []int{3, 4}, Lo: -2, Hi: 2}},
				Call: func(x []*Tensor) *Tensor { return x[0].Var(1, 1) }}
			return append(reductionSamples(-2, 2, false, biased), sample)
		},
	})
}

// Var is the variance over the given axes, which disappear, or of all elements if there are none: the sum of
// squared distances from the mean divided by n - correction. A correction of 1 is the unbiased estimate from a
// sample (and NaN for one element), 0 the variance of the elements themselves.
func (t *Tensor) Var(correction int, axes ...int) *Tensor {
	if correction < 0 {
		fail(ErrValue, "var", "the correction %d is negative", correction)
	}
	return t.reduce(&variance, axes, float64(correction))
}

// Std is the standard deviation, the square root of [Tensor.Var], of half precision in float32 and rounded once. Its
// derivative where all elements are equal is 0.
func (t *Tensor) Std(correction int, axes ...int) *Tensor {
	return t.given("std").inFloat32(func(wide *Tensor) *Tensor {
		return apply1(rootOp, wide.Var(correction, axes...))
	})
}

// inFloat32 is f of t, of half precision in float32 and rounded once, for an f whose steps leave their range.
func (t *Tensor) inFloat32(f func(wide *Tensor) *Tensor) *Tensor {
	if !t.dtype.IsHalf() {
		return f(t)
	}
	return f(t.To(Float32)).To(t.dtype)
}

// VarMean is [Tensor.Var] and [Tensor.Mean].
func (t *Tensor) VarMean(correction int, axes ...int) (variance, mean *Tensor) {
	return t.Var(correction, axes...), t.Mean(axes...)
}

// StdMean is [Tensor.Std] and [Tensor.Mean].
func (t *Tensor) StdMean(correction int, axes ...int) (deviation, mean *Tensor) {
	return t.Std(correction, axes...), t.Mean(axes...)
}

func varRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	n := float64(l.In[0].Len()) / float64(len(y))
	mean := make([]float64, len(y))
	eachReduced(l, func(i, o int) { mean[o] += x[i] / n })
	clear(y)
	eachReduced(l, func(i, o int) { y[o] += (x[i] - mean[o]) * (x[i] - mean[o]) })
	for o := range y {
		y[o] /= max(0, n-l.Floats[0])
	}
}
