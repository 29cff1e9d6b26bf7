package tensor

var bceOp = pointwise{
	name: "binary_cross_entropy", expr: "-(y*max(log(p), -100) + (1-y)*max(log1p(-p), -100))", args: "p y",
	lo: 0.1, hi: 0.9, cast: CastBanned, instead: "take nn.BCEWithLogits, which needs no sigmoid",
}.op()

// BinaryCrossEntropy is -y log p - (1-y) log(1-p) for probabilities p, which is t, and targets y in [0, 1]; logarithms
// are held above -100. Operands broadcast.
func (t *Tensor) BinaryCrossEntropy(y *Tensor) *Tensor { return apply2(bceOp, t, y) }
