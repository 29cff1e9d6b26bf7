package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// alongAxis is a job of a kernel that maps lines along an axis to lines; of is its definition.
func alongAxis(kernel func(l *kernels.Launch), ints []int, in []kernels.Arg, of func(in [][]float32) []float32) job {
	axis := ints[:1]
	y := newTensor(kernels.Float32, in[0].Shape...)
	want := newTensor(kernels.Float32, in[0].Shape...)
	r := reductionOf(want, axis)
	lines := make([][][]float32, len(in))
	for k, a := range in {
		lines[k] = grouped(a, axis)
	}
	for o := range lines[0] {
		line := make([][]float32, len(in))
		for k := range in {
			line[k] = lines[k][o]
		}
		at := r.Kept.Offset(o)
		for i, v := range of(line) {
			Slice[float32](want)[at+r.Reduced.Offset(i)] = v
		}
	}
	l := &kernels.Launch{Op: &kernels.Op{Name: "test"}, In: in, Out: []kernels.Arg{y}, Ints: ints}
	return job{kernel, l, [][]float64{elements(want)}}
}

func softmaxOf(x []float32) []float32 {
	m := largest(x)
	e := mapped(x, func(v float32) float32 { return exp32(v - m) })
	scale := 1 / canonical(e)
	return mapped(e, func(v float32) float32 { return v * scale })
}

func logSoftmaxOf(x []float32) []float32 {
	m := largest(x)
	s := log32(canonical(mapped(x, func(v float32) float32 { return exp32(v - m) })))
	return mapped(x, func(v float32) float32 { return (v - m) - s })
}

func mul(a, b float32) float32 { return a * b }

var alongAxes = []struct {
	name   string
	kernel func(l *kernels.Launch)
	more   []int // attributes after the axis
	args   int
	of     func(in [][]float32) []float32
}{
	{"softmax", Softmax, nil, 1, func(in [][]float32) []float32 { return softmaxOf(in[0]) }},
	{"log softmax", LogSoftmax, nil, 1, func(in [][]float32) []float32 { return logSoftmaxOf(in[0]) }},
	{"softmax gradient", SoftmaxGrad, nil, 2, func(in [][]float32) []float32 {
		dot := canonical(zipped(in[0], in[1], mul))
		return zipped(in[0], in[1], func(y, g float32) float32 { return y * (g - dot) })
	}},
	{"log softmax gradient", LogSoftmaxGrad, nil, 2, func(in [][]float32) []float32 {
		sum := canonical(in[1])
		return zipped(in[0], in[1], func(y, g float32) float32 { return g - float32(exp32(y)*sum) })
	}},
	{"running sum", CumSum, []int{0}, 1, func(in [][]float32) []float32 {
		var sum float64
		return mapped(in[0], func(v float32) float32 { sum += float64(v); return float32(sum) })
	}},
	{"running sum from the end", CumSum, []int{1}, 1, func(in [][]float32) []float32 {
		y := make([]float32, len(in[0]))
		var sum float64
		for i := len(y) - 1; i >= 0; i-- {
			sum += float64(in[0][i])
			y[i] = float32(sum)
		}
		return y
	}},
}

// Operations along any axis, of operands in any layouts, have the bits of their definitions.
func TestAlongAxes(t *testing.T) {
	for _, k := range alongAxes {
		r := rand.New(rand.NewPCG(7, 8))
		var jobs []job
		for i, shape := range append(shapes, []int{2, 20000}, []int{200, 64}, []int{64, 3, 200}) {
			var in []kernels.Arg
			for a := range k.args {
				in = append(in, normal(r, layout(i+3*a, shape), i%2 == 0))
			}
			for axis := range shape {
				jobs = append(jobs, alongAxis(k.kernel, append([]int{axis}, k.more...), in, k.of))
			}
		}
		t.Run(k.name, func(t *testing.T) { runJobs(t, jobs) })
	}
}

// Short contiguous rows, which are computed in bundles, have the bits of their definitions.
func TestShortRows(t *testing.T) {
	for _, k := range alongAxes {
		r := rand.New(rand.NewPCG(9, 10))
		var jobs []job
		for _, shape := range [][]int{{130, 33}, {1, 64}, {65, 1}, {9, 512}, {3, 513}, {2, 3, 40}} {
			var in []kernels.Arg
			for range k.args {
				in = append(in, normal(r, newTensor(kernels.Float32, shape...), false))
			}
			jobs = append(jobs, alongAxis(k.kernel, append([]int{len(shape) - 1}, k.more...), in, k.of))
		}
		t.Run(k.name, func(t *testing.T) { runJobs(t, jobs) })
	}
}
