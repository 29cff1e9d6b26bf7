package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
)

// Arithmetic, rounding, and copies.

var negOp = pointwise{name: "neg", expr: "-x", result: sameType}.op()

// Neg is -x.
func (t *Tensor) Neg() *Tensor { return apply1(negOp, t) }

var absOp = pointwise{name: "abs", expr: "abs(x)", result: sameType, lo: 0.1, hi: 2}.op()

// Abs is |x|; the derivative at 0 is 0.
func (t *Tensor) Abs() *Tensor { return apply1(absOp, t) }

var signOp = pointwise{name: "sign", expr: "sign(x)", result: sameType, lo: 0.1, hi: 2}.op()

// Sign is -1, 0 or 1.
func (t *Tensor) Sign() *Tensor { return apply1(signOp, t) }

var squareOp = pointwise{name: "square", expr: "x*x", result: sameType, cast: seam.CastFull, fused: true}.op()

// Square is x squared.
func (t *Tensor) Square() *Tensor { return apply1(squareOp, t) }

var reciprocalOp = pointwise{name: "reciprocal", expr: "1/x", lo: 0.3, hi: 2, cast: seam.CastFull}.op()

// Reciprocal is 1/x.
func (t *Tensor) Reciprocal() *Tensor { return apply1(reciprocalOp, t) }

var floorOp = pointwise{name: "floor", expr: "floor(x)", result: sameType, lo: 0.1, hi: 0.9}.op()

// Floor is x rounded down.
func (t *Tensor) Floor() *Tensor { return apply1(floorOp, t) }

var ceilOp = pointwise{name: "ceil", expr: "ceil(x)", result: sameType, lo: 0.1, hi: 0.9}.op()

// Ceil is x rounded up.
func (t *Tensor) Ceil() *Tensor { return apply1(ceilOp, t) }

var roundOp = pointwise{name: "round", expr: "round(x)", result: sameType, lo: 0.1, hi: 0.4}.op()

// Round is x rounded to the nearest integer, halves to even.
func (t *Tensor) Round() *Tensor { return apply1(roundOp, t) }

var truncOp = pointwise{name: "trunc", expr: "trunc(x)", result: sameType, lo: 0.1, hi: 0.9}.op()

// Trunc is x rounded towards 0.
func (t *Tensor) Trunc() *Tensor { return apply1(truncOp, t) }

var fracOp = pointwise{name: "frac", expr: "frac(x)", result: sameType, lo: 0.1, hi: 0.9}.op()

// Frac is x - trunc(x).
func (t *Tensor) Frac() *Tensor { return apply1(fracOp, t) }

var addOp = pointwise{name: "add", expr: "x+y", args: "x y", result: sameType, fused: true, uniform: "y"}.op()

// Add is x + y; x is t. Operands broadcast.
func (t *Tensor) Add(y *Tensor) *Tensor { return apply2(addOp, t, y) }

var subOp = pointwise{name: "sub", expr: "x-y", args: "x y", result: sameType}.op()

// Sub is x - y; x is t. Operands broadcast.
func (t *Tensor) Sub(y *Tensor) *Tensor { return apply2(subOp, t, y) }

var mulOp = pointwise{name: "mul", expr: "x*y", args: "x y", result: sameType, fused: true, uniform: "y"}.op()

// Mul is x * y; x is t. Operands broadcast.
func (t *Tensor) Mul(y *Tensor) *Tensor { return apply2(mulOp, t, y) }

var divOp = pointwise{name: "div", expr: "x/y", args: "x y", lo: 0.5, hi: 2}.op()

// Div is x / y; integers become float32; x is t. Operands broadcast.
func (t *Tensor) Div(y *Tensor) *Tensor { return apply2(divOp, t, y) }

var floorDivOp = pointwise{
	name: "floor_div", expr: "floordiv(x, y)", args: "x y", result: sameType, lo: 0.5, hi: 0.9,
}.op()

// FloorDiv is the quotient rounded down, of which Mod is the remainder: -7 by 2 is -4, 6 by 0.1 is 59, -1 by infinity
// is -1; integers by 0 give 0; x is t. Operands broadcast.
func (t *Tensor) FloorDiv(y *Tensor) *Tensor { return apply2(floorDivOp, t, y) }

var modOp = pointwise{name: "mod", expr: "mod(x, y)", args: "x y", result: sameType, lo: 1.1, hi: 1.9}.op()

// Mod is the remainder of FloorDiv, with the sign of y: -7 by 2 is 1; exact but for the last rounding, whatever the
// quotient; integers by 0 give x; x is t. Operands broadcast.
func (t *Tensor) Mod(y *Tensor) *Tensor { return apply2(modOp, t, y) }

var fmodOp = pointwise{name: "fmod", expr: "fmod(x, y)", args: "x y", result: sameType, lo: 1.1, hi: 1.9}.op()

// Fmod is the remainder of division rounded to 0, with the sign of x: -7 by 2 is -1; exact, whatever the quotient;
// integers by 0 give x; x is t. Operands broadcast.
func (t *Tensor) Fmod(y *Tensor) *Tensor { return apply2(fmodOp, t, y) }

var maximumOp = pointwise{name: "maximum", expr: "max(x, y)", args: "x y", result: sameType}.op()

// Maximum is the larger of x and y; NaN if either is; ties share the gradient; x is t. Operands broadcast.
func (t *Tensor) Maximum(y *Tensor) *Tensor { return apply2(maximumOp, t, y) }

var minimumOp = pointwise{name: "minimum", expr: "min(x, y)", args: "x y", result: sameType}.op()

// Minimum is the smaller of x and y; NaN if either is; ties share the gradient; x is t. Operands broadcast.
func (t *Tensor) Minimum(y *Tensor) *Tensor { return apply2(minimumOp, t, y) }

var fmaxOp = pointwise{name: "fmax", expr: "fmax(x, y)", args: "x y", result: sameType}.op()

// FMax is the larger of x and y, or the one that is not NaN; the gradient of a tie goes to x, which is t. Operands
// broadcast.
func (t *Tensor) FMax(y *Tensor) *Tensor { return apply2(fmaxOp, t, y) }

var fminOp = pointwise{name: "fmin", expr: "fmin(x, y)", args: "x y", result: sameType}.op()

// FMin is the smaller of x and y, or the one that is not NaN; the gradient of a tie goes to x, which is t. Operands
// broadcast.
func (t *Tensor) FMin(y *Tensor) *Tensor { return apply2(fminOp, t, y) }

var copysignOp = pointwise{name: "copysign", expr: "copysign(x, y)", args: "x y", lo: 0.1, hi: 2}.op()

// CopySign is |x| with the sign of y, also of -0; integers become float32; x is t. A NaN in y counts as positive, and
// the derivative at x = 0 is 0. Operands broadcast.
func (t *Tensor) CopySign(y *Tensor) *Tensor { return apply2(copysignOp, t, y) }

// floatsOf are the numbers of a type: the largest, the least above 0, the least normal one, and the distance from 1 to
// the number before it, which is half of that to the number behind.
var floatsOf = map[DType]struct{ largest, least, normal, half float64 }{
	Float64: {math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-53},
	Float32: {math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, 0x1p-24},
	Float16: {65504, 0x1p-24, 0x1p-14, 0x1p-11}, BFloat16: {0x1.fep127, 0x1p-133, 0x1p-126, 0x1p-8},
}

// From 2*normal on |x|(1 + step), rounded, is the next number (Rump et al. 2009, who add the rounded product), if step
// is half*(1 + 2*half); below, numbers are `least` apart. In half precision float32 holds what is rounded.
var nextAfterOp = pointwise{
	name: "nextafter", args: "x y", scalars: "step double_normal least largest", lo: 0.5, hi: 2,
	expr: "where(x != x || y != y, x + y, where(x == y, y, where(x == 0, copysign(least, y), copysign(" +
		"where(abs(x) < double_normal, abs(x) + where((0 < x) == (x < y), least, -least), " +
		"where(abs(x) == inf, largest, fma(where((0 < x) == (x < y), step, -step), abs(x), abs(x)))), x))))",
	noGrad: "the result is constant almost everywhere but for x itself; PyTorch defines none",
}.op()

// NextAfter is the next number of the element type after x, which is t, in the direction of y: y where they are equal,
// NaN where one is. Integers become float32. It has no gradient. Operands broadcast.
func (t *Tensor) NextAfter(y *Tensor) *Tensor {
	in := []*Tensor{t.given(nextAfterOp.Name), y.given(nextAfterOp.Name)}
	f := floatsOf[averaged(promote(in))]
	return apply(nextAfterOp, in, nil, []float64{f.half * (1 + 2*f.half), 2 * f.normal, f.least, f.largest})
}

var addcmulOp = pointwise{
	name: "addcmul", expr: "x + value*a*b", args: "x a b", scalars: "value", result: sameType,
}.op()

// AddCMul is t + value*a*b. Operands broadcast.
func (t *Tensor) AddCMul(value float64, a, b *Tensor) *Tensor {
	return apply(addcmulOp, []*Tensor{t, a, b}, nil, []float64{value})
}

var addcdivOp = pointwise{
	name: "addcdiv", expr: "x + value*a/b", args: "x a b", scalars: "value", lo: 0.5, hi: 2,
}.op()

// AddCDiv is t + value*a/b; integers become float32. Operands broadcast.
func (t *Tensor) AddCDiv(value float64, a, b *Tensor) *Tensor {
	return apply(addcdivOp, []*Tensor{t, a, b}, nil, []float64{value})
}

var addScalarOp = pointwise{name: "add_scalar", expr: "x+a", scalars: "a", result: sameType, fused: true}.op()

// AddScalar is x + a.
func (t *Tensor) AddScalar(a float64) *Tensor { return t.scalar(addScalarOp, a) }

var subFromOp = pointwise{name: "sub_from", expr: "a-x", scalars: "a", result: sameType}.op()

// SubFrom is a - x.
func (t *Tensor) SubFrom(a float64) *Tensor { return t.scalar(subFromOp, a) }

var divIntoOp = pointwise{name: "div_into", expr: "a/x", scalars: "a", lo: 0.3, hi: 2, cast: seam.CastFull}.op()

// DivInto is a / x; integers become float32.
func (t *Tensor) DivInto(a float64) *Tensor { return t.scalar(divIntoOp, a) }

var scaleOp = pointwise{name: "scale", expr: "x*a", scalars: "a", result: sameType, fused: true}.op()

// Scale is a * x.
func (t *Tensor) Scale(a float64) *Tensor { return t.scalar(scaleOp, a) }

// ScaleBy is t times a scalar of the host that may change from step to step.
func (t *Tensor) ScaleBy(a *Scalar) *Tensor { return t.Scale(a.Value()) }

var clampOp = pointwise{name: "clamp", expr: "clamp(x, lo, hi)", scalars: "lo hi", result: sameType}.op()

// Clamp is x held between lo and hi; bounds that int32 or uint8 do not have are their smallest and largest numbers, as
// in MaskedFill and Threshold. The derivative at both is 1: a parameter on its bound can still leave it. PyTorch
// had 1, too, and has 0 since version 2.14.
func (t *Tensor) Clamp(lo, hi float64) *Tensor { return t.scalar(clampOp, t.fit(lo), t.fit(hi)) }

// fit is v, or the nearest number that t's type has where that is int32 or uint8: what becomes an element must not wrap
// around. Of int64, and where v is no integer, the launch refuses what is out of range.
func (t *Tensor) fit(v float64) float64 {
	if t == nil || math.IsInf(v, 0) || v != math.Trunc(v) {
		return v
	}
	switch t.DType() {
	case Int32:
		return min(max(v, math.MinInt32), math.MaxInt32)
	case Uint8:
		return min(max(v, 0), math.MaxUint8)
	}
	return v
}

var lerpOp = pointwise{name: "lerp", expr: "lerp(x, y, t)", args: "x y t"}.op()

// Lerp is t at w = 0, y at w = 1, and on the line through both elsewhere.
func (t *Tensor) Lerp(y, w *Tensor) *Tensor { return apply(lerpOp, []*Tensor{t, y, w}, nil, nil) }

var lerpScalarOp = pointwise{name: "lerp_scalar", expr: "lerp(x, y, w)", args: "x y", scalars: "w"}.op()

// LerpScalar is t at w = 0, y at w = 1, and on the line through both elsewhere.
func (t *Tensor) LerpScalar(y *Tensor, w float64) *Tensor {
	return apply(lerpScalarOp, []*Tensor{t, y}, nil, []float64{w})
}

// Rad2Deg is an angle in degrees, from radians.
func (t *Tensor) Rad2Deg() *Tensor { return t.floating("rad2deg").Scale(180 / math.Pi) }

// Deg2Rad is an angle in radians, from degrees.
func (t *Tensor) Deg2Rad() *Tensor { return t.floating("deg2rad").Scale(math.Pi / 180) }

// floating is t, and float32 for integers and bools.
func (t *Tensor) floating(op string) *Tensor {
	t.given(op)
	return t.To(averaged(t.dtype))
}

var nanToNumOp = pointwise{
	name: "nan_to_num", expr: "where(x != x, n, where(x == inf, hi, where(x == -inf, lo, x)))", scalars: "n hi lo",
}.op()

// NaNToNum replaces NaN and infinities. Values are what takes their place, in PyTorch's order: of NaN, which is 0
// without them, of +Inf, the largest number of the element type, and of -Inf, the lowest. Where they do, the derivative
// is 0. Integers stay as they are.
func (t *Tensor) NaNToNum(values ...float64) *Tensor {
	t.given("nan_to_num")
	if len(values) > 3 {
		fail(ErrValue, "nan_to_num", "takes values for NaN, +Inf and -Inf, got %v", slices.Clone(values))
	}
	if !t.dtype.IsFloat() {
		return t
	}
	largest := floatsOf[t.dtype].largest
	given := append(slices.Clone(values), []float64{0, largest, -largest}[len(values):]...)
	return t.scalar(nanToNumOp, given...)
}

var copyOp = pointwise{name: "copy", expr: "x", result: sameType}.op()

// Clone is a contiguous copy.
func (t *Tensor) Clone() *Tensor { return apply1(copyOp, t) }

// Contiguous is t with row-major strides: t itself if it has them, else a copy.
func (t *Tensor) Contiguous() *Tensor {
	if t.IsContiguous() {
		return t
	}
	return t.Clone()
}
