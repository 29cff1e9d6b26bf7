package nn

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// Losses that want a distance between what must differ, the option [Margin].

// MarginRanking is the mean of max(0, margin - y (x1 - x2)): with y = 1 x1 should be the larger one, with y = -1 x2. y
// broadcasts. Options are [Margin], which is 0 without it, and [Weights].
func MarginRanking(x1, x2, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "margin_ranking"
	o := lossOf(op, opts, "margin", "weights")
	d := o.difference(op, x1, x2)
	engine.Given(op, "target", y)
	losses := atLeastZero(d.Mul(fitting(op, "target", y, d)).SubFrom(o.margin.or(0)))
	return weighted(op, losses, o)
}

// HingeEmbedding is the mean of x where the target is 1, and of max(0, margin - x) where it is -1: x is a distance.
// Options are [Margin] and [Weights].
func HingeEmbedding(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "hinge_embedding"
	o := lossOf(op, opts, "margin", "weights")
	x, y = o.pair(op, x, y)
	apart := atLeastZero(x.SubFrom(o.margin.or(1))).MaskedFill(y.EqualScalar(1), 0)
	return weighted(op, apart.Add(x.MaskedFill(y.EqualScalar(-1), 0)), o)
}

// CosineEmbedding is the mean of 1 - c where the target is 1, and of max(0, c - margin) where it is -1, with c the
// cosine of x1 and x2: both [... width], targets [...]. Options are [Margin], which is 0 without it, and [Weights].
func CosineEmbedding(x1, x2, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "cosine_embedding"
	o := lossOf(op, opts, "margin", "weights")
	a, b := o.pair(op, x1, x2)
	engine.Given(op, "target", y)
	if n := a.Rank() - 1; n < 0 || !slices.Equal(a.Shape()[:n], y.Shape()) {
		engine.Fail(tensor.ErrShape, op, "the target %v must hold one number for each row of %v", y, a)
	}
	squares := a.SumSquares(nil, -1).AddScalar(1e-12).Mul(b.SumSquares(nil, -1).AddScalar(1e-12))
	c := a.Mul(b).Sum(-1).Div(squares.Sqrt())
	same := c.SubFrom(1).MaskedFill(y.NotEqualScalar(1), 0)
	apart := atLeastZero(c.AddScalar(-o.margin.or(0))).MaskedFill(y.NotEqualScalar(-1), 0)
	return weighted(op, same.Add(apart), o)
}

// TripletMargin is the mean of max(0, margin + d(anchor, positive) - d(anchor, negative)) for rows [... width]. The
// distance d is [tensor.Tensor.PairwiseDistance], or that of the option [Distance]. Further options are [Margin],
// [Degree], [LossEps], [Swap] and [Weights].
func TripletMargin(anchor, positive, negative *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "triplet_margin"
	o := lossOf(op, opts, "margin", "degree", "eps", "swap", "distance", "weights")
	a, p := o.pair(op, anchor, positive)
	_, n := o.pair(op, anchor, negative)
	distance := o.distance
	if distance == nil {
		distance = func(x, y *tensor.Tensor) *tensor.Tensor {
			return x.PairwiseDistance(y, o.degree.or(2), o.eps.or(1e-6))
		}
	}
	far := distance(a, n)
	if o.swap {
		far = far.Minimum(distance(p, n))
	}
	return weighted(op, atLeastZero(distance(a, p).Sub(far).AddScalar(o.margin.or(1))), o)
}

// SoftMargin is the mean of log(1 + e^(-x y)) for targets of 1 and -1. It takes [Weights].
func SoftMargin(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "soft_margin"
	o := lossOf(op, opts, "weights")
	x, y = o.pair(op, x, y)
	return weighted(op, x.Mul(y).Neg().Softplus(), o)
}

// MultiMargin is the mean over rows of w[y] sum(max(0, margin - x[y] + x[i])^p)/classes, the sum over the classes i but
// y: x [... classes], integer targets y [...]. Options are [Margin], [Degree] for p, which is 1 or 2, and
// [ClassWeights] for w; the mean is of the rows, not of the weights.
func MultiMargin(x, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "multi_margin"
	o := lossOf(op, opts, "margin", "degree", "class weights")
	power := o.degree.or(1)
	want(op, "the degree", power, power == 1 || power == 2, "{1, 2}")
	x = o.withTargets(op, x, targets, 1)
	classes := x.Dim(-1)
	own := engine.Gather(op, x, -1, targets.Unsqueeze(-1))
	terms := x.Sub(own).AddScalar(o.margin.or(1)).ReLU()
	if power == 2 {
		terms = terms.Square()
	}
	if o.classWeights != nil {
		w := o.weightsOf(op, classes, x.DType())
		terms = terms.Mul(engine.IndexSelect(op, w, 0, targets).Unsqueeze(-1))
	}
	terms = terms.MaskedFill(targets.OneHot(classes), 0)
	return o.reduce(terms.Sum(-1).Scale(1/float64(classes)), nil)
}

// MultiLabelMargin is the mean over rows of sum(max(0, 1 - x[y] + x[i]))/classes over all targets y of the row and all
// classes i that are none: x [... classes], targets [... classes] of an integer type, those of a row before the first
// negative one.
func MultiLabelMargin(x, targets *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "multi_label_margin"
	o := lossOf(op, opts)
	x = o.withTargets(op, x, targets, 0)
	classes := x.Dim(-1)
	behind := targets.LessScalar(0).CumSum(-1).GreaterScalar(0)
	valid := targets.MaskedFill(behind, 0)
	own := engine.Gather(op, x, -1, valid)
	isTarget := valid.OneHot(classes).Where(behind.Not().Unsqueeze(-1), tensor.Of(false)).Any(-2)
	terms := x.Unsqueeze(-2).Sub(own.Unsqueeze(-1)).AddScalar(1).ReLU()
	terms = terms.MaskedFill(behind.Unsqueeze(-1), 0).MaskedFill(isTarget.Unsqueeze(-2), 0)
	return o.reduce(terms.Sum(-2, -1).Scale(1/float64(classes)), nil)
}

// MultiLabelSoftMargin is the mean over rows of the mean over classes of w times the binary cross-entropy of sigmoid(x)
// against targets in [0, 1]: both [... classes]. [ClassWeights] gives w.
func MultiLabelSoftMargin(x, y *tensor.Tensor, opts ...LossOption) *tensor.Tensor {
	const op = "multi_label_soft_margin"
	o := lossOf(op, opts, "class weights")
	x, y = o.pair(op, x, y)
	if x.Rank() == 0 {
		engine.Fail(tensor.ErrShape, op, "%v has no classes", x)
	}
	losses := logistic(x, y, y)
	if o.classWeights != nil {
		losses = losses.Mul(o.weightsOf(op, x.Dim(-1), x.DType()))
	}
	return o.reduce(losses.Mean(-1), nil)
}

// withTargets is x in the type of losses. It fails unless the targets are integers, of the shape of x without its
// last axes, of which drop says how many.
func (o *lossConfig) withTargets(op string, x, targets *tensor.Tensor, drop int) *tensor.Tensor {
	engine.Given(op, "input", x)
	engine.Given(op, "targets", targets)
	if !targets.DType().IsInt() {
		engine.Fail(tensor.ErrDType, op, "targets %v must be int64 or int32 or uint8; x.To(...) converts", targets)
	}
	if n := x.Rank() - drop; x.Rank() == 0 || !slices.Equal(x.Shape()[:n], targets.Shape()) {
		engine.Fail(tensor.ErrShape, op, "targets %v do not fit %v, which has the classes on the last axis", targets, x)
	}
	return o.widen(x)
}

// atLeastZero is max(0, x) with derivative 1 at 0.
func atLeastZero(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(0, math.Inf(1)) }
