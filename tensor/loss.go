package tensor

import "slices"

// LossOption changes a loss of package nn or [Tensor.CrossEntropy]: a [Reduction], [IgnoreIndex], [LabelSmoothing],
// [ClassWeights], [PosWeight] or [Weights]. A loss refuses those that it has no use for.
type LossOption interface {
	set(*Loss) (name string)
}

// Reduction says how the losses of rows or elements are combined.
type Reduction uint8

const (
	ReduceMean Reduction = iota // their sum divided by their number, or by the sum of their weights
	ReduceSum                   // their sum
	ReduceNone                  // one loss for each row or element, 0 where it is ignored
)

// IgnoreIndex is the target that marks rows to leave out; -100 if this option is not given.
type IgnoreIndex int

// LabelSmoothing is the share, from 0 to 1, of each target that is spread evenly over all classes
// (Szegedy et al. 2016).
type LabelSmoothing float64

// ClassWeights multiplies the loss of a row by the weight of its target; w is [classes]. The mean is divided by the sum
// of the weights of the rows' targets.
func ClassWeights(w *Tensor) LossOption { return lossWeights{"class weights", w} }

// PosWeight multiplies the loss of the positive part of each target by w, which broadcasts to the targets: above 1 it
// trades precision for recall.
func PosWeight(w *Tensor) LossOption { return lossWeights{"pos weight", w} }

// Weights multiplies the loss of each element by w, which broadcasts to the losses. The mean is divided by the sum of
// the weights, but in the binary cross-entropies, as in PyTorch, by the number of elements.
func Weights(w *Tensor) LossOption { return lossWeights{"weights", w} }

type lossWeights struct {
	name string
	w    *Tensor
}

// Loss is what the options of a loss say.
type Loss struct {
	Reduction                        Reduction
	IgnoreIndex                      int
	LabelSmoothing                   float64
	ClassWeights, PosWeight, Weights *Tensor // nil: none
}

func (r Reduction) set(l *Loss) string      { l.Reduction = r; return "reduction" }
func (k IgnoreIndex) set(l *Loss) string    { l.IgnoreIndex = int(k); return "ignore index" }
func (e LabelSmoothing) set(l *Loss) string { l.LabelSmoothing = float64(e); return "label smoothing" }

func (w lossWeights) set(l *Loss) string {
	w.w.given(w.name)
	switch w.name {
	case "class weights":
		l.ClassWeights = w.w
	case "pos weight":
		l.PosWeight = w.w
	default:
		l.Weights = w.w
	}
	return w.name
}

// LossOf reads the options of the loss op. It fails for those that are neither a reduction nor among takes: "ignore
// index", "label smoothing", "class weights", "pos weight", "weights".
func LossOf(op string, opts []LossOption, takes ...string) Loss {
	l := Loss{IgnoreIndex: ignored}
	for _, o := range opts {
		Given(op, "an option", o)
		if name := o.set(&l); name != "reduction" && !slices.Contains(takes, name) {
			Fail(ErrValue, op, "this loss takes no %s", name)
		}
	}
	if !(l.LabelSmoothing >= 0 && l.LabelSmoothing <= 1) {
		Fail(ErrValue, op, "the label smoothing %v is outside [0, 1]", l.LabelSmoothing)
	}
	if l.Reduction > ReduceNone {
		Fail(ErrValue, op, "there is no reduction %d", l.Reduction)
	}
	return l
}

// Reduce combines losses, which have been multiplied by weights. The mean is their sum divided by that of the weights;
// nil stands for weights of 1.
func (l Loss) Reduce(losses, weights *Tensor) *Tensor {
	switch {
	case l.Reduction == ReduceNone:
		return losses
	case l.Reduction == ReduceSum:
		return losses.Sum()
	case weights == nil:
		return losses.Mean()
	}
	return losses.Sum().Div(weights.Sum())
}

// Rows is, for targets [...] of so many classes, the weight of each row in the type dt, and targets that are all
// classes. The weight is that of its target, 1 if there are no class weights, and 0 if it is ignored.
func (l Loss) Rows(op string, targets *Tensor, classes int, dt DType) (weights, valid *Tensor) {
	ignored := targets.EqualScalar(float64(l.IgnoreIndex))
	valid = targets.MaskedFill(ignored, 0)
	weights = ignored.Not().To(dt)
	if w := l.ClassWeights; w != nil {
		if !slices.Equal(w.layout.Shape, []int{classes}) {
			Fail(ErrShape, op, "class weights %v must have shape [%d], one for each class", w, classes)
		}
		weights = w.To(dt).IndexSelect(0, valid).Mul(weights)
	}
	return weights, valid
}
