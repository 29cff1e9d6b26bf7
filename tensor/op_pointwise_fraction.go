package tensor

// The quotient of integers up to 256 is rounded once: where inv is the reciprocal of most, the rest of the division, of
// which fma has all digits, corrects the product with it (Markstein 1990).
var fractionOp = pointwise{
	name: "fraction", expr: "q = x*inv; fma(fma(-q, most, x), inv, q)", scalars: "most inv", fused: true,
	lo: 0, hi: 256, noGrad: "its operand is levels, integers",
}.op()

// Fraction is x/most, of levels x, integers from 0 to 256, with the bits of a float32 division in one pass over memory.
func (engine) Fraction(x *Tensor, most float64) *Tensor {
	return apply(fractionOp, []*Tensor{x}, nil, []float64{most, 1 / most})
}
