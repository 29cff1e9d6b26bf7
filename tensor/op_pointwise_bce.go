package tensor

import "github.com/weft-ml/weft/internal/seam"

var bceOp = pointwise{
	name: "binary_cross_entropy", expr: "bce(p, y)", args: "p y",
	lo: 0.1, hi: 0.9, cast: seam.CastBanned, instead: "take nn.BCEWithLogits, which needs no sigmoid",
}.op()

// BinaryCrossEntropy is -y log p - (1-y) log(1-p) for probabilities p, which is t, and targets y in [0, 1];
// logarithms are held above -100. The gradient (p-y)/(p(1-p)) has a divisor of at least 1e-12, so it is finite at 0
// and 1. Operands broadcast.
func (t *Tensor) BinaryCrossEntropy(y *Tensor) *Tensor { return apply2(bceOp, t, y) }
