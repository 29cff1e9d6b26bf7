//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
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

// TestInfiniteRows: a maximum that is infinite, or not a number, in rows that a warp has, that a block has, and that
// are read again.
func TestInfiniteRows(t *testing.T) {
	b := kernelDevice(t)
	inf, nan := math.Inf(1), math.NaN()
	rows := [][2]float64{{1, inf}, {1, -inf}, {-inf, 1}, {-inf, -inf}, {-inf, inf}, {inf, inf}, {nan, 1}, {1, nan}}
	for _, n := range []int{5, 300, 20_000} {
		var data []byte
		for _, row := range rows { // all the first, but for one element
			for i := range n {
				x := row[0]
				if i == n/2 {
					x = row[1]
				}
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
			}
		}
		shape := []int{len(rows), n}
		x := value{kernels.Float32, data, kernels.Layout{Shape: shape, Strides: []int{n, 1}}}
		r := newFuzz(17)
		for _, d := range singleTypes {
			in := []value{x}
			if d != kernels.Float32 {
				in[0] = convert(t, x, d)
			}
			for _, op := range []*kernels.Op{hostOp("softmax", cpu.Softmax), hostOp("log_softmax", cpu.LogSoftmax)} {
				sameAsExact(t, b, &kernels.Launch{Op: op, Ints: []int{1, 0}}, in, []value{r.result(d, shape...)})
			}
			l := &kernels.Launch{Op: hostOp("logsumexp", cpu.LogSumExp), Ints: []int{1}}
			sameAsExact(t, b, l, in, []value{r.result(d, len(rows))})
		}
	}
}
