package lane

import "math"

// logPoly is P(f) in log(1+f) = f - f²/2 + f³ P(f) for |f| <= 1/3, to 2^-30.
func logPoly(b *Builder, f Value) Value {
	return b.Horner(f, 1.1726684e-01, -1.2883107e-01, 1.0822263e-01, -1.2187802e-01, 1.4298947e-01,
		-1.6680087e-01, 1.9999765e-01, -2.4999811e-01, 3.3333334e-01)
}

// logReduce splits the positive x = 2^e (1+f) with 1+f in [2/3, 4/3).
func logReduce(b *Builder, x Value) (e, f Value) {
	small := b.LT(x, b.Const(0x1p-126))
	x = b.Select(small, b.Mul(x, b.Const(0x1p24)), x)
	k := b.Sar(b.ISub(x, b.Bits(twoThirds)), 23)
	f = b.Sub(b.ISub(x, b.Shl(k, 23)), b.Const(1))
	k = b.Select(small, b.ISub(k, b.Bits(24)), k)
	return b.Float(k), f
}

const twoThirds = 0x3f2aaaab // the bits of 2/3

// logEdges replaces y, a logarithm of x, where x is not positive and finite.
func logEdges(b *Builder, x, y Value) Value {
	y = b.Select(b.LT(x, inf(b)), y, x) // +Inf and NaN
	y = b.Select(b.LE(x, b.Const(0)), nan(b), y)
	return b.Select(b.EQ(x, b.Const(0)), Neg(b, inf(b)), y)
}

// Log is the natural logarithm e ln 2 + log(1+f). Maximal error 0.8 ulp.
func Log(b *Builder, x Value) Value {
	e, f := logReduce(b, x)
	return logEdges(b, x, logSum(b, e, f))
}

// logSum is e ln 2 + log(1+f), the small terms first.
func logSum(b *Builder, e, f Value) Value {
	s := b.Mul(f, f)
	y := b.Mul(b.Mul(f, s), logPoly(b, f))
	y = b.FMA(e, b.Const(ln2Lo), y)
	y = b.FNMA(s, b.Const(0.5), y)
	return b.FMA(e, b.Const(ln2Hi), b.Add(f, y))
}

// Log1p is log(1+x). The exponent e is that of 1+x; f = 2^-e (1+x) - 1 is
// computed from x itself, so nothing of a small x is lost. Maximal error 1.55 ulp.
func Log1p(b *Builder, x Value) Value {
	u := b.Add(x, b.Const(1))
	k := b.Shl(b.Sar(b.ISub(u, b.Bits(twoThirds)), 23), 23)
	s := b.ISub(b.Bits(oneBits+2<<23), k) // 4 * 2^-e: e may be 128
	f := b.FMA(s, b.Mul(x, b.Const(0.25)), b.FMA(s, b.Const(0.25), b.Const(-1)))
	y := logSum(b, b.Float(b.Sar(k, 23)), f)
	y = logEdges(b, u, y)
	// Where log(1+x) rounds to x: keeps subnormals and the sign of zero.
	return b.Select(b.LT(Abs(b, x), b.Const(0x1p-25)), x, y)
}

// Log2 is the logarithm to base 2, exact for powers of 2. Maximal error 1.45 ulp.
func Log2(b *Builder, x Value) Value {
	e, f := logReduce(b, x)
	hi, lo := logParts(b, f)
	c := b.Const(math.Log2E)
	const rest = math.Log2E - 0x1.715476p+0 // what float32 lacks of log2 e
	y := b.FMA(hi, b.Const(rest), b.Mul(lo, c))
	return logEdges(b, x, addProduct(b, e, hi, c, y))
}

// Log10 is the logarithm to base 10. Maximal error 1.3 ulp.
func Log10(b *Builder, x Value) Value {
	e, f := logReduce(b, x)
	hi, lo := logParts(b, f)
	const log2Hi, log2Lo = 0x1.344p-2, math.Ln2/math.Ln10 - 0x1.344p-2
	c := b.Const(math.Log10E)
	const rest = math.Log10E - 0x1.bcb7b2p-2 // what float32 lacks of log10 e
	y := b.FMA(e, b.Const(log2Lo), b.FMA(hi, b.Const(rest), b.Mul(lo, c)))
	return logEdges(b, x, addProduct(b, b.Mul(e, b.Const(log2Hi)), hi, c, y))
}

// logParts is log(1+f) as hi + lo, hi being f.
func logParts(b *Builder, f Value) (hi, lo Value) {
	s := b.Mul(f, f)
	return f, b.FNMA(s, b.Const(0.5), b.Mul(b.Mul(f, s), logPoly(b, f)))
}

// addProduct is a + (x*y + z).
func addProduct(b *Builder, a, x, y, z Value) Value {
	return b.Add(a, b.FMA(x, y, z))
}
