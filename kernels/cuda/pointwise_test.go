//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
)

// A pointwiseCase is an expression with the types of its operands and results.
type pointwiseCase struct {
	name    string
	f       *expr.Func
	in, out []kernels.DType
}

var dtypes = []kernels.DType{
	kernels.Float32, kernels.Float64, kernels.Float16, kernels.BFloat16, kernels.Int64, kernels.Int32, kernels.Uint8,
	kernels.Bool,
}

// pointwiseCases are all instructions and functions of expressions on each type that has them, conversions between all
// types, and operands of several types.
func pointwiseCases(r fuzz) (all []pointwiseCase) {
	names := []string{"a", "b", "c"}
	add := func(name, src string, in []kernels.DType, params []string, out ...kernels.DType) {
		all = append(all, pointwiseCase{name, expr.Must(src, names[:len(in)], params), in, out})
	}
	call := func(name string, n int) {
		src := name + "(" + strings.Join(names[:n], ", ") + ")"
		for _, d := range dtypes {
			in, number := slices.Repeat([]kernels.DType{d}, n), kernels.Int64
			if d.IsFloat() {
				number = d
			}
			if kernels.DefinedOn(number, expr.Must(src, names[:n], nil)) == nil {
				add(name, src, in, nil, d)
			} else if !d.IsFloat() {
				add(name, src, in, nil, kernels.Float32)
			}
		}
	}
	for _, op := range expr.Instructions() {
		call(op.String(), op.Arity())
	}
	for _, m := range expr.Library() {
		call(m.Name, len(m.Params))
	}
	for _, from := range dtypes {
		for _, to := range dtypes {
			add("cast", "a", []kernels.DType{from}, nil, to)
		}
		add("full", "s", nil, []string{"s"}, from)
		add("constants", "where(a < 3, -5, a) + where(a != a, 7, 2)", []kernels.DType{from}, nil, from)
		add("scalars", "a*s + t", []kernels.DType{from}, []string{"s", "t"}, from)
		if from.IsFloat() {
			add("dropout", "where(rand(2) < s, 0, a) + rand(0)", []kernels.DType{from}, []string{"s"}, from)
		}
	}
	any := func() kernels.DType { return oneOf(r, dtypes...) }
	for range 60 {
		switch src := oneOf(r, "a + b", "a*b", "a < b; b <= a; a == b", "max(a, b); a - b"); src {
		case "a + b", "a*b":
			add("mixed", src, []kernels.DType{any(), any()}, nil, any())
		case "max(a, b); a - b":
			add("mixed", src, []kernels.DType{any(), any()}, nil, any(), any())
		default:
			add("compare", src, []kernels.DType{any(), any()}, nil, any(), kernels.Bool, any())
		}
		add("where", "where(a, b, c)", []kernels.DType{any(), any(), any()}, nil, any())
	}
	return all
}

// launch is a launch of the case, without operands' content.
func (c *pointwiseCase) launch() *kernels.Launch {
	l := &kernels.Launch{Op: &kernels.Op{Name: c.name, Expr: c.f}, Random: kernels.Random{Key: 5, Counter: 9}}
	for _, d := range c.in {
		l.In = append(l.In, kernels.Arg{DType: d})
	}
	for _, d := range c.out {
		l.Out = append(l.Out, kernels.Arg{DType: d})
	}
	for k := range c.f.Params {
		l.Floats = append(l.Floats, []float64{3, -2}[k])
		if l.ComputeType() != kernels.Int64 {
			l.Floats[k] = []float64{0.3, -1.7}[k]
		}
	}
	return l
}

// precompile compiles the kernels of many cases by one call of the compiler, which takes most of its time to begin.
func precompile(t *testing.T, b *Backend, cases []pointwiseCase) {
	t.Helper()
	var text strings.Builder
	var symbols []string
	families := map[pointwiseKey]string{}
	for i := range cases {
		l := cases[i].launch()
		key, err := keyOf(l)
		if err != nil {
			t.Fatal(err)
		}
		if families[key] != "" {
			continue
		}
		p := src.PointwiseOf(l)
		p.Name += "_" + itoa(i)
		source, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(source)
		families[key] = p.Name
		symbols = append(symbols, p.Symbols()...)
	}
	m, err := compile(&b.gpu, "pointwise_cases", text.String(), symbols)
	if errors.Is(err, ErrNoCompiler) && os.Getenv("WEFT_NVRTC") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.images.mu.Lock()
	defer b.images.mu.Unlock()
	fit := []*image{m}
	for i := range cases {
		l := cases[i].launch()
		key, _ := keyOf(l)
		f := &pointwiseFamily{elements: src.PointwiseOf(l).Vector()}
		for k, to := range []**function{&f.vector, &f.strided} {
			if *to, f.image, err = b.images.entry(b, fit,
				families[key]+[]string{"_vector", "_strided"}[k]); err != nil {
				t.Fatal(err)
			}
		}
		b.images.expressions.add(key, f)
	}
}

// TestPointwiseTypes compares with the CPU over layouts and numbers of all kinds. In short mode all of float32 alone,
// one case of eight of the others, and conversions from float64.
func TestPointwiseTypes(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(4)
	all := pointwiseCases(r)
	if testing.Short() {
		all = slices.DeleteFunc(all, func(c pointwiseCase) bool {
			alone := !slices.ContainsFunc(slices.Concat(c.in, c.out),
				func(d kernels.DType) bool { return d != kernels.Float32 })
			return r.IntN(8) > 0 && !alone && !(c.name == "cast" && c.in[0] == kernels.Float64)
		})
	}
	const batch = 100
	for first := 0; first < len(all); first += batch {
		part := all[first:min(first+batch, len(all))]
		precompile(t, b, part)
		for i := range part {
			for k := range cases(20) {
				testPointwiseCase(t, b, r, &part[i], k%2 == 0)
			}
		}
	}
}

func testPointwiseCase(t *testing.T, b *Backend, r fuzz, c *pointwiseCase, simple bool) {
	t.Helper()
	l := c.launch()
	tame := l.ComputeType() == kernels.Float64 && usesFunctions(c.f)
	shape := oneOf(r, nil, []int{1}, []int{0, 3}, []int{300}, []int{5, 7}, []int{3, 1, 33}, []int{2, 3, 4, 5},
		[]int{256}, []int{17, 16})
	var in, out []value
	for _, d := range c.in {
		v := value{dtype: d, Layout: kernels.Layout{Shape: shape, Strides: make([]int, len(shape))}}
		n := 1
		switch {
		case !simple:
			v.Layout, n = r.layout(shape)
		case r.IntN(5) > 0: // else one element
			kernels.RowMajor(v.Strides, shape)
			n = max(1, v.Len())
		}
		v.data = r.numbers(d, n, tame)
		in = append(in, v)
	}
	for _, d := range c.out {
		v := r.result(d, shape...)
		if simple {
			v.Offset = 0
		}
		out = append(out, v)
	}
	same := sameElement
	if tame {
		same = closeElement
	}
	l.In, l.Out = nil, nil
	agrees(t, b, l, in, out, same)
}

// usesFunctions tells whether f has instructions that CUDA's own functions compute on float64.
func usesFunctions(f *expr.Func) bool {
	exact := []expr.Op{expr.Sqrt, expr.Rsqrt, expr.BF16, expr.F16, expr.Rand}
	return slices.ContainsFunc(f.Order(),
		func(n *expr.Node) bool { return !n.Op.Integer() && !slices.Contains(exact, n.Op) })
}

// closeElement allows for the errors of two implementations of double functions: a few units in the last place, or of 1
// where Go's own functions lose relative precision (log2 beside 1).
func closeElement(d kernels.DType, got, want []byte) bool {
	if d != kernels.Float64 {
		return sameElement(d, got, want)
	}
	x, y := math.Float64frombits(binary.LittleEndian.Uint64(got)),
		math.Float64frombits(binary.LittleEndian.Uint64(want))
	return sameElement(d, got, want) || math.Abs(x-y) <= 0x1p-48*max(math.Abs(y), 1)
}

// numbers is n random elements: small, special, and of any bits; tame ones are finite and of moderate size.
func (r fuzz) numbers(d kernels.DType, n int, tame bool) (b []byte) {
	size := d.Size()
	for range n {
		var bits uint64
		switch kind := r.IntN(6); {
		case d == kernels.Bool:
			bits = r.Uint64() & 1
		case d.IsInt() && kind < 3:
			bits = uint64(r.IntN(9) - 4)
		case d.IsInt() && kind == 3:
			bits = oneOf(r, uint64(1)<<63, 1<<31, math.MaxInt64, math.MaxInt32, 1<<24+1, 1<<53+1)
		case kind == 4 && !tame || d.IsInt():
			bits = r.Uint64()
		case kind == 3 && !tame:
			bits = floatBits(d, oneOf(r, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 65520,
				2147483647.5, -9.3e18, 0x1p-130, 0x1p-24, 256,
				1+0x1p-11+0x1p-40, 1+0x1p-8+0x1p-40)) // a little more than ties of the halves, which float32 makes ties
		case kind == 0:
			bits = floatBits(d, float64(r.IntN(9)-4))
		default:
			bits = floatBits(d, r.NormFloat64())
		}
		b = append(b, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
	}
	return b
}

// floatBits is x, not always rounded to nearest, as an element of a floating type.
func floatBits(d kernels.DType, x float64) uint64 {
	single := uint64(math.Float32bits(float32(x)))
	switch d {
	case kernels.Float64:
		return math.Float64bits(x)
	case kernels.Float32:
		return single
	case kernels.BFloat16:
		return single >> 16
	}
	e := int64(single>>23&0xff) - 127 + 15
	switch {
	case x != x:
		return 0x7e00
	case e >= 31:
		return single>>16&0x8000 | 0x7c00
	case e <= 0:
		return single >> 16 & 0x8000
	}
	return single>>16&0x8000 | uint64(e)<<10 | single>>13&0x3ff
}

// What has no meaning on integers, or on floating numbers, is an error before anything is compiled, as on the CPU.
func TestPointwiseTypeErrors(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(5)
	for want, c := range map[string]struct {
		d      kernels.DType
		f      *expr.Func
		floats []float64
	}{
		"exp is not defined on integers":     {kernels.Int32, expr.Must("exp(a)", []string{"a"}, nil), nil},
		"the constant 0.5 is not an integer": {kernels.Int32, expr.Must("a + 0.5", []string{"a"}, nil), nil},
		"the parameter s = 1.5 is not an integer": {kernels.Int32, expr.Must("a*s", []string{"a"}, []string{"s"}),
			[]float64{1.5}},
		"takes 1 parameters [s], found 0": {kernels.Int32, expr.Must("a*s", []string{"a"}, []string{"s"}), nil},
		"f: bitand is defined on integers and bools alone": {kernels.Float64,
			expr.Must("bitand(a, 7)", []string{"a"}, nil), nil},
	} {
		l := &kernels.Launch{Op: &kernels.Op{Name: "f", Expr: c.f}, Floats: c.floats}
		_, err := on(t, b, l, []value{r.operand(c.d, 5, 3)}, []value{r.result(c.d, 3)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// pointwiseLayouts are layouts of an operand of shape [4 6 16] beside a contiguous one of float32: the elements of a
// thread, and whether those of the operand are one element or one vector.
var pointwiseLayouts = map[string]struct {
	layout          kernels.Layout
	each            int
	uniform, vector bool
}{
	"bias":                     {kernels.Layout{Strides: []int{0, 0, 1}}, 4, false, true},
	"row":                      {kernels.Layout{Strides: []int{6, 1, 0}}, 4, true, false},
	"channel":                  {kernels.Layout{Strides: []int{0, 1, 0}}, 4, true, false},
	"slice of rows":            {kernels.Layout{Strides: []int{120, 20, 1}, Offset: 4}, 4, false, true},
	"heads":                    {kernels.Layout{Strides: []int{16, 64, 1}}, 4, false, true},
	"slice with odd rows":      {kernels.Layout{Strides: []int{102, 17, 1}}, 4, false, false},
	"slice from an odd offset": {kernels.Layout{Strides: []int{120, 20, 1}, Offset: 1}, 4, false, false},
	"transposed":               {kernels.Layout{Strides: []int{1, 4, 24}}, 4, false, false},
	"every second":             {kernels.Layout{Strides: []int{192, 32, 2}}, 4, false, false},
	"out of reach":             {kernels.Layout{Strides: []int{0, 0, 1 << 27}}, 1, false, false},
}

// TestPointwiseAccess: a thread has 16 bytes of the results, and reads operands by as many where their layouts allow.
func TestPointwiseAccess(t *testing.T) {
	shape := []int{4, 6, 16}
	c := call{b: &Backend{}}
	m := &buffer{b: c.b, ptr: 1 << 40, n: 1 << 40}
	for name, want := range pointwiseLayouts {
		l := kernels.Launch{}
		for _, layout := range []kernels.Layout{{Strides: []int{96, 16, 1}}, want.layout} {
			layout.Shape = shape
			l.In = append(l.In, kernels.Arg{Buf: m, DType: kernels.Float32, Layout: layout})
		}
		var w stridedPointwise
		w.collapse(l.In, shape)
		w.access(&c, &l, 4)
		w.share(4, true)
		if uniform, vector := w.uniform>>1 == 1, w.vectors>>1 == 1; w.each != want.each || uniform != want.uniform ||
			vector != want.vector {
			t.Errorf("%s: %d elements a thread, one %t, a vector %t", name, w.each, uniform, vector)
		}
	}
}

// TestPointwiseLayouts compares with the CPU over these layouts in pairs, rows of all lengths, random numbers among
// them, and launches that reach less far than an operand.
func TestPointwiseLayouts(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(41)
	f32, bf16 := kernels.Float32, kernels.BFloat16
	mixed := expr.Must("where(rand(1) < s, a*b, a - b); a + b", []string{"a", "b"}, []string{"s"})
	all := []pointwiseCase{{"mixed", mixed, []kernels.DType{f32, f32}, []kernels.DType{f32, f32}},
		{"mixed", mixed, []kernels.DType{bf16, f32}, []kernels.DType{bf16, f32}},
		{"mixed", mixed, []kernels.DType{bf16, bf16}, []kernels.DType{bf16, bf16}}}
	precompile(t, b, all)
	names := slices.Sorted(maps.Keys(pointwiseLayouts))
	names = slices.DeleteFunc(names, func(name string) bool { return name == "out of reach" })
	another := r.reaches(t)
	for range cases(120) {
		another()
		c := &all[r.IntN(len(all))]
		shape := []int{4, 6, 16}
		shape[2] -= r.IntN(2) * r.IntN(16) // rows that threads do not share out evenly
		var in, out []value
		for _, d := range c.in {
			v := value{dtype: d, Layout: pointwiseLayouts[oneOf(r, names...)].layout}
			v.Shape, v.data = shape, r.numbers(d, 800, false)
			in = append(in, v)
		}
		for _, d := range c.out {
			out = append(out, r.result(d, shape...))
		}
		l := c.launch()
		l.In, l.Out = nil, nil
		sameAsCPU(t, b, l, in, out)
	}
}
