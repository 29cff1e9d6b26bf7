//go:build emu && cgo && linux

package emu

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
)

// The tests of this file compare kernels with kernels/cpu, bit for bit, over random shapes and layouts.

// shapes is the number of shapes that each operation is tried on: in the plain build under all schedules, in the
// checked build a few.
var shapes = flag.Int("shapes", 20, "shapes for each operation in the plain build; a quarter in the checked one")

// eachBuild runs f for random cases on both builds. Schedules, copies and streams vary with the case.
func eachBuild(t *testing.T, f func(t *testing.T, d *Driver, r *rand.Rand)) {
	orders := []string{"fifo", "lifo", "random", "skewed"}
	whens := []string{"early", "late", "random"}
	for _, x := range []struct {
		name   string
		driver *Driver
		cases  int
	}{{"plain", plain, *shapes}, {"checked", checkedDriver, *shapes / 4}} {
		for i := range x.cases {
			t.Run(fmt.Sprint(x.name, i), func(t *testing.T) {
				d := fresh(t, x.driver, "order", orders[i%4], "copies", whens[i%3], "streams", whens[i/3%3], "seed",
					fmt.Sprint(i))
				f(t, d, rand.New(rand.NewPCG(uint64(i), 9)))
			})
		}
	}
}

// tensor is an operand on both sides.
type tensor struct {
	arg  kernels.Arg
	data []byte
	ptr  Ptr
}

var backend = func() kernels.Backend {
	b, err := kernels.Open("cpu")
	if err != nil {
		panic(err)
	}
	return b
}()

// dims is a random shape of up to three dimensions.
func dims(r *rand.Rand, most int) []int {
	s := make([]int, 1+r.IntN(3))
	for i := range s {
		s[i] = 1 + r.IntN(most)
		if r.IntN(6) == 0 {
			s[i] = 1
		}
	}
	return s
}

// layout is a random layout of a shape: contiguous, transposed, with gaps, or broadcast along some axes, and the number
// of elements of its buffer.
func layout(r *rand.Rand, shape []int) (kernels.Layout, int) {
	l := kernels.Layout{Shape: shape, Strides: make([]int, len(shape)), Offset: r.IntN(2) * r.IntN(5)}
	kind := r.IntN(4)
	order := r.Perm(len(shape))
	n := 1
	for i := range shape {
		d := len(shape) - 1 - i
		if kind == 1 {
			d = order[i]
		}
		if kind == 3 && r.IntN(2) == 0 {
			continue // broadcast: stride 0
		}
		l.Strides[d] = n
		n *= shape[d]
		if kind == 2 {
			n += r.IntN(3)
		}
	}
	return l, l.Offset + n
}

// random32 fills a buffer with numbers of all kinds, or of a size that sums show every rounding of.
func random32(r *rand.Rand, n int, wild bool) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch {
		case wild && r.IntN(4) == 0:
			x[i] = specials[r.IntN(len(specials))]
		case wild && r.IntN(4) == 0:
			x[i] = math.Float32frombits(r.Uint32())
		default:
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}

// encode rounds numbers to bytes of an element type.
func encode(x []float32, d kernels.DType) []byte {
	var b []byte
	for _, v := range x {
		u := math.Float32bits(v)
		switch d {
		case kernels.Float32:
			b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
		case kernels.BFloat16:
			b = append(b, byte(u>>16), byte(u>>24))
		case kernels.Float16:
			b = append(b, byte(u), byte(u>>16)) // any bits will do
		case kernels.Bool:
			b = append(b, byte(u>>16&1))
		}
	}
	return b
}

// place puts bytes on both sides.
func place(t *testing.T, d *Driver, dtype kernels.DType, l kernels.Layout, data []byte) tensor {
	t.Helper()
	buf, err := backend.Alloc(max(1, len(data)))
	must(t, err)
	backend.CopyIn(0, buf, 0, data)
	return tensor{kernels.Arg{Buf: buf, DType: dtype, Layout: l}, data, upload(t, d, data)}
}

// contiguous is a result of the given shape.
func contiguous(t *testing.T, d *Driver, dtype kernels.DType, shape []int) tensor {
	l := kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)}
	return place(t, d, dtype, l, make([]byte, kernels.Count(shape)*dtype.Size()))
}

// input is a random operand.
func input(t *testing.T, d *Driver, r *rand.Rand, dtype kernels.DType, shape []int, wild bool) tensor {
	l, n := layout(r, shape)
	return place(t, d, dtype, l, encode(random32(r, n, wild), dtype))
}

// first is the address of the operand's first element on the device.
func (x tensor) first() Ptr { return x.ptr + Ptr(x.arg.Offset*x.arg.DType.Size()) }

// compare holds the result on the device to that of the CPU.
func compare(t *testing.T, d *Driver, what string, x tensor) {
	t.Helper()
	n := x.arg.Len()
	want := make([]byte, n*x.arg.DType.Size())
	backend.CopyOut(0, want, x.arg.Buf, 0)
	must(t, backend.Synchronize(0))
	got := download[byte](t, d, x.ptr, len(want))
	for i := range n {
		g, w := number(got, i, x.arg.DType), number(want, i, x.arg.DType)
		if !same(g, w) {
			t.Fatalf("%s: element %d of %v is %v (%x), on the CPU %v (%x)", what, i, x.arg.Shape, g, g, w, w)
		}
	}
}

// number is element i.
func number(b []byte, i int, d kernels.DType) float32 {
	p := unsafe.Pointer(&b[i*d.Size()])
	switch d {
	case kernels.Float32:
		return *(*float32)(p)
	case kernels.BFloat16:
		return math.Float32frombits(uint32(*(*uint16)(p)) << 16)
	case kernels.Float16:
		h := *(*uint16)(p)
		if h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			return float32(math.NaN())
		}
		return float32(h) // equal numbers are equal bits
	}
	return float32(b[i])
}

func blocks(n, threads int) [3]uint32 { return [3]uint32{uint32((n + threads - 1) / threads), 1, 1} }

// each launches a kernel with at least n threads, in blocks of 256.
func (d *Driver) each(t *testing.T, f uintptr, n int, args ...any) {
	t.Helper()
	if n > 0 {
		must(t, d.Launch(f, blocks(n, 256), [3]uint32{256, 1, 1}, 0, 0, args...))
	}
}

// pointwiseCases are expressions with the types of their operands and results.
var pointwiseCases = []struct {
	name, src    string
	args, params string
	in, out      []kernels.DType
}{
	{"add", "a + b", "a b", "", []kernels.DType{f32, f32}, []kernels.DType{f32}},
	{"gelu", "gelu(x)", "x", "", []kernels.DType{f32}, []kernels.DType{f32}},
	{"gelu_bf16", "gelu(x)", "x", "", []kernels.DType{kernels.BFloat16}, []kernels.DType{kernels.BFloat16}},
	{"mixed", "sin(a)*s + where(c, b, 1/b)", "a b c", "s", []kernels.DType{f32, kernels.Float16, kernels.Bool},
		[]kernels.DType{f32}},
	{"dropout", "where(rand(2) < p, 0, x/(1 - p)) + rand(5)*rand(2)", "x", "p", []kernels.DType{f32},
		[]kernels.DType{f32}},
	{"dropout_f16", "where(rand() < p, 0, x)", "x", "p", []kernels.DType{kernels.Float16},
		[]kernels.DType{kernels.Float16}},
	{"compare", "x < y; x*y", "x y", "", []kernels.DType{f32, f32}, []kernels.DType{kernels.Bool, kernels.BFloat16}},
	{"constant", "0.25*s", "", "s", nil, []kernels.DType{f32}},
	{"adamw", "m1 = b1*m + r1*g; v1 = b2*v + r2*(g*g); p*(1 - lr*decay) - lr/c1*(m1/(sqrt(v1)/sqrt(c2) + eps)); m1; v1",
		"p g m v c1 c2",
		"lr b1 r1 b2 r2 eps decay", []kernels.DType{f32, f32, f32, f32, f32, f32}, []kernels.DType{f32, f32, f32}},
}

var f32 = kernels.Float32

func TestPointwise(t *testing.T) {
	text := pointwiseText(t)
	eachBuild(t, func(t *testing.T, d *Driver, r *rand.Rand) {
		module := compiled(t, d, "pointwise_cases.cu", text)
		for _, c := range pointwiseCases {
			p := src.Pointwise{Name: c.name, Func: expr.Must(c.src, strings.Fields(c.args), strings.Fields(c.params)),
				In: c.in, Out: c.out}
			testPointwise(t, d, r, module, &p)
		}
	})
}

func pointwiseText(t *testing.T) string {
	var all strings.Builder
	for _, c := range pointwiseCases {
		p := src.Pointwise{Name: c.name, Func: expr.Must(c.src, strings.Fields(c.args), strings.Fields(c.params)),
			In: c.in, Out: c.out}
		text, err := p.Text()
		must(t, err)
		all.WriteString(text)
	}
	return all.String()
}

func testPointwise(t *testing.T, d *Driver, r *rand.Rand, module uintptr, p *src.Pointwise) {
	t.Helper()
	shape := dims(r, 20)
	if last := len(shape) - 1; r.IntN(2) == 0 { // rows for threads with several elements
		shape[last] = p.Vector() * (1 + r.IntN(4))
	}
	n := kernels.Count(shape)
	l := kernels.Launch{Op: &kernels.Op{Name: p.Name, Expr: p.Func},
		Random: kernels.Random{Key: r.Uint64(), Counter: r.Uint64()}}
	var addresses, results []uintptr
	var strides [][]int
	uniform, simple := uint32(0), r.IntN(2) == 0
	for k, dtype := range p.In {
		var x tensor
		switch {
		case simple && r.IntN(4) == 0:
			x = place(t, d, dtype, kernels.Layout{Shape: shape, Strides: make([]int, len(shape))},
				encode(random32(r, 1, true), dtype))
			uniform |= 1 << k
		case simple:
			x = contiguous(t, d, dtype, shape)
			data := encode(random32(r, n, true), dtype)
			backend.CopyIn(0, x.arg.Buf, 0, data)
			must(t, Upload(d, x.ptr, data))
		default:
			x = input(t, d, r, dtype, shape, true)
		}
		l.In = append(l.In, x.arg)
		strides = append(strides, x.arg.Strides)
		addresses = append(addresses, uintptr(x.first()))
	}
	var out []tensor
	for _, dtype := range p.Out {
		out = append(out, contiguous(t, d, dtype, shape))
		l.Out = append(l.Out, out[len(out)-1].arg)
		results = append(results, uintptr(out[len(out)-1].ptr))
	}
	for range p.Func.Params {
		l.Floats = append(l.Floats, r.Float64())
	}
	must(t, backend.Run(&l))

	operands := func(uniform uint32) []byte {
		return appendOperands(p, nil, addresses, results, l.Random, uniform, l.Floats)
	}
	if simple {
		f, err := d.Function(module, p.Name+"_vector")
		must(t, err)
		d.each(t, f, (n+p.Vector()-1)/p.Vector(), operands(uniform), uint64(n))
	} else {
		sizes, steps := collapse(shape, strides...)
		aligned := func(k int) bool {
			return k == len(p.In) || addresses[k]%uintptr(p.Vector()*p.In[k].Size()) == 0
		}
		packed, threads, uniform := appendStrides(nil, sizes, p.Vector(), aligned, steps...)
		f, err := d.Function(module, p.Name+"_strided")
		must(t, err)
		d.each(t, f, threads, operands(uniform), packed)
	}
	for k := range out {
		compare(t, d, fmt.Sprintf("%s, result %d", p.Name, k), out[k])
	}
}

func TestCopyAndFill(t *testing.T) {
	eachBuild(t, func(t *testing.T, d *Driver, r *rand.Rand) {
		testCopy(t, d, r, dims(r, 12))
		testCopy(t, d, r, []int{2 + r.IntN(3), 2 + r.IntN(3), 2 + r.IntN(3), 2 + r.IntN(3)})
		testCopy(t, d, r, []int{2, 2, 2, 2, 2, 2, 2, 3})
		testFill[uint8](t, d, r, "fill_b1")
		testFill[uint16](t, d, r, "fill_b2")
		testFill[uint32](t, d, r, "fill_b4")
		testFill[uint64](t, d, r, "fill_b8")
	})
}

func testCopy(t *testing.T, d *Driver, r *rand.Rand, shape []int) {
	t.Helper()
	from, nFrom := layout(r, shape)
	to, nTo := layout(r, shape)
	for d := range to.Strides {
		if to.Strides[d] == 0 && shape[d] > 1 {
			to, nTo = kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)},
				kernels.Count(shape)
		}
	}
	data := random32(r, nFrom, true)
	x, y := upload(t, d, data), upload(t, d, make([]float32, nTo))
	want := make([]float32, nTo)
	index := make([]int, len(shape))
	for i := range kernels.Count(shape) {
		a, b := to.Offset, from.Offset
		for k := len(shape) - 1; k >= 0; k-- {
			index[k] = i % shape[k]
			i /= shape[k]
			a += index[k] * to.Strides[k]
			b += index[k] * from.Strides[k]
		}
		want[a] = data[b]
	}
	sizes, steps := collapse(shape, to.Strides, from.Strides)
	n, groups := kernels.Count(shape), (sizes[0]+3)/4
	threads := n / sizes[0] * groups
	walk := [5]uint32{uint32(n), uint32(groups), uint32(threads), uint32(groups * steps[0][0]),
		uint32(groups * steps[1][0])}
	d.each(t, function(t, d, "copy_b4"), threads, y+Ptr(4*to.Offset), x+Ptr(4*from.Offset), walk,
		appendShape32(nil, sizes, steps...))
	for i, got := range download[float32](t, d, y, nTo) {
		if math.Float32bits(got) != math.Float32bits(want[i]) {
			t.Fatalf("copy_b4 %v from %v to %v: element %d is %v, want %v", shape, from, to, i, got, want[i])
		}
	}
}

func testFill[T uint8 | uint16 | uint32 | uint64](t *testing.T, d *Driver, r *rand.Rand, name string) {
	t.Helper()
	n, skip, value := r.IntN(600), r.IntN(3), T(r.Uint64())
	p := upload(t, d, make([]T, n+8))
	size := int(unsafe.Sizeof(value))
	d.each(t, function(t, d, name), (n*size+15)/16+1, p+Ptr(skip*size), value, uint64(n))
	for i, got := range download[T](t, d, p, n+8) {
		if inside := i >= skip && i < skip+n; inside && got != value || !inside && got != 0 {
			t.Fatalf("%s of %d from %d: element %d is %x", name, n, skip, i, got)
		}
	}
}
