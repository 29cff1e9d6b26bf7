//go:build emu && cgo && linux

package emu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// The tests of this file call the functions of element.cuh, f64.cuh and i64.cuh one by one, and compare with
// kernels/cpu, and those of reduce.cuh with the canonical order.

// elementTypes are the types of elements in the order of kernels.DType, and numberTypes what kernels compute with.
var (
	elementTypes = []string{"float", "double", "f16", "bf16", "int64_t", "int32_t", "uint8_t", "boolean"}
	numberTypes  = []struct {
		name  string
		dtype kernels.DType
	}{{"float", kernels.Float32}, {"double", kernels.Float64}, {"int64_t", kernels.Int64}}
)

// eachNumber is a text with the kernel `name`, which calls a statement for element i of x, and for those of b and c.
func eachNumber(name, x, y, statement string) string {
	return fmt.Sprintf(`KERNEL(%s, 256, 1)(const %s* x, const %[2]s* b, const %[2]s* c, %s* y, uint32_t type,
    uint64_t divisor, uint32_t n) {
	const uint32_t i = blockIdx.x * 256 + threadIdx.x;
	if (i < n) %s;
}
EXPORT(%[1]s);
`, name, x, y, statement)
}

// extremes are numbers at which conversions go wrong first: ends of types, ties, and a little more than ties, which a
// rounding on the way would make ties.
var extremes = func() (all []float64) {
	for _, x := range []float64{0, 1, 0.5, 1.5, 2.5, 255, 255.5, 256, 65504, 65519.99, 65520, 0x1p-24, 0x1p-25,
		0x1.8p-25, 0x1p-14, 0x1p-126, 0x1p-149, 0x1p-150,
		1<<24 + 1, 1<<31 - 1, 1<<31 - 0.5, 1 << 31, 1 << 32, 1<<53 - 1, 1 << 62, 0x1p63, 0x1.fffffffffffffp62, 3e38,
		3.5e38, 0x1.fffffefp127, 1e300, math.Inf(1), math.NaN(),
		1 + 0x1p-11, 1 + 0x1p-8, 1 + 0x3p-11, 1 + 0x3p-8, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-24,
		1 + 0x1p-24 + 0x1p-50, 1 + 0x3p-24, 2048 + 1 + 0x1p-40} {
		all = append(all, x, -x, math.Nextafter(x, 0))
	}
	return all
}()

// integers are the same for integer types.
var integers = func() (all []int64) {
	for _, x := range []int64{0, 1, 127, 128, 255, 256, 2049, 2051, 4097<<12 + 1, 65519, 65520, 1<<24 + 1, 1<<24 + 3,
		1<<31 - 1, 1 << 31, 1<<53 + 1, 1<<62 + 1, math.MaxInt64,
		257<<40 + 1, 259 << 40, 2049<<30 + 1, 1<<62 + 1<<38 + 1} {
		all = append(all, x, -x, -x-1)
	}
	return all
}()

// numbersOf are elements of a type: the extremes, if it is wide enough, numbers near 1, and any bits.
func numbersOf(r *rand.Rand, d kernels.DType, any int) (b []byte) {
	le := binary.LittleEndian
	put := func(bits uint64) { b = append(b, le.AppendUint64(nil, bits)[:d.Size()]...) }
	switch d {
	case kernels.Float64:
		for _, x := range extremes {
			put(math.Float64bits(x))
		}
	case kernels.Float32:
		for _, x := range extremes {
			put(uint64(math.Float32bits(float32(x))))
		}
	case kernels.Bool:
		put(0)
		put(1)
	default:
		for _, x := range integers {
			put(uint64(x))
		}
	}
	for i := range any {
		bits := r.Uint64()
		switch {
		case d == kernels.Bool:
			bits &= 1
		case d.IsInt():
			bits >>= r.IntN(64)
			if i%2 == 0 {
				bits = -bits
			}
		case d == kernels.Float64 && i%2 == 0:
			bits = math.Float64bits(r.NormFloat64() * math.Ldexp(1, r.IntN(140)-70))
		case d == kernels.Float32 && i%2 == 0:
			bits = uint64(math.Float32bits(float32(r.NormFloat64())))
		}
		put(bits)
	}
	return b
}

// onCPU computes an expression of contiguous operands of one type.
func onCPU(t *testing.T, f *expr.Func, from, to kernels.DType, operands ...[]byte) []byte {
	t.Helper()
	n := len(operands[0]) / from.Size()
	l := kernels.Launch{Op: &kernels.Op{Name: "test", Expr: f}}
	arg := func(d kernels.DType, data []byte) kernels.Arg {
		buf, err := backend.Alloc(max(1, len(data)))
		must(t, err)
		backend.CopyIn(0, buf, 0, data)
		return kernels.Arg{Buf: buf, DType: d, Layout: kernels.Layout{Shape: []int{n}, Strides: []int{1}}}
	}
	for _, x := range operands {
		l.In = append(l.In, arg(from, x))
	}
	want := make([]byte, n*to.Size())
	l.Out = []kernels.Arg{arg(to, want)}
	must(t, backend.Run(&l))
	backend.CopyOut(0, want, l.Out[0].Buf, 0)
	must(t, backend.Synchronize(0))
	return want
}

var identity = expr.Must("x", []string{"x"}, nil)

// onDevice runs a kernel of eachNumber.
func onDevice(t *testing.T, d *Driver, module uintptr, name string, from, to kernels.DType, kind uint32, divisor uint64,
	operands ...[]byte) []byte {
	t.Helper()
	n := len(operands[0]) / from.Size()
	var in [3]Ptr
	for k := range in {
		in[k] = upload(t, d, operands[min(k, len(operands)-1)])
	}
	y := upload(t, d, make([]byte, n*to.Size()))
	f, err := d.Function(module, name)
	must(t, err)
	d.each(t, f, n, in[0], in[1], in[2], y, kind, divisor, uint32(n))
	return download[byte](t, d, y, n*to.Size())
}

// sameNumbers fails unless elements have the same bits, or are both NaN. Numbers of double may differ by `close`, of
// themselves or, where they are small, of 1.
func sameNumbers(t *testing.T, what string, d kernels.DType, x, got, want []byte, close float64) {
	t.Helper()
	size := d.Size()
	in := len(x) / (len(want) / size)
	for i := range len(want) / size {
		a, b := got[i*size:(i+1)*size], want[i*size:(i+1)*size]
		if d == kernels.Float64 {
			a, b := math.Float64frombits(binary.LittleEndian.Uint64(a)),
				math.Float64frombits(binary.LittleEndian.Uint64(b))
			if a != a && b != b || math.Abs(a-b) <= close*max(1, math.Abs(b)) && close > 0 {
				continue
			}
		} else if d.IsFloat() && same(number(a, 0, d), number(b, 0, d)) {
			continue
		}
		if string(a) != string(b) {
			t.Fatalf("%s of %x is %x, want %x", what, x[i*in:(i+1)*in], a, b)
		}
	}
}

// TestElements: numbers and elements of all types, by every way between them.
func TestElements(t *testing.T) {
	var text strings.Builder
	text.WriteString("#include \"element.cuh\"\n")
	for i, x := range elementTypes {
		for j, y := range elementTypes {
			from, to := kernels.DTypeOf(i), kernels.DTypeOf(j)
			number := numberBetween(from, to)
			text.WriteString(eachNumber(fmt.Sprint("cast_", from, "_", to), x, y,
				fmt.Sprintf("y[i] = to_element<%s>(to_compute<%s>(x[i]))", y, number)))
		}
	}
	for _, n := range numberTypes {
		text.WriteString(eachNumber("put_"+n.name, n.name, "uint8_t", "put(Result{y, divisor, type}, i, x[i])"))
	}
	for _, d := range []kernels.DType{kernels.Float32, kernels.Float64, kernels.Float16, kernels.BFloat16} {
		text.WriteString(eachNumber(fmt.Sprint("read_", d), elementTypes[d.Code()], numberBetween(d, d),
			"y[i] = read<"+elementTypes[d.Code()]+">(x, type, i)"))
	}
	for _, kind := range []string{"integer", "nonzero"} {
		text.WriteString(eachNumber("read_"+kind, "uint8_t", "int64_t", "y[i] = read<"+kind+">(x, type, i)"))
	}
	eachElementTest(t, text.String(), func(t *testing.T, d *Driver, r *rand.Rand, module uintptr) {
		for _, from := range kernels.DTypes() {
			x := numbersOf(r, from, 500)
			for _, to := range kernels.DTypes() {
				name := fmt.Sprint("cast_", from, "_", to)
				sameNumbers(t, fmt.Sprint(from, " to ", to), to, x, onDevice(t, d, module, name, from, to, 0, 0, x),
					onCPU(t, identity, from, to, x), 0)
			}
			nonzero := onCPU(t, identity, kernels.Bool, kernels.Int64, onCPU(t, identity, from, kernels.Bool, x))
			sameNumbers(t, fmt.Sprint(from, " as bool"), kernels.Int64, x,
				onDevice(t, d, module, "read_nonzero", from, kernels.Int64, uint32(from.Code()), 0, x), nonzero, 0)
			switch {
			case from.IsFloat():
				number := kernels.Float32
				if from == kernels.Float64 {
					number = from
				}
				got := onDevice(t, d, module, fmt.Sprint("read_", from), from, number, 0, 0, x)
				sameNumbers(t, fmt.Sprint(from, " as number"), number, x, got, onCPU(t, identity, from, number, x), 0)
			default:
				sameNumbers(t, fmt.Sprint(from, " as integer"), kernels.Int64, x,
					onDevice(t, d, module, "read_integer", from, kernels.Int64, uint32(from.Code()), 0, x),
					onCPU(t, identity, from, kernels.Int64, x), 0)
			}
		}
		results := map[kernels.DType][]kernels.DType{
			kernels.Float32: {kernels.Float32, kernels.Float16, kernels.BFloat16},
			kernels.Float64: {kernels.Float32, kernels.Float64},
			kernels.Int64:   {kernels.Float32, kernels.Int64, kernels.Int32, kernels.Uint8, kernels.Bool},
		}
		for _, n := range numberTypes {
			x := numbersOf(r, n.dtype, 500)
			for _, to := range results[n.dtype] {
				for _, divisor := range []uint64{0, 7} {
					f, number, wide := identity, n.dtype, x
					switch {
					case n.dtype == kernels.Int64 && to == kernels.Float32: // the mean of integers
						number, wide = kernels.Float64, onCPU(t, identity, n.dtype, kernels.Float64, x)
						fallthrough
					case n.dtype.IsFloat():
						if divisor != 0 {
							f = expr.Must("x/7", []string{"x"}, nil)
						}
					case divisor != 0:
						continue
					}
					want := onCPU(t, identity, number, to, onCPU(t, f, number, number, wide))
					got := onDevice(t, d, module, "put_"+n.name, n.dtype, to, uint32(to.Code()), divisor, x)
					sameNumbers(t, fmt.Sprint(n.name, " put as ", to, ", divided by ", divisor), to, x, got, want, 0)
				}
			}
		}
	})
}

// numberBetween is what a conversion passes through, as kernels.ComputeType says.
func numberBetween(from, to kernels.DType) string {
	l := kernels.Launch{Op: &kernels.Op{Expr: identity}, In: []kernels.Arg{{DType: from}},
		Out: []kernels.Arg{{DType: to}}}
	number := l.ComputeType()
	for _, n := range numberTypes {
		if n.dtype == number {
			return n.name
		}
	}
	panic("no number type")
}

// eachElementTest compiles a text for both builds, and runs f there.
func eachElementTest(t *testing.T, text string, f func(t *testing.T, d *Driver, r *rand.Rand, module uintptr)) {
	for _, x := range []struct {
		name   string
		driver *Driver
	}{{"plain", plain}, {"checked", checkedDriver}} {
		t.Run(x.name, func(t *testing.T) {
			d := fresh(t, x.driver)
			f(t, d, rand.New(rand.NewPCG(2, 3)), compiled(t, d, "elements.cu", text))
		})
	}
}

// TestNumbers: the instructions of expressions on double and int64_t.
func TestNumbers(t *testing.T) {
	var text strings.Builder
	text.WriteString("#include \"f64.cuh\"\n#include \"i64.cuh\"\n")
	names := []string{"a", "b", "c"}
	each := func(f func(op expr.Op, d kernels.DType, name string, e *expr.Func)) {
		for _, op := range expr.Instructions() {
			e := expr.Must(op.String()+"("+strings.Join(names[:op.Arity()], ", ")+")", names[:op.Arity()], nil)
			if op.Float() {
				f(op, kernels.Float64, "f64_"+op.String(), e)
			}
			if op.Integer() {
				f(op, kernels.Int64, "i64_"+op.String(), e)
			}
		}
	}
	each(func(op expr.Op, d kernels.DType, name string, _ *expr.Func) {
		x := elementTypes[d.Code()]
		text.WriteString(eachNumber("t_"+name, x, x,
			"y[i] = "+name+"("+strings.Join([]string{"x[i]", "b[i]", "c[i]"}[:op.Arity()], ", ")+")"))
	})
	eachElementTest(t, text.String(), func(t *testing.T, d *Driver, r *rand.Rand, module uintptr) {
		exact := []expr.Op{expr.Sqrt, expr.Rsqrt, expr.BF16, expr.F16}
		each(func(op expr.Op, dtype kernels.DType, name string, e *expr.Func) {
			close, x := 0.0, numbersOf(r, dtype, 60)
			if !op.Integer() && !slices.Contains(exact, op) { // two implementations, which agree on moderate numbers
				close, x = 0x1p-48, nil
				for range 60 {
					x = binary.LittleEndian.AppendUint64(x, math.Float64bits(r.NormFloat64()))
				}
			}
			var operands [][]byte
			for k := range op.Arity() {
				operands = append(operands, pairs(x, k))
			}
			want := onCPU(t, e, dtype, dtype, operands...)
			sameNumbers(t, name, dtype, operands[0], onDevice(t, d, module, "t_"+name, dtype, dtype, 0, 0, operands...),
				want, close)
		})
	})
}

// pairs repeats elements of 8 bytes so that operands 0 and 1 of a function meet in all pairs.
func pairs(x []byte, k int) (all []byte) {
	n := len(x) / 8
	for i := range n {
		for j := range n {
			at := 8 * [...]int{i, j, (i + 7*j) % n}[k]
			all = append(all, x[at:at+8]...)
		}
	}
	return all
}

// foldLengths are the lengths of rows that TestFolds tries.
var foldLengths = []uint32{0, 1, 2, 3, 4, 5, 31, 33, 64, 127, 128, 129, 130, 255, 511, 512, 513, 700, 1025, 2047, 2048}

// TestFolds: all folds of reduce.cuh of rows of all types, in every thread of two warps.
func TestFolds(t *testing.T) {
	var text strings.Builder
	text.WriteString("#include \"reduce.cuh\"\n")
	for _, n := range numberTypes {
		for _, fold := range []string{"Sum", "Prod", "Max", "Min"} {
			fmt.Fprintf(&text, `KERNEL(t_%s_%s, 64, 1)(const %[2]s* x, const uint32_t* lengths, %[2]s* y) {
	y[blockIdx.x * 64 + threadIdx.x] = warp_fold<%[1]s, %[2]s, 2>(lengths[blockIdx.x], [=](uint32_t i, uint32_t count) {
		Four<%[2]s> four{};
		for (uint32_t k = 0; k < count; k++) four[k] = x[i + k];
		return four;
	});
}
EXPORT(t_%[1]s_%[2]s);
`, fold, n.name)
		}
	}
	eachElementTest(t, text.String(), func(t *testing.T, d *Driver, r *rand.Rand, module uintptr) {
		// Factors near 1 or odd, so that no product vanishes.
		near1 := func() float64 { return math.Copysign(0.5+r.Float64(), r.Float64()-0.5) }
		testFolds(t, d, module, "float", func() float32 { return float32(near1()) }, float32(math.Inf(-1)),
			float32(math.Inf(1)))
		testFolds(t, d, module, "double", near1, math.Inf(-1), math.Inf(1))
		testFolds(t, d, module, "int64_t", func() int64 { return int64(r.Uint64() | 1) }, math.MinInt64, math.MaxInt64)
	})
}

// testFolds compares folds of numbers of a type that has a least and a greatest one.
func testFolds[N float32 | float64 | int64](t *testing.T, d *Driver, module uintptr, name string, any func() N, least,
	greatest N) {
	var x [2048]N
	for i := range x {
		x[i] = any()
	}
	in, lengths := upload(t, d, x[:]), upload(t, d, foldLengths)
	for _, fold := range []struct {
		name    string
		start   N
		combine func(a, b N) N
	}{
		{"Sum", 0, func(a, b N) N { return a + b }}, {"Prod", 1, func(a, b N) N { return a * b }},
		{"Max", least, func(a, b N) N { return max(a, b) }}, {"Min", greatest, func(a, b N) N { return min(a, b) }},
	} {
		f, err := d.Function(module, "t_"+fold.name+"_"+name)
		must(t, err)
		blocks := len(foldLengths)
		y := upload(t, d, make([]N, 64*blocks))
		must(t, d.Launch(f, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{64, 1, 1}, 0, 0, in, lengths, y))
		for i, got := range download[N](t, d, y, 64*blocks) {
			n, partials := int(foldLengths[i/64]), slices.Repeat([]N{fold.start}, 128)
			for k, v := range x[:n] {
				partials[k%128] = fold.combine(partials[k%128], v)
			}
			for h := 1; h < 128; h *= 2 {
				for j := 0; j < 128; j += 2 * h {
					partials[j] = fold.combine(partials[j], partials[j+h])
				}
			}
			if got != partials[0] {
				t.Fatalf("%s of %d of %s in thread %d is %v, want %v", fold.name, n, name, i%64, got, partials[0])
			}
		}
	}
}
