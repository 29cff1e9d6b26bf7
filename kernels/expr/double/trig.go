package double

import (
	"math"
	"math/bits"
)

// Quarters of a turn: Pi/2 as a pair, and as two numbers of 33 bits, whose multiples by small integers are exact, with
// the rest.
var (
	quarter = pair{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}

	quarterHead, quarterMiddle = 0x1.921fb544p+0, 0x1.0b4611a6p-34
	quarterTail                = pair{0x1.3198a2e037073p-69, 0x1.129024e088a68p-123}
)

// twoOverPi holds the bits of 2/Pi after the binary point, behind 64 zeros.
var twoOverPi = [...]uint64{
	0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
	0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
	0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
}

// reduce is x = (4n + q) Pi/2 + r with |r| <= Pi/4 and a little. Up to 2^19 quarters, their multiples are subtracted
// (Cody and Waite); from there on it is reduceLarge.
func reduce(x float64) (q int, r pair) {
	n := math.RoundToEven(x * (2 / math.Pi))
	if !(math.Abs(n) < 0x1p19) {
		return reduceLarge(x)
	}
	r = sum(math.FMA(-n, quarterHead, x), -float64(n*quarterMiddle)).add(quarterTail.mul(pair{hi: -n}))
	return int(n) & 3, r
}

// reduceLarge is reduce for large x = m 2^e with a 53-bit integer m (Payne and Hanek 1983): of 2/Pi only the 192 bits
// that matter modulo 4 are multiplied by m. NaN for what is not finite.
func reduceLarge(x float64) (q int, r pair) {
	if x-x != 0 {
		return 0, pair{math.NaN(), 0}
	}
	u := math.Float64bits(x)
	m, e := u&(1<<52-1)|1<<52, int(u>>52&0x7ff)-1075
	at := uint(e + 62) // the first bit of 2/Pi that matters, the 64 zeros counted; e is at least -34
	word := func(i uint) uint64 {
		i += at / 64
		return twoOverPi[i]<<(at%64) | twoOverPi[i+1]>>1>>(63-at%64)
	}
	// The product modulo 2^192, in units of 2^-190.
	h2, _ := bits.Mul64(m, word(2))
	h1, l1 := bits.Mul64(m, word(1))
	low, carry := bits.Add64(l1, h2, 0)
	high, _ := bits.Add64(m*word(0), h1, carry)
	q = int(high >> 62)
	f, g := int64(high<<2|low>>62), low<<2
	if f < 0 { // one half and more belong to the next quarter, with a negative rest
		q++
	}
	// The fraction f 2^-64 + g 2^-128 in three parts that float64 holds.
	head := float64(f&^(1<<20-1)) * 0x1p-64
	tail := sum(float64(f&(1<<20-1))*0x1p-64, float64(g>>11)*0x1p-117)
	r = pair{hi: head}.add(tail).mul(quarter)
	if x < 0 {
		return -q & 3, r.neg()
	}
	return q & 3, r
}

// The coefficients of (sin r - r + r^3/6)/r^5 and (cos r - 1 + r^2/2)/r^4 as series in r^2.
var (
	sinSeries = series(8, func(k int) float64 { return alternate(k) / factorial(2*k+5) })
	cosSeries = series(8, func(k int) float64 { return alternate(k) / factorial(2*k+4) })
)

// alternate is 1 for even and -1 for odd k.
func alternate(k int) float64 { return float64(1 - 2*(k%2)) }

// sinNear and cosNear are sin r and cos r for |r| < 0.79.
func sinNear(r pair) pair {
	s := r.mul(r)
	w := s.mul(third.times(-0.5)).add(pair{hi: float64(float64(s.hi*s.hi) * horner(s.hi, sinSeries))})
	return r.add(r.mul(w))
}

func cosNear(r pair) pair {
	s := r.mul(r)
	return pair{hi: 1}.add(s.times(-0.5)).add(pair{hi: float64(float64(s.hi*s.hi) * horner(s.hi, cosSeries))})
}

// turned is the sine of r plus q quarters.
func turned(q int, r pair) pair {
	var y pair
	if q&1 == 0 {
		y = sinNear(r)
	} else {
		y = cosNear(r)
	}
	if q&2 != 0 {
		return y.neg()
	}
	return y
}

// Sin is the sine.
func Sin(x float64) float64 {
	if math.Abs(x) < 0x1p-28 { // also keeps -0
		return x
	}
	q, r := reduce(x)
	return turned(q, r).round()
}

// Cos is the cosine.
func Cos(x float64) float64 {
	q, r := reduce(x)
	return turned(q+1, r).round()
}

// Tan is the tangent.
func Tan(x float64) float64 {
	if math.Abs(x) < 0x1p-28 {
		return x
	}
	q, r := reduce(x)
	return turned(q, r).div(turned(q+1, r)).round()
}

// The arc tangents of 0, 1/4, 1/2, 3/4 and 1.
var arcs = [...]pair{
	{}, {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57}, {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
	{0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56}, {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
}

// atanSeries are 1/5, -1/7, ... of (atan u - u + u^3/3)/u^5 in u^2.
var atanSeries = series(9, func(k int) float64 { return alternate(k) / float64(2*k+5) })

// angle is the angle of the point (x, y) with x, y >= 0, not both 0: the arc tangent of t = y/x, or Pi/2 less that of
// x/y. With c the multiple of 1/4 next to t, atan t = atan c + atan u, u = (t-c)/(1+tc), |u| <= 1/8.
func angle(y, x pair) pair {
	if y.hi > x.hi {
		return quarter.add(angle(x, y).neg())
	}
	t := y.div(x)
	n := math.RoundToEven(t.hi * 4)
	u := t
	if n > 0 {
		c := pair{hi: n / 4}
		u = t.add(c.neg()).div(t.mul(c).add(pair{hi: 1}))
	}
	s := u.mul(u)
	w := s.mul(third.neg()).add(pair{hi: float64(float64(s.hi*s.hi) * horner(s.hi, atanSeries))})
	return arcs[int(n)].add(u.add(u.mul(w)))
}

// Atan is the arc tangent.
func Atan(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28 || x != x: // also keeps -0
		return x
	case a > 0x1p60:
		return math.Copysign(math.Pi/2, x)
	}
	return math.Copysign(angle(pair{hi: a}, pair{hi: 1}).round(), x)
}

// beside is sqrt(1 - x^2) = sqrt((1-x)(1+x)).
func beside(x float64) pair { return sum(1, -x).mul(sum(1, x)).sqrt() }

// Asin is the arc sine, NaN beyond 1 and -1.
func Asin(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < 0x1p-28:
		return x
	case !(a <= 1):
		return math.NaN()
	}
	return math.Copysign(angle(pair{hi: a}, beside(a)).round(), x)
}

// Acos is the arc cosine, NaN beyond 1 and -1.
func Acos(x float64) float64 {
	a := math.Abs(x)
	if !(a <= 1) {
		return math.NaN()
	}
	y := angle(beside(a), pair{hi: a})
	if x < 0 {
		y = quarter.times(2).add(y.neg())
	}
	return y.round()
}
