package cpu

import "github.com/weft-ml/weft/kernels"

// Var computes sum((x - mean)^2) / max(0, n - correction) along the axes l.Ints; the correction is l.Floats[0].
func Var(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(o int, x []float32) {
		mean := sumOf(x) / float32(len(x))
		y[o] = squaredDistance(x, mean) / float32(max(0, float64(len(x))-l.Floats[0]))
	})
}

// squaredDistance is the canonical sum of (x - c)^2.
func squaredDistance(x []float32, c float32) float32 {
	return sumMapped(len(x), func(dst []float32, from, to int) []float32 {
		for i, v := range x[from:to] {
			dst[i] = (v - c) * (v - c)
		}
		return dst
	})
}
