package gemm

import "math"

// fma32 returns x*y + z with one rounding.
//
// The product of two float32 numbers is exact in float64, so only the sum is rounded, first to float64 and then to
// float32. Rounding twice goes wrong only when the float64 sum is inexact and sits on a boundary between two float32
// numbers; rounding the first sum to odd keeps it off them (Boldo and Melquiond, Emulation of FMA and correctly
// rounded sums, 2008).
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	bits := math.Float64bits(s)
	const below, tie = 1<<29 - 1, 1 << 28 // the mantissa bits that float32 lacks, and half of its last place
	if bits&below != tie && (math.Abs(s) >= 0x1p-126 || s == 0) {
		return float32(s)
	}
	// Knuth's two-sum: s + e is p + c without error.
	t := s - p
	e := (p - (s - t)) + (c - t)
	if e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}
