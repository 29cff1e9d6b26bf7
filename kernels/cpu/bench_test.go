package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// adamw is the rule of package optim.
var adamw = expr.Must(`
	g = grad*gradscale
	m1 = beta1*m + rest1*g
	v1 = beta2*v + rest2*(g*g)
	where(skip, p, p*(1-lr*decay) - lr/c1*(m1/(sqrt(v1)/sqrt(c2) + eps))); where(skip, m, m1); where(skip, v, v1)`,
	[]string{"p", "grad", "m", "v", "c1", "c2", "gradscale", "skip"},
	[]string{"lr", "beta1", "rest1", "beta2", "rest2", "eps", "decay"})

// BenchmarkPointwise reports bytes read and written per second on one thread, at 10^6 elements.
func BenchmarkPointwise(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rows, columns := 1000, 1000
	matrix32 := func() kernels.Arg { return with32(newTensor(kernels.Float32, rows, columns)) }
	turned := matrix32()
	turned.Strides[0], turned.Strides[1] = 1, rows
	row, column, one := matrix32(), matrix32(), matrix32()
	row.Strides[0], column.Strides[1] = 0, 0
	column.Strides[0] = 1
	one.Strides[0], one.Strides[1] = 0, 0
	bfloat16, float16 := newTensor(kernels.BFloat16, rows, columns), newTensor(kernels.Float16, rows, columns)
	x := []string{"x"}
	dropout := expr.Must("where(rand(0) < p, 0, x*(1/(1-p)))", x, []string{"p"})
	xy := []string{"x", "y"}
	p, g, m, v := matrix32(), matrix32(), matrix32(), matrix32()
	for _, c := range []struct {
		name   string
		src    *expr.Func
		in     []kernels.Arg
		out    []kernels.Arg
		floats []float64
	}{
		{"copy", expr.Must("x", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"transpose", expr.Must("x", x, nil), []kernels.Arg{turned}, []kernels.Arg{matrix32()}, nil},
		{"add", expr.Must("x + y", xy, nil), []kernels.Arg{matrix32(), matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"add scalar", expr.Must("x + y", xy, nil), []kernels.Arg{matrix32(), one}, []kernels.Arg{matrix32()}, nil},
		{"add row", expr.Must("x + y", xy, nil), []kernels.Arg{matrix32(), row}, []kernels.Arg{matrix32()}, nil},
		{"add column", expr.Must("x + y", xy, nil), []kernels.Arg{matrix32(), column}, []kernels.Arg{matrix32()}, nil},
		{"add transposed", expr.Must("x + y", xy, nil), []kernels.Arg{matrix32(), turned}, []kernels.Arg{matrix32()},
			nil},
		{"exp", expr.Must("exp(x)", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"gelu", expr.Must("gelu(x)", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"gelu_tanh", expr.Must("gelu_tanh(x)", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"gelu backward", expr.Must("gelu(x)", x, nil).Pullback(0).Func, []kernels.Arg{matrix32(), matrix32()},
			[]kernels.Arg{matrix32()}, nil},
		{"gelu_tanh backward", expr.Must("gelu_tanh(x)", x, nil).Pullback(0).Func,
			[]kernels.Arg{matrix32(), matrix32()}, []kernels.Arg{matrix32()}, nil},
		{"bias gelu", expr.Must("gelu(x + y)", xy, nil), []kernels.Arg{matrix32(), row}, []kernels.Arg{matrix32()},
			nil},
		{"dropout", dropout, []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()}, []float64{0.1}},
		{"dropout backward", dropout.Pullback(0).Func, []kernels.Arg{matrix32()}, []kernels.Arg{matrix32()},
			[]float64{0.1}},
		{"random instructions", expr.Must("where(rand() < p, 0, x)", x, []string{"p"}), []kernels.Arg{matrix32()},
			[]kernels.Arg{matrix32()}, []float64{0.1}},
		{"adamw", adamw, []kernels.Arg{p, g, m, v, one, one, one, one}, []kernels.Arg{p, m, v},
			[]float64{1e-3, 0.9, 0.1, 0.999, 0.001, 1e-8, 0.01}},
		{"float32 to bfloat16", expr.Must("x", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{bfloat16}, nil},
		{"bfloat16 to float32", expr.Must("x", x, nil), []kernels.Arg{bfloat16}, []kernels.Arg{matrix32()}, nil},
		{"float32 to float16", expr.Must("x", x, nil), []kernels.Arg{matrix32()}, []kernels.Arg{float16}, nil},
		{"float16 to float32", expr.Must("x", x, nil), []kernels.Arg{float16}, []kernels.Arg{matrix32()}, nil},
		{"float32 to int64", expr.Must("x", x, nil), []kernels.Arg{matrix32()},
			[]kernels.Arg{newTensor(kernels.Int64, rows, columns)}, nil},
	} {
		l := launch(c.src, c.in, c.out...)
		l.Floats = c.floats
		bytes := 0
		for _, a := range append(c.in, c.out...) {
			bytes += a.Buf.Bytes()
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(bytes))
			mustRun(b, l)
			for b.Loop() {
				Backend{}.Run(l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows*columns), "ns/element")
		})
	}
}

// with32 fills a float32 tensor with values around 0.
func with32(a kernels.Arg) kernels.Arg {
	for i, s := 0, Slice[float32](a); i < len(s); i++ {
		s[i] = float32(i%1001)/250 - 2
	}
	return a
}

// BenchmarkSmall is the time of an op call whose elements do not matter.
func BenchmarkSmall(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := launch(expr.Must("gelu(x + y)", []string{"x", "y"}, nil),
				[]kernels.Arg{newTensor(kernels.Float32, n), newTensor(kernels.Float32, n)},
				newTensor(kernels.Float32, n))
			b.ReportAllocs()
			mustRun(b, l)
			for b.Loop() {
				Backend{}.Run(l)
			}
		})
	}
}

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
			{"cross_entropy", CrossEntropy, []int{-100, 0}, []float64{0}, args(matrix(), targets),
				args(one, column(), column(), one)},
			{"cross_entropy_grad", CrossEntropyGrad, []int{-100, 0}, []float64{0},
				args(matrix(), targets, column(), column(), one, one), args(matrix())},
			{"layer_norm", LayerNorm, []int{1}, []float64{1e-5}, args(matrix(), row(), row()),
				args(matrix(), column(), column())},
			{"layer_norm_grad", LayerNormGrad, []int{1, 1, 1, 1}, nil,
				args(matrix(), matrix(), column(), column(), row()), args(matrix(), row(), row())},
			{"layer_norm_grad_x", LayerNormGrad, []int{1, 1, 0}, nil,
				args(matrix(), matrix(), column(), column(), row()), args(matrix(), row())},
			{"sum_all", Sum, []int{0, 1}, nil, args(matrix()), args(one)},
			{"sum_rows", Sum, []int{1}, nil, args(matrix()), args(column())},
			{"sum_columns", Sum, []int{0}, nil, args(matrix()), args(row())},
			{"argmax", ArgMax, []int{1}, nil, args(matrix()), args(newTensor(kernels.Int64, rows))},
		} {
			b.Run(fmt.Sprintf("%s/%dx%d", k.name, rows, n), func(b *testing.B) {
				l := &kernels.Launch{Op: &kernels.Op{Name: k.name}, In: k.in, Out: k.out, Ints: k.ints,
					Floats: k.floats}
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
