//go:build cuda && cgo && linux

package cuda

import (
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestCumSum: tiles of contiguous rows first.
func TestCumSum(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(22)
	for i := range cases(32) {
		shape := []int{1 + r.IntN(140), 1 + r.IntN(100)}
		x := r.moderate(singleTypes[i%3], shape...)
		if i%4 > 0 {
			l := kernels.Layout{Shape: shape, Strides: []int{shape[1] + r.IntN(3), 1}}
			x = value{x.dtype, r.numbers(x.dtype, shape[0]*l.Strides[0], true), l}
		}
		l := &kernels.Launch{Op: hostOp("cumsum", cpu.CumSum), Ints: []int{1, r.IntN(2)}}
		sameAsWidened(t, b, l, []value{x}, []value{r.result(x.dtype, shape...)})
	}
}
