//go:build cuda && cgo && linux

package cuda

import (
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestSoftmax: the softmax family and running sums.
func TestSoftmax(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(13)
	ops := []*kernels.Op{
		hostOp("softmax", cpu.Softmax), hostOp("log_softmax", cpu.LogSoftmax), hostOp("cumsum", cpu.CumSum),
		hostOp("softmax_grad", cpu.SoftmaxGrad), hostOp("log_softmax_grad", cpu.LogSoftmaxGrad),
	}
	for i := range cases(25) {
		for k, op := range ops {
			d, shape := singleTypes[(i+k)%3], r.rowShape()
			l := &kernels.Launch{Op: op, Ints: []int{r.IntN(len(shape)), r.IntN(2)}}
			in := []value{r.moderate(d, shape...)}
			if k > 2 {
				in = append(in, r.moderate(d, shape...))
			}
			sameAsExact(t, b, l, in, []value{r.result(d, shape...)})
		}
	}
}
