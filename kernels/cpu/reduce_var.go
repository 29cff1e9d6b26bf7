package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Var computes sum((x - mean)^2) / max(0, n - correction) along the axes l.Ints; the correction is l.Floats[0].
func Var(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(row int, x []float32) {
		mean := vec.Sum(x) / float32(len(x))
		y[row] = vec.SumSquaresSub(x, mean) / float32(max(0, float64(len(x))-l.Floats[0]))
	})
}
