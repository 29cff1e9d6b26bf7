package tensor

// LogCumSumExp is log(exp(x[0]) + ... + exp(x[i])) along an axis, without overflow; x is t. Sums of 1, 2, 4, ...
// elements are joined by LogAddExp (Hillis and Steele 1986); those of float16 and bfloat16 in float32, rounded once.
func (t *Tensor) LogCumSumExp(axis int) *Tensor {
	axis = t.axis("logcumsumexp", axis)
	if !t.dtype.IsFloat() {
		fail(ErrDType, "logcumsumexp", "%v must hold floating numbers; x.To(tensor.Float32) converts", t)
	}
	y := t
	if t.dtype.IsHalf() {
		y = t.To(Float32)
	}
	n := t.layout.Shape[axis]
	for half := 1; half < n; half *= 2 {
		joined := y.slice(axis, half, 1, n-half).LogAddExp(y.slice(axis, 0, 1, n-half))
		y = Cat(axis, y.slice(axis, 0, 1, half), joined)
	}
	return y.To(t.dtype)
}
