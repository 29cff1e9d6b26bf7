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

// TestScans: running products and recurrences of any layout, and running extremes of any content.
func TestScans(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(23)
	for i := range cases(32) {
		shape := []int{1 + r.IntN(5), 1 + r.IntN(100), 1 + r.IntN(3)}
		axis, d := r.IntN(3), singleTypes[i%3]
		x, y := r.moderate(d, shape...), r.result(d, shape...)
		l := &kernels.Launch{Op: hostOp("cumprod", cpu.CumProd), Ints: []int{axis}}
		sameAsWidened(t, b, l, []value{x}, []value{y})
		l = &kernels.Launch{Op: hostOp("recurrence", cpu.Recurrence), Ints: []int{axis, r.IntN(2)}}
		sameAsWidened(t, b, l, []value{x, r.moderate(d, shape...)}, []value{y})
		x = r.wild(d, shape...)
		if i%2 == 0 { // ties
			x = r.operand(d, 4, shape...)
		}
		for name, f := range map[string]func(l *kernels.Launch){"cummax": cpu.CumMax, "cummin": cpu.CumMin} {
			sameAsWidened(t, b, &kernels.Launch{Op: hostOp(name, f), Ints: []int{axis}}, []value{x},
				[]value{y, r.result(kernels.Int64, shape...)})
		}
	}
}
