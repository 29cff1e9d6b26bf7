package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// ArgMax finds the place of the largest element along the axis l.Ints[0]: the first of equal ones, a NaN if there is
// one. The last result takes the places; if there are two, the first takes the elements.
func ArgMax(l *kernels.Launch) { argExtreme(l, vec.Max) }

// ArgMin is ArgMax for the smallest element.
func ArgMin(l *kernels.Launch) { argExtreme(l, vec.Min) }

// placeOf looks for the element that a reduction gives.
func argExtreme(l *kernels.Launch, reduce func(x []float32) float32) {
	places := Slice[int64](l.Out[len(l.Out)-1])
	var values []float32
	if len(l.Out) == 2 {
		values = Slice[float32](l.Out[0])
	}
	eachResult(l, func(o int, x []float32) {
		v := reduce(x)
		i := slices.Index(x, v)
		if v != v {
			i = slices.IndexFunc(x, func(v float32) bool { return v != v })
		}
		places[o] = int64(i)
		if values != nil {
			values[o] = x[i]
		}
	})
}
