package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// ArgMax finds the index of the largest element along the axis l.Ints[0]: the first of equal ones, or of NaN if there
// is one. The last result is the indices; if there are two, the first is the elements.
func ArgMax(l *kernels.Launch) { argExtreme(l, vec.Max) }

// ArgMin is ArgMax for the smallest element.
func ArgMin(l *kernels.Launch) { argExtreme(l, vec.Min) }

// argExtreme finds the index of the element that a reduction returns.
func argExtreme(l *kernels.Launch, reduce func(x []float32) float32) {
	indices := Slice[int64](l.Out[len(l.Out)-1])
	var values []float32
	if len(l.Out) == 2 {
		values = Slice[float32](l.Out[0])
	}
	eachResult(l, func(row int, x []float32) {
		v := reduce(x)
		i := slices.Index(x, v)
		if v != v {
			i = slices.IndexFunc(x, func(v float32) bool { return v != v })
		}
		indices[row] = int64(i)
		if values != nil {
			values[row] = x[i]
		}
	}, nil)
}
