package cpu

import (
	"fmt"
	"runtime"
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
	[]string{"p", "grad", "m", "v", "c1", "c2", "gradscale", "skip"}, []string{"lr", "beta1", "rest1", "beta2", "rest2", "eps", "decay"})

// BenchmarkPointwise reports bytes read and written per second on one thread, at 10^6 elements.
func BenchmarkPointwise(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rows, columns := 1000, 1000
	flat := func() kernels.Arg { return with32(newTensor(kernels.Float32, rows, columns)) }
	turned := flat()
	turned.Strides[0], turned.Strides[1] = 1, rows
	row, column, one := flat(), flat(), flat()
	row.Strides[0], column.Strides[1] = 0, 0
	column.Strides[0] = 1
	one.Strides[0], one.Strides[1] = 0, 0
	bfloat16, float16 := newTensor(kernels.BFloat16, rows, columns), newTensor(kernels.Float16, rows, columns)
	x := []string{"x"}
	dropout := expr.Must("where(rand(0) < p, 0, x*(1/(1-p)))", x, []string{"p"})
	xy := []string{"x", "y"}
	p, g, m, v := flat(), flat(), flat(), flat()
	for _, c := range []struct {
		name   string
		src    *expr.Func
		in     []kernels.Arg
		out    []kernels.Arg
		floats []float64
	}{
		{"copy", expr.Must("x", x, nil), []kernels.Arg{flat()}, []kernels.Arg{flat()}, nil},
		{"transpose", expr.Must("x", x, nil), []kernels.Arg{turned}, []kernels.Arg{flat()}, nil},
		{"add", expr.Must("x + y", xy, nil), []kernels.Arg{flat(), flat()}, []kernels.Arg{flat()}, nil},
		{"add scalar", expr.Must("x + y", xy, nil), []kernels.Arg{flat(), one}, []kernels.Arg{flat()}, nil},
		{"add row", expr.Must("x + y", xy, nil), []kernels.Arg{flat(), row}, []kernels.Arg{flat()}, nil},
		{"add column", expr.Must("x + y", xy, nil), []kernels.Arg{flat(), column}, []kernels.Arg{flat()}, nil},
		{"add transposed", expr.Must("x + y", xy, nil), []kernels.Arg{flat(), turned}, []kernels.Arg{flat()}, nil},
		{"exp", expr.Must("exp(x)", x, nil), []kernels.Arg{flat()}, []kernels.Arg{flat()}, nil},
		{"gelu", expr.Must("gelu(x)", x, nil), []kernels.Arg{flat()}, []kernels.Arg{flat()}, nil},
		{"gelu_tanh", expr.Must("gelu_tanh(x)", x, nil), []kernels.Arg{flat()}, []kernels.Arg{flat()}, nil},
		{"gelu backward", expr.Must("gelu(x)", x, nil).Pullback(0).Func, []kernels.Arg{flat(), flat()}, []kernels.Arg{flat()}, nil},
		{"bias gelu", expr.Must("gelu(x + y)", xy, nil), []kernels.Arg{flat(), row}, []kernels.Arg{flat()}, nil},
		{"dropout", dropout, []kernels.Arg{flat()}, []kernels.Arg{flat()}, []float64{0.1}},
		{"dropout backward", dropout.Pullback(0).Func, []kernels.Arg{flat()}, []kernels.Arg{flat()}, []float64{0.1}},
		{"random steps", expr.Must("where(rand() < p, 0, x)", x, []string{"p"}), []kernels.Arg{flat()}, []kernels.Arg{flat()}, []float64{0.1}},
		{"adamw", adamw, []kernels.Arg{p, g, m, v, one, one, one, one}, []kernels.Arg{p, m, v}, []float64{1e-3, 0.9, 0.1, 0.999, 0.001, 1e-8, 0.01}},
		{"float32 to bfloat16", expr.Must("x", x, nil), []kernels.Arg{flat()}, []kernels.Arg{bfloat16}, nil},
		{"bfloat16 to float32", expr.Must("x", x, nil), []kernels.Arg{bfloat16}, []kernels.Arg{flat()}, nil},
		{"float32 to float16", expr.Must("x", x, nil), []kernels.Arg{flat()}, []kernels.Arg{float16}, nil},
		{"float16 to float32", expr.Must("x", x, nil), []kernels.Arg{float16}, []kernels.Arg{flat()}, nil},
		{"float32 to int64", expr.Must("x", x, nil), []kernels.Arg{flat()}, []kernels.Arg{newTensor(kernels.Int64, rows, columns)}, nil},
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

// with32 fills a float32 tensor with numbers around 0.
func with32(a kernels.Arg) kernels.Arg {
	for i, s := 0, Slice[float32](a); i < len(s); i++ {
		s[i] = float32(i%1001)/250 - 2
	}
	return a
}

// BenchmarkSmall is the time of a launch whose elements do not matter.
func BenchmarkSmall(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := launch(expr.Must("gelu(x + y)", []string{"x", "y"}, nil), []kernels.Arg{newTensor(kernels.Float32, n), newTensor(kernels.Float32, n)}, newTensor(kernels.Float32, n))
			b.ReportAllocs()
			mustRun(b, l)
			for b.Loop() {
				Backend{}.Run(l)
			}
		})
	}
}
