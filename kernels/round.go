package kernels

import "math"

// Saturate converts to an integer type with the range [low, high]. As floating-point values these are exact, or the
// power of two just above.
func Saturate[I int64 | int32 | uint8, T float32 | float64](x T, low, high I) I {
	switch {
	case x != x:
		return 0
	case x <= T(low):
		return low
	case x >= T(high):
		return high
	}
	return I(x)
}

// OddFloat32 rounds to odd: an inexact result is the neighbour with an odd last bit. Rounding that to a type with at
// least two bits fewer gives what rounding x itself would (Boldo and Melquiond 2005).
func OddFloat32(x float64) float32 {
	f := float32(x)
	back := float64(f)
	if back == x || x != x {
		return f
	}
	u := math.Float32bits(f)
	if math.Abs(back) > math.Abs(x) {
		u-- // towards zero
	}
	return math.Float32frombits(u | 1)
}
