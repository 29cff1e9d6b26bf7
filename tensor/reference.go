package tensor

import "github.com/weft-ml/weft/kernels"

// What reference kernels have in common. Their operands and results are contiguous.

// eachIndex calls f with every index of a shape, in row-major order, and its place i in that order.
func eachIndex(shape []int, f func(i int, at []int)) {
	at := make([]int, len(shape))
	for i := range kernels.Count(shape) {
		f(i, at)
		for d := len(shape) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

// placeOf is the place of an index in row-major order. Axes of size 1 repeat.
func placeOf(shape, at []int) int {
	p := 0
	for d, size := range shape {
		p *= size
		if size > 1 {
			p += at[d]
		}
	}
	return p
}
