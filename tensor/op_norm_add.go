package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var addLayerNorm, addRMSNorm Op

func init() {
	define(&addLayerNorm, addNorm(&layerNorm, &layerNormGrad, 2, entry{
		Op:    kernels.Op{Name: "add_layer_norm"},
		Doc:   "sum = x + y, and layer_norm(sum, weight, bias)",
		Args:  []string{"x", "y", "weight?", "bias?"},
		Saves: []saves{saveIn(2) | saveOut(0, 2, 3), saveIn(2) | saveOut(0, 2, 3), saveOut(0, 2, 3)},
		Flops: perElement(9),
		Samples: func() []opSample {
			return addNormSamples(true, func(x, y, w, b *Tensor) (sum, norm *Tensor) {
				return x.AddLayerNorm(y, w, b, 1e-5)
			})
		},
		Bench: func() []benchmark {
			return rowBenchmarks(3, func(x *Tensor, _ int) *Tensor { return second(x.AddLayerNorm(x, nil, nil, 1e-5)) })
		},
	}))
	define(&addRMSNorm, addNorm(&rmsNorm, &rmsNormGrad, 1, entry{
		Op:    kernels.Op{Name: "add_rms_norm"},
		Doc:   "sum = x + y, and rms_norm(sum, weight)",
		Args:  []string{"x", "y", "weight?"},
		Saves: []saves{saveIn(2) | saveOut(0, 2), saveIn(2) | saveOut(0, 2), saveOut(0, 2)},
		Flops: perElement(6),
		Samples: func() []opSample {
			return addNormSamples(false, func(x, y, w, _ *Tensor) (sum, norm *Tensor) {
				return x.AddRMSNorm(y, w, 1e-5)
			})
		},
		Bench: func() []benchmark {
			return rowBenchmarks(3, func(x *Tensor, _ int) *Tensor { return second(x.AddRMSNorm(x, nil, 1e-5)) })
		},
	}))
}

// addNorm fills in what sums with a norm, which has so many statistics, have in common.
func addNorm(norm, grad *Op, statistics int, op entry) entry {
	op.CPU, op.Ref = cpu.AddNorm, addNormRef
	op.Types = []DType{Float32, Float64, Float16, BFloat16}
	op.Parts = []*kernels.Op{&addOp.Op, &norm.Op}
	op.Cast, op.Differentiable = seam.CastParts, 2
	op.Ints, op.Floats = []string{"axes"}, []string{"eps"}
	op.Shape = func(c *ctx) {
		c.wantFloat(0)
		c.wantFloat(1)
		if !sameShape(c.In[0], c.In[1]) {
			c.fail(ErrShape, "x %v and y %v differ in shape; Add broadcasts", c.In[0], c.In[1])
		}
		dt := promote(c.In[:2])
		for i, p := range c.In[2:] {
			if p.dtype != dt {
				c.fail(ErrDType, "%s is %v, the sum %v; x.To(...) converts", c.argName(2+i), p, dt)
			}
		}
		c.result(dt, c.shape(0)...)
		c.normalized(dt, c.In[2:], statistics)
	}
	op.VJPAll = func(c *ctx, g []*Tensor) []*Tensor {
		grads := make([]*Tensor, len(c.In))
		d := g[0]
		if g[1] != nil {
			normGrads := c.normOf(c.Out[0], c.In[0].needs || c.In[1].needs, 2, grad).vjp(g[1])
			copy(grads[2:], normGrads[1:])
			if d == nil {
				d = normGrads[0]
			} else if normGrads[0] != nil {
				d = d.Add(normGrads[0])
			}
		}
		grads[0], grads[1] = d, d
		return grads
	}
	return op
}

// AddLayerNorm is sum = t + y and the layer norm of the sum, as in the residual connections of a pre-norm transformer.
// The results have the bits of Add and LayerNorm. Both come from t and y: the gradient that [autograd.Grad] gives for
// sum is that of its other uses.
func (t *Tensor) AddLayerNorm(y, weight, bias *Tensor, eps float64) (sum, norm *Tensor) {
	if weight != nil || bias == nil {
		if sum, norm = addNormed(&addLayerNorm, eps, t, y, weight, bias); sum != nil {
			return sum, norm
		}
	}
	sum = t.Add(y)
	return sum, sum.LayerNorm(weight, bias, eps)
}

// AddRMSNorm is sum = t + y and the RMS norm of the sum; see AddLayerNorm.
func (t *Tensor) AddRMSNorm(y, weight *Tensor, eps float64) (sum, norm *Tensor) {
	if sum, norm = addNormed(&addRMSNorm, eps, t, y, weight); sum != nil {
		return sum, norm
	}
	sum = t.Add(y)
	return sum, sum.RMSNorm(weight, eps)
}

// addNormed is the sum and the norm by one operation; nil where addition would broadcast, or autocast would convert
// the operands of the norm.
func addNormed(op *Op, eps float64, in ...*Tensor) (sum, norm *Tensor) {
	x, y := in[0], in[1]
	if x == nil || y == nil || !sameShape(x, y) || !x.dtype.IsFloat() || !y.dtype.IsFloat() {
		return nil, nil
	}
	dt, axes := promote(in[:2]), 1
	if in[2] != nil {
		axes = in[2].Rank()
	}
	in = slices.DeleteFunc(in, func(p *Tensor) bool { return p == nil })
	for _, p := range in[2:] {
		if p.dtype != dt {
			return nil, nil
		}
	}
	s := stepOf(op.Name, in)
	if s != nil && dt.IsHalf() && s.autocasting() != Float32 {
		return nil, nil
	}
	out := s.applyAll(op, in, []int{axes}, []float64{eps})
	return out[0], out[1]
}

// second is the second of two results.
func second(_, y *Tensor) *Tensor { return y }

func addNormRef(l *kernels.Launch) {
	x, y, sum := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	for i := range l.Out[0].Len() {
		sum[i] = x[i] + y[i]
	}
	norm := *l
	norm.In, norm.Out = append([]kernels.Arg{l.Out[0]}, l.In[2:]...), l.Out[1:]
	normRef(&norm)
}

// addNormSamples are the samples of the norm, each with a second operand of the sum.
func addNormSamples(bias bool, call func(x, y, w, b *Tensor) (sum, norm *Tensor)) []opSample {
	samples := normSamples(bias, nil)
	for i := range samples {
		s := &samples[i]
		s.In = slices.Insert(s.In, 1, s.In[0])
		s.Call, s.CallAll = nil, func(x []*Tensor) []*Tensor {
			p := append(slices.Clip(x[2:]), nil, nil)
			sum, norm := call(x[0], x[1], p[0], p[1])
			return []*Tensor{sum, norm}
		}
	}
	return samples
}
