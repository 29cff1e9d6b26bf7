//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestReductions: sums and the like along any axes.
func TestReductions(t *testing.T) {
	testReductions(t, hostOp("sum", cpu.Sum), hostOp("mean", cpu.Mean), hostOp("prod", cpu.Prod),
		hostOp("max", cpu.Max), hostOp("min", cpu.Min),
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

// TestArgExtremes: places of extremes, with and without the values there.
func TestArgExtremes(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(12)
	ops := []*kernels.Op{hostOp("argmax", cpu.ArgMax), hostOp("argmin", cpu.ArgMin), hostOp("max_index", cpu.ArgMax),
		hostOp("min_index", cpu.ArgMin)}
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

// TestProdGrad: g times the product of the other elements of a row, in float64 from both ends, rounded once. Rows are
// contiguous or strided.
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
		got, err := on(t, b, &kernels.Launch{Op: &kernels.Op{Name: "prod_grad", Kernel: "prod_grad"}, Ints: []int{1}},
			[]value{x, g}, []value{y})
		if err != nil {
			t.Fatal(err)
		}
		size, rounded := d.Size(), convert(t, exact(want), d).data
		for k := range want {
			if at := k * size; !sameElement(d, got[0][at:at+size], rounded[at:at+size]) {
				t.Fatalf("%v, %d rows of %d: element %d is %x, want %x", d, rows, n, k, got[0][at:at+size],
					rounded[at:at+size])
			}
		}
	}
}

// TestLongRows: lengths at which rows become too long for a warp, for the registers of a block, for a block of the
// canonical order and for all lanes of its second level to be in one half of the threads; the sums for parameters with
// blocks, lanes and rows of lanes left over.
func TestLongRows(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1) // a block has many rows
	r := newFuzz(33)
	shapes := [][]int{ // the first two, on a new device, take most shared memory
		{17, 4096}, {33, 2048}, {65, 4100}, {200, 1025}, {65, 1500}, {3, 4097}, {64, 2049}, {1, 8192}, {5, 8193},
		{63, 513}, {7, 1056}, {2, 16385}, {2, 3, 1200},
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
		for _, op := range []*kernels.Op{hostOp("softmax_grad", cpu.SoftmaxGrad),
			hostOp("log_softmax_grad", cpu.LogSoftmaxGrad)} {
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{y, g},
				[]value{r.result(d, shape...)})
		}

		for _, op := range []*kernels.Op{hostOp("logsumexp", cpu.LogSumExp), hostOp("var", cpu.Var)} {
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}, Floats: []float64{1}}, []value{x},
				[]value{r.result(d, shape[:last]...)})
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
		wanted := oneOf(r, []int{1, 1, 1}, []int{1, 1, 1}, []int{1, 0, 1}, []int{1, 1, 0}, []int{1, 0, 0},
			[]int{0, 1, 1})
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
