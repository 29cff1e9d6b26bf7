package tensor

import "math"

// The pointwise operations: one line each in init, and the method users call. The name of an expression's
// function is that of package expr.

var (
	negOp, absOp, signOp, squareOp, sqrtOp, rsqrtOp, reciprocalOp, expOp, exp2Op, expm1Op, logOp, log2Op, log10Op   Op
	log1pOp, sinOp, cosOp, tanOp, asinOp, acosOp, atanOp, sinhOp, coshOp, tanhOp, asinhOp, acoshOp, atanhOp, erfOp  Op
	erfcOp, normPDFOp, normCDFOp, floorOp, ceilOp, roundOp, truncOp, fracOp, sigmoidOp, logSigmoidOp, logitOp       Op
	reluOp, relu6Op, seluOp, geluOp, geluTanhOp, siluOp, mishOp, softplusOp, softsignOp, hardtanhOp, hardsigmoidOp  Op
	hardswishOp, tanhshrinkOp, isnanOp, isinfOp, isfiniteOp, notOp, addOp, subOp, mulOp, divOp, floorDivOp, modOp   Op
	fmodOp, powOp, atan2Op, hypotOp, logaddexpOp, xlogyOp, maximumOp, minimumOp, lessOp, lessEqualOp, greaterOp     Op
	greaterEqualOp, equalOp, notEqualOp, andOp, orOp, xorOp, addScalarOp, scaleOp, powScalarOp, clampOp             Op
	leakyReluOp, eluOp, celuOp, hardshrinkOp, softshrinkOp, whereOp, lerpOp, maskedFillOp, dropoutOp, bceOp, copyOp Op
)

func init() {
	pointwise(&negOp, "neg", "-x", "x", nil, sameType, -2, 2)
	pointwise(&absOp, "abs", "abs(x)", "x", nil, sameType, 0.1, 2)
	pointwise(&signOp, "sign", "sign(x)", "x", nil, sameType, 0.1, 2)
	pointwise(&squareOp, "square", "x*x", "x", nil, sameType, -2, 2)
	pointwise(&sqrtOp, "sqrt", "sqrt(x)", "x", nil, floatType, 0.2, 3)
	pointwise(&rsqrtOp, "rsqrt", "rsqrt(x)", "x", nil, floatType, 0.2, 3)
	pointwise(&reciprocalOp, "reciprocal", "1/x", "x", nil, floatType, 0.3, 2)
	pointwise(&expOp, "exp", "exp(x)", "x", nil, floatType, -2, 2)
	pointwise(&exp2Op, "exp2", "exp2(x)", "x", nil, floatType, -2, 2)
	pointwise(&expm1Op, "expm1", "expm1(x)", "x", nil, floatType, -2, 2)
	pointwise(&logOp, "log", "log(x)", "x", nil, floatType, 0.2, 3)
	pointwise(&log2Op, "log2", "log2(x)", "x", nil, floatType, 0.2, 3)
	pointwise(&log10Op, "log10", "log10(x)", "x", nil, floatType, 0.2, 3)
	pointwise(&log1pOp, "log1p", "log1p(x)", "x", nil, floatType, -0.7, 2)
	pointwise(&sinOp, "sin", "sin(x)", "x", nil, floatType, -3, 3)
	pointwise(&cosOp, "cos", "cos(x)", "x", nil, floatType, -3, 3)
	pointwise(&tanOp, "tan", "tan(x)", "x", nil, floatType, -1.2, 1.2)
	pointwise(&asinOp, "asin", "asin(x)", "x", nil, floatType, -0.9, 0.9)
	pointwise(&acosOp, "acos", "acos(x)", "x", nil, floatType, -0.9, 0.9)
	pointwise(&atanOp, "atan", "atan(x)", "x", nil, floatType, -3, 3)
	pointwise(&sinhOp, "sinh", "sinh(x)", "x", nil, floatType, -2, 2)
	pointwise(&coshOp, "cosh", "cosh(x)", "x", nil, floatType, -2, 2)
	pointwise(&tanhOp, "tanh", "tanh(x)", "x", nil, floatType, -2, 2)
	pointwise(&asinhOp, "asinh", "asinh(x)", "x", nil, floatType, -2, 2)
	pointwise(&acoshOp, "acosh", "acosh(x)", "x", nil, floatType, 1.2, 4)
	pointwise(&atanhOp, "atanh", "atanh(x)", "x", nil, floatType, -0.9, 0.9)
	pointwise(&erfOp, "erf", "erf(x)", "x", nil, floatType, -2, 2)
	pointwise(&erfcOp, "erfc", "erfc(x)", "x", nil, floatType, -2, 2)
	pointwise(&normPDFOp, "normpdf", "normpdf(x)", "x", nil, floatType, -2, 2)
	pointwise(&normCDFOp, "normcdf", "normcdf(x)", "x", nil, floatType, -2, 2)
	pointwise(&floorOp, "floor", "floor(x)", "x", nil, sameType, 0.1, 0.9)
	pointwise(&ceilOp, "ceil", "ceil(x)", "x", nil, sameType, 0.1, 0.9)
	pointwise(&roundOp, "round", "round(x)", "x", nil, sameType, 0.1, 0.4)
	pointwise(&truncOp, "trunc", "trunc(x)", "x", nil, sameType, 0.1, 0.9)
	pointwise(&fracOp, "frac", "frac(x)", "x", nil, sameType, 0.1, 0.9)
	pointwise(&sigmoidOp, "sigmoid", "sigmoid(x)", "x", nil, floatType, -3, 3)
	pointwise(&logSigmoidOp, "log_sigmoid", "logsigmoid(x)", "x", nil, floatType, -3, 3)
	pointwise(&logitOp, "logit", "logit(x)", "x", nil, floatType, 0.1, 0.9)
	pointwise(&reluOp, "relu", "relu(x)", "x", nil, sameType, 0.1, 2)
	pointwise(&relu6Op, "relu6", "relu6(x)", "x", nil, sameType, 0.1, 2)
	pointwise(&seluOp, "selu", "selu(x)", "x", nil, floatType, 0.1, 2)
	pointwise(&geluOp, "gelu", "gelu(x)", "x", nil, floatType, -3, 3)
	pointwise(&geluTanhOp, "gelu_tanh", "gelu_tanh(x)", "x", nil, floatType, -3, 3)
	pointwise(&siluOp, "silu", "silu(x)", "x", nil, floatType, -3, 3)
	pointwise(&mishOp, "mish", "mish(x)", "x", nil, floatType, -3, 3)
	pointwise(&softplusOp, "softplus", "softplus(x)", "x", nil, floatType, -3, 3)
	pointwise(&softsignOp, "softsign", "softsign(x)", "x", nil, floatType, 0.1, 2)
	pointwise(&hardtanhOp, "hardtanh", "hardtanh(x)", "x", nil, sameType, -0.9, 0.9)
	pointwise(&hardsigmoidOp, "hardsigmoid", "hardsigmoid(x)", "x", nil, floatType, -2, 2)
	pointwise(&hardswishOp, "hardswish", "hardswish(x)", "x", nil, floatType, -2, 2)
	pointwise(&tanhshrinkOp, "tanhshrink", "tanhshrink(x)", "x", nil, floatType, -2, 2)
	pointwise(&isnanOp, "isnan", "isnan(x)", "x", nil, boolType, -2, 2)
	pointwise(&isinfOp, "isinf", "isinf(x)", "x", nil, boolType, -2, 2)
	pointwise(&isfiniteOp, "isfinite", "isfinite(x)", "x", nil, boolType, -2, 2)
	pointwise(&notOp, "not", "!x", "x", nil, boolType, -2, 2)

	pointwise(&addOp, "add", "x+y", "xy", nil, sameType, -2, 2)
	pointwise(&subOp, "sub", "x-y", "xy", nil, sameType, -2, 2)
	pointwise(&mulOp, "mul", "x*y", "xy", nil, sameType, -2, 2)
	pointwise(&divOp, "div", "x/y", "xy", nil, floatType, 0.5, 2)
	pointwise(&floorDivOp, "floor_div", "floordiv(x, y)", "xy", nil, sameType, 0.5, 0.9)
	pointwise(&modOp, "mod", "mod(x, y)", "xy", nil, sameType, 1.1, 1.9)
	pointwise(&fmodOp, "fmod", "fmod(x, y)", "xy", nil, sameType, 1.1, 1.9)
	pointwise(&powOp, "pow", "pow(x, y)", "xy", nil, floatType, 0.5, 2)
	pointwise(&atan2Op, "atan2", "atan2(x, y)", "xy", nil, floatType, 0.5, 2)
	pointwise(&hypotOp, "hypot", "hypot(x, y)", "xy", nil, floatType, 0.5, 2)
	pointwise(&logaddexpOp, "logaddexp", "logaddexp(x, y)", "xy", nil, floatType, -2, 2)
	pointwise(&xlogyOp, "xlogy", "xlogy(x, y)", "xy", nil, floatType, 0.5, 2)
	pointwise(&maximumOp, "maximum", "max(x, y)", "xy", nil, sameType, -2, 2)
	pointwise(&minimumOp, "minimum", "min(x, y)", "xy", nil, sameType, -2, 2)
	pointwise(&lessOp, "less", "x < y", "xy", nil, boolType, -2, 2)
	pointwise(&lessEqualOp, "less_equal", "x <= y", "xy", nil, boolType, -2, 2)
	pointwise(&greaterOp, "greater", "x > y", "xy", nil, boolType, -2, 2)
	pointwise(&greaterEqualOp, "greater_equal", "x >= y", "xy", nil, boolType, -2, 2)
	pointwise(&equalOp, "equal", "x == y", "xy", nil, boolType, -2, 2)
	pointwise(&notEqualOp, "not_equal", "x != y", "xy", nil, boolType, -2, 2)
	pointwise(&andOp, "and", "x && y", "xy", nil, boolType, -2, 2)
	pointwise(&orOp, "or", "x || y", "xy", nil, boolType, -2, 2)
	pointwise(&xorOp, "xor", "xor(x, y)", "xy", nil, boolType, -2, 2)

	pointwise(&addScalarOp, "add_scalar", "x+a", "x", []string{"a"}, sameType, -2, 2)
	pointwise(&scaleOp, "scale", "x*a", "x", []string{"a"}, sameType, -2, 2)
	pointwise(&powScalarOp, "pow_scalar", "pow(x, a)", "x", []string{"a"}, floatType, 0.5, 2)
	pointwise(&clampOp, "clamp", "clamp(x, lo, hi)", "x", []string{"lo", "hi"}, sameType, -2, 2)
	pointwise(&leakyReluOp, "leaky_relu", "leaky_relu(x, slope)", "x", []string{"slope"}, floatType, 0.1, 2)
	pointwise(&eluOp, "elu", "elu(x, alpha)", "x", []string{"alpha"}, floatType, 0.1, 2)
	pointwise(&celuOp, "celu", "celu(x, alpha)", "x", []string{"alpha"}, floatType, 0.1, 2)
	pointwise(&hardshrinkOp, "hardshrink", "hardshrink(x, bound)", "x", []string{"bound"}, floatType, 1.1, 2)
	pointwise(&softshrinkOp, "softshrink", "softshrink(x, bound)", "x", []string{"bound"}, floatType, 1.1, 2)

	pointwise(&whereOp, "where", "where(c, x, y)", "cxy", nil, sameType, -2, 2)
	pointwise(&lerpOp, "lerp", "lerp(x, y, t)", "xyt", nil, floatType, -2, 2)
	pointwise(&maskedFillOp, "masked_fill", "where(m, v, x)", "xm", []string{"v"}, sameType, -2, 2)
	pointwise(&dropoutOp, "dropout", "where(rand(0) < p, 0, x*(1/(1-p)))", "x", []string{"p"}, floatType, -2, 2)
	pointwise(&bceOp, "binary_cross_entropy", "-(y*max(log(p), -100) + (1-y)*max(log1p(-p), -100))", "py", nil, floatType, 0.1, 0.9)
	pointwise(&copyOp, "copy", "x", "x", nil, sameType, -2, 2)

	// Those whose results overflow or cancel in half precision.
	for _, o := range []*Op{&acosOp, &asinOp, &acoshOp, &atanhOp, &coshOp, &sinhOp, &tanOp, &expOp, &exp2Op, &expm1Op, &logOp, &log2Op,
		&log10Op, &log1pOp, &powOp, &powScalarOp, &squareOp, &reciprocalOp, &rsqrtOp, &softplusOp, &logSigmoidOp, &logitOp, &logaddexpOp,
		&xlogyOp, &hypotOp} {
		o.Cast = CastFull
	}
	bceOp.Cast, bceOp.Instead = CastBanned, "take nn.BCEWithLogits, which needs no sigmoid"
}

// Neg is -x.
func (t *Tensor) Neg() *Tensor { return apply1(&negOp, t) }

// Abs is |x|; the derivative at 0 is 0.
func (t *Tensor) Abs() *Tensor { return apply1(&absOp, t) }

// Sign is -1, 0 or 1.
func (t *Tensor) Sign() *Tensor { return apply1(&signOp, t) }

// Square is x squared.
func (t *Tensor) Square() *Tensor { return apply1(&squareOp, t) }

// Sqrt is the square root; NaN below 0.
func (t *Tensor) Sqrt() *Tensor { return apply1(&sqrtOp, t) }

// Rsqrt is 1/sqrt(x).
func (t *Tensor) Rsqrt() *Tensor { return apply1(&rsqrtOp, t) }

// Reciprocal is 1/x.
func (t *Tensor) Reciprocal() *Tensor { return apply1(&reciprocalOp, t) }

// Exp is e^x.
func (t *Tensor) Exp() *Tensor { return apply1(&expOp, t) }

// Exp2 is 2^x.
func (t *Tensor) Exp2() *Tensor { return apply1(&exp2Op, t) }

// Expm1 is e^x - 1, accurate near 0.
func (t *Tensor) Expm1() *Tensor { return apply1(&expm1Op, t) }

// Log is the natural logarithm.
func (t *Tensor) Log() *Tensor { return apply1(&logOp, t) }

// Log2 is the logarithm to base 2.
func (t *Tensor) Log2() *Tensor { return apply1(&log2Op, t) }

// Log10 is the logarithm to base 10.
func (t *Tensor) Log10() *Tensor { return apply1(&log10Op, t) }

// Log1p is log(1+x), accurate near 0.
func (t *Tensor) Log1p() *Tensor { return apply1(&log1pOp, t) }

// Sin is the sine.
func (t *Tensor) Sin() *Tensor { return apply1(&sinOp, t) }

// Cos is the cosine.
func (t *Tensor) Cos() *Tensor { return apply1(&cosOp, t) }

// Tan is the tangent.
func (t *Tensor) Tan() *Tensor { return apply1(&tanOp, t) }

// Asin is the inverse sine.
func (t *Tensor) Asin() *Tensor { return apply1(&asinOp, t) }

// Acos is the inverse cosine.
func (t *Tensor) Acos() *Tensor { return apply1(&acosOp, t) }

// Atan is the inverse tangent.
func (t *Tensor) Atan() *Tensor { return apply1(&atanOp, t) }

// Sinh is the hyperbolic sine.
func (t *Tensor) Sinh() *Tensor { return apply1(&sinhOp, t) }

// Cosh is the hyperbolic cosine.
func (t *Tensor) Cosh() *Tensor { return apply1(&coshOp, t) }

// Tanh is the hyperbolic tangent.
func (t *Tensor) Tanh() *Tensor { return apply1(&tanhOp, t) }

// Asinh is the inverse hyperbolic sine.
func (t *Tensor) Asinh() *Tensor { return apply1(&asinhOp, t) }

// Acosh is the inverse hyperbolic cosine.
func (t *Tensor) Acosh() *Tensor { return apply1(&acoshOp, t) }

// Atanh is the inverse hyperbolic tangent.
func (t *Tensor) Atanh() *Tensor { return apply1(&atanhOp, t) }

// Erf is the error function.
func (t *Tensor) Erf() *Tensor { return apply1(&erfOp, t) }

// Erfc is 1 - erf(x), accurate for large x.
func (t *Tensor) Erfc() *Tensor { return apply1(&erfcOp, t) }

// NormPDF is the density of the standard normal distribution, exp(-x²/2) / sqrt(2 pi).
func (t *Tensor) NormPDF() *Tensor { return apply1(&normPDFOp, t) }

// NormCDF is the distribution function of the standard normal distribution, the probability of numbers less than x;
// accurate for negative x, too.
func (t *Tensor) NormCDF() *Tensor { return apply1(&normCDFOp, t) }

// Floor is x rounded down.
func (t *Tensor) Floor() *Tensor { return apply1(&floorOp, t) }

// Ceil is x rounded up.
func (t *Tensor) Ceil() *Tensor { return apply1(&ceilOp, t) }

// Round is x rounded to the nearest integer, halves to even.
func (t *Tensor) Round() *Tensor { return apply1(&roundOp, t) }

// Trunc is x rounded towards 0.
func (t *Tensor) Trunc() *Tensor { return apply1(&truncOp, t) }

// Frac is x - trunc(x).
func (t *Tensor) Frac() *Tensor { return apply1(&fracOp, t) }

// Sigmoid is 1/(1+e^-x).
func (t *Tensor) Sigmoid() *Tensor { return apply1(&sigmoidOp, t) }

// LogSigmoid is log(sigmoid(x)).
func (t *Tensor) LogSigmoid() *Tensor { return apply1(&logSigmoidOp, t) }

// Logit is log(x/(1-x)), the inverse of sigmoid.
func (t *Tensor) Logit() *Tensor { return apply1(&logitOp, t) }

// ReLU is x where positive, else 0.
func (t *Tensor) ReLU() *Tensor { return apply1(&reluOp, t) }

// ReLU6 is x between 0 and 6.
func (t *Tensor) ReLU6() *Tensor { return apply1(&relu6Op, t) }

// SELU is the self-normalising ELU (Klambauer et al. 2017).
func (t *Tensor) SELU() *Tensor { return apply1(&seluOp, t) }

// GELU is x times the normal distribution function, by erf (Hendrycks and Gimpel 2016).
func (t *Tensor) GELU() *Tensor { return apply1(&geluOp, t) }

// GELUTanh is GELU by its tanh approximation.
func (t *Tensor) GELUTanh() *Tensor { return apply1(&geluTanhOp, t) }

// SiLU is x*sigmoid(x), the swish.
func (t *Tensor) SiLU() *Tensor { return apply1(&siluOp, t) }

// Mish is x*tanh(softplus(x)) (Misra 2019).
func (t *Tensor) Mish() *Tensor { return apply1(&mishOp, t) }

// Softplus is log(1+e^x).
func (t *Tensor) Softplus() *Tensor { return apply1(&softplusOp, t) }

// Softsign is x/(1+|x|).
func (t *Tensor) Softsign() *Tensor { return apply1(&softsignOp, t) }

// Hardtanh is x between -1 and 1.
func (t *Tensor) Hardtanh() *Tensor { return apply1(&hardtanhOp, t) }

// Hardsigmoid is relu6(x+3)/6.
func (t *Tensor) Hardsigmoid() *Tensor { return apply1(&hardsigmoidOp, t) }

// Hardswish is x*hardsigmoid(x).
func (t *Tensor) Hardswish() *Tensor { return apply1(&hardswishOp, t) }

// Tanhshrink is x - tanh(x).
func (t *Tensor) Tanhshrink() *Tensor { return apply1(&tanhshrinkOp, t) }

// IsNaN is whether x is not a number.
func (t *Tensor) IsNaN() *Tensor { return apply1(&isnanOp, t) }

// IsInf is whether x is infinite.
func (t *Tensor) IsInf() *Tensor { return apply1(&isinfOp, t) }

// IsFinite is whether x is a finite number.
func (t *Tensor) IsFinite() *Tensor { return apply1(&isfiniteOp, t) }

// Not is whether x is 0.
func (t *Tensor) Not() *Tensor { return apply1(&notOp, t) }

// Add is x + y; x is t. Operands broadcast.
func (t *Tensor) Add(y *Tensor) *Tensor { return apply2(&addOp, t, y) }

// Sub is x - y; x is t. Operands broadcast.
func (t *Tensor) Sub(y *Tensor) *Tensor { return apply2(&subOp, t, y) }

// Mul is x * y; x is t. Operands broadcast.
func (t *Tensor) Mul(y *Tensor) *Tensor { return apply2(&mulOp, t, y) }

// Div is x / y; integers become float32; x is t. Operands broadcast.
func (t *Tensor) Div(y *Tensor) *Tensor { return apply2(&divOp, t, y) }

// FloorDiv is floor(x/y): -7 by 2 is -4; integers by 0 give 0; x is t. Operands broadcast.
func (t *Tensor) FloorDiv(y *Tensor) *Tensor { return apply2(&floorDivOp, t, y) }

// Mod is the remainder of FloorDiv, with the sign of y: -7 by 2 is 1; x is t. Operands broadcast.
func (t *Tensor) Mod(y *Tensor) *Tensor { return apply2(&modOp, t, y) }

// Fmod is the remainder of division rounded to 0, with the sign of x: -7 by 2 is -1; x is t. Operands broadcast.
func (t *Tensor) Fmod(y *Tensor) *Tensor { return apply2(&fmodOp, t, y) }

// Pow is x^y; x is t. Operands broadcast.
func (t *Tensor) Pow(y *Tensor) *Tensor { return apply2(&powOp, t, y) }

// Atan2 is the angle of the point (y, x); x is t. Operands broadcast.
func (t *Tensor) Atan2(y *Tensor) *Tensor { return apply2(&atan2Op, t, y) }

// Hypot is sqrt(x*x + y*y); x is t. Operands broadcast.
func (t *Tensor) Hypot(y *Tensor) *Tensor { return apply2(&hypotOp, t, y) }

// LogAddExp is log(e^x + e^y); x is t. Operands broadcast.
func (t *Tensor) LogAddExp(y *Tensor) *Tensor { return apply2(&logaddexpOp, t, y) }

// XLogY is x*log(y), 0 for x = 0; x is t. Operands broadcast.
func (t *Tensor) XLogY(y *Tensor) *Tensor { return apply2(&xlogyOp, t, y) }

// Maximum is the larger of x and y; NaN if either is; ties share the gradient; x is t. Operands broadcast.
func (t *Tensor) Maximum(y *Tensor) *Tensor { return apply2(&maximumOp, t, y) }

// Minimum is the smaller of x and y; NaN if either is; ties share the gradient; x is t. Operands broadcast.
func (t *Tensor) Minimum(y *Tensor) *Tensor { return apply2(&minimumOp, t, y) }

// Less is whether x < y; x is t. Operands broadcast.
func (t *Tensor) Less(y *Tensor) *Tensor { return apply2(&lessOp, t, y) }

// LessEqual is whether x <= y; x is t. Operands broadcast.
func (t *Tensor) LessEqual(y *Tensor) *Tensor { return apply2(&lessEqualOp, t, y) }

// Greater is whether x > y; x is t. Operands broadcast.
func (t *Tensor) Greater(y *Tensor) *Tensor { return apply2(&greaterOp, t, y) }

// GreaterEqual is whether x >= y; x is t. Operands broadcast.
func (t *Tensor) GreaterEqual(y *Tensor) *Tensor { return apply2(&greaterEqualOp, t, y) }

// Equal is whether x = y; x is t. Operands broadcast.
func (t *Tensor) Equal(y *Tensor) *Tensor { return apply2(&equalOp, t, y) }

// NotEqual is whether x differs from y; x is t. Operands broadcast.
func (t *Tensor) NotEqual(y *Tensor) *Tensor { return apply2(&notEqualOp, t, y) }

// And is whether both are not 0; x is t. Operands broadcast.
func (t *Tensor) And(y *Tensor) *Tensor { return apply2(&andOp, t, y) }

// Or is whether one is not 0; x is t. Operands broadcast.
func (t *Tensor) Or(y *Tensor) *Tensor { return apply2(&orOp, t, y) }

// Xor is whether exactly one is not 0; x is t. Operands broadcast.
func (t *Tensor) Xor(y *Tensor) *Tensor { return apply2(&xorOp, t, y) }

// AddScalar is x + a.
func (t *Tensor) AddScalar(a float64) *Tensor { return t.scalar(&addScalarOp, a) }

// Scale is a * x.
func (t *Tensor) Scale(a float64) *Tensor { return t.scalar(&scaleOp, a) }

// PowScalar is x^a.
func (t *Tensor) PowScalar(a float64) *Tensor { return t.scalar(&powScalarOp, a) }

// Clamp is x held between lo and hi; the derivative at both is 1.
func (t *Tensor) Clamp(lo, hi float64) *Tensor { return t.scalar(&clampOp, lo, hi) }

// LeakyReLU is x where positive, else slope*x.
func (t *Tensor) LeakyReLU(slope float64) *Tensor { return t.scalar(&leakyReluOp, slope) }

// ELU is x where positive, else alpha*(e^x-1).
func (t *Tensor) ELU(alpha float64) *Tensor { return t.scalar(&eluOp, alpha) }

// CELU is ELU with a continuous derivative.
func (t *Tensor) CELU(alpha float64) *Tensor { return t.scalar(&celuOp, alpha) }

// Hardshrink is 0 within the bound, else x.
func (t *Tensor) Hardshrink(bound float64) *Tensor { return t.scalar(&hardshrinkOp, bound) }

// Softshrink is x moved towards 0 by the bound.
func (t *Tensor) Softshrink(bound float64) *Tensor { return t.scalar(&softshrinkOp, bound) }

// scalar applies an operation with number operands. Integer tensors take whole numbers only, so that the
// result's type never depends on a number's value.
func (t *Tensor) scalar(op *Op, v ...float64) *Tensor {
	if op.result == sameType && t != nil && !t.dtype.IsFloat() {
		for _, a := range v {
			if a != math.Trunc(a) {
				Fail(ErrValue, op.Name, "%v holds integers and %v is none; x.To(tensor.Float32) converts", t, a)
			}
		}
	}
	return Apply(op, []*Tensor{t}, nil, v)
}

// Where is x where the condition t is not 0, else y. Operands broadcast.
func (t *Tensor) Where(x, y *Tensor) *Tensor { return Apply(&whereOp, []*Tensor{t, x, y}, nil, nil) }

// Lerp is t at w = 0, y at w = 1, and on the line through both elsewhere.
func (t *Tensor) Lerp(y, w *Tensor) *Tensor { return Apply(&lerpOp, []*Tensor{t, y, w}, nil, nil) }

// MaskedFill is t with v where mask is not 0.
func (t *Tensor) MaskedFill(mask *Tensor, v float64) *Tensor {
	return Apply(&maskedFillOp, []*Tensor{t, mask}, nil, []float64{v})
}

// Dropout zeroes each element with probability p and scales the others by 1/(1-p), in steps with
// training behaviour; elsewhere it is t. The mask is drawn again in backward, never stored
// (Srivastava et al. 2014).
func (t *Tensor) Dropout(p float64) *Tensor {
	if !(p >= 0 && p < 1) {
		Fail(ErrValue, "dropout", "the probability %v is outside [0, 1)", p)
	}
	t.alive("dropout")
	if p == 0 || t.scope == nil || !t.scope.Training() {
		return t
	}
	return Apply(&dropoutOp, []*Tensor{t}, nil, []float64{p})
}

// BinaryCrossEntropy is -y log p - (1-y) log(1-p) for probabilities p, which is t, and targets y in [0, 1]; logarithms are
// held above -100. Operands broadcast.
func (t *Tensor) BinaryCrossEntropy(y *Tensor) *Tensor { return apply2(&bceOp, t, y) }

// ScaleBy is t times a host number that may change from step to step.
func (t *Tensor) ScaleBy(a *Scalar) *Tensor { return t.Scale(a.Value()) }

// Clone is a contiguous copy.
func (t *Tensor) Clone() *Tensor { return apply1(&copyOp, t) }
