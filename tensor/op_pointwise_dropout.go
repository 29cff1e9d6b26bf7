package tensor

var dropoutOp = pointwise{name: "dropout", expr: "where(rand(0) < p, 0, x*(1/(1-p)))", scalars: "p", fused: true}.op()

// Dropout zeroes each element with probability p and scales the others by 1/(1-p), in steps with training behaviour;
// elsewhere it is t. The mask is drawn again in backward, never stored (Srivastava et al. 2014).
func (t *Tensor) Dropout(p float64) *Tensor {
	if !(p >= 0 && p < 1) {
		fail(ErrValue, "dropout", "the probability %v is outside [0, 1)", p)
	}
	t.given("dropout")
	if p == 0 || t.scope == nil || !t.scope.Training() {
		return t
	}
	return apply(dropoutOp, []*Tensor{t}, nil, []float64{p})
}
