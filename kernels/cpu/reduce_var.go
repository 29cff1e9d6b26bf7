package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Var computes sum((x - mean)^2) / max(0, n - correction) along the axes l.Ints, by [deviations]; the correction is
// l.Floats[0].
func Var(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(row int, x []float32) {
		_, squares := deviations(x)
		y[row] = squares / float32(max(0, float64(len(x))-l.Floats[0]))
	})
}

// deviations are the mean of x and the sum of the squares of the deviations from it. The sum s of d = x - sum(x)/n is
// what rounding has left, and corrects both (Chan, Golub and LeVeque 1983):
//
//	mean    = sum(x)/n + s/n
//	squares = sum(d^2) - s * (s/n)
func deviations(x []float32) (mean, squares float32) {
	n := float32(len(x))
	c := vec.Sum(x) / n
	s, q := vec.SumsSub(x, c)
	rest := s / n
	return c + rest, max(0, q-float32(s*rest))
}
