package cpu

import "github.com/weft-ml/weft/kernels"

// ArgMax finds the place of the largest element along the axis l.Ints[0]: the first of equal ones, a NaN if there is
// one. The last result takes the places; if there are two, the first takes the elements.
func ArgMax(l *kernels.Launch) { arg(l, func(a, b float32) bool { return a > b }) }

// ArgMin is ArgMax for the smallest element.
func ArgMin(l *kernels.Launch) { arg(l, func(a, b float32) bool { return a < b }) }

func arg(l *kernels.Launch, better func(a, b float32) bool) {
	places := Slice[int64](l.Out[len(l.Out)-1])
	var values []float32
	if len(l.Out) == 2 {
		values = Slice[float32](l.Out[0])
	}
	eachResult(l, func(o int, x []float32) {
		best := 0
		for i, v := range x {
			if better(v, x[best]) {
				best = i
			} else if v != v {
				best = i
				break
			}
		}
		places[o] = int64(best)
		if values != nil {
			values[o] = x[best]
		}
	})
}
