package cpu

import (
	"github.com/chewxy/math32"
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
	}, nil)
}

// deviations are the mean of x and the sum of the squares of the deviations from it. The mean is that of the distances
// from the first element, so that it does not lose the digits that the elements share:
//
//	mean    = x0 + sum(x - x0)/n
//	squares = sum((x - mean)^2)
func deviations(x []float32) (mean, squares float32) {
	if len(x) == 0 {
		return math32.NaN(), 0
	}
	mean = x[0] + vec.SumSub(x, x[0])/float32(len(x))
	return mean, vec.SumSquaresSub(x, mean)
}
