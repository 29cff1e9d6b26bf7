package nn

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// PoissonNLL is the mean of e^x - y x, the negative log-likelihood of counts y whose rates have the logarithms x; with
// [NoLogInput] x is the rates, and it is x - y log(x + eps). [Full] adds Stirling's y log y - y + log(2 pi y)/2 where y
// is above 1. Further options are [LossEps] and [Weights].
func PoissonNLL(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "poisson_nll"
	o := lossOf(op, opts, "no log input", "full", "eps", "weights")
	x, y = o.pair(op, x, y)
	var losses *tensor.Tensor
	if o.noLogInput {
		losses = x.Sub(y.Mul(x.AddScalar(o.eps.or(1e-8)).Log()))
	} else {
		losses = x.Exp().Sub(y.Mul(x))
	}
	if o.full {
		few := y.LessEqualScalar(1)
		n := y.MaskedFill(few, 1)
		stirling := n.Mul(n.Log()).Sub(n).Add(n.Scale(2 * math.Pi).Log().Scale(0.5))
		losses = losses.Add(stirling.MaskedFill(few, 0))
	}
	return weighted(op, losses, o)
}

// GaussianNLL is the mean of (log v + (x - y)²/v)/2, the negative log-likelihood of y for normal distributions of means
// x and variances v, which are held at eps or more, with the gradient of what they were. v broadcasts to x, and may
// lack the last axis. [Full] adds log(2 pi)/2. Further options are [LossEps] and [Weights].
func GaussianNLL(x, y, variance *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "gaussian_nll"
	o := lossOf(op, opts, "full", "eps", "weights")
	d := o.difference(op, x, y)
	engine.Given(op, "variance", variance)
	v := widened(variance)
	if n := d.Rank() - 1; n > 0 && slices.Equal(v.Shape(), d.Shape()[:n]) {
		v = v.Unsqueeze(-1)
	}
	v = fitting(op, "variance", v, d)
	eps := o.eps.or(1e-6)
	v = v.LessScalar(eps).Where(v.Sub(v.Detach()).AddScalar(eps), v)
	losses := v.Log().Add(d.Square().Div(v)).Scale(0.5)
	if o.full {
		losses = losses.AddScalar(0.5 * math.Log(2*math.Pi))
	}
	return weighted(op, losses, o)
}

// SigmoidFocal is the mean of (1-p)^gamma times the binary cross-entropy of sigmoid(logits) against targets in [0, 1],
// with p the probability of what the target says: it turns to what is not yet right (Lin et al. 2017). Alpha from 0 to
// 1 weighs positive targets, 1 - alpha negative ones; a negative alpha nothing. The paper has alpha = 0.25 and gamma =
// 2. It takes [Weights].
func SigmoidFocal(logits, targets *tensor.Tensor, alpha, gamma float64, opts ...LossOption) *tensor.Tensor {
	const op = "sigmoid_focal"
	want(op, "alpha", alpha, alpha <= 1, "(-Inf, 1]")
	want(op, "gamma", gamma, gamma >= 0, "[0, +Inf)")
	o := lossOf(op, opts, "weights")
	x, y := o.pair(op, logits, targets)
	// 1 - (p y + (1-p)(1-y)), without the differences from 1; not 0, where a gamma below 1 has an infinite derivative.
	wrong := x.Sigmoid().Mul(y.SubFrom(1)).Add(x.Neg().Sigmoid().Mul(y)).Clamp(0x1p-126, 1)
	losses := logistic(x, y, y).Mul(wrong.PowScalar(gamma))
	if alpha >= 0 {
		losses = losses.Mul(y.Scale(2*alpha - 1).AddScalar(1 - alpha))
	}
	return weighted(op, losses, o)
}
