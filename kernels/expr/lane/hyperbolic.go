package lane

import "math"

// Tanh is t / (t+2) with t = e^2|x| - 1 and the sign of x, which keeps full
// accuracy near zero. Maximal error 2.55 ulp; never above 1.
//
// Here and in Sigmoid the division is the instruction: it runs beside the multiply-adds, where a Newton reciprocal of
// eight steps would queue with them (a third slower on Zen 4).
func Tanh(b *Builder, x Value) Value {
	// From 9.02 on tanh rounds to 1.
	a := b.Lesser(b.Const(10), Abs(b, x))
	_, bits, r := expReduce(b, b.Add(a, a))
	s := b.IAdd(b.Shl(bits, 23), b.Bits(oneBits))
	t := b.FMA(expm1Poly(b, r), s, b.Sub(s, b.Const(1)))
	return withSign(b, b.Div(t, b.Add(t, b.Const(2))), x)
}

// Sigmoid is 1 / (1 + e^-x), computed from e^-|x| so that nothing overflows and
// small results keep their accuracy. Maximal error 2.35 ulp.
func Sigmoid(b *Builder, x Value) Value {
	z := Exp(b, b.Or(x, b.Bits(signBit)))
	num := b.Select(b.LT(x, b.Const(0)), z, b.Const(1))
	return b.Div(num, b.Add(z, b.Const(1)))
}

// halfExp is e^a / 2 for a >= 0, which overflows only where sinh and cosh do.
func halfExp(b *Builder, a Value) Value {
	n, _, r := expReduce(b, b.Lesser(b.Const(91), a))
	return b.Ldexp(expPoly(b, r), b.Sub(n, b.Const(1)))
}

// Sinh is x + x³P(x²) for |x| < 1 and E - 1/(4E) with E = e^|x|/2 above. Maximal error 1.65 ulp.
func Sinh(b *Builder, x Value) Value {
	a := Abs(b, x)
	e := halfExp(b, a)
	big := b.Sub(e, b.Div(b.Const(0.25), e))
	s := b.Mul(a, a)
	p := b.Horner(s, 2.7823212e-06, 1.9842887e-04, 8.3333105e-03, 1.6666667e-01)
	small := b.FMA(b.Mul(a, s), p, a)
	return withSign(b, b.Select(b.LT(a, b.Const(1)), small, big), x)
}

// Cosh is E + 1/(4E) with E = e^|x|/2. Maximal error 1.35 ulp.
func Cosh(b *Builder, x Value) Value {
	e := halfExp(b, Abs(b, x))
	return b.Add(e, b.Div(b.Const(0.25), e))
}

// Asinh is log(1 + (a + a²/(1 + sqrt(1+a²)))) with a = |x| and the sign of x;
// from 2^20 on log a + ln 2. Maximal error 1.85 ulp.
func Asinh(b *Builder, x Value) Value {
	a := Abs(b, x)
	s := b.Mul(a, a)
	root := b.Sqrt(b.FMA(a, a, b.Const(1)))
	small := Log1p(b, b.Add(a, b.Div(s, b.Add(root, b.Const(1)))))
	big := b.Add(Log(b, a), b.Const(math.Ln2))
	return withSign(b, b.Select(b.LT(a, b.Const(0x1p20)), small, big), x)
}

// Acosh is log(1 + (t + sqrt(2t + t²))) with t = x-1; from 2^20 on log x + ln 2; a NaN below 1. Maximal error 1.95 ulp.
func Acosh(b *Builder, x Value) Value {
	t := b.Sub(x, b.Const(1))
	small := Log1p(b, b.Add(t, b.Sqrt(b.FMA(t, t, b.Add(t, t)))))
	big := b.Add(Log(b, x), b.Const(math.Ln2))
	y := b.Select(b.LT(x, b.Const(0x1p20)), small, big)
	return b.Select(b.LT(x, b.Const(1)), nan(b), y)
}

// Atanh is log(1 + 2a/(1-a)) / 2 with a = |x| and the sign of x; infinite at ±1
// and a NaN beyond. Maximal error 2.2 ulp.
func Atanh(b *Builder, x Value) Value {
	a := Abs(b, x)
	y := b.Mul(Log1p(b, b.Div(b.Add(a, a), b.Sub(b.Const(1), a))), b.Const(0.5))
	// Half of a subnormal loses a bit; there atanh x is x.
	y = b.Select(b.LT(a, b.Const(0x1p-13)), a, y)
	return withSign(b, y, x)
}
