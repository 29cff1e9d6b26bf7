//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
	"slices"
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

// TestSums: the sums of the columns of many matrices, alike and not, also of those that the kernel cannot have together
// with others.
func TestSums(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(43)
	sms := b.gpu.SMs
	t.Cleanup(func() { b.gpu.SMs = sms })
	for i := range cases(30) {
		b.gpu.SMs = oneOf(r, 1, 132) // levels in one launch, or in several
		var in, out []value
		for range 1 + r.IntN(oneOf(r, 3, 10, 140)) {
			d, rows, columns := singleTypes[r.IntN(3)], r.IntN(200), 4*(1+r.IntN(20))
			switch r.IntN(12) {
			case 0:
				columns = r.IntN(9)
			case 1, 2:
				rows = oneOf(r, 0, 1, 2, 63, 64, 65, 512, 513)
			case 3:
				columns = oneOf(r, 128, 132, 260)
			}
			if i%6 == 0 && len(in) == 0 {
				rows = oneOf(r, 1000, 4096, 4097, 9000)
			}
			x := r.contiguous(d, rows, columns)
			if r.IntN(8) == 0 {
				x = r.moderate(d, rows, columns)
			}
			in, out = append(in, x), append(out, r.result(d, columns))
		}
		sameAsWidened(t, b, &kernels.Launch{Op: hostOp("sums", func(l *kernels.Launch) {
			for i := range l.In {
				cpu.Sum(&kernels.Launch{In: l.In[i : i+1], Out: l.Out[i : i+1], Ints: []int{0}})
			}
		})}, in, out)
	}
}

// foldShape is a shape and axes of it, around the lengths at which the canonical order and kernels change their ways.
func (r fuzz) foldShape() (shape, axes []int) {
	shape = r.foldLengths()
	if len(shape) == 2 && r.IntN(2) == 0 {
		return shape, []int{r.IntN(2)}
	}
	return shape, r.anyAxes(shape)
}

func (r fuzz) foldLengths() []int {
	switch r.IntN(8) {
	case 0:
		return oneOf(r, nil, []int{1}, []int{300000}, []int{1, 128*2048 + 5}, []int{3, 4096}, []int{270, 12})
	case 1, 2: // columns, of one level to three
		return []int{oneOf(r, 63, 64, 65, 512, 513, 600, 4095, 4096, 4097, 9000), oneOf(r, 1, 3, 4, 8, 12, 41, 136)}
	case 5:
		return []int{1 + r.IntN(200), 8 * (1 + r.IntN(40))}
	case 3: // short rows
		return []int{1 + r.IntN(300), oneOf(r, 2, 3, 4, 5, 8, 12, 16, 17, 32, 60, 64, 65, 68)}
	case 4:
		return []int{oneOf(r, 1, 1, 3),
			oneOf(r, 127, 128, 129, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 8200)}
	}
	return r.rowShape()
}

// TestReductionOrder: reductions of types that the CPU does not take, beside the canonical order.
func TestReductionOrder(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(17)
	for i := range cases(60) {
		shape, axes := r.foldShape()
		b.gpu.SMs = oneOf(r, 0, 132) // levels in one launch, or in several
		if i == 0 {
			// nine blocks of a column, the last of one element, by one block of threads
			shape, axes, b.gpu.SMs = []int{513, 12}, []int{0}, 0
		}
		sum := func(x, y float64) float64 { return x + y }
		product := func(x, y float64) float64 { return x * y }
		l := &kernels.Launch{Ints: axes}
		switch i % 3 {
		case 0:
			x := r.moderate(kernels.Float64, shape...)
			floats := func(bytes []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(bytes)) }
			out := r.result(kernels.Float64, without(shape, axes)...)
			sameAsFolded(t, b, l, "sum", x, out, floats, 0, sum)
			sameAsFolded(t, b, l, "prod", x, out, floats, 1, product)
			sameAsFolded(t, b, l, "max", x, out, floats, math.Inf(-1), math.Max)
			sameAsFolded(t, b, l, "min", x, out, floats, math.Inf(1), math.Min)
			square := func(bytes []byte) float64 { return floats(bytes) * floats(bytes) }
			sameAsFolded(t, b, l, "sum_squares", x, out, square, 0, sum)
		case 1:
			d := oneOf(r, kernels.Int64, kernels.Int32, kernels.Uint8, kernels.Bool)
			x, out := r.wild(d, shape...), r.result(kernels.Int64, without(shape, axes)...)
			sameAsFolded(t, b, l, "sum", x, out, integerOf, 0, func(x, y int64) int64 { return x + y })
			sameAsFolded(t, b, l, "prod", x, out, integerOf, 1, func(x, y int64) int64 { return x * y })
			sameAsFolded(t, b, l, "max", x, out, integerOf, math.MinInt64, func(x, y int64) int64 { return max(x, y) })
			sameAsFolded(t, b, l, "min", x, out, integerOf, math.MaxInt64, func(x, y int64) int64 { return min(x, y) })
		case 2:
			x := r.moderate(oneOf(r, kernels.DTypes()...), shape...)
			if r.IntN(2) == 0 {
				clear(x.data) // all false
			}
			truth := func(bytes []byte) int64 {
				whole := binary.LittleEndian.Uint64(append(slices.Clone(bytes), make([]byte, 8)...))
				if x.dtype.IsFloat() {
					whole <<= 65 - 8*x.dtype.Size() // without the sign
				}
				return int64(min(1, whole))
			}
			out := r.result(kernels.Bool, without(shape, axes)...)
			sameAsFolded(t, b, l, "any", x, out, truth, 0, func(x, y int64) int64 { return max(x, y) })
			sameAsFolded(t, b, l, "all", x, out, truth, 1, func(x, y int64) int64 { return min(x, y) })
		}
	}
}

// integerOf is an integer element.
func integerOf(bytes []byte) int64 {
	switch le := binary.LittleEndian; len(bytes) {
	case 8:
		return int64(le.Uint64(bytes))
	case 4:
		return int64(int32(le.Uint32(bytes)))
	}
	return int64(bytes[0])
}

// sameAsFolded compares a reduction with that of numbers in canonical order.
func sameAsFolded[N float64 | int64](t *testing.T, b *Backend, l *kernels.Launch, name string, x, out value,
	number func(bytes []byte) N, start N, combine func(x, y N) N) {
	t.Helper()
	l.Op = &kernels.Op{Name: name, Kernel: name}
	got, err := on(t, b, l, []value{x}, []value{out})
	if err != nil {
		t.Fatal(err)
	}
	var r kernels.Reduction
	r.Set(&x.Layout, l.Ints)
	size := out.dtype.Size()
	for i := range r.Results() {
		numbers := make([]N, r.N)
		for k := range numbers {
			at := (x.Offset + r.Kept.Offset(i) + r.Reduced.Offset(k)) * x.dtype.Size()
			numbers[k] = number(x.data[at : at+x.dtype.Size()])
		}
		want := fold(numbers, r.Columns, start, combine)
		bits := uint64(int64(want))
		if out.dtype == kernels.Float64 {
			bits = math.Float64bits(float64(want))
		}
		w, g := binary.LittleEndian.AppendUint64(nil, bits)[:size], got[0][(out.Offset+i)*size:][:size]
		if !sameElement(out.dtype, g, w) {
			t.Fatalf("%s of %v %v along %v: element %d is %x, want %x", name, x.dtype, x.Layout, l.Ints, i, g, w)
		}
	}
}

// fold reduces numbers in the canonical order: that of rows or of columns.
func fold[N float64 | int64](x []N, columns bool, start N, combine func(x, y N) N) N {
	block, count := 2048, 128
	if columns {
		block, count = 64, 8
	}
	for {
		var results []N
		for elements := range slices.Chunk(x, block) {
			partials := slices.Repeat([]N{start}, count)
			for i, v := range elements {
				j := i % count
				if columns {
					j = i / count
				}
				partials[j] = combine(partials[j], v)
			}
			for h := 1; h < count; h *= 2 {
				for j := range count / 2 / h {
					if columns {
						partials[j] = combine(partials[j], partials[j+count/2/h])
					} else {
						partials[2*h*j] = combine(partials[2*h*j], partials[2*h*j+h])
					}
				}
			}
			results = append(results, partials[0])
		}
		if len(results) < 2 {
			return append(results, start)[0]
		}
		x = results
	}
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
			to := d
			shape, axes := r.foldShape()
			b.gpu.SMs = oneOf(r, 0, 132) // levels in one launch, or in several
			if i%5 == 4 {                // strided, but in vectors
				shape, axes = oneOf(r, []int{63, 3, 64}, []int{6, 3, 40, 64}, []int{5, 4, 130, 8}), []int{0, 2}
			}
			l := &kernels.Launch{Op: op, Ints: axes, Floats: []float64{float64(r.IntN(2))}}
			x := r.moderate(d, shape...)
			switch op.Name {
			case "max", "min":
				x = r.wild(d, shape...)
			case "sum_squares":
				to = kernels.Float32
			}
			sameAs := sameAsWidened
			if op.Name == "logsumexp" {
				sameAs = sameAsExact
			}
			sameAs(t, b, l, []value{x}, []value{r.result(to, without(shape, axes)...)})
		}
	}
}

// TestArgExtremes: places of extremes, with and without the values there.
func TestArgExtremes(t *testing.T) {
	b := kernelDevice(t)
	defer func(n int) { argBlocks = n }(argBlocks)
	r := newFuzz(12)
	ops := []*kernels.Op{hostOp("argmax", cpu.ArgMax), hostOp("argmin", cpu.ArgMin), hostOp("max_index", cpu.ArgMax),
		hostOp("min_index", cpu.ArgMin)}
	for i := range cases(30) {
		for k, op := range ops {
			d, shape := singleTypes[(i+k)%3], r.rowShape()
			axis, x := r.IntN(len(shape)), r.wild
			if k == i%4 { // columns, in parts
				shape, axis, argBlocks = []int{1 + r.IntN(3), 1 + r.IntN(700), 2 + r.IntN(70)}, 1, 1+r.IntN(40)
				if i%2 == 0 { // read by vectors
					shape[2], x = 8*(1+r.IntN(40)), r.alike
				}
			}
			kept := without(shape, []int{axis})
			out := []value{r.result(d, kept...), r.result(kernels.Int64, kept...)}
			if k < 2 {
				out = out[1:]
			}
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{axis}}, []value{x(d, shape...)}, out)
		}
	}
}

// alike is a contiguous operand of any content, of which nearly all is alike.
func (r fuzz) alike(d kernels.DType, shape ...int) value {
	x := r.contiguous(d, shape...)
	x.data = r.numbers(d, x.Len(), false)
	most := floatBits(d, oneOf(r, 1, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN()))
	one := binary.LittleEndian.AppendUint64(nil, most)[:d.Size()]
	for i := range x.Len() {
		if r.IntN(200) > 0 {
			copy(x.data[i*d.Size():], one)
		}
	}
	return x
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

// eachLongRow calls f with lengths at which rows become too long for a warp, for the registers of a block, for a block
// of the canonical order and for all lanes of its second level to be in one half of the threads; as norms, the sums for
// parameters have blocks, lanes and rows of lanes left over. At first operands are wide, if lengths are multiples of 4.
func eachLongRow(t *testing.T, f func(b *Backend, r fuzz, i int, d kernels.DType, shape []int,
	operand func(d kernels.DType, shape ...int) value)) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1) // a block has many rows
	r := newFuzz(33)
	shapes := [][]int{ // the first two, on a new device, take most shared memory
		{17, 4096}, {33, 2048}, {65, 4224}, {200, 1025}, {65, 1500}, {3, 4097}, {64, 2049}, {1, 8192}, {5, 8193},
		{63, 513}, {7, 1056}, {2, 16385}, {2, 3, 1200},
	}
	types := []kernels.DType{kernels.Float32, kernels.BFloat16, kernels.Float16, kernels.Float32, kernels.BFloat16}
	for i := range cases(24) {
		d, shape, operand := types[i%len(types)], shapes[i%len(shapes)], r.moderate
		if i == 18 || i > 24 && r.IntN(20) == 0 {
			shape = []int{1, 33*16384 + 5}
		}
		if i < len(shapes) {
			operand = r.contiguous
		}
		f(b, r, i, d, shape, operand)
	}
}

func TestLongRows(t *testing.T) {
	eachLongRow(t, func(b *Backend, r fuzz, i int, d kernels.DType, shape []int,
		operand func(d kernels.DType, shape ...int) value) {
		last, x, y, g := len(shape)-1, operand(d, shape...), operand(d, shape...), operand(d, shape...)
		for _, op := range []*kernels.Op{hostOp("softmax", cpu.Softmax), hostOp("log_softmax", cpu.LogSoftmax)} {
			sameAsExact(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{x}, []value{r.result(d, shape...)})
		}
		for _, op := range []*kernels.Op{hostOp("softmax_grad", cpu.SoftmaxGrad),
			hostOp("log_softmax_grad", cpu.LogSoftmaxGrad)} {
			sameAsExact(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{y, g},
				[]value{r.result(d, shape...)})
		}

		for _, op := range []*kernels.Op{hostOp("logsumexp", cpu.LogSumExp), hostOp("var", cpu.Var)} {
			sameAsExact(t, b, &kernels.Launch{Op: op, Ints: []int{last}, Floats: []float64{1}}, []value{x},
				[]value{r.result(d, shape[:last]...)})
		}
		for _, op := range []*kernels.Op{hostOp("argmax", cpu.ArgMax), hostOp("argmin", cpu.ArgMin)} {
			out := []value{r.result(d, shape[:last]...), r.result(kernels.Int64, shape[:last]...)}
			sameAsWidened(t, b, &kernels.Launch{Op: op, Ints: []int{last}}, []value{r.wild(d, shape...)}, out[i%2:])
		}
	})
}

func TestLongCrossEntropy(t *testing.T) {
	eachLongRow(t, func(b *Backend, r fuzz, i int, d kernels.DType, shape []int,
		_ func(d kernels.DType, shape ...int) value) {
		crossEntropy(t, b, r, d, shape, i%3)
	})
}

func TestLongNorms(t *testing.T) {
	eachLongRow(t, func(b *Backend, r fuzz, i int, d kernels.DType, shape []int,
		operand func(d kernels.DType, shape ...int) value) {
		last, n := len(shape)-1, shape[len(shape)-1:]
		x, g := operand(d, shape...), operand(d, shape...)
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
	})
}

// TestThirdLevel: a row of more than 2,048 blocks, whose results are more than a block, by a block of threads and by a
// warp.
func TestThirdLevel(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(35)
	const n = 2048*2048 + 129*2048 + 5
	row := func() value {
		return value{kernels.Float32, r.numbers(kernels.Float32, n, true),
			kernels.Layout{Shape: []int{1, n}, Strides: []int{n, 1}}}
	}
	x, rstd := row(), r.result(kernels.Float32, 1)
	y := value{kernels.Float32, make([]byte, 4*n), x.Layout}
	l := &kernels.Launch{Op: hostOp("rms_norm", cpu.RMSNorm), Ints: []int{1}, Floats: []float64{1e-5}}
	sameAsWidened(t, b, l, []value{x}, []value{y, rstd})
	l = &kernels.Launch{Op: hostOp("rms_norm_grad", cpu.RMSNormGrad), Ints: []int{1, 1, 0}}
	sameAsWidened(t, b, l, []value{row(), x, rstd}, []value{y, r.result(kernels.Float32, 0)})
}
