package lane

import "math"

// The functions below are the primitives that Go has no operator for. The portable kernels call them.

// FMA32 is x*y + z rounded once to float32.
//
// The product is exact in float64 and the sum is rounded twice, first to float64 and then to float32. The second
// rounding can only go wrong if the first one landed on a tie of float32, that is on a one followed by 28 zeros below
// the float32 mantissa, or if the result is subnormal, where the ties lie elsewhere; those cases take the slow way. NaN
// and infinity take either.
func FMA32(x, y, z float32) float32 {
	s := float64(float64(x)*float64(y)) + float64(z)
	const tie, mask, normal = 1 << 28, 1<<29 - 1, 1e-37
	if math.Float64bits(s)&mask != tie && (s > normal || s < -normal) {
		return float32(s)
	}
	return fmaOdd(x, y, z, s)
}

// fmaOdd is FMA32 by rounding to odd (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
// algorithms using rounding to odd", 2008): if the float64 sum s was inexact, it is moved to the neighbour with an odd
// last bit, which no rounding to 24 bits or fewer mistakes for a tie.
func fmaOdd(x, y, z float32, s float64) float32 {
	p, c := float64(x)*float64(y), float64(z)
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	t := s - p // the error of s = p + c (Knuth's TwoSum)
	e := (p - (s - t)) + (c - t)
	if u := math.Float64bits(s); e != 0 && u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}

// Sqrt32 is the square root of x.
func Sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Lesser32 is x if x < y and y otherwise.
func Lesser32(x, y float32) float32 {
	if x < y {
		return x
	}
	return y
}

// Greater32 is x if x > y and y otherwise.
func Greater32(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

// Ldexp32 is x * 2^n rounded once, for integral n as in [Builder.Ldexp].
func Ldexp32(x, n float32) float32 {
	if n != n {
		return n
	}
	// Both factors and the product are exact in float64.
	return float32(float64(x) * math.Float64frombits(uint64(1023+int64(n))<<52))
}
