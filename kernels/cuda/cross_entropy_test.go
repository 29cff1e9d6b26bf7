//go:build cuda && cgo && linux

package cuda

import (
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestCrossEntropy: losses and gradients of all reductions, with rows left out and smoothing.
func TestCrossEntropy(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(15)
	for i := range cases(30) {
		d, shape := singleTypes[i%3], r.rowShape()
		switch {
		case i == 7:
			shape = []int{16500, 3}
		case i == 9:
			shape = []int{10024, 4}
		case i == 10: // two blocks of losses, all but one
			shape = []int{4095, 3}
		case i == 18: // a mean, of rows that several blocks count, twice 8 of a thread
			shape = []int{74000, 2}
		case i%4 == 1: // few classes, so that each is a target
			shape = []int{1 + r.IntN(40), 1 + r.IntN(5)}
		}
		crossEntropy(t, b, r, d, shape, i/3%3)
	}
}

// crossEntropy compares losses of logits and their gradients.
func crossEntropy(t *testing.T, b *Backend, r fuzz, d kernels.DType, shape []int, reduction int) {
	t.Helper()
	rows, classes := shape[:len(shape)-1], shape[len(shape)-1]
	logits, targets := r.moderate(d, shape...), r.operand(oneOf(r, kernels.Int64, kernels.Int32), classes, rows...)
	if targets.Contiguous() { // behind the last one is a class that does not count
		targets.data = append(targets.data, targets.data[targets.Offset*targets.dtype.Size():]...)
	}
	l := &kernels.Launch{Op: hostOp("cross_entropy", cpu.CrossEntropy), Ints: []int{oneOf(r, 0, -100), reduction},
		Floats: []float64{oneOf(r, 0, 0.1)}}
	of := func(d kernels.DType) value {
		if reduction == 2 {
			return r.result(d, rows...)
		}
		return r.result(d)
	}
	most, sums := r.result(kernels.Float32, rows...), r.result(kernels.Float32, rows...)
	count := r.result(kernels.Float32)
	if out := []value{of(d), most, sums, count}; reduction == 0 {
		sameAsExact(t, b, l, []value{logits, targets}, out)
	} else {
		sameAsExact(t, b, l, []value{logits, targets}, out[:3])
	}

	most, sums = r.moderate(kernels.Float32, rows...), r.moderate(kernels.Float32, rows...)
	g := of(d)
	g.data = r.numbers(d, len(g.data)/d.Size(), true)
	l.Op = hostOp("cross_entropy_grad", cpu.CrossEntropyGrad)
	count.data = r.numbers(kernels.Float32, len(count.data)/4, true)
	sameAsExact(t, b, l, []value{logits, targets, most, sums, g, count}, []value{r.result(d, shape...)})
}
