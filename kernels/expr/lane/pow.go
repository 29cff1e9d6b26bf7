package lane

import "math"

// Pow is x^y = 2^(y log2 x), with log2 x as an unevaluated sum of two floats so that nothing is lost in the product
// with a large y. The special cases are those of C99: pow(x, 0) and pow(1, y) are 1 even for a NaN, a negative finite x
// needs an integral y, and an odd y keeps the sign of x. Maximal error found 1.2 ulp.
func Pow(b *Builder, x, y Value) Value {
	a := Abs(b, x)
	hi, lo := log2Pair(b, a)
	// At 0 and infinity the logarithm is infinite.
	hi = b.Select(b.EQ(a, b.Const(0)), Neg(b, inf(b)), hi)
	hi = b.Select(b.EQ(a, inf(b)), a, hi)

	// p + q = y log2 |x|, p limited to where the power is 0 or infinite.
	p := b.Mul(y, hi)
	q := b.FMA(y, lo, b.FMA(y, hi, Neg(b, p)))
	q = b.Select(b.LT(Abs(b, p), b.Const(200)), q, b.Const(0))
	p = clamp(b, p, -200, 200)
	n := b.Sub(b.Add(p, b.Const(magic)), b.Const(magic))
	r := b.Ldexp(exp2Poly(b, b.Add(b.Sub(p, n), q)), n)
	r = b.Select(b.EQ(a, b.Const(1)), b.Const(1), r) // even for an infinite y

	integral := b.EQ(b.Trunc(y), y)
	half := b.Mul(y, b.Const(0.5))
	odd := b.MaskAnd(integral, b.MaskNot(b.EQ(b.Trunc(half), half)))
	sign := b.And(x, b.Bits(signBit))
	r = b.Xor(r, b.Select(odd, sign, b.Bits(0)))

	negative := b.MaskAnd(b.LT(x, b.Const(0)), b.LT(a, inf(b)))
	r = b.Select(b.MaskAnd(negative, b.MaskNot(integral)), nan(b), r)
	r = b.Select(b.Unord(x, y), nan(b), r)
	one := b.MaskOr(b.EQ(y, b.Const(0)), b.EQ(x, b.Const(1)))
	return b.Select(one, b.Const(1), r)
}

// log2Pair is log2 x = hi + lo to about 2^-45 for positive finite x: x = 2^e m, and with s = (m-1)/(m+1), log2 m = 2/ln
// 2 atanh s = 2/ln 2 (s + s (s²/3 + s⁴ Q(s²))). All but the Q term are kept in two parts.
func log2Pair(b *Builder, x Value) (hi, lo Value) {
	e, f := logReduce(b, x)

	// s + sl = f / (d + dl), d + dl = 2 + f.
	d := b.Add(f, b.Const(2))
	dl := b.Sub(f, b.Sub(d, b.Const(2)))
	s := b.Div(f, d)
	sl := b.Div(b.FNMA(s, dl, b.FNMA(s, d, f)), d)

	// z + zl = s².
	z := b.Mul(s, s)
	zl := b.FMA(s, s, Neg(b, z))
	zl = b.FMA(b.Add(s, s), sl, zl)

	// t + tl = z/3 + z² Q(z).
	const third, thirdRest = 0x1.555556p-2, 1.0/3 - 0x1.555556p-2
	q := b.Horner(z, 1.1936136e-01, 1.4262821e-01, 2.0000196e-01)
	t, tl := product(b, z, b.Const(third))
	tl = b.FMA(z, b.Const(thirdRest), b.FMA(zl, b.Const(third), tl))
	tl = b.FMA(b.Mul(z, z), q, tl)

	// u + ul = s (1 + t).
	p, pl := product(b, s, t)
	pl = b.FMA(s, tl, b.FMA(sl, t, pl))
	u := b.Add(s, p)
	ul := b.Add(b.Add(b.Sub(s, u), p), b.Add(pl, sl))

	// Times 2/ln 2, plus e.
	const c, cRest = 0x1.715476p+1, 2*math.Log2E - 0x1.715476p+1
	v, vl := product(b, u, b.Const(c))
	vl = b.FMA(u, b.Const(cRest), b.FMA(ul, b.Const(c), vl))
	hi = b.Add(e, v)
	return hi, b.Add(b.Add(b.Sub(e, hi), v), vl)
}

// product is x*y as an unevaluated sum of its rounding and the exact rest.
func product(b *Builder, x, y Value) (hi, lo Value) {
	hi = b.Mul(x, y)
	return hi, b.FMA(x, y, Neg(b, hi))
}
