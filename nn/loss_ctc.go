package nn

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// CTC is connectionist temporal classification, the loss of sequences without alignment (Graves et al. 2006):
// log-probabilities [steps rows classes], targets [rows length], and the lengths of both for each row, as
// [tensor.Tensor.CTC] says. The mean is over rows, each divided by the length of its target, or by 1. Options are
// [Blank] and [ZeroInfinity].
func CTC(logProbs, targets *tensor.Tensor, inputLengths, targetLengths []int, opts ...LossOption) *tensor.Tensor {
	const op = "ctc"
	o := lossOf(op, opts, "blank", "zero infinity")
	engine.Given(op, "log-probabilities", logProbs)
	losses := o.widen(logProbs).CTC(targets, inputLengths, targetLengths, o.blank)
	if o.zeroInfinity {
		losses = losses.MaskedFill(losses.EqualScalar(math.Inf(1)), 0)
	}
	if o.reduction == seam.ReduceMean {
		shares := make([]float64, len(targetLengths))
		for i, n := range targetLengths {
			shares[i] = 1 / float64(max(1, n))
		}
		losses = losses.Mul(tensor.FromSlice(shares, len(shares)).To(losses.DType()))
	}
	return o.reduce(losses, nil)
}
