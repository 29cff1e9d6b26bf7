package nn

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// LossOption changes a loss. A loss refuses those that it has no use for; the zero LossOption changes nothing.
type LossOption struct {
	name string // "" of a reduction, which every loss takes
	set  func(*lossConfig)
}

// lossConfig is what the options of a loss say.
type lossConfig struct {
	reduction                        int
	ignoreIndex                      int
	labelSmoothing                   float64
	classWeights, posWeight, weights *tensor.Tensor // nil: none

	margin, degree, eps         optional[float64]
	classAxis                   optional[int]
	full, logTarget, noLogInput bool
	swap, zeroInfinity          bool
	blank                       int
	half                        optional[tensor.DType] // of the prediction, which is computed in float32
	distance                    func(x, y *tensor.Tensor) *tensor.Tensor
}

// optional is the value of an option, if there is one.
type optional[T any] struct {
	value T
	set   bool
}

// or is the value, or what a loss has without the option.
func (g optional[T]) or(v T) T {
	if g.set {
		return g.value
	}
	return v
}

// ReduceMean divides the sum of the losses of rows or elements by their number, or by the sum of their weights. It is
// what a loss does without options.
func ReduceMean() LossOption { return reduction(seam.ReduceMean) }

// ReduceSum adds the losses of rows or elements up.
func ReduceSum() LossOption { return reduction(seam.ReduceSum) }

// ReduceNone keeps one loss for each row or element, 0 where it is ignored.
func ReduceNone() LossOption { return reduction(seam.ReduceNone) }

func reduction(r int) LossOption { return LossOption{"", func(c *lossConfig) { c.reduction = r }} }

// IgnoreIndex is the target that marks rows to leave out; -100 without this option.
func IgnoreIndex(k int) LossOption {
	return LossOption{"ignore index", func(c *lossConfig) { c.ignoreIndex = k }}
}

// LabelSmoothing spreads the share e, from 0 to 1, of each target evenly over all classes (Szegedy et al. 2016).
func LabelSmoothing(e float64) LossOption {
	return LossOption{"label smoothing", func(c *lossConfig) { c.labelSmoothing = e }}
}

// ClassWeights multiplies the loss of a row by the weight of its target; w is [classes]. The mean is divided by the sum
// of the weights of the rows' targets.
func ClassWeights(w *tensor.Tensor) LossOption {
	return lossWeights("class weights", w, func(c *lossConfig) { c.classWeights = w })
}

// PosWeight multiplies the loss of the positive part of each target by w, which broadcasts to the targets: above 1 it
// trades precision for recall.
func PosWeight(w *tensor.Tensor) LossOption {
	return lossWeights("pos weight", w, func(c *lossConfig) { c.posWeight = w })
}

// Weights multiplies the loss of each element by w, which broadcasts to the losses. The mean is divided by the sum of
// the weights, but in the binary cross-entropies, as in PyTorch, by the number of elements.
func Weights(w *tensor.Tensor) LossOption {
	return lossWeights("weights", w, func(c *lossConfig) { c.weights = w })
}

// Margin is the distance that a loss wants between what must differ: 1 without this option in the losses that have it,
// but 0 in [CosineEmbedding] and [MarginRanking].
func Margin(m float64) LossOption {
	return LossOption{"margin", func(c *lossConfig) { c.margin = optional[float64]{m, true} }}
}

// Degree is p: the norm of the distances of [TripletMargin], 2 without this option, and the power of [MultiMargin], 1
// without it.
func Degree(p float64) LossOption {
	return LossOption{"degree", func(c *lossConfig) { c.degree = optional[float64]{p, true} }}
}

// LossEps is the small number of a loss: 1e-8 in the logarithm of [PoissonNLL], 1e-6 below the variances of
// [GaussianNLL] and in the distances of [TripletMargin].
func LossEps(e float64) LossOption {
	return LossOption{"eps", func(c *lossConfig) { c.eps = optional[float64]{e, true} }}
}

// ClassAxis is the axis of the classes in logits, log-probabilities and soft targets, the last one without this option.
// PyTorch's is 1.
func ClassAxis(axis int) LossOption {
	return LossOption{"class axis", func(c *lossConfig) { c.classAxis = optional[int]{axis, true} }}
}

// Full adds the terms of [PoissonNLL] and [GaussianNLL] that do not depend on the prediction.
func Full() LossOption { return LossOption{"full", func(c *lossConfig) { c.full = true }} }

// LogTarget says that the target of [KLDiv] is log-probabilities.
func LogTarget() LossOption {
	return LossOption{"log target", func(c *lossConfig) { c.logTarget = true }}
}

// NoLogInput says that the prediction of [PoissonNLL] is the rate, not its logarithm.
func NoLogInput() LossOption {
	return LossOption{"no log input", func(c *lossConfig) { c.noLogInput = true }}
}

// Swap lets [TripletMargin] take the distance between positive and negative where it is the smaller one (Balntas et al.
// 2016).
func Swap() LossOption { return LossOption{"swap", func(c *lossConfig) { c.swap = true }} }

// Distance is the distance of [TripletMargin]: f maps [... width] twice to [...].
func Distance(f func(x, y *tensor.Tensor) *tensor.Tensor) LossOption {
	return LossOption{"distance", func(c *lossConfig) {
		engine.Given("distance", "the function", f)
		c.distance = f
	}}
}

// Blank is the class of [CTC] that stands for no label, 0 without this option.
func Blank(class int) LossOption { return LossOption{"blank", func(c *lossConfig) { c.blank = class }} }

// ZeroInfinity leaves targets that no alignment gives out of [CTC]: loss and gradient are 0.
func ZeroInfinity() LossOption {
	return LossOption{"zero infinity", func(c *lossConfig) { c.zeroInfinity = true }}
}

func lossWeights(name string, w *tensor.Tensor, set func(*lossConfig)) LossOption {
	return LossOption{name, func(c *lossConfig) {
		engine.Given(name, "the tensor", w)
		set(c)
	}}
}

// lossOf reads the options of the loss op. It fails for those that are neither a reduction nor among takes, which has
// the names of options, such as "ignore index".
func lossOf(op string, opts []LossOption, takes ...string) lossConfig {
	c := lossConfig{ignoreIndex: seam.IgnoreIndex}
	for _, o := range opts {
		if o.name != "" && !slices.Contains(takes, o.name) {
			engine.Fail(tensor.ErrValue, op, "this loss takes no %s", o.name)
		}
		if o.set != nil {
			o.set(&c)
		}
	}
	if !(c.labelSmoothing >= 0 && c.labelSmoothing <= 1) {
		engine.Fail(tensor.ErrValue, op, "the label smoothing %v is outside [0, 1]", c.labelSmoothing)
	}
	return c
}

// reduce combines losses, which have been multiplied by weights. The mean is their sum divided by that of the weights;
// nil stands for weights of 1.
func (c lossConfig) reduce(losses, weights *tensor.Tensor) *tensor.Tensor {
	return c.rounded(c.combined(losses, weights))
}

// combined is reduce in the type of losses.
func (c lossConfig) combined(losses, weights *tensor.Tensor) *tensor.Tensor {
	switch {
	case c.reduction == seam.ReduceNone:
		return losses
	case c.reduction == seam.ReduceSum:
		return losses.Sum()
	case weights == nil:
		return losses.Mean()
	}
	return losses.Sum().Div(widened(weights).Sum())
}

// rows is, for targets [...] of so many classes, the weight of each row in the type dt, and targets that are all
// classes. The weight is that of its target, 1 if there are no class weights, and 0 if it is ignored.
func (c lossConfig) rows(op string, targets *tensor.Tensor, classes int, dt tensor.DType) (weights,
	valid *tensor.Tensor) {
	engine.Given(op, "targets", targets)
	if !targets.DType().IsInt() {
		engine.Fail(tensor.ErrDType, op, "targets %v must be int64 or int32 or uint8; x.To(...) converts", targets)
	}
	ignored := targets.EqualScalar(float64(c.ignoreIndex))
	valid = targets.MaskedFill(ignored, 0)
	weights = ignored.Not().To(dt)
	if c.classWeights != nil {
		weights = engine.IndexSelect(op, c.weightsOf(op, classes, dt), 0, valid).Mul(weights)
	}
	return weights, valid
}

// weightsOf is the class weights, which exist, in the type dt.
func (c lossConfig) weightsOf(op string, classes int, dt tensor.DType) *tensor.Tensor {
	w := c.classWeights
	if !slices.Equal(w.Shape(), []int{classes}) {
		engine.Fail(tensor.ErrShape, op, "class weights %v must have shape [%d], one for each class", w, classes)
	}
	return w.To(dt)
}
