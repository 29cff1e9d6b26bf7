package lane

import "math"

// The error function on |x| < 3.93 is cut into 16 intervals of width 65/256. In
// interval k it is erfTable[5][k] + d*(... + d*erfTable[0][k]) with d the distance
// from erfCentre[k], a point near the middle whose erf is very close to a float32.
var (
	erfCentre = Table{0, 2.5377774e-01, 5.078709e-01, 7.617111e-01, 1.0155151e+00, 1.2696195e+00, 1.523478e+00,
		1.7773421e+00, 2.0308218e+00, 2.2852392e+00, 2.5392075e+00, 2.792448e+00, 3.047001e+00, 3.3008518e+00,
		3.5552588e+00, 3.809165e+00}
	erfTable = [6]Table{
		{1.1143061e-01, 8.002877e-02, 6.1771376e-03, -5.447917e-02, -6.840286e-02, -4.4641957e-02, -1.235854e-02,
			7.827871e-03, 1.3029416e-02, 1.0018653e-02, 5.4944623e-03, 2.3750393e-03, 8.3546503e-04, 2.4600848e-04,
			6.104142e-05, 1.2941672e-05},
		{0, 1.2756467e-01, 1.8219493e-01, 1.4693819e-01, 6.397642e-02, -1.0172539e-02, -4.57658e-02,
			-4.6922136e-02, -3.2429263e-02, -1.7329238e-02, -7.5464654e-03, -2.7497893e-03, -8.426907e-04,
			-2.2103522e-04, -4.959777e-05, -9.620664e-06},
		{-3.761075e-01, -3.0726308e-01, -1.4071847e-01, 3.3768497e-02, 1.4249629e-01, 1.6687493e-01, 1.3448805e-01,
			8.4950976e-02, 4.410142e-02, 1.9164445e-02, 7.088417e-03, 2.2542397e-03, 6.1366014e-04, 1.4494696e-04,
			2.9580246e-05, 5.2610044e-06},
		{0, -2.6849192e-01, -4.427759e-01, -4.8113105e-01, -4.0857044e-01, -2.8581074e-01, -1.6877404e-01,
			-8.517622e-02, -3.7067488e-02, -1.3910792e-02, -4.539187e-03, -1.2937677e-03, -3.1926186e-04, -6.902707e-05,
			-1.2992015e-05, -2.145186e-06},
		{1.1283791e+00, 1.0579988e+00, 8.71839e-01, 6.316489e-01, 4.0232757e-01, 2.2511332e-01, 1.1078066e-01,
			4.7922857e-02, 1.8252468e-02, 6.087389e-03, 1.7877595e-03, 4.6337067e-04, 1.0480274e-04, 2.091932e-05,
			3.6562344e-06, 5.63586e-07},
		{0, 2.8032705e-01, 5.273894e-01, 7.18619e-01, 8.490418e-01, 9.27428e-01, 9.6880084e-01,
			9.880474e-01, 9.959214e-01, 9.9876994e-01, 9.9967057e-01, 9.9992156e-01, 9.999836e-01, 9.9999696e-01,
			9.999995e-01, 9.9999994e-01},
	}
)

// Erf is the error function, odd and 1 from 3.93 on. Maximal error 2.35 ulp.
func Erf(b *Builder, x Value) Value {
	a := b.Lesser(b.Const(3.93), Abs(b, x))
	k := b.FMA(a, b.Const(256.0/65), b.Const(magic)) // the interval, in the low bits
	d := b.Sub(a, b.Lookup(k, erfCentre))
	p := b.Lookup(k, erfTable[0])
	for _, t := range erfTable[1:] {
		p = b.FMA(p, d, b.Lookup(k, t))
	}
	return withSign(b, p, x)
}

// Erfc is 1 - erf x. From 1/2 on it is e^-x² R/(1+2a) with a = |x| and R a polynomial in (a-2)/(a+2); 2 minus that for
// x < 0. Results below the normal range are rounded once more. Maximal error 3.9 ulp.
func Erfc(b *Builder, x Value) Value {
	a := Abs(b, x)
	c := b.Lesser(b.Const(10.2), a) // erfc(10.1) rounds to zero
	q := b.Div(b.Sub(c, b.Const(2)), b.Add(c, b.Const(2)))
	r := b.Horner(q, 4.9093826e-04, -3.6161864e-04, -1.7616247e-03, 1.2581444e-03, 8.8363085e-03,
		-8.035852e-03, -5.4237332e-02, 1.6405171e-01, -1.6602947e-01, -9.276384e-02, 1.2769784)
	r = b.Div(r, b.FMA(b.Const(2), c, b.Const(1)))
	// e^-c² = e^-s (1 - t), s + t = c².
	s := b.Mul(c, c)
	t := b.FMA(c, c, Neg(b, s))
	n, _, u := expReduce(b, Neg(b, s))
	e := expPoly(b, u)
	e = b.Mul(b.FNMA(e, t, e), r)
	e = b.Ldexp(e, n)
	far := b.Select(b.LT(x, b.Const(0)), b.Sub(b.Const(2), e), e)
	near := b.Sub(b.Const(1), Erf(b, x))
	return b.Select(b.LT(a, b.Const(0.5)), near, far)
}

// gauss is 2^64 e^-x²/2 and a = min(|x|, 14.4), beyond which density and distribution function are less than all
// numbers.
func gauss(b *Builder, x Value) (e, a Value) {
	a = b.Lesser(b.Const(14.4), Abs(b, x))
	// x²/2 = n ln 2 - r, where a rounded square settles n alone.
	bits := b.FMA(b.Mul(a, b.Const(math.Log2E/2)), a, b.Const(magic))
	n := b.Sub(bits, b.Const(magic))
	r := b.FNMA(b.Mul(a, b.Const(0.5)), a, b.Mul(n, b.Const(ln2Hi)))
	r = b.FMA(n, b.Const(ln2Lo), r)
	scale := b.ISub(b.Bits(oneBits+64<<23), b.Shl(bits, 23)) // 2^(64-n)
	return b.Mul(expPoly(b, r), scale), a
}

// NormPDF is the density e^-x²/2 / sqrt(2 pi) of the normal distribution. Maximal error 2.05 ulp.
func NormPDF(b *Builder, x Value) Value {
	e, _ := gauss(b, x)
	return b.Mul(e, b.Const(0x1p-64/math.Sqrt(2*math.Pi)))
}

// NormCDF is the distribution function (1 + erf(x/sqrt 2)) / 2 of the normal distribution. At -a < 0 it is e^-a²/2
// times a polynomial in (a-3)/(a+3), at a one less that. Maximal error 6.55 ulp.
func NormCDF(b *Builder, x Value) Value {
	e, a := gauss(b, x)
	q := b.Div(b.Sub(a, b.Const(3)), b.Add(a, b.Const(3)))
	ratio := b.Horner(q, 5.3796663e-05, 1.1566583e-04, -3.3976009e-04, -9.8397350e-04, 2.9047458e-03,
		6.1321692e-03, -4.6213344e-02, 1.2322501e-01, -2.0640261e-01, 1.2151395e-01)
	tail := b.Mul(e, b.Mul(ratio, b.Const(0x1p-64)))
	return b.Select(b.LT(x, b.Const(0)), tail, b.Sub(b.Const(1), tail))
}
