package cpu

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// An order combines elements, beginning with start.
type order func(x []float32, start float32, combine func(a, b float32) float32) float32

func plus(a, b float32) float32  { return a + b }
func times(a, b float32) float32 { return a * b }

// byRows is the canonical order of rows, written from its definition.
func byRows(x []float32, start float32, combine func(a, b float32) float32) float32 {
	var blocks []float32
	for block := range slices.Chunk(x, 2048) {
		partial := slices.Repeat([]float32{start}, 128)
		for i, v := range block {
			partial[i%128] = combine(partial[i%128], v)
		}
		for len(partial) > 1 {
			for j := range len(partial) / 2 {
				partial[j] = combine(partial[2*j], partial[2*j+1])
			}
			partial = partial[:len(partial)/2]
		}
		blocks = append(blocks, partial[0])
	}
	return levels(byRows, blocks, start, combine)
}

// byColumns is that of columns.
func byColumns(x []float32, start float32, combine func(a, b float32) float32) float32 {
	var blocks []float32
	for block := range slices.Chunk(x, 64) {
		partial := slices.Repeat([]float32{start}, 8)
		for i, v := range block {
			partial[i/8] = combine(partial[i/8], v)
		}
		for h := 4; h > 0; h /= 2 {
			for j := range h {
				partial[j] = combine(partial[j], partial[j+h])
			}
		}
		blocks = append(blocks, partial[0])
	}
	return levels(byColumns, blocks, start, combine)
}

func levels(by order, blocks []float32, start float32, combine func(a, b float32) float32) float32 {
	switch len(blocks) {
	case 0:
		return start
	case 1:
		return blocks[0]
	}
	return by(blocks, start, combine)
}

// canonical is the canonical sum of a row.
func canonical(x []float32) float32 { return byRows(x, 0, plus) }

// orderOf is the order of the reduction of a shape along axes: by its innermost axis of more than one element.
func orderOf(shape, axes []int) order {
	by := byRows
	for axis, size := range shape {
		switch {
		case size == 1:
		case slices.Contains(axes, axis):
			by = byRows
		default:
			by = byColumns
		}
	}
	return by
}

// mapped is f of each element.
func mapped(x []float32, f func(v float32) float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// zipped is f of the elements of x and y.
func zipped(x, y []float32, f func(a, b float32) float32) []float32 {
	z := make([]float32, len(x))
	for i := range x {
		z[i] = f(x[i], y[i])
	}
	return z
}

func largest(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

func scalarOf(name string) func(x float32) float32 {
	k := vec.Instr(name)
	return func(x float32) float32 {
		v := []float32{x}
		k(v, v, nil, nil)
		return v[0]
	}
}

var exp32, log32 = scalarOf("exp"), scalarOf("log")

// A job is an op call with the results that it must have.
type job struct {
	kernel func(l *kernels.Launch)
	l      *kernels.Launch
	want   [][]float64
}

// runJobs runs the jobs in each tier that this processor has, on 1, 2 and 7 threads, and compares the bits.
func runJobs(t *testing.T, jobs []job) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer vec.SetTier(vec.Current())
	for _, tier := range []vec.Tier{vec.Portable, vec.NEON, vec.AVX2, vec.AVX512} {
		if !vec.Supported(tier) {
			continue
		}
		vec.SetTier(tier)
		for _, threads := range []int{1, 2, 7} {
			runtime.GOMAXPROCS(threads)
			for _, j := range jobs {
				for _, a := range j.l.Out {
					fill(a.Buf.(*Mem).data, 0xa5)
				}
				j.kernel(j.l)
				for k, a := range j.l.Out {
					for i, got := range elements(a) {
						if want := j.want[k][i]; !same(got, want) {
							t.Fatalf("%v on %d threads: shapes %v, strides %v, ints %v: "+
								"element %d of result %d is %v, want %v",
								tier, threads, shapesOf(j.l.In), j.l.In[0].Strides, j.l.Ints, i, k, got, want)
						}
					}
				}
			}
		}
	}
}

func shapesOf(args []kernels.Arg) (all [][]int) {
	for _, a := range args {
		all = append(all, a.Shape)
	}
	return all
}

// layout is layout number i for a shape, counting round.
func layout(i int, shape []int) kernels.Arg {
	return layouts[layoutNames[i%len(layoutNames)]](kernels.Float32, shape)
}

// normal fills the memory of a with numbers around 0, or corner cases among them.
func normal(r *rand.Rand, a kernels.Arg, corners bool) kernels.Arg {
	if corners {
		return random(r, a)
	}
	v := make([]float64, a.Buf.Bytes()/a.DType.Size())
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return with(a, v...)
}

// grouped are the elements of a by the results of reducing axes, in row-major order.
func grouped(a kernels.Arg, axes []int) [][]float32 {
	var kept, index []int
	for i := range a.Shape {
		if !slices.Contains(axes, i) {
			kept = append(kept, i)
		}
	}
	n := 1
	for _, k := range kept {
		n *= a.Shape[k]
	}
	groups := make([][]float32, n)
	index = make([]int, len(a.Shape))
	for i, v := range elements(a) {
		for d := len(a.Shape) - 1; d >= 0; d-- {
			index[d] = i % a.Shape[d]
			i /= a.Shape[d]
		}
		g := 0
		for _, k := range kept {
			g = g*a.Shape[k] + index[k]
		}
		groups[g] = append(groups[g], float32(v))
	}
	return groups
}

// subsets are the sets of the numbers below n.
func subsets(n int) (all [][]int) {
	for mask := range 1 << n {
		var s []int
		for i := range n {
			if mask>>i&1 == 1 {
				s = append(s, i)
			}
		}
		all = append(all, s)
	}
	return all
}

// reduced is an op call of a reduction of a along axes, with results of the given types.
func reduced(a kernels.Arg, axes []int, floats []float64, types ...kernels.DType) *kernels.Launch {
	var shape []int
	for i, d := range a.Shape {
		if !slices.Contains(axes, i) {
			shape = append(shape, d)
		}
	}
	l := &kernels.Launch{Op: &kernels.Op{Name: "test"}, In: []kernels.Arg{a}, Ints: axes, Floats: floats}
	for _, d := range types {
		l.Out = append(l.Out, newTensor(d, shape...))
	}
	return l
}

var reductions = []struct {
	name   string
	kernel func(l *kernels.Launch)
	floats []float64
	of     func(by order, x []float32) float32
}{
	{"sum", Sum, nil, func(by order, x []float32) float32 { return by(x, 0, plus) }},
	{"mean", Mean, nil, func(by order, x []float32) float32 { return by(x, 0, plus) / float32(len(x)) }},
	{"sum_squares", SumSquares, nil, func(by order, x []float32) float32 {
		return by(mapped(x, func(v float32) float32 { return v * v }), 0, plus)
	}},
	{"nansum", NaNSum, nil, func(by order, x []float32) float32 {
		return by(mapped(x, func(v float32) float32 {
			if v != v {
				return 0
			}
			return v
		}), 0, plus)
	}},
	{"max", Max, nil, func(_ order, x []float32) float32 { return largest(x) }},
	{"min", Min, nil, func(_ order, x []float32) float32 {
		return -largest(mapped(x, func(v float32) float32 { return -v }))
	}},
	{"prod", Prod, nil, func(by order, x []float32) float32 { return by(x, 1, times) }},
	{"var", Var, []float64{1}, func(_ order, x []float32) float32 {
		_, squares := deviationsOf(x)
		return squares / float32(max(0, len(x)-1))
	}},
	{"logsumexp", LogSumExp, nil, func(_ order, x []float32) float32 {
		m := largest(x)
		if math.IsInf(float64(m), 0) {
			m = 0
		}
		return m + log32(canonical(mapped(x, func(v float32) float32 { return exp32(v - m) })))
	}},
}

// deviationsOf are [deviations], from their definition.
func deviationsOf(x []float32) (mean, squares float32) {
	if len(x) == 0 {
		return float32(math.NaN()), 0
	}
	mean = x[0] + canonical(mapped(x, func(v float32) float32 { return v - x[0] }))/float32(len(x))
	return mean, canonical(mapped(x, func(v float32) float32 { return (v - mean) * (v - mean) }))
}

// Every reduction of any axes in any layout has the bits of its definition.
func TestReductions(t *testing.T) {
	for _, k := range reductions {
		r := rand.New(rand.NewPCG(1, 2))
		var jobs []job
		for i, shape := range shapes {
			a := normal(r, layout(i, shape), i%2 == 0)
			for j, axes := range subsets(len(shape)) {
				if len(shape) < 5 || j%17 == 0 {
					jobs = appendReduction(jobs, a, axes, k.floats, k.kernel, k.of)
				}
			}
		}
		t.Run(k.name, func(t *testing.T) { runJobs(t, jobs) })
	}
}

func appendReduction(jobs []job, a kernels.Arg, axes []int, floats []float64, kernel func(l *kernels.Launch),
	of func(by order, x []float32) float32) []job {
	l := reduced(a, axes, floats, kernels.Float32)
	if l.Out[0].Len() == 0 {
		return jobs
	}
	var want []float64
	for _, x := range grouped(a, axes) {
		want = append(want, float64(of(orderOf(a.Shape, axes), x)))
	}
	return append(jobs, job{kernel, l, [][]float64{want}})
}

// Sums of more than one block, and of more blocks than one block has elements.
func TestLongSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var jobs []job
	for _, c := range []struct {
		shape  []int
		axes   []int
		layout string
	}{
		{[]int{2048}, []int{0}, "contiguous"},
		{[]int{2049}, []int{0}, "contiguous"},
		{[]int{1100000}, []int{0}, "contiguous"},
		{[]int{2048*2048 + 3}, []int{0}, "contiguous"},
		{[]int{3, 40000}, []int{1}, "contiguous"},
		{[]int{3, 40000}, []int{1}, "stepped"},
		{[]int{35, 4100}, []int{1}, "transposed"},
		{[]int{4100, 35}, []int{0}, "transposed"},
		{[]int{64, 700}, []int{0}, "contiguous"},
		{[]int{65, 700}, []int{0}, "contiguous"},
		{[]int{40000, 3}, []int{0}, "contiguous"},
		{[]int{40000, 1}, []int{0}, "contiguous"},
		{[]int{17000, 70}, []int{0}, "sliced"},
		{[]int{2, 20000, 5}, []int{1}, "contiguous"},
		{[]int{150, 3, 150}, []int{0, 2}, "contiguous"},
		{[]int{70, 250, 60}, []int{0, 1}, "contiguous"},
		{[]int{70, 60, 250}, []int{0, 1}, "transposed"},
		{[]int{100, 1300}, []int{0}, "contiguous"},
	} {
		a := normal(r, layouts[c.layout](kernels.Float32, c.shape), false)
		for _, k := range reductions[:3] { // sums
			jobs = appendReduction(jobs, a, c.axes, nil, k.kernel, k.of)
		}
		b, some := normal(r, layouts[c.layout](kernels.Float32, c.shape), false), reductions[3]
		for i := 0; i < b.Buf.Bytes()/4; i += 5000 { // in some blocks
			view[float32](b.Buf.(*Mem).data)[i] = float32(math.NaN())
		}
		jobs = appendReduction(jobs, b, c.axes, nil, some.kernel, some.of)
	}
	runJobs(t, jobs)
}

// The mean of many equal numbers is that number, and so is a sum, divided.
func TestMeanOfEqualNumbers(t *testing.T) {
	for _, v := range []float32{0.1, 1. / 3, 0.7, 1.1, 123.456} {
		a := floats32([]float32{v}, 1)
		a.Shape, a.Strides = []int{20_000_000}, []int{0}
		for _, c := range [][]int{{20_000_000}, {4_000_000, 5}} {
			a.Shape, a.Strides = c, make([]int, len(c))
			l := reduced(a, []int{0}, nil, kernels.Float32)
			Mean(l)
			if got := Slice[float32](l.Out[0])[0]; math.Abs(float64(got)/float64(v)-1) > 1e-6 {
				t.Errorf("the mean of %v numbers %v is %v", c, v, got)
			}
		}
	}
}

func TestArgMax(t *testing.T) {
	index := func(better func(a, b float32) bool) func(x []float32) int {
		return func(x []float32) int {
			for i, v := range x {
				if v != v {
					return i
				}
			}
			best := 0
			for i, v := range x {
				if better(v, x[best]) {
					best = i
				}
			}
			return best
		}
	}
	for _, k := range []struct {
		name   string
		kernel func(l *kernels.Launch)
		of     func(x []float32) int
	}{
		{"argmax", ArgMax, index(func(a, b float32) bool { return a > b })},
		{"argmin", ArgMin, index(func(a, b float32) bool { return a < b })},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		var jobs []job
		for i, shape := range shapes {
			a := random(r, layout(i, shape))
			for axis, n := range shape {
				if n == 0 {
					continue
				}
				var values, indices []float64
				for _, x := range grouped(a, []int{axis}) {
					p := k.of(x)
					values, indices = append(values, float64(x[p])), append(indices, float64(p))
				}
				jobs = append(jobs,
					job{k.kernel, reduced(a, []int{axis}, nil, kernels.Float32, kernels.Int64),
						[][]float64{values, indices}},
					job{k.kernel, reduced(a, []int{axis}, nil, kernels.Int64), [][]float64{indices}})
			}
		}
		t.Run(k.name, func(t *testing.T) { runJobs(t, jobs) })
	}
}
