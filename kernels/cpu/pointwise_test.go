package cpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
)

// newTensor is new contiguous memory for a tensor.
func newTensor(d kernels.DType, shape ...int) kernels.Arg {
	l := kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)}
	return kernels.Arg{Buf: mustMem(l.Len() * d.Size()), DType: d, Layout: l}
}

// with stores values in the memory of a, in the order of its buffer.
func with(a kernels.Arg, v ...float64) kernels.Arg {
	store(a.Buf.(*Mem).data, v, a.DType)
	return a
}

// elements reads a tensor element by element, in row-major order.
func elements(a kernels.Arg) []float64 {
	var out []float64
	all := make([]float64, a.Buf.Bytes()/a.DType.Size())
	load(all, a.Buf.(*Mem).data, a.DType)
	for i := range a.Len() {
		at := a.Offset
		for d := len(a.Shape) - 1; d >= 0; d-- {
			at += i % a.Shape[d] * a.Strides[d]
			i /= a.Shape[d]
		}
		out = append(out, all[at])
	}
	return out
}

func launch(f *expr.Func, in []kernels.Arg, out ...kernels.Arg) *kernels.Launch {
	return &kernels.Launch{Op: &kernels.Op{Name: "test", Expr: f}, In: in, Out: out}
}

func mustRun(t testing.TB, l *kernels.Launch) {
	t.Helper()
	if err := (Backend{}).Run(l); err != nil {
		t.Fatal(err)
	}
}

// same treats all NaNs as equal, and tells zeros apart.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

var shapes = [][]int{
	{}, {0}, {1}, {7}, {1024}, {1025}, {5000}, {3, 0, 2}, {1, 1}, {2, 3}, {17, 33}, {40, 64}, {3, 1100}, {70, 300},
	{600, 3},
	{1500, 1}, {33, 260}, {2, 3, 4}, {3, 20, 17}, {2, 5, 3, 40}, {1, 6, 1, 50}, {2, 1, 3, 1, 2, 2, 1, 3},
}

// layouts are the ways to lay a tensor out in memory, each of new memory with undefined content.
var layouts = map[string]func(d kernels.DType, shape []int) kernels.Arg{
	"contiguous": func(d kernels.DType, shape []int) kernels.Arg { return newTensor(d, shape...) },
	"transposed": func(d kernels.DType, shape []int) kernels.Arg {
		n := len(shape)
		if n < 2 {
			return newTensor(d, shape...)
		}
		turned := slices.Clone(shape)
		turned[n-1], turned[n-2] = turned[n-2], turned[n-1]
		a := newTensor(d, turned...)
		a.Shape = shape
		a.Strides[n-1], a.Strides[n-2] = a.Strides[n-2], a.Strides[n-1]
		return a
	},
	"reversed axes": func(d kernels.DType, shape []int) kernels.Arg {
		turned := slices.Clone(shape)
		slices.Reverse(turned)
		a := newTensor(d, turned...)
		a.Shape = shape
		slices.Reverse(a.Strides)
		return a
	},
	"sliced": func(d kernels.DType, shape []int) kernels.Arg { // [1:1+n] of each axis
		wide := slices.Clone(shape)
		for i := range wide {
			wide[i] += 2
		}
		a := newTensor(d, wide...)
		for _, st := range a.Strides {
			a.Offset += st
		}
		a.Shape = shape
		return a
	},
	"stepped": func(d kernels.DType, shape []int) kernels.Arg { // [::3] of each axis
		wide := slices.Clone(shape)
		for i := range wide {
			wide[i] *= 3
		}
		a := newTensor(d, wide...)
		for i := range a.Strides {
			a.Strides[i] *= 3
		}
		a.Shape = shape
		return a
	},
	"row": func(d kernels.DType, shape []int) kernels.Arg {
		return expanded(d, shape, func(i, n int) bool { return i < n-1 })
	},
	"column": func(d kernels.DType, shape []int) kernels.Arg {
		return expanded(d, shape, func(i, n int) bool { return i == n-1 })
	},
	"middle": func(d kernels.DType, shape []int) kernels.Arg {
		return expanded(d, shape, func(i, n int) bool { return i == n/2 })
	},
	"scalar": func(d kernels.DType, shape []int) kernels.Arg {
		return expanded(d, shape, func(i, n int) bool { return true })
	},
}

var layoutNames = slices.Sorted(func(yield func(string) bool) {
	for name := range layouts {
		if !yield(name) {
			return
		}
	}
})

// expanded repeats along some axes.
func expanded(d kernels.DType, shape []int, repeats func(i, n int) bool) kernels.Arg {
	small := slices.Clone(shape)
	for i := range small {
		if repeats(i, len(shape)) {
			small[i] = 1
		}
	}
	a := newTensor(d, small...)
	for i := range small {
		if repeats(i, len(shape)) {
			a.Strides[i] = 0
		}
	}
	a.Shape = shape
	return a
}

// random fills the memory of a with values that meet the corners of the instructions.
func random(r *rand.Rand, a kernels.Arg) kernels.Arg {
	corners := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3, math.Inf(1), math.Inf(-1), math.NaN(), 1e30, -1e30,
		1e-40, 65504, 1e-8}
	v := make([]float64, a.Buf.Bytes()/a.DType.Size())
	for i := range v {
		switch {
		case !a.DType.IsFloat():
			v[i] = float64(r.IntN(7) - 3)
		case r.IntN(8) == 0:
			v[i] = corners[r.IntN(len(corners))]
		default:
			v[i] = r.NormFloat64() * 3
		}
	}
	return with(a, v...)
}

// An interpreter evaluates an expression for one element on registers of type T, one instruction after the other.
type interpreter[T register] struct {
	f       *expr.Func
	kernels []kernel[T]
	from    [][3]int // numbers of the operands; -1 if missing
	values  []T
}

// interpretation is how an op call with registers of type d is checked: it stores the results of one element in
// tensors.
func interpretation(d kernels.DType, f *expr.Func) func(args, params []float64, rand func(k int) float64,
	out []kernels.Arg) {
	switch d {
	case kernels.Float64:
		return newInterpreter[float64](f).element
	case kernels.Float32:
		return newInterpreter[float32](f).element
	}
	return newInterpreter[int64](f).element
}

func newInterpreter[T register](f *expr.Func) *interpreter[T] {
	order := f.Order()
	x := &interpreter[T]{f, make([]kernel[T], len(order)), make([][3]int, len(order)), make([]T, len(order))}
	for i, n := range order {
		x.from[i] = [3]int{-1, -1, -1}
		for j, o := range n.Operands() {
			x.from[i][j] = slices.Index(order, o)
		}
		if n.Op.Arity() > 0 {
			x.kernels[i] = kernelOf[T]("", n.Op)
		}
	}
	return x
}

func (x *interpreter[T]) element(args, params []float64, rand func(k int) float64, out []kernels.Arg) {
	for i, n := range x.f.Order() {
		switch n.Op {
		case expr.Arg:
			x.values[i] = T(args[n.K])
		case expr.Param:
			x.values[i] = T(params[n.K])
		case expr.Const:
			x.values[i] = T(n.C)
		case expr.Rand:
			x.values[i] = T(rand(n.K))
		default:
			var in [3][]T
			for j, from := range x.from[i] {
				if from >= 0 {
					in[j] = x.values[from : from+1]
				}
			}
			x.kernels[i](x.values[i:i+1], in[0], in[1], in[2])
		}
	}
	for k, r := range x.f.Roots {
		at := slices.Index(x.f.Order(), r)
		store(out[k].Buf.(*Mem).data, x.values[at:at+1], out[k].DType)
	}
}

// compare runs l, whose operands have their values, and compares each element with what the instructions give alone.
func compare(t testing.TB, l *kernels.Launch, registers kernels.DType) {
	t.Helper()
	f := l.Op.Expr
	in := make([][]float64, len(l.In))
	for k, a := range l.In {
		in[k] = elements(a)
	}
	mustRun(t, l)
	out, want := make([][]float64, len(l.Out)), make([]kernels.Arg, len(l.Out))
	for k, a := range l.Out {
		out[k], want[k] = elements(a), newTensor(a.DType, 1)
	}
	args, element := make([]float64, len(in)), interpretation(registers, f)
	for i := range l.Out[0].Len() {
		for k := range in {
			args[k] = in[k][i]
		}
		element(args, l.Floats, func(k int) float64 {
			var u [1]float32
			philox.Uniform(u[:], philox.Source{Key: l.Random.Key, Counter: l.Random.Counter, Stream: uint32(k)},
				uint64(i))
			return float64(u[0])
		}, want)
		for k := range want {
			if w := elements(want[k])[0]; !same(out[k][i], w) {
				t.Fatalf("%s at %v: result %d, element %d is %v, want %v\nprogram %s", f.Src, args, k, i, out[k][i], w,
					f.Key())
			}
		}
	}
}

// Every shape with the layouts of two operands, on registers of each type.
func TestLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := expr.Must("x*y - max(x, y); x < y", []string{"x", "y"}, nil)
	every := 3 // pair of layouts, by chance
	if testing.Short() {
		every = 12
	}
	for _, shape := range shapes {
		for _, a := range layoutNames {
			for _, b := range layoutNames {
				if r.IntN(every) > 0 {
					continue
				}
				for _, d := range []kernels.DType{kernels.Float32, kernels.Float64, kernels.BFloat16, kernels.Int64,
					kernels.Uint8} {
					if d != kernels.Float32 && r.IntN(4) > 0 {
						continue
					}
					registers := d
					if d == kernels.BFloat16 {
						registers = kernels.Float32
					} else if d == kernels.Uint8 {
						registers = kernels.Int64
					}
					in := []kernels.Arg{random(r, layouts[a](d, shape)), random(r, layouts[b](d, shape))}
					t.Logf("%v %v %s %s", d, shape, a, b)
					compare(t, launch(f, in, newTensor(d, shape...), newTensor(kernels.Bool, shape...)), registers)
				}
			}
		}
	}
}

// program writes random expressions with a few results.
func randomProgram(r *rand.Rand, args, params []string, integers bool) string {
	names := slices.Concat(args, params)
	var lines []string
	var tree func(depth int) string
	tree = func(depth int) string {
		if depth == 0 || r.IntN(6) == 0 {
			switch r.IntN(8) {
			case 0:
				return fmt.Sprint(r.IntN(5) - 2)
			case 1:
				if !integers {
					return fmt.Sprintf("rand(%d)", r.IntN(2))
				}
			}
			return names[r.IntN(len(names))]
		}
		ops := expr.Instructions()
		for {
			op := ops[r.IntN(len(ops))]
			if integers && !op.Integer() || !integers && !op.Float() {
				continue
			}
			var xs []string
			for range op.Arity() {
				xs = append(xs, tree(depth-1))
			}
			return fmt.Sprintf("%v(%s)", op, strings.Join(xs, ", "))
		}
	}
	var defined []string
	for i := range r.IntN(4) {
		name := fmt.Sprintf("t%d", i)
		lines = append(lines, name+" = "+tree(2))
		names, defined = append(names, name), append(defined, name)
	}
	results := slices.Clone(defined) // so that all are used
	for range 1 + r.IntN(3) {
		results = append(results, tree(1+r.IntN(4)))
	}
	return strings.Join(append(lines, results...), "\n")
}

// Random programs on random layouts, in place now and then, are their instructions one by one, on 1, 2 and 7 threads.
func TestRandomPrograms(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	count := 400
	if testing.Short() {
		count = 60
	}
	for seed := range count {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		args, params := []string{"x", "y", "z"}[:1+r.IntN(3)], []string{"p", "q"}[:r.IntN(3)]
		registers := []kernels.DType{kernels.Float32, kernels.Float32, kernels.Float32, kernels.Float64,
			kernels.Int64}[r.IntN(5)]
		f, err := expr.New(randomProgram(r, args, params, registers == kernels.Int64), args, params)
		if err != nil {
			t.Fatal(err)
		}
		shape := shapes[r.IntN(len(shapes))]
		l := launch(f, nil)
		l.Random = kernels.Random{Key: r.Uint64(), Counter: r.Uint64()}
		for range params {
			l.Floats = append(l.Floats, float64(r.IntN(5)-2))
		}
		types := map[kernels.DType][]kernels.DType{
			kernels.Float32: {kernels.Float32, kernels.Float32, kernels.Float16, kernels.BFloat16, kernels.Int32,
				kernels.Bool},
			kernels.Float64: kernels.DTypes(),
			kernels.Int64:   {kernels.Int64, kernels.Int32, kernels.Uint8, kernels.Bool},
		}[registers]
		for range args {
			d := types[r.IntN(len(types))]
			l.In = append(l.In, random(r, layouts[layoutNames[r.IntN(len(layoutNames))]](d, shape)))
		}
		for range f.Roots {
			l.Out = append(l.Out, newTensor(types[r.IntN(len(types))], shape...))
		}
		l.In[0] = random(r, newTensor(registers, shape...)) // so that this type it is
		for k := range l.Out {                              // in place
			if j := r.IntN(2 * len(args)); j < len(args) && l.In[j].Contiguous() &&
				!slices.ContainsFunc(l.Out[:k], func(o kernels.Arg) bool { return o.Buf == l.In[j].Buf }) {
				l.Out[k] = l.In[j]
			}
		}
		runtime.GOMAXPROCS([]int{1, 2, 7}[r.IntN(3)])
		compare(t, l, registers)
	}
}

// Operations that have a kernel of their own give the bits of their instructions, in every layout and type, and in
// place.
func TestFusedKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	relu := expr.Must("relu(x)", []string{"x"}, nil)
	dropout := expr.Must("where(rand(0) < p, 0, x*(1/(1-p)))", []string{"x"}, []string{"p"})
	for _, f := range []*expr.Func{
		dropout, dropout.Pullback(0).Func, expr.Must(dropout.Src, []string{"x", "unused"}, []string{"p"}),
		expr.Must("gelu(x)", []string{"x"}, nil), expr.Must("gelu(x)", []string{"x", "unused"}, nil), relu,
		relu.Pullback(0).Func, expr.Must("silu(x)", []string{"x"}, nil).Pullback(0).Func,
		expr.Must("g = grad*gradscale; b1 = momentum*b + (g + decay*p); where(skip, p, p - lr*b1); where(skip, b, b1)",
			[]string{"p", "grad", "b", "gradscale", "skip"}, []string{"lr", "momentum", "decay"}),
	} {
		for _, shape := range shapes {
			if shape == nil || kernels.Count(shape) == 1 {
				continue
			}
			for range 8 {
				var in []kernels.Arg
				uniform := uint64(0)
				for k, name := range f.Args {
					layout, d := layoutNames[r.IntN(len(layoutNames))],
						[]kernels.DType{kernels.Float32, kernels.Float32, kernels.BFloat16}[r.IntN(3)]
					if k == 0 {
						layout, d = "contiguous", kernels.Float32
					}
					if name == "gradscale" || name == "skip" {
						layout, uniform = "scalar", uniform|1<<k
					} else if layout == "scalar" {
						layout = "row"
					}
					in = append(in, random(r, layouts[layout](d, shape)))
				}
				l := launch(f, in)
				l.Random = kernels.Random{Key: r.Uint64(), Counter: r.Uint64()}
				for range f.Params {
					l.Floats = append(l.Floats, r.Float64())
				}
				for range f.Roots {
					l.Out = append(l.Out, newTensor([]kernels.DType{kernels.Float32, kernels.Float32,
						kernels.Float16}[r.IntN(3)], shape...))
				}
				if r.IntN(2) == 0 {
					l.Out[0] = in[0]
				}
				if run, _ := fused[float32](f, uniform); run == nil {
					t.Fatalf("no kernel for %s", f)
				}
				compare(t, l, kernels.Float32)
			}
		}
	}
}

// Fused kernels with a scalar for each row, such as those of batch norm, give the bits of their instructions: for rows
// around the shortest, of several axes, in place, and beside operands of other types and layouts.
func TestScalarsOfRows(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(3, 1))
	rows := 0
	for _, src := range []string{"(x - mean)*scale + bias", "(x - mean)*scale*0 + (x - mean)*scale + bias"} {
		f := expr.Must(src, []string{"x", "mean", "scale", "bias"}, nil)
		for _, shape := range [][]int{{2, 3, leastRow - 1}, {2, 3, leastRow}, {5, 7, 3, 11}, {3, 1, 1100}, {1, 4, 49},
			{3, 5, 1}, {40, 20, 17}, {3, 333, 49}} { // the last one by several threads
			for variant := range 12 {
				var in []kernels.Arg
				for k := range f.Args {
					a := random(r, newTensor(kernels.Float32, shape...))
					if k > 0 && variant%6 == 5 {
						a = random(r, newTensor(kernels.BFloat16, shape...))
					}
					if k > 0 && variant%6 != 4 { // a number for each channel, or one for all
						for axis := range a.Strides {
							a.Strides[axis] = 0
						}
						if a.Strides[1] = k; variant%6 == 3 && k == 2 {
							a.Strides[1] = 0
						}
					}
					in = append(in, a)
				}
				l := launch(f, in, newTensor(kernels.Float32, shape...))
				if variant%2 == 1 {
					l.Out[0] = in[0]
				}
				x := float32Runs.Get().(*execution[float32])
				x.describe(l.In, shape)
				if x.setRows(l) {
					rows++
				}
				x.release()
				runtime.GOMAXPROCS([]int{1, 2, 7}[r.IntN(3)])
				compare(t, l, kernels.Float32)
			}
		}
	}
	if rows < 30 {
		t.Errorf("rows at once in %d cases", rows)
	}
}

// The instructions on float32 against float64.
func TestAgainstEval(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, src := range []string{"gelu(x + b)", "silu(x)", "tanh(x)*b", "softplus(x)", "x/(1 + exp(b))",
		"where(x < b, erf(x), log1p(x*x))"} {
		f := expr.Must(src, []string{"x", "b"}, nil)
		x, b := newTensor(kernels.Float32, 50, 30), newTensor(kernels.Float32, 30)
		for _, a := range []kernels.Arg{x, b} {
			for i := range Slice[float32](a) {
				Slice[float32](a)[i] = float32(r.NormFloat64() * 2)
			}
		}
		b.Shape, b.Strides = []int{50, 30}, []int{0, 1}
		y := newTensor(kernels.Float32, 50, 30)
		mustRun(t, launch(f, []kernels.Arg{x, b}, y))
		xs, bs := elements(x), elements(b)
		for i, got := range elements(y) {
			want := f.Eval([]float64{xs[i], bs[i]}, nil, nil)[0]
			if math.Abs(got-want) > 2e-6*(1+math.Abs(want)) {
				t.Errorf("%s at x=%v, b=%v: %v, want %v", src, xs[i], bs[i], got, want)
			}
		}
	}
}

// The result is the same bits on any number of threads, in place too.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	f := expr.Must("m2 = b*m + (1-b)*g; p - rand()*m2; m2", []string{"p", "g", "m"}, []string{"b"})
	var want [][]float64
	for _, threads := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(threads)
		r := rand.New(rand.NewPCG(8, 9))
		var in []kernels.Arg
		for range 3 {
			in = append(in, random(r, newTensor(kernels.Float32, 301, 1001)))
		}
		l := launch(f, in, in[0], in[2])
		l.Floats, l.Random = []float64{0.9}, kernels.Random{Key: 1, Counter: 1 << 40}
		mustRun(t, l)
		got := [][]float64{elements(in[0]), elements(in[2])}
		if want == nil {
			want = got
		}
		for k := range got {
			if i := slices.IndexFunc(got[k], func(float64) bool { return false }); i >= 0 ||
				!slices.EqualFunc(got[k], want[k], same) {
				t.Errorf("%d threads: result %d differs", threads, k)
			}
		}
	}
}

// Results that take each other's memory.
func TestSwapInPlace(t *testing.T) {
	f := expr.Must("y; x; x + y", []string{"x", "y"}, nil)
	x, y, z := newTensor(kernels.Float32, 3000), newTensor(kernels.Float32, 3000), newTensor(kernels.Float32, 3000)
	r := rand.New(rand.NewPCG(3, 4))
	compare(t, launch(f, []kernels.Arg{random(r, x), random(r, y)}, x, y, z), kernels.Float32)
	g := expr.Must("x + y; x - y", []string{"x", "y"}, nil)
	compare(t, launch(g, []kernels.Arg{random(r, x), random(r, y)}, x, y), kernels.Float32)
}

func TestIntegerDivision(t *testing.T) {
	const least = math.MinInt64
	f := expr.Must("a/b; floordiv(a, b); mod(a, b); fmod(a, b)", []string{"a", "b"}, nil)
	as := []int64{-7, 7, -7, 7, 5, -6, 0, least, least, least, least, least, 5, math.MaxInt64}
	bs := []int64{2, 2, -2, -2, 0, 3, -3, -1, 3, -3, least, 0, least, least}
	a, b := newTensor(kernels.Int64, len(as)), newTensor(kernels.Int64, len(bs))
	copy(Slice[int64](a), as)
	copy(Slice[int64](b), bs)
	var out []kernels.Arg
	for range 4 {
		out = append(out, newTensor(kernels.Int64, len(as)))
	}
	mustRun(t, launch(f, []kernels.Arg{a, b}, out...))
	quotients := []int64{-4, 3, 3, -4, 0, -2, 0, least, -3074457345618258603, 3074457345618258602, 1, 0, -1, -1}
	for k, want := range [][]int64{
		quotients, quotients,
		{1, 1, -1, -1, 5, 0, 0, 0, 1, -2, 0, least, least + 5, -1},
		{-1, 1, -1, 1, 5, 0, 0, 0, -2, -2, 0, least, 5, math.MaxInt64},
	} {
		if got := Slice[int64](out[k]); !slices.Equal(got, want) {
			t.Errorf("result %d of %s is %v, want %v", k, f.Src, got, want)
		}
	}
}

// The squares of hypot stay within float32.
func TestHypotRange(t *testing.T) {
	f := expr.Must("hypot(a, b)", []string{"a", "b"}, nil)
	a := with(newTensor(kernels.Float32, 6), 3e38, 3e37, 3e-40, 1e-45, 3e-20, 0)
	b := with(newTensor(kernels.Float32, 6), 1e30, -4e37, 4e-40, 0, 4e-20, 0)
	y := newTensor(kernels.Float32, 6)
	mustRun(t, launch(f, []kernels.Arg{a, b}, y))
	for i, want := range []float32{3e38, 5e37, 5e-40, 1e-45, 5e-20, 0} {
		if got := Slice[float32](y)[i]; math.Abs(float64(got-want)) > 1e-6*float64(want)+1e-45 {
			t.Errorf("element %d is %g, want %g", i, got, want)
		}
	}
}

// Float32 and float64: remainders are exact at any quotient, quotients agree with them.
func TestRemainders(t *testing.T) {
	f := expr.Must("floordiv(a, b); mod(a, b); fmod(a, b)", []string{"a", "b"}, nil)
	r := rand.New(rand.NewPCG(5, 6))
	for _, dt := range []kernels.DType{kernels.Float32, kernels.Float64} {
		a, b := random(r, newTensor(dt, 5000)), random(r, newTensor(dt, 5000))
		out := []kernels.Arg{newTensor(dt, 5000), newTensor(dt, 5000), newTensor(dt, 5000)}
		mustRun(t, launch(f, []kernels.Arg{a, b}, out...))
		var v [5][]float64
		for k, x := range append([]kernels.Arg{a, b}, out...) {
			wide := newTensor(kernels.Float64, 5000)
			mustRun(t, launch(expr.Must("x", []string{"x"}, nil), []kernels.Arg{x}, wide))
			v[k] = Slice[float64](wide)
		}
		for i := range v[0] {
			a, b, q, m, rest := v[0][i], v[1][i], v[2][i], v[3][i], v[4][i]
			want := math.Mod(a, b)
			below := want != 0 && (want < 0) != (b < 0)
			floored := want
			if below {
				floored += b
				if dt == kernels.Float32 {
					floored = float64(float32(floored))
				}
			}
			if !(rest == want || rest != rest && want != want) || !(m == floored || m != m && floored != floored) {
				t.Fatalf("%v: fmod(%g, %g) = %g, want %g; mod = %g, want %g", dt, a, b, rest, want, m, floored)
			}
			near := math.Floor(a / b)
			if math.Abs(a/b) < 1e6 && math.Abs(q-near) > 1 || b != 0 && (q != q) != (m != m) {
				t.Fatalf("%v: floordiv(%g, %g) = %g, mod %g", dt, a, b, q, m)
			}
		}
	}
}

// Integers wrap around as their type does, and are exact where float64 is not.
func TestIntegersAreExact(t *testing.T) {
	f := expr.Must("a*3 + 1", []string{"a"}, nil)
	a := newTensor(kernels.Int64, 2)
	copy(Slice[int64](a), []int64{1<<61 + 1, math.MaxInt64})
	out := newTensor(kernels.Int64, 2)
	mustRun(t, launch(f, []kernels.Arg{a}, out))
	three := int64(3)
	if want := []int64{3<<61 + 4, math.MaxInt64*three + 1}; !slices.Equal(Slice[int64](out), want) {
		t.Errorf("%v, want %v", Slice[int64](out), want)
	}
	b := with(newTensor(kernels.Uint8, 1), 250)
	mustRun(t, launch(f, []kernels.Arg{b}, b))
	if got := Slice[uint8](b)[0]; got != 239 { // 751 mod 256
		t.Errorf("250*3 + 1 as uint8 is %d", got)
	}
}

// The random numbers are those of Philox by element, whatever the layout, and the same in float64.
func TestRand(t *testing.T) {
	f := expr.Must("rand() + 0*x; rand(3)", []string{"x"}, nil)
	want := make([][]float64, 2)
	for k, stream := range []uint32{0, 3} {
		want[k] = make([]float64, 33*260)
		philox.Uniform(want[k], philox.Source{Key: 5, Counter: 77, Stream: stream}, 0)
	}
	for _, d := range []kernels.DType{kernels.Float32, kernels.Float64} {
		for _, layout := range layoutNames {
			x := layouts[layout](d, []int{33, 260})
			l := launch(f, []kernels.Arg{x}, newTensor(d, 33, 260), newTensor(d, 33, 260))
			l.Random = kernels.Random{Key: 5, Counter: 77}
			mustRun(t, l)
			for k := range want {
				if !slices.Equal(elements(l.Out[k]), want[k]) {
					t.Errorf("%v %s: stream %d differs from Philox", d, layout, k)
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	x, i, half := newTensor(kernels.Float32, 2), newTensor(kernels.Int64, 2), newTensor(kernels.Float16, 2)
	one := []string{"x"}
	for _, c := range []struct {
		l    *kernels.Launch
		kind error
		text string
	}{
		{launch(expr.Must("exp(x)", one, nil), []kernels.Arg{i}, i), kernels.ErrDType,
			"test: exp is not defined on integers: convert to a floating type"},
		{launch(expr.Must("x*0.5", one, nil), []kernels.Arg{i}, i), kernels.ErrDType,
			"test: the constant 0.5 is not an integer: convert to a floating type"},
		{launch(expr.Must("rand()", nil, nil), nil, i), kernels.ErrDType,
			"test: rand is not defined on integers: convert to a floating type"},
		{&kernels.Launch{Op: &kernels.Op{Name: "scale", Expr: expr.Must("x*p", one, []string{"p"})},
			In: []kernels.Arg{i}, Out: []kernels.Arg{i}, Floats: []float64{1.5}},
			kernels.ErrDType, "scale: the parameter p = 1.5 is not an integer: convert to a floating type"},
		{launch(expr.Must("x*p", one, []string{"p"}), []kernels.Arg{x}, x), kernels.ErrValue,
			"test: takes 1 parameters [p], found 0"},
		{launch(expr.Must("x+x", one, nil), nil, x), kernels.ErrValue, "test: takes 1 operands [x], found 0"},
		{launch(expr.Must("x; x*x", one, nil), []kernels.Arg{x}, x), kernels.ErrValue, "test: has 2 results, found 1"},
		{launch(expr.Must("x+x", one, nil), []kernels.Arg{x}, newTensor(kernels.Float32, 3)), kernels.ErrShape,
			"test: operand x has shape [2], the result [3]"},
		{launch(expr.Must("x+x", one, nil), []kernels.Arg{x}, layouts["stepped"](kernels.Float32, []int{2})),
			kernels.ErrShape, "test: result 0 has shape [2] and strides [3], want shape [2], contiguous"},
		{&kernels.Launch{Op: &kernels.Op{Name: "matmul"}, In: []kernels.Arg{half}, Out: []kernels.Arg{half}},
			kernels.ErrDevice, "matmul: device cpu has no kernel for float16"},
	} {
		err := Backend{}.Run(c.l)
		var e *kernels.Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) || err.Error() != c.text {
			t.Errorf("error %v, want %v: %s", err, c.kind, c.text)
		}
	}
}

// An op call allocates nothing once its program is compiled.
func TestAllocations(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	f := expr.Must("gelu(x + b)*s; rand()", []string{"x", "b"}, []string{"s"})
	for _, d := range []kernels.DType{kernels.Float32, kernels.Float64, kernels.Float16} {
		x, y, u := newTensor(d, 64, 96), newTensor(d, 64, 96), newTensor(d, 64, 96)
		b := layouts["row"](d, []int{64, 96})
		l := launch(f, []kernels.Arg{x, b}, y, u)
		l.Floats = []float64{2}
		turned := launch(expr.Must("x", []string{"x"}, nil), []kernels.Arg{layouts["transposed"](d, []int{64, 96})}, y)
		if n := testing.AllocsPerRun(50, func() { mustRun(t, l); mustRun(t, turned) }); n > 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}

// Many goroutines may run, and compile, at once.
func TestConcurrentRuns(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			f := expr.Must(fmt.Sprintf("x*y + %d", g%3), []string{"x", "y"}, nil)
			for range 20 {
				compare(t, launch(f, []kernels.Arg{random(r, newTensor(kernels.Float32, 40, 50)),
					random(r, layouts["row"](kernels.Float32, []int{40, 50}))},
					newTensor(kernels.Float32, 40, 50)), kernels.Float32)
			}
		})
	}
	wg.Wait()
}

func TestTiersAgree(t *testing.T) {
	defer vec.SetTier(vec.Current())
	r := rand.New(rand.NewPCG(1, 9))
	f := expr.Must("gelu(x)*y; pow(x, y); atan2(x, y)", []string{"x", "y"}, nil)
	in := []kernels.Arg{random(r, newTensor(kernels.Float32, 3001)), random(r, newTensor(kernels.Float32, 3001))}
	var want [][]float64
	for _, tier := range []vec.Tier{vec.Portable, vec.NEON, vec.AVX2, vec.AVX512} {
		if !vec.Supported(tier) {
			continue
		}
		vec.SetTier(tier)
		l := launch(f, in, newTensor(kernels.Float32, 3001), newTensor(kernels.Float32, 3001),
			newTensor(kernels.Float32, 3001))
		mustRun(t, l)
		for k, o := range l.Out {
			if tier == vec.Portable {
				want = append(want, elements(o))
			} else if !slices.EqualFunc(elements(o), want[k], same) {
				t.Errorf("result %d differs between %v and %v", k, tier, vec.Portable)
			}
		}
	}
}

// The program of a function that nobody uses is dropped; that of one in use stays.
func TestProgramsForgotten(t *testing.T) {
	made := func(i int) *expr.Func { return expr.Must(fmt.Sprintf("x + x*%d.125", i), []string{"x"}, nil) }
	kept := made(-1)
	p := programOf[float32]("kept", kept, 0)
	var left atomic.Int64
	const many = 2000
	for i := range many {
		for uniforms := range uint64(2) {
			left.Add(1)
			runtime.AddCleanup(programOf[float32]("dropped", made(i), uniforms), func(int) { left.Add(-1) }, 0)
		}
	}
	for range 100 {
		if runtime.GC(); left.Load() < many/2 {
			break
		}
		time.Sleep(10 * time.Millisecond) // cleanups run some time after a collection
	}
	if n := left.Load(); n >= many/2 {
		t.Errorf("%d programs of %d are left", n, 2*many)
	}
	if programOf[float32]("kept", kept, 0) != p {
		t.Error("the program of a function in use was compiled again")
	}
	if programOf[float32]("kept", kept, 1) == p {
		t.Error("one program for an operand of many elements and of one")
	}
	if any(programOf[float64]("kept", kept, 0)) == any(p) {
		t.Error("one program for two types")
	}
}

// TestIntegerForms: quotients, remainders and clamps alone, which have instructions of their own on integers, give what
// they give beside another result, which has none: on every integer type, in tensors of odd sizes, broadcast and
// transposed, with extremes and zeros.
func TestIntegerForms(t *testing.T) {
	values := []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt32, -7, -2, -1, 0, 1, 2, 3, 7, 255, math.MaxInt32,
		math.MaxInt64 - 1, math.MaxInt64}
	n := len(values)
	for _, src := range []string{"floordiv(a, b)", "mod(a, b)", "clamp(a, lo, hi)"} {
		args, params := []string{"a", "b"}, []string(nil)
		floats := [][]float64{nil}
		if strings.HasPrefix(src, "clamp") {
			args, params = args[:1], []string{"lo", "hi"}
			floats = [][]float64{{-2, 7}, {7, -2}, {0, 0}, {-1 << 63, 255}}
		}
		for _, d := range []kernels.DType{kernels.Int64, kernels.Int32, kernels.Uint8} {
			in := []kernels.Arg{newTensor(d, n, n), newTensor(d, n, n)}
			for i := range in {
				for k := range n {
					store(bytesOf(in[i])[k*d.Size():], values[k:k+1], d)
				}
				in[i].Strides = []int{1 - i, i} // each with each
			}
			for _, floats := range floats {
				alone, beside := newTensor(d, n, n), newTensor(d, n, n)
				l := launch(expr.Must(src, args, params), in[:len(args)], alone)
				l.Floats = floats
				mustRun(t, l)
				l = launch(expr.Must(src+"; a + 1", args, params), in[:len(args)], beside, newTensor(d, n, n))
				l.Floats = floats
				mustRun(t, l)
				if !bytes.Equal(bytesOf(alone), bytesOf(beside)) {
					t.Errorf("%s of %v, %v: %v, beside another %v", src, d, floats, bytesOf(alone), bytesOf(beside))
				}
			}
		}
	}
}
