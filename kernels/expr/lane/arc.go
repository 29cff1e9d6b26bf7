package lane

import "math"

// What float32 lacks of Pi/2 and Pi.
const (
	halfPi     = halfPiHi
	halfPiRest = math.Pi/2 - halfPiHi
)

// asinParts splits the arc sine of a = |x|: it is s + t for a <= 1/2 and
// Pi/2 - 2(s + t) above, by asin a = Pi/2 - 2 asin sqrt((1-a)/2).
func asinParts(b *Builder, a Value) (above, s, t Value) {
	above = b.LT(b.Const(0.5), a)
	half := b.FNMA(a, b.Const(0.5), b.Const(0.5))
	z := b.Select(above, half, b.Mul(a, a))
	s = b.Select(above, b.Sqrt(half), a)
	p := b.Horner(z, 4.2232998e-02, 2.4142798e-02, 4.547726e-02, 7.4952476e-02, 1.6666754e-01)
	return above, s, b.Mul(b.Mul(s, z), p)
}

// Asin is the arc sine, a NaN beyond ±1. Maximal error 2.45 ulp.
func Asin(b *Builder, x Value) Value {
	above, s, t := asinParts(b, Abs(b, x))
	y := b.Add(s, t)
	far := b.Sub(b.Const(halfPi), b.Sub(b.Add(y, y), b.Const(halfPiRest)))
	return withSign(b, Abs(b, b.Select(above, far, y)), x)
}

// Acos is the arc cosine, a NaN beyond ±1. Maximal error 1.15 ulp.
func Acos(b *Builder, x Value) Value {
	above, s, t := asinParts(b, Abs(b, x))
	sign := b.And(x, b.Bits(signBit))
	// |x| <= 1/2: Pi/2 - asin x.
	near := b.Sub(b.Xor(t, sign), b.Const(halfPiRest))
	near = b.Sub(b.Const(halfPi), b.Add(b.Xor(s, sign), near))
	// |x| > 1/2: 2(s + t), or Pi minus that.
	far := b.Add(b.Add(s, s), b.Add(t, t))
	flip := b.Sub(b.Const(2*halfPi), b.Sub(far, b.Const(2*halfPiRest)))
	far = b.Select(b.LT(x, b.Const(0)), flip, far)
	return b.Select(above, far, near)
}

// Atan is the arc tangent: t + t³P(t²) with t = |x| up to 1 and Pi/2 minus that
// with t = 1/|x| above. Maximal error 1.35 ulp.
func Atan(b *Builder, x Value) Value {
	a := Abs(b, x)
	above := b.LT(b.Const(1), a)
	t := b.Select(above, b.Div(b.Const(1), a), a)
	z := b.Mul(t, t)
	p := b.Horner(z, -1.7831312e-03, 1.0869627e-02, -3.1098079e-02, 5.7881992e-02, -8.399322e-02,
		1.0950882e-01, -1.4264016e-01, 1.999853e-01, -3.33333e-01)
	y := b.FMA(b.Mul(t, z), p, t)
	far := b.Sub(b.Const(halfPi), b.Sub(y, b.Const(halfPiRest)))
	return withSign(b, b.Select(above, far, y), x)
}
