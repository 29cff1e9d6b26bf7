package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/chewxy/math32"
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

// Rows that are neighbours in memory, which are computed abreast or transposed, have the bits of their definitions.
func TestNeighbouringRows(t *testing.T) {
	shapes := [][]int{
		{1, 20}, {2, 16}, {3, 15}, {5, 1030}, {8, 2100}, {127, 33}, {128, 200}, {129, 37}, {2100, 21},
		{2, 7, 50}, {40, 3, 18}, {3, 130, 19}, {2, 3, 9, 5}, {3, 6, 16, 2}, {2, 140, 3, 7},
	}
	zeros := newTensor(kernels.Float32, 5, 40)
	fill(Slice[float32](zeros), math32.Copysign(0, -1))
	for _, k := range alongAxes {
		r := rand.New(rand.NewPCG(11, 12))
		jobs := []job{alongAxis(k.kernel, append([]int{0}, k.more...), []kernels.Arg{zeros, zeros}[:k.args], k.of)}
		for _, shape := range shapes {
			for i, name := range []string{"contiguous", "sliced", "row", "reversed axes"} {
				in := []kernels.Arg{normal(r, layouts[name](kernels.Float32, shape), i < 2)}
				if k.args == 2 {
					in = append(in, normal(r, newTensor(kernels.Float32, shape...), false))
				}
				for axis := range shape {
					jobs = append(jobs, alongAxis(k.kernel, append([]int{axis}, k.more...), in, k.of))
				}
			}
		}
		t.Run(k.name, func(t *testing.T) { runJobs(t, jobs) })
	}
}

// So has logsumexp, also where all elements of rows are infinite.
func TestLogSumExpOfNeighbouringRows(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	logSumExp := reductions[len(reductions)-1]
	var jobs []job
	for _, shape := range [][]int{{1, 20}, {5, 1030}, {128, 200}, {129, 37}, {40, 3, 18}, {9, 17, 20}} {
		for _, name := range []string{"contiguous", "sliced", "reversed axes"} {
			for _, axes := range subsets(len(shape)) {
				for _, corners := range []bool{false, true} {
					a := normal(r, layouts[name](kernels.Float32, shape), corners)
					jobs = appendReduction(jobs, a, axes, nil, logSumExp.kernel, logSumExp.of)
				}
			}
		}
	}
	for _, v := range []float32{math32.Inf(-1), math32.Inf(1)} {
		a := newTensor(kernels.Float32, 6, 30)
		fill(Slice[float32](a), v)
		jobs = appendReduction(jobs, a, []int{0}, nil, logSumExp.kernel, logSumExp.of)
	}
	runJobs(t, jobs)
}
