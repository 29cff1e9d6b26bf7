package nn

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Losses are means over all elements or rows; [ReduceSum] and [ReduceNone] are the other reductions, and other options
// weigh elements or classes. Operands of half precision are computed in float32 under autocast.

// CrossEntropy is the mean over all positions of -log softmax(logits)[target]: logits [... classes], targets
// [...] of an integer type. Options choose ignored targets, label smoothing, class weights, the axis of the classes and
// the reduction. Where there are many classes, make logits and loss in one region: [tensor.Tensor.CrossEntropy] says
// what that saves.
//
// With class weights w, for a target y and smoothing e, it is -(1-e) w[y] log p[y] - e sum(w log p)/classes; the mean
// is divided by the sum of w[y].
//
// Targets of a floating type are probabilities y of all classes, of the shape of the logits: the loss of a position is
// -sum(w ((1-e) y + e/classes) log p), and the mean is divided by their number.
func CrossEntropy(logits, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "cross_entropy"
	o := lossOf(op, opts, "ignore index", "label smoothing", "class weights", "class axis")
	logits = o.classesLast(op, logits)
	if logits != nil && targets != nil && targets.DType().IsFloat() && targets.Rank() == logits.Rank() {
		return o.softCrossEntropy(op, logits, o.classesLast(op, targets))
	}
	if o.classWeights == nil {
		return engine.CrossEntropy(logits, targets, o.ignoreIndex, o.reduction, o.labelSmoothing)
	}
	logits = o.widen(logits)
	losses := engine.CrossEntropy(logits, targets, o.ignoreIndex, seam.ReduceNone, 0)
	classes := logits.Dim(-1)
	weights, _ := o.rows(op, targets, classes, losses.DType())
	losses = losses.Mul(weights)
	if e := o.labelSmoothing; e > 0 {
		even := logits.LogSoftmax(-1).Mul(o.classWeights.To(losses.DType())).Sum(-1).Scale(-e / float64(classes))
		even = even.MaskedFill(targets.EqualScalar(float64(o.ignoreIndex)), 0)
		losses = losses.Scale(1 - e).Add(even)
	}
	return o.reduce(losses, weights)
}

// softCrossEntropy is the loss of targets that are probabilities.
func (c *lossConfig) softCrossEntropy(op string, logits, targets *tensor.Tensor) *tensor.Tensor {
	if c.ignoreIndex != seam.IgnoreIndex {
		engine.Fail(tensor.ErrValue, op, "targets that are probabilities, %v, have no index to ignore", targets)
	}
	x, y := c.pair(op, logits, targets)
	if x.Rank() == 0 {
		engine.Fail(tensor.ErrShape, op, "the logits %v have no classes", x)
	}
	classes := x.Dim(-1)
	if e := c.labelSmoothing; e > 0 {
		y = y.Scale(1 - e).AddScalar(e / float64(classes))
	}
	if c.classWeights != nil {
		y = y.Mul(c.weightsOf(op, classes, x.DType()))
	}
	return c.reduce(x.LogSoftmax(-1).Mul(y).Sum(-1).Neg(), nil)
}

// classesLast is x with the axis of the classes behind the others.
func (c lossConfig) classesLast(op string, x *tensor.Tensor) *tensor.Tensor {
	if !c.classAxis.set || x == nil {
		return x
	}
	n, axis := x.Rank(), c.classAxis.value
	if axis < -n || axis >= n {
		engine.Fail(tensor.ErrShape, op, "the class axis %d is outside [%d, %d): %v has %d axes", axis, -n, n, x, n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	axis = (axis + n) % n
	return x.Permute(append(slices.Delete(order, axis, axis+1), axis)...)
}

// NLL is the mean of -logProbs[target]: log-probabilities [... classes], integer targets [...]. Options choose ignored
// targets, class weights, the axis of the classes and the reduction.
func NLL(logProbs, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	o := lossOf("nll", opts, "ignore index", "class weights", "class axis")
	x := o.widen(o.classesLast("nll", logProbs))
	if n := x.Rank() - 1; n < 0 || !slices.Equal(x.Shape()[:n], targets.Shape()) {
		engine.Fail(tensor.ErrShape, "nll", "log-probabilities %v have the classes on the last axis; targets %v must "+
			"hold one class for each row", x, targets)
	}
	weights, valid := o.rows("nll", targets, x.Dim(-1), x.DType())
	losses := engine.Gather("nll", x, -1, valid.Unsqueeze(-1)).Squeeze(-1).Neg()
	losses = losses.Mul(weights).MaskedFill(weights.EqualScalar(0), 0) // 0 times infinity would be NaN
	return o.reduce(losses, weights)
}

// MSE is the mean squared difference. It takes [Weights].
func MSE(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	o := lossOf("mse", opts, "weights")
	return weighted("mse", o.difference("mse", x, y).Square(), o)
}

// L1 is the mean absolute difference. It takes [Weights].
func L1(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	o := lossOf("l1", opts, "weights")
	return weighted("l1", o.difference("l1", x, y).Abs(), o)
}

// Huber is the mean of d²/2 where |d| is at most delta and delta(|d| - delta/2) beyond (Huber 1964). Delta is
// positive. It takes [Weights].
func Huber(x, y *tensor.Tensor, delta float64, opts ...LossOption) *tensor.Tensor {
	want("huber", "delta", delta, delta > 0, "(0, +Inf)")
	o := lossOf("huber", opts, "weights")
	d := o.difference("huber", x, y)
	c := d.Clamp(-delta, delta) // c (d - c/2) is all branches
	return weighted("huber", c.Mul(d.Sub(c.Scale(0.5))), o)
}

// SmoothL1 is the mean of d²/(2 beta) where |d| is less than beta, and |d| - beta/2 beyond; for beta = 0 it is [L1].
// Beta is 1 in PyTorch. It takes [Weights].
func SmoothL1(x, y *tensor.Tensor, beta float64, opts ...LossOption) *tensor.Tensor {
	const op = "smooth_l1"
	want(op, "beta", beta, beta >= 0, "[0, +Inf)")
	o := lossOf(op, opts, "weights")
	d := o.difference(op, x, y)
	if beta == 0 {
		return weighted(op, d.Abs(), o)
	}
	c := d.Clamp(-beta, beta) // c (d - c/2) is all branches
	return weighted(op, c.Mul(d.Sub(c.Scale(0.5))).Scale(1/beta), o)
}

// BCE is the mean binary cross-entropy of probabilities against targets in [0, 1]. BCEWithLogits is more accurate, and
// is the one that autocast allows. It takes [Weights].
func BCE(p, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	o := lossOf("bce", opts, "weights")
	p, targets = o.pair("bce", p, targets)
	losses, _ := weigh("bce", p.BinaryCrossEntropy(targets), o)
	return o.reduce(losses, nil)
}

// BCEWithLogits is the mean binary cross-entropy of sigmoid(logits) against targets in [0, 1], computed
// without forming the sigmoid: max(x,0) - x*y + log(1 + e^-|x|). It takes [Weights] and [PosWeight].
func BCEWithLogits(logits, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "bce_with_logits"
	o := lossOf(op, opts, "weights", "pos weight")
	x, y := o.pair(op, logits, targets)
	positive := y
	if o.posWeight != nil {
		positive = y.Mul(fitting(op, "pos weight", o.posWeight, y))
	}
	losses := logistic(x, positive, y)
	losses, _ = weigh(op, losses, o)
	return o.reduce(losses, nil)
}

// KLDiv is the Kullback-Leibler divergence sum p (log p - logQ), divided by the number of rows: logQ and p
// [N classes]; terms with p = 0 are 0, unless logQ is -Inf there: NaN, as in PyTorch. With [LogTarget] the second
// operand is log p. With [ReduceNone] it is the terms.
func KLDiv(logQ, p *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	o := lossOf("kl_div", opts, "log target")
	logQ, p = o.pair("kl_div", logQ, p)
	var terms *tensor.Tensor
	if o.logTarget {
		terms = p.Exp().Mul(p.Sub(logQ))
	} else {
		terms = p.XLogY(p).Sub(p.Mul(logQ))
	}
	if o.reduction != seam.ReduceMean {
		return o.reduce(terms, nil)
	}
	rows := float64(max(1, logQ.Len()/max(1, logQ.Dim(-1))))
	return o.rounded(terms.Sum().Scale(1 / rows))
}

// weighted is losses times their weights, reduced; the mean is divided by the sum of the weights.
func weighted(op string, losses *tensor.Tensor, o lossConfig) *tensor.Tensor {
	return o.reduce(weigh(op, losses, o))
}

// weigh is losses times their weights, and the weights, nil if there are none.
func weigh(op string, losses *tensor.Tensor, o lossConfig) (weighted, weights *tensor.Tensor) {
	if o.weights == nil {
		return losses, nil
	}
	w := fitting(op, "weights", o.weights, losses)
	return losses.Mul(w), w
}

// fitting is w in the type and shape of x.
func fitting(op, what string, w, x *tensor.Tensor) *tensor.Tensor {
	y := w.To(x.DType())
	if err := engine.Try(func() { y = y.Expand(x.Shape()...) }); err != nil {
		engine.Fail(tensor.ErrShape, op, "%s %v do not broadcast to %v", what, w, x)
	}
	return y
}

// difference is x - y.
func (o *lossConfig) difference(op string, x, y *tensor.Tensor) *tensor.Tensor {
	x, y = o.pair(op, x, y)
	return x.Sub(y)
}

// pair is a prediction and a target, which must have equal shapes: broadcasting in a loss hides mistakes.
func (o *lossConfig) pair(op string, x, y *tensor.Tensor) (*tensor.Tensor, *tensor.Tensor) {
	if x == nil || y == nil || !slices.Equal(x.Shape(), y.Shape()) {
		engine.Fail(tensor.ErrShape, op, "prediction %v and target %v differ in shape", x, y)
	}
	return o.widen(x), widened(y)
}

// widen is x, of half precision in float32: what losses make on their way may be out of its range, and differences
// cancel. The loss has the type of the first x again, the prediction, but under autocast.
func (o *lossConfig) widen(x *tensor.Tensor) *tensor.Tensor {
	if x == nil || !x.DType().IsHalf() {
		return x
	}
	if s := x.Scope(); !o.half.set && (s == nil || engine.Autocasting(s) == tensor.Float32) {
		o.half = optional[tensor.DType]{x.DType(), true}
	}
	return widened(x)
}

// logistic is (1-y) log(1 + e^x) + p log(1 + e^-x), of which nothing cancels: the cross-entropy of sigmoid(x) and y,
// where p is y times the weight of positive targets.
func logistic(x, p, y *tensor.Tensor) *tensor.Tensor {
	return y.SubFrom(1).Mul(x.Softplus()).Add(p.Mul(x.Neg().Softplus()))
}

// rounded is a loss in the type of the prediction.
func (c lossConfig) rounded(x *tensor.Tensor) *tensor.Tensor {
	if c.half.set {
		return x.To(c.half.value)
	}
	return x
}
