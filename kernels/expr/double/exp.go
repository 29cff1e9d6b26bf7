package double

import "math"

// The logarithms of 2, as a pair and as a number of 33 bits, whose multiples by exponents are exact, with its rest.
var (
	ln2 = pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}

	ln2Head, ln2Tail = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
)

// expSeries are 1/3!, 1/4!, ... 1/16!.
var expSeries = series(14, func(k int) float64 { return 1 / factorial(k+3) })

// expm1Near is e^r - 1 = r + r^2/2 + r^3/6 + ... for |r| < 0.35. Of the terms, r and r^2/2 are pairs.
func expm1Near(r pair) pair {
	s := product(r.hi, r.hi)
	s.lo = math.FMA(2*r.hi, r.lo, s.lo)
	rest := float64(float64(s.hi*r.hi) * horner(r.hi, expSeries))
	q := quickSum(r.hi, s.hi/2)
	return quickSum(q.hi, q.lo+(rest+(r.lo+s.lo/2)))
}

// expParts is e^x = 2^k (1 + q) with q = e^r - 1, r = x - k ln 2, |r| < 0.35. x is between -800 and 800.
func expParts(x pair) (k int, q pair) {
	n := math.RoundToEven(x.hi * ln2Inverse.hi)
	tail := product(n, ln2Tail)
	r := sum(math.FMA(-n, ln2Head, x.hi), -tail.hi)
	r.lo += x.lo - tail.lo
	return int(n), expm1Near(quickSum(r.hi, r.lo))
}

// ldexp is x 2^k, rounded once also where the result is subnormal. x is not 0 and k below 1025.
func ldexp(x pair, k int) float64 {
	if k > -1000 {
		return math.Ldexp(x.round(), k)
	}
	_, e := math.Frexp(x.hi)
	x, k = x.times(math.Ldexp(1, 1-e)), k+e-1
	if k >= -1022 {
		return math.Ldexp(x.round(), k)
	}
	// Added to c, the sum has its last place where that of the result is.
	c := math.Ldexp(1, -1022-k)
	t := quickSum(c, x.hi)
	return math.Ldexp((t.hi+(t.lo+x.lo))-c, k)
}

// expOf is e^x of a pair.
func expOf(x pair) float64 {
	switch {
	case x.hi != x.hi:
		return x.hi
	case x.hi > 710:
		return math.Inf(1)
	case x.hi < -746:
		return 0
	}
	k, q := expParts(x)
	s := quickSum(1, q.hi)
	s.lo += q.lo
	return ldexp(s, k)
}

// Exp is e^x.
func Exp(x float64) float64 { return expOf(pair{hi: x}) }

// Exp2 is 2^x.
func Exp2(x float64) float64 {
	switch {
	case x != x:
		return x
	case x >= 1024:
		return math.Inf(1)
	case x < -1076:
		return 0
	}
	n := math.RoundToEven(x)
	q := expm1Near(pair{hi: x - n}.mul(ln2))
	s := quickSum(1, q.hi)
	s.lo += q.lo
	return ldexp(s, int(n))
}

// expm1 is e^x - 1 as a pair, for |x| < 60.
func expm1(x float64) pair {
	k, q := expParts(pair{hi: x})
	p := math.Ldexp(1, k)
	return sum(p, -1).add(q.times(p))
}

// Expm1 is e^x - 1, accurate near 0.
func Expm1(x float64) float64 {
	switch {
	case math.Abs(x) < 0x1p-54: // also keeps -0
		return x
	case x < -50:
		return -1
	case x < 50:
		return expm1(x).round()
	}
	return Exp(x)
}

// Sinh is the hyperbolic sine (m + m/(m+1))/2 with m = e^|x| - 1.
func Sinh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28: // also keeps -0; the cubic term is below half a unit in the last place
		return x
	case a < 50:
		m := expm1(a)
		return math.Copysign(m.add(m.div(m.add(pair{hi: 1}))).round()/2, x)
	}
	return math.Copysign(halfExp(a), x)
}

// Cosh is the hyperbolic cosine (e + 1/e)/2 with e = e^|x|.
func Cosh(x float64) float64 {
	a := math.Abs(x)
	if a < 50 {
		e := expm1(a).add(pair{hi: 1})
		return e.add(pair{hi: 1}.div(e)).round() / 2
	}
	return halfExp(a)
}

// halfExp is e^x / 2, which may be finite where e^x is not.
func halfExp(x float64) float64 {
	if !(x < 711) {
		return x * math.Inf(1)
	}
	k, q := expParts(pair{hi: x})
	s := quickSum(1, q.hi)
	s.lo += q.lo
	return ldexp(s, k-1)
}

// Tanh is the hyperbolic tangent m/(m+2) with m = e^2|x| - 1.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28:
		return x
	case a < 22:
		m := expm1(2 * a)
		return math.Copysign(m.div(m.add(pair{hi: 2})).round(), x)
	case x != x:
		return x
	}
	return math.Copysign(1, x)
}

// Sigmoid is 1/(1 + e^-x), computed from e^-|x| so that nothing overflows.
func Sigmoid(x float64) float64 {
	a := math.Abs(x)
	if a < 50 {
		e := expm1(-a).add(pair{hi: 1})
		above := e.add(pair{hi: 1})
		if x < 0 {
			return e.div(above).round()
		}
		return pair{hi: 1}.div(above).round()
	}
	return Exp(min(x, 0)) // the divisor rounds to 1
}

// NormPDF is e^(-x^2/2) / sqrt(2 pi), the density of the standard normal distribution.
func NormPDF(x float64) float64 {
	if math.Abs(x) > 40 {
		return 0
	}
	k, q := expParts(product(x, x).times(-0.5))
	return ldexp(q.add(pair{hi: 1}).mul(pair{0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55}), k-1)
}
