package double

import "math"

// A pair is the number hi + lo, with lo below the last place of hi or little above.
type pair struct{ hi, lo float64 }

// sum is a + b, exactly (Knuth, The Art of Computer Programming, volume 2, 4.2.2).
func sum(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

// quickSum is a + b, exactly, for |a| >= |b| or a = 0 (Dekker 1971).
func quickSum(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

// product is a*b, exactly unless the rest underflows.
func product(a, b float64) pair {
	p := float64(a * b)
	return pair{p, math.FMA(a, b, -p)}
}

// The operations below have relative errors near 2^-100, additions as long as little cancels.

func (a pair) add(b pair) pair {
	s := sum(a.hi, b.hi)
	return quickSum(s.hi, s.lo+(a.lo+b.lo))
}

func (a pair) mul(b pair) pair {
	p := product(a.hi, b.hi)
	return quickSum(p.hi, math.FMA(a.hi, b.lo, math.FMA(a.lo, b.hi, p.lo)))
}

func (a pair) div(b pair) pair {
	q := a.hi / b.hi
	rest := math.FMA(-q, b.hi, a.hi) + math.FMA(-q, b.lo, a.lo)
	return quickSum(q, rest/b.hi)
}

func (a pair) sqrt() pair {
	if a.hi == 0 {
		return a
	}
	s := math.Sqrt(a.hi)
	return quickSum(s, (math.FMA(-s, s, a.hi)+a.lo)/(s+s))
}

func (a pair) neg() pair { return pair{-a.hi, -a.lo} }

// times is a*p for a power of two p, exactly unless it underflows.
func (a pair) times(p float64) pair { return pair{a.hi * p, a.lo * p} }

// round is the pair as one number.
func (a pair) round() float64 { return a.hi + a.lo }

// horner is the polynomial in x with the coefficients c, the constant one first.
func horner(x float64, c []float64) float64 {
	p := 0.0
	for i := len(c) - 1; i >= 0; i-- {
		p = math.FMA(p, x, c[i])
	}
	return p
}

// series are n coefficients of a power series.
func series(n int, coefficient func(k int) float64) []float64 {
	c := make([]float64, n)
	for k := range c {
		c[k] = coefficient(k)
	}
	return c
}

// factorial is n!, exact up to 18!.
func factorial(n int) float64 {
	f := 1.0
	for k := 2; k <= n; k++ {
		f *= float64(k)
	}
	return f
}
