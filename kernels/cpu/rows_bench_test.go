package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// BenchmarkRows times the operations along rows and columns; MB/s counts each operand and result once.
func BenchmarkRows(b *testing.B) {
	for _, shape := range [][]int{{128, 10}, {16384, 64}, {1000, 1024}, {1024, 512}} {
		rows, n := shape[0], shape[1]
		r := rand.New(rand.NewPCG(1, 2))
		matrix := func() kernels.Arg { return normal(r, newTensor(kernels.Float32, rows, n), false) }
		column := func() kernels.Arg { return normal(r, newTensor(kernels.Float32, rows), false) }
		row := func() kernels.Arg { return normal(r, newTensor(kernels.Float32, n), false) }
		args := func(a ...kernels.Arg) []kernels.Arg { return a }
		one := newTensor(kernels.Float32)
		targets := newTensor(kernels.Int64, rows)
		for i := range Slice[int64](targets) {
			Slice[int64](targets)[i] = int64(i % n)
		}
		for _, k := range []struct {
			name    string
			kernel  func(l *kernels.Launch)
			ints    []int
			floats  []float64
			in, out []kernels.Arg
		}{
			{"softmax", Softmax, []int{1}, nil, args(matrix()), args(matrix())},
			{"softmax_grad", SoftmaxGrad, []int{1}, nil, args(matrix(), matrix()), args(matrix())},
			{"log_softmax", LogSoftmax, []int{1}, nil, args(matrix()), args(matrix())},
			{"softmax_columns", Softmax, []int{0}, nil, args(matrix()), args(matrix())},
			{"cross_entropy", CrossEntropy, []int{-100, 0}, []float64{0}, args(matrix(), targets), args(one, column(), column())},
			{"cross_entropy_grad", CrossEntropyGrad, []int{-100, 0}, []float64{0}, args(matrix(), targets, column(), column(), one), args(matrix())},
			{"layer_norm", LayerNorm, []int{1}, []float64{1e-5}, args(matrix(), row(), row()), args(matrix(), column(), column())},
			{"layer_norm_grad", LayerNormGrad, []int{1, 1, 1, 1}, nil, args(matrix(), matrix(), column(), column(), row()), args(matrix(), row(), row())},
			{"layer_norm_grad_x", LayerNormGrad, []int{1, 1, 0}, nil, args(matrix(), matrix(), column(), column(), row()), args(matrix(), row())},
			{"sum_all", Sum, []int{0, 1}, nil, args(matrix()), args(one)},
			{"sum_rows", Sum, []int{1}, nil, args(matrix()), args(column())},
			{"sum_columns", Sum, []int{0}, nil, args(matrix()), args(row())},
			{"argmax", ArgMax, []int{1}, nil, args(matrix()), args(newTensor(kernels.Int64, rows))},
		} {
			b.Run(fmt.Sprintf("%s/%dx%d", k.name, rows, n), func(b *testing.B) {
				l := &kernels.Launch{Op: &kernels.Op{Name: k.name}, In: k.in, Out: k.out, Ints: k.ints, Floats: k.floats}
				bytes := 0
				for _, a := range slices.Concat(k.in, k.out) {
					bytes += a.Buf.Bytes()
				}
				b.SetBytes(int64(bytes))
				for b.Loop() {
					k.kernel(l)
				}
			})
		}
	}
}
