package lane

import "math"

// The polynomials of this package are minimax fits (Remez exchange) whose coefficients were rounded to float32 one
// after another, the most important first, with the rest fitted again each time.

const (
	signBit  = 0x80000000
	quietBit = 0x00400000 // of a NaN that is not signalling
	absBits  = 0x7fffffff
	oneBits  = 0x3f800000
)

// magic is 1.5 * 2^23. Adding it to |x| < 2^22 rounds x to an integer, ties to
// even, and leaves that integer in the low bits of the sum.
const magic = 12582912

// ln 2 in two parts (Cody and Waite): the first has few enough bits for exact products with the exponents of float32.
const (
	ln2Hi = 0x1.62e4p-1
	ln2Lo = 1.42860682030941723212e-6
)

// Neg is -x, also of a zero.
func Neg(b *Builder, x Value) Value { return b.Xor(x, b.Bits(signBit)) }

// Abs is |x|.
func Abs(b *Builder, x Value) Value { return b.And(x, b.Bits(absBits)) }

// withSign is x, which must not be negative, with the sign of s.
func withSign(b *Builder, x, s Value) Value { return b.Or(x, b.And(s, b.Bits(signBit))) }

// nan is the quiet NaN that stands for an invalid result.
func nan(b *Builder) Value { return b.Bits(0x7fc00000) }

// inf is +Inf.
func inf(b *Builder) Value { return b.Bits(0x7f800000) }

// clamp is x limited to [lo, hi]; a NaN stays.
func clamp(b *Builder, x Value, lo, hi float64) Value {
	return b.Greater(b.Const(lo), b.Lesser(b.Const(hi), x))
}

// expReduce splits x = n ln 2 + r with |r| <= ln 2 / 2 (1 + 2^-20). bits holds n in its low bits.
func expReduce(b *Builder, x Value) (n, bits, r Value) {
	bits = b.FMA(x, b.Const(math.Log2E), b.Const(magic))
	n = b.Sub(bits, b.Const(magic))
	r = b.FNMA(n, b.Const(ln2Hi), x)
	r = b.FNMA(n, b.Const(ln2Lo), r)
	return n, bits, r
}

// expPoly is e^r for |r| <= ln 2 / 2, to 2^-28.
func expPoly(b *Builder, r Value) Value {
	return b.Horner(r, 1.3840367e-03, 8.369348e-03, 4.1668084e-02, 1.6666515e-01, 4.9999994e-01, 1, 1)
}

// Exp is e^x = 2^n e^r. Maximal error 0.9 ulp.
func Exp(b *Builder, x Value) Value {
	// Below -104 the result is zero, above 89 infinity; n stays small.
	n, _, r := expReduce(b, clamp(b, x, -104, 89))
	return b.Ldexp(expPoly(b, r), n)
}

// ExpBelow is Exp for x <= 40, in fewer primitives; for other x and NaN it may be anything. 2^n e^r is 2^-64 times a
// number whose exponent is that of e^r and n + 64, and which cannot be subnormal.
func ExpBelow(b *Builder, x Value) Value {
	const offset = 64
	x = b.Greater(b.Const(-104), x)
	bits := b.FMA(x, b.Const(math.Log2E), b.Const(magic+offset))
	n := b.Sub(bits, b.Const(magic+offset))
	r := b.FNMA(n, b.Const(ln2Lo), b.FNMA(n, b.Const(ln2Hi), x))
	return b.Mul(b.IAdd(expPoly(b, r), b.Shl(bits, 23)), b.Const(1.0/(1<<offset)))
}

// Exp2 is 2^x = 2^n 2^r, exact for integers. Maximal error 0.95 ulp.
func Exp2(b *Builder, x Value) Value {
	x = clamp(b, x, -151, 129)
	n := b.Sub(b.Add(x, b.Const(magic)), b.Const(magic))
	return b.Ldexp(exp2Poly(b, b.Sub(x, n)), n)
}

// exp2Poly is 2^r for |r| <= 1/2, to 2^-26.
func exp2Poly(b *Builder, r Value) Value {
	return b.Horner(r, 1.3337989e-04, 1.3387956e-03, 9.6254395e-03, 5.5503663e-02, 2.4022594e-01, 6.931472e-01, 1)
}

// expm1Poly is e^r - 1 for |r| <= ln 2 / 2, to 2^-26.
func expm1Poly(b *Builder, r Value) Value {
	q := b.Horner(r, 1.3837862e-03, 8.367319e-03, 4.166774e-02, 1.6666538e-01, 4.9999997e-01)
	return b.FMA(q, b.Mul(r, r), r)
}

// Expm1 is e^x - 1 = 2^n (e^r - 1) + 2^n - 1. Maximal error 1.55 ulp.
func Expm1(b *Builder, x Value) Value {
	_, bits, r := expReduce(b, clamp(b, x, -18, 89))
	p := expm1Poly(b, r)
	// Half of 2^n, for n up to 128.
	s := b.IAdd(b.Shl(bits, 23), b.Bits(oneBits-1<<23))
	y := b.FMA(p, s, b.Sub(s, b.Const(0.5)))
	y = b.Add(y, y)
	// Where e^x - 1 rounds to x: keeps subnormals and the sign of zero.
	return b.Select(b.LT(Abs(b, x), b.Const(0x1p-25)), x, y)
}
