//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr"
)

var halfTypes = []kernels.DType{kernels.Float16, kernels.BFloat16}

// singleTypes are those that the CPU computes in float32.
var singleTypes = append([]kernels.DType{kernels.Float32}, halfTypes...)

// convert is v, its whole buffer, in another type, as the CPU converts it.
func convert(t *testing.T, v value, to kernels.DType) value {
	t.Helper()
	n := len(v.data) / v.dtype.Size()
	flat := kernels.Layout{Shape: []int{n}, Strides: []int{1}}
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	l := &kernels.Launch{Op: &kernels.Op{Name: "convert", Expr: expr.Must("x", []string{"x"}, nil)}}
	got, err := on(t, host, l, []value{{v.dtype, v.data, flat}}, []value{{to, make([]byte, n*to.Size()), flat}})
	if err != nil {
		t.Fatal(err)
	}
	return value{to, got[0], v.Layout}
}

// sameAsWidened runs a launch on operands of float32 or half precision. Its results are those of the CPU for the same
// operands as float32, rounded once.
func sameAsWidened(t *testing.T, b *Backend, l *kernels.Launch, in, out []value) {
	t.Helper()
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	wide := func(all []value) (ws []value) {
		for _, v := range all {
			if v.dtype.IsHalf() {
				v = convert(t, v, kernels.Float32)
			}
			ws = append(ws, v)
		}
		return ws
	}
	wideOut := wide(out)
	want, err := on(t, host, l, wide(in), wideOut)
	if err != nil {
		t.Fatalf("%s on the CPU: %v", l.Op.Name, err)
	}
	got, err := on(t, b, l, in, out)
	if err != nil {
		t.Fatalf("%s: %v", l.Op.Name, err)
	}
	for k, v := range out {
		w := value{wideOut[k].dtype, want[k], v.Layout}
		if v.dtype.IsHalf() {
			w = convert(t, w, v.dtype)
		}
		size := v.dtype.Size()
		for i := range v.Len() {
			at := (v.Offset + i) * size
			if x, y := got[k][at:at+size], w.data[at:at+size]; !sameElement(v.dtype, x, y) {
				t.Fatalf("%s %v, operand %v, %v %v: element %d of result %d %v is %x, want %x",
					l.Op.Name, v.dtype, in[0].Layout, l.Ints, l.Floats, i, k, v.Shape, x, y)
			}
		}
	}
}

// moderate is an operand of any layout without infinities and NaN.
func (r fuzz) moderate(d kernels.DType, shape ...int) value {
	l, n := r.layout(shape)
	return value{d, r.numbers(d, n, true), l}
}

// wild is an operand of any layout and content.
func (r fuzz) wild(d kernels.DType, shape ...int) value {
	l, n := r.layout(shape)
	return value{d, r.numbers(d, n, false), l}
}

// rowShape is a shape with a last axis around the lengths at which kernels and canonical sums change their ways.
func (r fuzz) rowShape() []int {
	n := oneOf(r, 1, 5, 31, 33, 64, 65, 200, 257, 1+r.IntN(1100), 1+r.IntN(1100), 1024, 1025, 4097)
	switch r.IntN(8) {
	case 0:
		return []int{n}
	case 1:
		return []int{2, 16385 + r.IntN(40000)}
	case 2:
		return []int{2, 3, min(n, 300)}
	case 3:
		return []int{1 + r.IntN(140), 1 + r.IntN(70)}
	}
	return []int{1 + r.IntN(6), n}
}

// without is a shape without some axes.
func without(shape, axes []int) (kept []int) {
	for k, n := range shape {
		if !slices.Contains(axes, k) {
			kept = append(kept, n)
		}
	}
	return kept
}

// anyAxes are some axes of a shape, one at least if it has any.
func (r fuzz) anyAxes(shape []int) (axes []int) {
	for k := range shape {
		if r.IntN(2) == 0 {
			axes = append(axes, k)
		}
	}
	if len(axes) == 0 && len(shape) > 0 {
		axes = []int{r.IntN(len(shape))}
	}
	return axes
}

func hostOp(name string, f func(*kernels.Launch)) *kernels.Op {
	return &kernels.Op{Name: name, Kernel: name, CPU: f}
}

// TestReductions: sums and the like along any axes.
func TestReductions(t *testing.T) {
	testReductions(t, hostOp("sum", cpu.Sum), hostOp("mean", cpu.Mean), hostOp("prod", cpu.Prod), hostOp("max", cpu.Max), hostOp("min", cpu.Min),
		hostOp("sum_squares", cpu.SumSquares))
}

// TestStatistics: those that are kernels along rows.
func TestStatistics(t *testing.T) {
	testReductions(t, hostOp("logsumexp", cpu.LogSumExp), hostOp("var", cpu.Var))
}

func testReductions(t *testing.T, ops ...*kernels.Op) {
	t.Helper()
	b := kernelDevice(t)
	r := newFuzz(11)
	for i := range cases(40) {
		for k, op := range ops {
			d := singleTypes[(i+k)%3]
			shape, to := r.rowShape(), d
			if i%10 == 0 {
				shape = oneOf(r, nil, []int{16500, 3}, []int{1})
			}
			axes := r.anyAxes(shape)
			l := &kernels.Launch{Op: op, Ints: axes, Floats: []float64{float64(r.IntN(2))}}
			x := r.moderate(d, shape...)
			switch op.Name {
			case "max", "min":
				x = r.wild(d, shape...)
			case "sum_squares":
				to = kernels.Float32
			}
			sameAsWidened(t, b, l, []value{x}, []value{r.result(to, without(shape, axes)...)})
		}
	}
}

// TestPlaces: places of extremes, with and without the values there.
func TestPlaces(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(12)
	ops := []*kernels.Op{hostOp("argmax", cpu.ArgMax), hostOp("argmin", cpu.ArgMin), hostOp("max_index", cpu.ArgMax), hostOp("min_index", cpu.ArgMin)}
	for i := range cases(30) {
		for k, op := range ops {
			d, shape := singleTypes[(i+k)%3], r.rowShape()
			axis := r.IntN(len(shape))
			kept := without(shape, []int{axis})
			out := []value{r.result(d, kept...), r.result(kernels.Int64, kept...)}
			if k < 2 {
				out = out[1:]
			}
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{axis}}, []value{r.wild(d, shape...)}, out)
		}
	}
}

// TestAlongAxis: the softmax family and running sums.
func TestAlongAxis(t *testing.T) {
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
			sameAsWidened(t, b, l, in, []value{r.result(d, shape...)})
		}
	}
}

// TestProdGrad: g times the product of the other elements of a row, in float64 from both ends, rounded once. Rows lie side by side
// or cross each other.
func TestProdGrad(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(16)
	exact := func(x []float64) value {
		v := value{dtype: kernels.Float64, Layout: kernels.Layout{Shape: []int{len(x)}, Strides: []int{1}}}
		for _, e := range x {
			v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(e))
		}
		return v
	}
	numbers := func(d kernels.DType, n int) (value, []float64) { // of the type, and what they are
		x := make([]float64, n)
		for i := range x {
			if r.IntN(100) > 0 {
				x[i] = math.Exp(0.3 * r.NormFloat64())
			}
		}
		v := convert(t, exact(x), d)
		for i, data := 0, convert(t, v, kernels.Float64).data; i < n; i++ {
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		return v, x
	}
	for i := range cases(20) {
		d := singleTypes[i%len(singleTypes)]
		rows, n := 1+r.IntN(300), 1+r.IntN(40)
		next, step := n, 1 // from row to row, from element to element
		if i%2 == 0 {
			next, step = 1, rows
		}
		x, xs := numbers(d, rows*n)
		g, gs := numbers(d, rows)
		x.Layout = kernels.Layout{Shape: []int{rows, n}, Strides: []int{next, step}}
		want := make([]float64, rows*n)
		for row := range rows {
			product := gs[row]
			for k := range n {
				want[row*n+k] = product
				product *= xs[row*next+k*step]
			}
			product = 1
			for k := n - 1; k >= 0; k-- {
				want[row*n+k] *= product
				product *= xs[row*next+k*step]
			}
		}
		y := value{d, make([]byte, rows*n*d.Size()), kernels.Layout{Shape: []int{rows, n}, Strides: []int{n, 1}}}
		got, err := on(t, b, &kernels.Launch{Op: &kernels.Op{Name: "prod_grad", Kernel: "prod_grad"}, Ints: []int{1}}, []value{x, g}, []value{y})
		if err != nil {
			t.Fatal(err)
		}
		size, rounded := d.Size(), convert(t, exact(want), d).data
		for k := range want {
			if at := k * size; !sameElement(d, got[0][at:at+size], rounded[at:at+size]) {
				t.Fatalf("%v, %d rows of %d: element %d is %x, want %x", d, rows, n, k, got[0][at:at+size], rounded[at:at+size])
			}
		}
	}
}

// TestCumSum: tiles of rows whose elements lie side by side, first of all.
func TestCumSum(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(22)
	for i := range cases(32) {
		shape := []int{1 + r.IntN(140), 1 + r.IntN(100)}
		x := r.moderate(singleTypes[i%3], shape...)
		if i%4 > 0 {
			l := kernels.Layout{Shape: shape, Strides: []int{shape[1] + r.IntN(3), 1}}
			x = value{x.dtype, r.numbers(x.dtype, shape[0]*l.Strides[0], true), l}
		}
		l := &kernels.Launch{Op: hostOp("cumsum", cpu.CumSum), Ints: []int{1, r.IntN(2)}}
		sameAsWidened(t, b, l, []value{x}, []value{r.result(x.dtype, shape...)})
	}
}

// TestNorms: norms with and without parameters, and all combinations of their gradients.
func TestNorms(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1) // a warp has many rows
	r := newFuzz(14)
	for i := range cases(40) {
		d, shape := singleTypes[i%3], r.rowShape()
		switch {
		case i%2 == 0:
			shape = []int{2, 3, 1 + r.IntN(70)} // rows, or their elements, along two axes
		case i%10 == 3:
			shape = []int{60 + r.IntN(140), 1020 + i/2%2*5} // several blocks of the sums for parameters; rows long or short
		case i%10 == 5:
			shape = []int{16500, 3}
		case i%10 == 7:
			shape = []int{65 + r.IntN(70), 1 + r.IntN(70)}
		}
		k := 1 + r.IntN(min(3, len(shape)))
		last, rows := shape[len(shape)-k:], shape[:len(shape)-k]
		x, weight, bias := r.moderate(d, shape...), r.moderate(d, last...), r.moderate(d, last...)
		in := [][]value{{x}, {x, weight}, {x, weight, bias}}[i/3%3]
		y, mean, rstd := r.result(d, shape...), r.result(kernels.Float32, rows...), r.result(kernels.Float32, rows...)
		l := &kernels.Launch{Ints: []int{k}, Floats: []float64{1e-5}}
		l.Op = hostOp("layer_norm", cpu.LayerNorm)
		sameAsWidened(t, b, l, in, []value{y, mean, rstd})
		l.Op = hostOp("rms_norm", cpu.RMSNorm)
		sameAsWidened(t, b, l, in[:min(2, len(in))], []value{y, rstd})

		g := r.moderate(d, shape...)
		mean, rstd = r.moderate(kernels.Float32, rows...), r.moderate(kernels.Float32, rows...)
		wanted := []int{r.IntN(2), r.IntN(2), r.IntN(2)}
		switch i % 10 {
		case 3, 7:
			wanted = []int{1, 1, 1}
		case 5:
			wanted = []int{0, 1, 1}
		case 9:
			wanted = []int{1, r.IntN(2), 1}
		}
		if !slices.Contains(wanted, 1) {
			wanted[i%3] = 1
		}
		out := []value{r.result(d, 0), r.result(d, 0), r.result(d, 0)}
		for j, shape := range [][]int{shape, last, last} {
			if wanted[j] == 1 {
				out[j] = r.result(d, shape...)
			}
		}
		l = &kernels.Launch{Op: hostOp("layer_norm_grad", cpu.LayerNormGrad), Ints: append([]int{k}, wanted...)}
		in = []value{g, x, mean, rstd, weight}
		sameAsWidened(t, b, l, in[:4+i%2], out)
		l = &kernels.Launch{Op: hostOp("rms_norm_grad", cpu.RMSNormGrad), Ints: append([]int{k}, wanted[:2]...)}
		in = []value{g, x, rstd, weight}
		sameAsWidened(t, b, l, in[:3+i%2], out[:2])
	}
}

// TestLongRows: lengths at which rows become too long for a warp, for the registers of a block, for a block of the canonical
// order and for all lanes of its second level to be in one half of the threads; the sums for parameters with blocks, lanes and
// rows of lanes left over.
func TestLongRows(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1) // a block has many rows
	r := newFuzz(33)
	shapes := [][]int{ // the first two, on a new device, take most shared memory
		{17, 4096}, {33, 2048}, {65, 4100}, {200, 1025}, {65, 1500}, {3, 4097}, {64, 2049}, {1, 8192}, {5, 8193}, {63, 513}, {7, 1056}, {2, 16385}, {2, 3, 1200},
	}
	types := []kernels.DType{kernels.Float32, kernels.BFloat16, kernels.Float16, kernels.Float32, kernels.BFloat16}
	for i := range cases(24) {
		d, shape := types[i%len(types)], shapes[i%len(shapes)]
		if i == 23 || i > 24 && r.IntN(20) == 0 {
			shape = []int{1, 33*16384 + 5}
		}
		last, n := len(shape)-1, shape[len(shape)-1:]
		x, y, g := r.moderate(d, shape...), r.moderate(d, shape...), r.moderate(d, shape...)
		for _, op := range []*kernels.Op{hostOp("softmax", cpu.Softmax), hostOp("log_softmax", cpu.LogSoftmax)} {
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{x}, []value{r.result(d, shape...)})
		}
		for _, op := range []*kernels.Op{hostOp("softmax_grad", cpu.SoftmaxGrad), hostOp("log_softmax_grad", cpu.LogSoftmaxGrad)} {
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{y, g}, []value{r.result(d, shape...)})
		}

		for _, op := range []*kernels.Op{hostOp("logsumexp", cpu.LogSumExp), hostOp("var", cpu.Var)} {
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}, Floats: []float64{1}}, []value{x}, []value{r.result(d, shape[:last]...)})
		}
		for _, op := range []*kernels.Op{hostOp("argmax", cpu.ArgMax), hostOp("argmin", cpu.ArgMin)} {
			out := []value{r.result(d, shape[:last]...), r.result(kernels.Int64, shape[:last]...)}
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{r.wild(d, shape...)}, out[i%2:])
		}
		crossEntropy(t, b, r, d, shape, i%3)

		weight, bias := r.moderate(d, n...), r.moderate(d, n...)
		mean, rstd := r.result(kernels.Float32, shape[:last]...), r.result(kernels.Float32, shape[:last]...)
		l := &kernels.Launch{Op: hostOp("layer_norm", cpu.LayerNorm), Ints: []int{1}, Floats: []float64{1e-5}}
		sameAsWidened(t, b, l, []value{x, weight, bias}[:1+i%3], []value{r.result(d, shape...), mean, rstd})
		l.Op = hostOp("rms_norm", cpu.RMSNorm)
		sameAsWidened(t, b, l, []value{x, weight}[:1+i%2], []value{r.result(d, shape...), rstd})

		mean, rstd = r.moderate(kernels.Float32, shape[:last]...), r.moderate(kernels.Float32, shape[:last]...)
		wanted := oneOf(r, []int{1, 1, 1}, []int{1, 1, 1}, []int{1, 0, 1}, []int{1, 1, 0}, []int{1, 0, 0}, []int{0, 1, 1})
		out := []value{r.result(d, shape...), r.result(d, n...), r.result(d, n...)}
		for k, want := range wanted {
			if want == 0 {
				out[k] = r.result(d, 0)
			}
		}
		l = &kernels.Launch{Op: hostOp("layer_norm_grad", cpu.LayerNormGrad), Ints: append([]int{1}, wanted...)}
		sameAsWidened(t, b, l, []value{g, x, mean, rstd, weight}[:4+i%2], out)
		if wanted[0]+wanted[1] > 0 {
			l = &kernels.Launch{Op: hostOp("rms_norm_grad", cpu.RMSNormGrad), Ints: append([]int{1}, wanted[:2]...)}
			sameAsWidened(t, b, l, []value{g, x, rstd, weight}[:3+i%2], out[:2])
		}
	}
}

// TestCrossEntropy: losses and gradients of all reductions, with rows left out and smoothing.
func TestCrossEntropy(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(15)
	for i := range cases(30) {
		d, shape := singleTypes[i%3], r.rowShape()
		switch {
		case i == 7:
			shape = []int{16500, 3}
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
	l := &kernels.Launch{Op: hostOp("cross_entropy", cpu.CrossEntropy), Ints: []int{oneOf(r, 0, -100), reduction}, Floats: []float64{oneOf(r, 0, 0.1)}}
	of := func(d kernels.DType) value {
		if reduction == 2 {
			return r.result(d, rows...)
		}
		return r.result(d)
	}
	most, sums := r.result(kernels.Float32, rows...), r.result(kernels.Float32, rows...)
	sameAsWidened(t, b, l, []value{logits, targets}, []value{of(d), most, sums})

	most, sums = r.moderate(kernels.Float32, rows...), r.moderate(kernels.Float32, rows...)
	g := of(d)
	g.data = r.numbers(d, len(g.data)/d.Size(), true)
	l.Op = hostOp("cross_entropy_grad", cpu.CrossEntropyGrad)
	sameAsWidened(t, b, l, []value{logits, targets, most, sums, g}, []value{r.result(d, shape...)})
}
