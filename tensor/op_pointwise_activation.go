package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
)

// Activations. Those that take longer than their bytes may be approximate in half precision.

var sigmoidOp = pointwise{name: "sigmoid", expr: "sigmoid(x)", lo: -3, hi: 3, approximate: true, fused: true}.op()

// Sigmoid is 1/(1+e^-x).
func (t *Tensor) Sigmoid() *Tensor { return apply1(sigmoidOp, t) }

var logSigmoidOp = pointwise{name: "log_sigmoid", expr: "logsigmoid(x)", lo: -3, hi: 3, cast: seam.CastFull}.op()

// LogSigmoid is log(sigmoid(x)).
func (t *Tensor) LogSigmoid() *Tensor { return apply1(logSigmoidOp, t) }

var logitOp = pointwise{name: "logit", expr: "logit(x)", lo: 0.1, hi: 0.9, cast: seam.CastFull}.op()

// Logit is log(x/(1-x)), the inverse of sigmoid.
func (t *Tensor) Logit() *Tensor { return apply1(logitOp, t) }

var reluOp = pointwise{name: "relu", expr: "relu(x)", result: sameType, lo: 0.1, hi: 2, fused: true}.op()

// ReLU is x where positive, else 0.
func (t *Tensor) ReLU() *Tensor { return apply1(reluOp, t) }

var relu6Op = pointwise{name: "relu6", expr: "relu6(x)", result: sameType, lo: 0.1, hi: 2}.op()

// ReLU6 is x between 0 and 6.
func (t *Tensor) ReLU6() *Tensor { return apply1(relu6Op, t) }

var leakyReluOp = pointwise{name: "leaky_relu", expr: "leaky_relu(x, slope)", scalars: "slope", lo: 0.1, hi: 2}.op()

// LeakyReLU is x where positive, else slope*x.
func (t *Tensor) LeakyReLU(slope float64) *Tensor { return t.scalar(leakyReluOp, slope) }

var eluOp = pointwise{name: "elu", expr: "elu(x, alpha)", scalars: "alpha", lo: 0.1, hi: 2}.op()

// ELU is x where positive, else alpha*(e^x-1).
func (t *Tensor) ELU(alpha float64) *Tensor { return t.scalar(eluOp, alpha) }

var celuOp = pointwise{name: "celu", expr: "celu(x, alpha)", scalars: "alpha", lo: 0.1, hi: 2}.op()

// CELU is ELU with a continuous derivative.
func (t *Tensor) CELU(alpha float64) *Tensor { return t.scalar(celuOp, alpha) }

var seluOp = pointwise{name: "selu", expr: "selu(x)", lo: 0.1, hi: 2}.op()

// SELU is the self-normalising ELU (Klambauer et al. 2017).
func (t *Tensor) SELU() *Tensor { return apply1(seluOp, t) }

var geluOp = pointwise{name: "gelu", expr: "gelu(x)", lo: -3, hi: 3, approximate: true, fused: true}.op()

// GELU is x times the normal distribution function, by erf (Hendrycks and Gimpel 2016).
func (t *Tensor) GELU() *Tensor { return apply1(geluOp, t) }

var geluTanhOp = pointwise{
	name: "gelu_tanh", expr: "gelu_tanh(x)", lo: -3, hi: 3, approximate: true, fused: true,
}.op()

// GELUTanh is GELU by its tanh approximation.
func (t *Tensor) GELUTanh() *Tensor { return apply1(geluTanhOp, t) }

var siluOp = pointwise{name: "silu", expr: "silu(x)", lo: -3, hi: 3, approximate: true, fused: true}.op()

// SiLU is x*sigmoid(x), the swish.
func (t *Tensor) SiLU() *Tensor { return apply1(siluOp, t) }

var mishOp = pointwise{name: "mish", expr: "mish(x)", lo: -3, hi: 3, fused: true}.op()

// Mish is x*tanh(softplus(x)) (Misra 2019).
func (t *Tensor) Mish() *Tensor { return apply1(mishOp, t) }

var softplusOp = pointwise{name: "softplus", expr: "softplus(x)", lo: -3, hi: 3, cast: seam.CastFull, fused: true}.op()

// Softplus is log(1+e^x).
func (t *Tensor) Softplus() *Tensor { return apply1(softplusOp, t) }

var softplusBetaOp = pointwise{
	name: "softplus_beta", expr: "softplus_beta(x, beta, threshold)", scalars: "beta threshold", lo: 0.1, hi: 2,
	cast: seam.CastFull,
}.op()

// SoftplusBeta is log(1+e^(beta*x))/beta, and x where beta*x is above the threshold, which is 20 in PyTorch.
func (t *Tensor) SoftplusBeta(beta, threshold float64) *Tensor {
	return t.scalar(softplusBetaOp, beta, threshold)
}

var softsignOp = pointwise{name: "softsign", expr: "softsign(x)", lo: 0.1, hi: 2}.op()

// Softsign is x/(1+|x|).
func (t *Tensor) Softsign() *Tensor { return apply1(softsignOp, t) }

var hardtanhOp = pointwise{name: "hardtanh", expr: "hardtanh(x)", result: sameType, lo: -0.9, hi: 0.9}.op()

// Hardtanh is x between -1 and 1.
func (t *Tensor) Hardtanh() *Tensor { return apply1(hardtanhOp, t) }

var hardtanhWithinOp = pointwise{
	name: "hardtanh_within", expr: "where(x <= lo, lo, where(hi <= x, hi, x))", scalars: "lo hi", result: sameType,
	lo: 1.1, hi: 2,
}.op()

// HardtanhWithin is x between lo and hi. The derivative at both is 0; that of [Tensor.Clamp] is 1.
func (t *Tensor) HardtanhWithin(lo, hi float64) *Tensor {
	if !(lo <= hi) {
		fail(ErrValue, "hardtanh", "the bounds %v and %v must be in order", lo, hi)
	}
	return t.scalar(hardtanhWithinOp, t.fit(lo), t.fit(hi))
}

var hardsigmoidOp = pointwise{name: "hardsigmoid", expr: "hardsigmoid(x)"}.op()

// Hardsigmoid is relu6(x+3)/6.
func (t *Tensor) Hardsigmoid() *Tensor { return apply1(hardsigmoidOp, t) }

var hardswishOp = pointwise{name: "hardswish", expr: "hardswish(x)"}.op()

// Hardswish is x*hardsigmoid(x).
func (t *Tensor) Hardswish() *Tensor { return apply1(hardswishOp, t) }

var hardshrinkOp = pointwise{name: "hardshrink", expr: "hardshrink(x, bound)", scalars: "bound", lo: 1.1, hi: 2}.op()

// Hardshrink is 0 within the bound, else x.
func (t *Tensor) Hardshrink(bound float64) *Tensor { return t.scalar(hardshrinkOp, bound) }

var softshrinkOp = pointwise{name: "softshrink", expr: "softshrink(x, bound)", scalars: "bound", lo: 1.1, hi: 2}.op()

// Softshrink is x moved towards 0 by the bound.
func (t *Tensor) Softshrink(bound float64) *Tensor { return t.scalar(softshrinkOp, bound) }

var tanhshrinkOp = pointwise{name: "tanhshrink", expr: "tanhshrink(x)"}.op()

// Tanhshrink is x - tanh(x).
func (t *Tensor) Tanhshrink() *Tensor { return apply1(tanhshrinkOp, t) }

var thresholdOp = pointwise{
	name: "threshold", expr: "where(x <= threshold, value, x)", scalars: "threshold value", result: sameType,
	lo: 1.1, hi: 2,
}.op()

// Threshold is x above the threshold, else value.
func (t *Tensor) Threshold(threshold, value float64) *Tensor {
	return t.scalar(thresholdOp, threshold, t.fit(value))
}

var preluOp = pointwise{name: "prelu", expr: "where(0 < x, x, w*x)", args: "x w", lo: 0.1, hi: 2}.op()

// PReLU is x where positive, else weight*x, with one weight for all, or one for each channel, which are axis 1 (He et
// al. 2015): t is [batch channels ...], weight [1] or [channels].
func (t *Tensor) PReLU(weight *Tensor) *Tensor {
	t.given("prelu")
	weight.given("prelu")
	channels := 1
	if t.Rank() > 1 {
		channels = t.layout.Shape[1]
	}
	if weight.Rank() != 1 || weight.Len() != 1 && weight.Len() != channels {
		fail(ErrShape, "prelu", "weight %v must have shape [1] or [%d], one for each channel, axis 1 of %v", weight,
			channels, t)
	}
	if t.Rank() > 1 && weight.Len() > 1 {
		weight = weight.Reshape(append([]int{channels}, slices.Repeat([]int{1}, t.Rank()-2)...)...)
	}
	return apply2(preluOp, t, weight)
}

var rreluOp = pointwise{
	name: "rrelu", expr: "where(0 < x, x, x*(lo + (hi - lo)*rand(0)))", scalars: "lo hi", lo: 0.1, hi: 2,
}.op()

// RReLU is x where positive, else x times a slope, drawn uniformly from [lo, hi) for each element in steps with
// training behaviour, and (lo+hi)/2 elsewhere (Xu et al. 2015). PyTorch's bounds are 1/8 and 1/3.
func (t *Tensor) RReLU(lo, hi float64) *Tensor {
	if !(lo <= hi) {
		fail(ErrValue, "rrelu", "the bounds %v and %v must be in order", lo, hi)
	}
	t.given("rrelu")
	if t.scope == nil || !t.scope.Training() {
		return t.LeakyReLU((lo + hi) / 2)
	}
	return t.scalar(rreluOp, lo, hi)
}

var gluOp = pointwise{name: "glu", expr: "x*sigmoid(gate)", args: "x gate", fused: true}.op()

// GLU is the first half along an axis, whose size is even, times the sigmoid of the second (Dauphin et al. 2017).
func (t *Tensor) GLU(axis int) *Tensor {
	t.given("glu")
	axis = t.axis("glu", axis)
	n := t.layout.Shape[axis]
	if n%2 != 0 {
		fail(ErrShape, "glu", "%v has %d elements along axis %d, which has no halves", t, n, axis)
	}
	return apply2(gluOp, t.Slice(axis, 0, n/2), t.Slice(axis, n/2, n))
}

var swigluOp = pointwise{name: "swiglu", expr: "silu(gate)*x", args: "gate x", fused: true}.op()

// SwiGLU is silu(gate)*x, the gate being t (Shazeer 2020): of two linear layers, or of the halves that
// [Tensor.Chunk] makes. Operands broadcast.
func (t *Tensor) SwiGLU(x *Tensor) *Tensor { return apply2(swigluOp, t, x) }

var gegluOp = pointwise{name: "geglu", expr: "gelu(gate)*x", args: "gate x", fused: true}.op()

// GEGLU is gelu(gate)*x, the gate being t (Shazeer 2020). Operands broadcast.
func (t *Tensor) GEGLU(x *Tensor) *Tensor { return apply2(gegluOp, t, x) }
