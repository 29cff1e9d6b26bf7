package cpu

import "github.com/weft-ml/weft/kernels"

// CumSum adds along the axis l.Ints[0], one element after the other from +0, from the end if l.Ints[1] is 1.
func CumSum(l *kernels.Launch) {
	eachRow(l, func(y []float32, in [][]float32) {
		x := in[0]
		var sum float32
		if l.Ints[1] == 0 {
			for i, v := range x {
				sum += v
				y[i] = sum
			}
			return
		}
		for i := len(x) - 1; i >= 0; i-- {
			sum += x[i]
			y[i] = sum
		}
	}, nil)
}
