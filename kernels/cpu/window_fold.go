package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Fold adds windows along the axis l.Ints[0], l.Ints[1] apart, of which the last axis of the operand has the elements:
// for each element of the result from +0, in ascending order of windows.
func Fold(l *kernels.Launch) {
	axis, step, shape := l.Ints[0], l.Ints[1], l.In[0].Shape
	last := len(shape) - 1
	n, windows, size := l.Out[0].Shape[axis], shape[axis], shape[last]
	inner := kernels.Count(shape[axis+1 : last])
	g, y := contiguousElements(l.In[0]), Slice[float32](l.Out[0])
	par.For(kernels.Count(shape[:axis])*n, 1+rowGrain/max(1, inner*(size/step+1)), func(lo, hi int) {
		for row := lo; row < hi; row++ {
			outer, i := row/n, row%n
			out := y[row*inner : (row+1)*inner]
			clear(out)
			first := max(0, i-size+step) / step // the first window that reaches i
			for o := first; o < windows && o*step <= i; o++ {
				from := g[(outer*windows+o)*inner*size+i-o*step:]
				for j := range out {
					out[j] += from[j*size]
				}
			}
		}
	})
}
