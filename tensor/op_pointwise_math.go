package tensor

import "github.com/weft-ml/weft/internal/seam"

// The functions of mathematics. Those whose results overflow or cancel in half precision are computed in float32.

var sqrtOp = pointwise{name: "sqrt", expr: "sqrt(x)", lo: 0.2, hi: 3, fused: true}.op()

// Sqrt is the square root; NaN below 0.
func (t *Tensor) Sqrt() *Tensor { return apply1(sqrtOp, t) }

var rsqrtOp = pointwise{name: "rsqrt", expr: "rsqrt(x)", lo: 0.2, hi: 3, cast: seam.CastFull}.op()

// Rsqrt is 1/sqrt(x).
func (t *Tensor) Rsqrt() *Tensor { return apply1(rsqrtOp, t) }

var expOp = pointwise{name: "exp", expr: "exp(x)", cast: seam.CastFull}.op()

// Exp is e^x.
func (t *Tensor) Exp() *Tensor { return apply1(expOp, t) }

var exp2Op = pointwise{name: "exp2", expr: "exp2(x)", cast: seam.CastFull}.op()

// Exp2 is 2^x.
func (t *Tensor) Exp2() *Tensor { return apply1(exp2Op, t) }

var expm1Op = pointwise{name: "expm1", expr: "expm1(x)", cast: seam.CastFull}.op()

// Expm1 is e^x - 1, accurate near 0.
func (t *Tensor) Expm1() *Tensor { return apply1(expm1Op, t) }

var logOp = pointwise{name: "log", expr: "log(x)", lo: 0.2, hi: 3, cast: seam.CastFull}.op()

// Log is the natural logarithm.
func (t *Tensor) Log() *Tensor { return apply1(logOp, t) }

var log2Op = pointwise{name: "log2", expr: "log2(x)", lo: 0.2, hi: 3, cast: seam.CastFull}.op()

// Log2 is the logarithm to base 2.
func (t *Tensor) Log2() *Tensor { return apply1(log2Op, t) }

var log10Op = pointwise{name: "log10", expr: "log10(x)", lo: 0.2, hi: 3, cast: seam.CastFull}.op()

// Log10 is the logarithm to base 10.
func (t *Tensor) Log10() *Tensor { return apply1(log10Op, t) }

var log1pOp = pointwise{name: "log1p", expr: "log1p(x)", lo: -0.7, hi: 2, cast: seam.CastFull}.op()

// Log1p is log(1+x), accurate near 0.
func (t *Tensor) Log1p() *Tensor { return apply1(log1pOp, t) }

var powOp = pointwise{name: "pow", expr: "pow(x, y)", args: "x y", lo: 0.5, hi: 2, cast: seam.CastFull}.op()

// Pow is x^y; x is t. Operands broadcast. Integers become float32; [Tensor.Square] keeps them.
func (t *Tensor) Pow(y *Tensor) *Tensor { return apply2(powOp, t, y) }

var powScalarOp = pointwise{name: "pow_scalar", expr: "pow(x, a)", scalars: "a", lo: 0.5, hi: 2,
	cast: seam.CastFull}.op()

// PowScalar is x^a; of integers in float32.
func (t *Tensor) PowScalar(a float64) *Tensor { return t.scalar(powScalarOp, a) }

var sinOp = pointwise{name: "sin", expr: "sin(x)", lo: -3, hi: 3}.op()

// Sin is the sine.
func (t *Tensor) Sin() *Tensor { return apply1(sinOp, t) }

var cosOp = pointwise{name: "cos", expr: "cos(x)", lo: -3, hi: 3}.op()

// Cos is the cosine.
func (t *Tensor) Cos() *Tensor { return apply1(cosOp, t) }

var tanOp = pointwise{name: "tan", expr: "tan(x)", lo: -1.2, hi: 1.2, cast: seam.CastFull}.op()

// Tan is the tangent.
func (t *Tensor) Tan() *Tensor { return apply1(tanOp, t) }

var asinOp = pointwise{name: "asin", expr: "asin(x)", lo: -0.9, hi: 0.9, cast: seam.CastFull}.op()

// Asin is the inverse sine.
func (t *Tensor) Asin() *Tensor { return apply1(asinOp, t) }

var acosOp = pointwise{name: "acos", expr: "acos(x)", lo: -0.9, hi: 0.9, cast: seam.CastFull}.op()

// Acos is the inverse cosine.
func (t *Tensor) Acos() *Tensor { return apply1(acosOp, t) }

var atanOp = pointwise{name: "atan", expr: "atan(x)", lo: -3, hi: 3}.op()

// Atan is the inverse tangent.
func (t *Tensor) Atan() *Tensor { return apply1(atanOp, t) }

var atan2Op = pointwise{name: "atan2", expr: "atan2(x, y)", args: "x y", lo: 0.5, hi: 2}.op()

// Atan2 is the angle of the point (y, x), from -pi to pi; -0 counts as negative, and infinities as equal lengths; x
// is t. Operands broadcast.
func (t *Tensor) Atan2(y *Tensor) *Tensor { return apply2(atan2Op, t, y) }

var hypotOp = pointwise{name: "hypot", expr: "hypot(x, y)", args: "x y", lo: 0.5, hi: 2, cast: seam.CastFull}.op()

// Hypot is sqrt(x*x + y*y), whose squares neither overflow nor underflow; x is t. Operands broadcast.
func (t *Tensor) Hypot(y *Tensor) *Tensor { return apply2(hypotOp, t, y) }

var sinhOp = pointwise{name: "sinh", expr: "sinh(x)", cast: seam.CastFull}.op()

// Sinh is the hyperbolic sine.
func (t *Tensor) Sinh() *Tensor { return apply1(sinhOp, t) }

var coshOp = pointwise{name: "cosh", expr: "cosh(x)", cast: seam.CastFull}.op()

// Cosh is the hyperbolic cosine.
func (t *Tensor) Cosh() *Tensor { return apply1(coshOp, t) }

var tanhOp = pointwise{name: "tanh", expr: "tanh(x)", approximate: true, fused: true}.op()

// Tanh is the hyperbolic tangent.
func (t *Tensor) Tanh() *Tensor { return apply1(tanhOp, t) }

var asinhOp = pointwise{name: "asinh", expr: "asinh(x)"}.op()

// Asinh is the inverse hyperbolic sine.
func (t *Tensor) Asinh() *Tensor { return apply1(asinhOp, t) }

var acoshOp = pointwise{name: "acosh", expr: "acosh(x)", lo: 1.2, hi: 4, cast: seam.CastFull}.op()

// Acosh is the inverse hyperbolic cosine.
func (t *Tensor) Acosh() *Tensor { return apply1(acoshOp, t) }

var atanhOp = pointwise{name: "atanh", expr: "atanh(x)", lo: -0.9, hi: 0.9, cast: seam.CastFull}.op()

// Atanh is the inverse hyperbolic tangent.
func (t *Tensor) Atanh() *Tensor { return apply1(atanhOp, t) }

var erfOp = pointwise{name: "erf", expr: "erf(x)"}.op()

// Erf is the error function.
func (t *Tensor) Erf() *Tensor { return apply1(erfOp, t) }

var erfcOp = pointwise{name: "erfc", expr: "erfc(x)"}.op()

// Erfc is 1 - erf(x), accurate for large x.
func (t *Tensor) Erfc() *Tensor { return apply1(erfcOp, t) }

var erfinvOp = pointwise{name: "erfinv", expr: "erfinv(x)", lo: -0.9, hi: 0.9, cast: seam.CastFull}.op()

// ErfInv is the inverse of erf: infinite at -1 and 1, NaN beyond. Errors are at most 4 units in the last place in
// float32, and 8 in float64.
func (t *Tensor) ErfInv() *Tensor { return apply1(erfinvOp, t) }

var lgammaOp = pointwise{name: "lgamma", expr: "lgamma(x)", lo: 0.2, hi: 5, cast: seam.CastFull}.op()

// LGamma is log|gamma(x)|, +Inf at 0 and the negative integers. For positive x errors are at most 8 units in the last
// place, for negative ones 8 of the result or of 1, the larger one. The derivative is [Tensor.Digamma].
func (t *Tensor) LGamma() *Tensor { return apply1(lgammaOp, t) }

var digammaOp = pointwise{name: "digamma", expr: "digamma(x)", lo: 0.2, hi: 5, cast: seam.CastFull}.op()

// Digamma is the derivative of log(gamma(x)): -Inf at 0, +Inf at -0, NaN at negative integers. For positive x errors
// are at most 8 units in the last place of the result or of 1, the larger one.
func (t *Tensor) Digamma() *Tensor { return apply1(digammaOp, t) }

var sincOp = pointwise{name: "sinc", expr: "sinc(x)"}.op()

// Sinc is sin(pi*x)/(pi*x), and 1 at 0.
func (t *Tensor) Sinc() *Tensor { return apply1(sincOp, t) }

var normPDFOp = pointwise{name: "normpdf", expr: "normpdf(x)"}.op()

// NormPDF is the density of the standard normal distribution, exp(-x²/2) / sqrt(2 pi).
func (t *Tensor) NormPDF() *Tensor { return apply1(normPDFOp, t) }

var normCDFOp = pointwise{name: "normcdf", expr: "normcdf(x)"}.op()

// NormCDF is the distribution function of the standard normal distribution, the probability of numbers less than x;
// accurate for negative x, too.
func (t *Tensor) NormCDF() *Tensor { return apply1(normCDFOp, t) }

var logaddexpOp = pointwise{name: "logaddexp", expr: "logaddexp(x, y)", args: "x y", cast: seam.CastFull}.op()

// LogAddExp is log(e^x + e^y); x is t. Operands broadcast.
func (t *Tensor) LogAddExp(y *Tensor) *Tensor { return apply2(logaddexpOp, t, y) }

var xlogyOp = pointwise{name: "xlogy", expr: "xlogy(x, y)", args: "x y", lo: 0.5, hi: 2, cast: seam.CastFull}.op()

// XLogY is x*log(y), 0 for x = 0; x is t. Operands broadcast.
func (t *Tensor) XLogY(y *Tensor) *Tensor { return apply2(xlogyOp, t, y) }
