package tensor

// Comparisons, logic, and the choice by a condition.

var lessOp = pointwise{name: "less", expr: "x < y", args: "x y", result: boolType}.op()

// Less is whether x < y; x is t. Operands broadcast.
func (t *Tensor) Less(y *Tensor) *Tensor { return apply2(lessOp, t, y) }

var lessScalarOp = pointwise{name: "less_scalar", expr: "x < a", scalars: "a", result: boolType}.op()

// LessScalar is whether x < a, a rounded to the type of x, which is t.
func (t *Tensor) LessScalar(a float64) *Tensor { return t.scalar(lessScalarOp, a) }

var lessEqualOp = pointwise{name: "less_equal", expr: "x <= y", args: "x y", result: boolType}.op()

// LessEqual is whether x <= y; x is t. Operands broadcast.
func (t *Tensor) LessEqual(y *Tensor) *Tensor { return apply2(lessEqualOp, t, y) }

var lessEqualScalarOp = pointwise{name: "less_equal_scalar", expr: "x <= a", scalars: "a", result: boolType}.op()

// LessEqualScalar is whether x <= a, a rounded to the type of x, which is t.
func (t *Tensor) LessEqualScalar(a float64) *Tensor { return t.scalar(lessEqualScalarOp, a) }

var greaterOp = pointwise{name: "greater", expr: "x > y", args: "x y", result: boolType}.op()

// Greater is whether x > y; x is t. Operands broadcast.
func (t *Tensor) Greater(y *Tensor) *Tensor { return apply2(greaterOp, t, y) }

var greaterScalarOp = pointwise{name: "greater_scalar", expr: "x > a", scalars: "a", result: boolType}.op()

// GreaterScalar is whether x > a, a rounded to the type of x, which is t.
func (t *Tensor) GreaterScalar(a float64) *Tensor { return t.scalar(greaterScalarOp, a) }

var greaterEqualOp = pointwise{name: "greater_equal", expr: "x >= y", args: "x y", result: boolType}.op()

// GreaterEqual is whether x >= y; x is t. Operands broadcast.
func (t *Tensor) GreaterEqual(y *Tensor) *Tensor { return apply2(greaterEqualOp, t, y) }

var greaterEqualScalarOp = pointwise{name: "greater_equal_scalar", expr: "x >= a", scalars: "a", result: boolType}.op()

// GreaterEqualScalar is whether x >= a, a rounded to the type of x, which is t.
func (t *Tensor) GreaterEqualScalar(a float64) *Tensor { return t.scalar(greaterEqualScalarOp, a) }

var equalOp = pointwise{name: "equal", expr: "x == y", args: "x y", result: boolType}.op()

// Equal is whether x = y; x is t. Operands broadcast.
func (t *Tensor) Equal(y *Tensor) *Tensor { return apply2(equalOp, t, y) }

var equalScalarOp = pointwise{name: "equal_scalar", expr: "x == a", scalars: "a", result: boolType}.op()

// EqualScalar is whether x = a, a rounded to the type of x, which is t.
func (t *Tensor) EqualScalar(a float64) *Tensor { return t.scalar(equalScalarOp, a) }

var notEqualOp = pointwise{name: "not_equal", expr: "x != y", args: "x y", result: boolType}.op()

// NotEqual is whether x differs from y; x is t. Operands broadcast.
func (t *Tensor) NotEqual(y *Tensor) *Tensor { return apply2(notEqualOp, t, y) }

var notEqualScalarOp = pointwise{name: "not_equal_scalar", expr: "x != a", scalars: "a", result: boolType}.op()

// NotEqualScalar is whether x differs from a, a rounded to the type of x, which is t.
func (t *Tensor) NotEqualScalar(a float64) *Tensor { return t.scalar(notEqualScalarOp, a) }

var andOp = pointwise{name: "and", expr: "x && y", args: "x y", result: boolType}.op()

// And is whether both are not 0; x is t. Operands broadcast.
func (t *Tensor) And(y *Tensor) *Tensor { return apply2(andOp, t, y) }

var orOp = pointwise{name: "or", expr: "x || y", args: "x y", result: boolType}.op()

// Or is whether one is not 0; x is t. Operands broadcast.
func (t *Tensor) Or(y *Tensor) *Tensor { return apply2(orOp, t, y) }

var xorOp = pointwise{name: "xor", expr: "xor(x, y)", args: "x y", result: boolType}.op()

// Xor is whether exactly one is not 0; x is t. Operands broadcast.
func (t *Tensor) Xor(y *Tensor) *Tensor { return apply2(xorOp, t, y) }

var notOp = pointwise{name: "not", expr: "!x", result: boolType}.op()

// Not is whether x is 0.
func (t *Tensor) Not() *Tensor { return apply1(notOp, t) }

var isnanOp = pointwise{name: "isnan", expr: "isnan(x)", result: boolType}.op()

// IsNaN is whether x is not a number.
func (t *Tensor) IsNaN() *Tensor { return apply1(isnanOp, t) }

var isinfOp = pointwise{name: "isinf", expr: "isinf(x)", result: boolType}.op()

// IsInf is whether x is infinite.
func (t *Tensor) IsInf() *Tensor { return apply1(isinfOp, t) }

var isfiniteOp = pointwise{name: "isfinite", expr: "isfinite(x)", result: boolType}.op()

// IsFinite is whether x is a finite number.
func (t *Tensor) IsFinite() *Tensor { return apply1(isfiniteOp, t) }

var signbitOp = pointwise{name: "signbit", expr: "signbit(x)", result: boolType}.op()

// SignBit is whether x is negative or -0; false for NaN.
func (t *Tensor) SignBit() *Tensor { return apply1(signbitOp, t) }

var iscloseOp = pointwise{
	name: "isclose", expr: "x == y || (abs(x - y) <= atol + abs(rtol*y) && isfinite(y))", args: "x y",
	scalars: "rtol atol", result: boolType,
}.op()

// IsClose is whether floating numbers x, which are t, and y have |x - y| <= atol + rtol*|y| or are equal, also
// infinities; NaN is close to nothing.
// PyTorch's tolerances are 1e-5 and 1e-8. Operands broadcast. [Tensor.AllClose] compares whole tensors.
func (t *Tensor) IsClose(y *Tensor, rtol, atol float64) *Tensor {
	if !(rtol >= 0 && atol >= 0) {
		fail(ErrValue, "isclose", "the tolerances %v and %v must not be negative", rtol, atol)
	}
	return apply(iscloseOp, []*Tensor{t, y}, nil, []float64{rtol, atol})
}

var heavisideOp = pointwise{
	name: "heaviside", expr: "where(x == 0, y, 0 < x)", args: "x y", result: sameType, lo: 0.1, hi: 2,
}.op()

// Heaviside is 1 where x is positive, y where it is 0, else 0, also for NaN; x is t. Operands broadcast.
func (t *Tensor) Heaviside(y *Tensor) *Tensor { return apply2(heavisideOp, t, y) }

var whereOp = pointwise{name: "where", expr: "where(c, x, y)", args: "c x y", condition: true, result: sameType}.op()

// Where is x where the condition t is not 0, else y. Operands broadcast.
func (t *Tensor) Where(x, y *Tensor) *Tensor { return apply(whereOp, []*Tensor{t, x, y}, nil, nil) }

var maskedFillOp = pointwise{
	name: "masked_fill", expr: "where(m, v, x)", args: "x m", scalars: "v", result: sameType,
}.op()

// MaskedFill is t with v where mask is not 0.
func (t *Tensor) MaskedFill(mask *Tensor, v float64) *Tensor {
	return apply(maskedFillOp, []*Tensor{t, mask}, nil, []float64{t.fit(v)})
}
