package double

import "math"

// Inverse logarithms.
var (
	ln2Inverse  = pair{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}
	ln10Inverse = pair{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}
	log10Two    = pair{0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59}
	third       = pair{0x1.5555555555555p-2, 0x1.5555555555555p-56}
)

// atanhSeries are 1/5, 1/7, ... 1/29.
var atanhSeries = series(13, func(k int) float64 { return 1 / float64(2*k+5) })

// logParts is log(x + rest) = k ln 2 + l for positive normal x: with x = 2^k m, sqrt(1/2) <= m < sqrt(2), f = m - 1 and
// s = f/(2+f), |s| < 0.172,
//
//	l = 2 artanh s = 2s + 2s (s^2/3 + s^4 (1/5 + s^2/7 + ...))
//
// The error of l is below 2^-64 |l|.
func logParts(x pair) (k float64, l pair) {
	m, e := math.Frexp(x.hi)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	f := quickSum(m-1, math.Ldexp(x.lo, -e))
	s := f.div(pair{hi: 2}.add(f))
	z := s.mul(s)
	w := z.mul(third.add(pair{hi: float64(z.hi * horner(z.hi, atanhSeries))}))
	s = s.times(2)
	return float64(e), s.add(s.mul(w))
}

// logOf is log(x + rest) as a pair.
func logOf(x pair) pair {
	k, l := logParts(x)
	s := sum(k*ln2Head, l.hi)
	return quickSum(s.hi, s.lo+math.FMA(k, ln2Tail, l.lo))
}

// outside is whether x has no finite logarithm, and what there is instead.
func outside(x float64) (y float64, yes bool) {
	switch {
	case x == 0:
		return math.Inf(-1), true
	case x < 0 || x != x:
		return math.NaN(), true
	}
	return x, x > math.MaxFloat64
}

// logSeries are the coefficients of FDLIBM for the odd powers of s^2, and those for the even ones.
var logOdd, logEven = []float64{
	0x1.5555555555593p-1, 0x1.2492494229359p-2, 0x1.7466496cb03dep-3, 0x1.2f112df3e5244p-3,
}, []float64{0x1.999999997fa04p-2, 0x1.c71c51d8e78afp-3, 0x1.39a09d078c69fp-3}

// Log is the natural logarithm, with an error below 1 unit in the last place, by the algorithm of FDLIBM (Sun
// Microsystems 1993) in its order of operations, without fused ones: f64_log of kernels/cuda/src/f64.cuh has the same
// bits.
func Log(x float64) float64 {
	if y, yes := outside(x); yes {
		return y
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	z := float64(s * s)
	w := float64(z * z)
	odd, even := logOdd[3], logEven[2]
	for i := 2; i >= 0; i-- {
		odd = float64(w*odd) + logOdd[i]
	}
	for i := 1; i >= 0; i-- {
		even = float64(w*even) + logEven[i]
	}
	r := float64(z*odd) + float64(w*even)
	h := float64(float64(0.5*f) * f)
	tail := float64(s*(h+r)) + float64(k*ln2Tail)
	return float64(k*ln2Head) - ((h - tail) - f)
}

// Log2 is the logarithm to base 2, exact for powers of 2.
func Log2(x float64) float64 {
	if y, yes := outside(x); yes {
		return y
	}
	k, l := logParts(pair{hi: x})
	return pair{hi: k}.add(l.mul(ln2Inverse)).round()
}

// Log10 is the logarithm to base 10, exact for powers of 10.
func Log10(x float64) float64 {
	if y, yes := outside(x); yes {
		return y
	}
	k, l := logParts(pair{hi: x})
	return log10Two.mul(pair{hi: k}).add(l.mul(ln10Inverse)).round()
}

// Log1p is log(1+x), accurate near 0.
func Log1p(x float64) float64 {
	if math.Abs(x) < 0x1p-54 { // also keeps -0
		return x
	}
	s := sum(1, x)
	if y, yes := outside(s.hi); yes {
		return y
	}
	return logOf(s).round()
}

// Asinh is log(|x| + sqrt(x^2 + 1)) with the sign of x.
func Asinh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28: // also keeps -0; the cubic term is below half a unit in the last place
		return x
	case a < 0x1p30:
		return math.Copysign(logOf(pair{hi: a}.add(product(a, a).add(pair{hi: 1}).sqrt())).round(), x)
	case x-x != 0:
		return x
	}
	return math.Copysign(logTwice(a), x)
}

// logTwice is log 2x for a large x.
func logTwice(x float64) float64 { return logOf(pair{hi: x}).add(ln2).round() }

// Acosh is log(x + sqrt(x^2 - 1)), NaN below 1.
func Acosh(x float64) float64 {
	switch {
	case !(x >= 1):
		return math.NaN()
	case x < 0x1p30:
		return logOf(pair{hi: x}.add(product(x, x).add(pair{hi: -1}).sqrt())).round()
	case x > math.MaxFloat64:
		return x
	}
	return logTwice(x)
}

// Atanh is log((1+x)/(1-x))/2, infinite at 1 and -1 and NaN beyond.
func Atanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28:
		return x
	case a < 1:
		return math.Copysign(logOf(sum(1, a).div(sum(1, -a))).round()/2, x)
	case a == 1:
		return math.Copysign(math.Inf(1), x)
	}
	return math.NaN()
}

// Pow is x^y = e^(y log x). The special cases are those of C99: x^0 and 1^y are 1 even for a NaN, a negative finite x
// needs an integral y, and an odd y keeps the sign of x.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x != x || y != y:
		return math.NaN()
	}
	a, integral := math.Abs(x), math.Trunc(y) == y
	if x < 0 && a <= math.MaxFloat64 && !integral {
		return math.NaN()
	}
	odd := integral && math.Abs(y) < 0x1p53 && int64(y)&1 == 1
	var r float64
	switch {
	case a == 1:
		r = 1
	case a == 0 || a > math.MaxFloat64 || math.Abs(y) > math.MaxFloat64:
		if (a > 1) == (y > 0) {
			r = math.Inf(1)
		}
	default:
		l := logOf(pair{hi: a})
		if p := y * l.hi; math.Abs(p) > 800 {
			r = Exp(p)
		} else {
			r = expOf(product(y, l.hi).add(pair{hi: float64(y * l.lo)}))
		}
	}
	if odd && math.Signbit(x) {
		return -r
	}
	return r
}
