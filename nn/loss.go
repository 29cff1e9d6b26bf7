package nn

import (
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// CrossEntropy is the mean over all positions of -log softmax(logits)[target]: logits [... classes], targets
// [...] of an integer type. Options choose ignored targets, label smoothing and the reduction. Where there are many
// classes, make logits and loss in one region: [tensor.Tensor.CrossEntropy] says what that saves.
func CrossEntropy(logits, targets *tensor.Tensor, opts ...tensor.CrossEntropyOption) *tensor.Tensor {
	return logits.CrossEntropy(targets, opts...)
}

// NLL is the mean of -logProbs[target]: log-probabilities [N classes], integer targets [N].
func NLL(logProbs, targets *tensor.Tensor) *tensor.Tensor {
	n := targets.Len()
	return full(logProbs).Gather(-1, targets.Unsqueeze(-1)).Reshape(n).Mean().Neg()
}

// MSE is the mean squared difference.
func MSE(x, y *tensor.Tensor) *tensor.Tensor { return difference("mse", x, y).Square().Mean() }

// L1 is the mean absolute difference.
func L1(x, y *tensor.Tensor) *tensor.Tensor { return difference("l1", x, y).Abs().Mean() }

// Huber is the mean of d²/2 where |d| is at most delta and delta(|d| - delta/2) beyond (Huber 1964). Delta is positive.
func Huber(x, y *tensor.Tensor, delta float64) *tensor.Tensor {
	want("huber", "delta", delta, delta > 0, "(0, +Inf)")
	d := difference("huber", x, y).Abs()
	c := d.Clamp(0, delta) // c (d - c/2) is both branches
	return c.Mul(d.Sub(c.Scale(0.5))).Mean()
}

// BCE is the mean binary cross-entropy of probabilities against targets in [0, 1]. BCEWithLogits is more accurate, and
// is the one that autocast allows.
func BCE(p, targets *tensor.Tensor) *tensor.Tensor {
	p, targets = pair("bce", p, targets)
	return p.BinaryCrossEntropy(targets).Mean()
}

// BCEWithLogits is the mean binary cross-entropy of sigmoid(logits) against targets in [0, 1], computed
// without forming the sigmoid: max(x,0) - x*y + log(1 + e^-|x|).
func BCEWithLogits(logits, targets *tensor.Tensor) *tensor.Tensor {
	logits, targets = pair("bce_with_logits", logits, targets)
	return logits.Softplus().Sub(logits.Mul(targets)).Mean()
}

// KLDiv is the Kullback-Leibler divergence sum p (log p - logQ), divided by the number of rows: logQ and p
// [N classes]; terms with p = 0 count nothing.
func KLDiv(logQ, p *tensor.Tensor) *tensor.Tensor {
	logQ, p = pair("kl_div", logQ, p)
	rows := float64(max(1, logQ.Len()/max(1, logQ.Dim(-1))))
	return p.XLogY(p).Sub(p.Mul(logQ)).Sum().Scale(1 / rows)
}

// difference is x - y.
func difference(op string, x, y *tensor.Tensor) *tensor.Tensor {
	x, y = pair(op, x, y)
	return x.Sub(y)
}

// pair is a prediction and a target, which must have equal shapes: broadcasting in a loss hides mistakes. Under
// autocast losses are computed in float32.
func pair(op string, x, y *tensor.Tensor) (*tensor.Tensor, *tensor.Tensor) {
	if x == nil || y == nil || !slices.Equal(x.Shape(), y.Shape()) {
		tensor.Fail(tensor.ErrShape, op, "prediction %v and target %v differ in shape", x, y)
	}
	return full(x), full(y)
}

// full is x, cast from half precision to float32 under autocast.
func full(x *tensor.Tensor) *tensor.Tensor {
	if s := x.Scope(); x.DType().IsHalf() && s != nil && s.Autocasting() != tensor.Float32 {
		return x.To(tensor.Float32)
	}
	return x
}
