//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/x448/float16"
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

// sameAsExact runs a launch of operations whose exponentials in half precision are the GPU's own. In float32 results
// are the CPU's. Else two runs have the same bits, and results are within a unit in the last place of what float64
// gives, rounded, or as near as rounding leaves terms of the size of the largest result.
func sameAsExact(t *testing.T, b *Backend, l *kernels.Launch, in, out []value) {
	t.Helper()
	if d := in[0].dtype; !d.IsHalf() {
		sameAsWidened(t, b, l, in, out)
		return
	}
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	var wideIn, wideOut []value
	for _, v := range in {
		if v.dtype.IsHalf() {
			v = convert(t, v, kernels.Float32)
		}
		wideIn = append(wideIn, v)
	}
	for _, v := range out {
		wideOut = append(wideOut, value{kernels.Float32, make([]byte, 4*(v.Offset+v.Len())), v.Layout})
	}
	want, err := on(t, host, l, wideIn, wideOut)
	if err != nil {
		t.Fatalf("%s on the CPU: %v", l.Op.Name, err)
	}
	var got [2][][]byte
	for k := range got {
		if got[k], err = on(t, b, l, in, out); err != nil {
			t.Fatalf("%s: %v", l.Op.Name, err)
		}
	}
	for k, v := range out {
		if !bytes.Equal(got[0][k], got[1][k]) {
			t.Fatalf("%s %v: result %d differs from run to run", l.Op.Name, v.dtype, k)
		}
		what := fmt.Sprint(l.Op.Name, " ", in[0].dtype, in[0].Layout, l.Ints, " result ", k)
		nearSingles(t, what, v, got[0][k], want[k])
	}
}

// nearSingles compares the elements of v, a result with the given content, with those of float32 by the CPU.
func nearSingles(t *testing.T, name string, v value, got, want []byte) {
	t.Helper()
	// Of a number that is not subnormal: half a unit in the last place more than a rounding may be off.
	unit, least := 0x1p-17, 0x1p-126
	switch v.dtype {
	case kernels.Float16:
		unit, least = 0x1.8p-10, 0x1.8p-24
	case kernels.BFloat16:
		unit = 0x1.8p-7
	}
	single := func(i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(want[4*(v.Offset+i):])))
	}
	largest := 0.0
	for i := range v.Len() {
		if y := math.Abs(single(i)); !math.IsInf(y, 0) && y == y {
			largest = max(largest, y)
		}
	}
	for i := range v.Len() {
		x, y, size := 0.0, single(i), v.dtype.Size()
		if e := got[(v.Offset+i)*size:]; v.dtype == kernels.Float32 {
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(e)))
		} else {
			x = halfNumber(v.dtype, e)
		}
		if v.dtype == kernels.Float16 && math.Abs(y) > 65472 { // which may round to infinity
			x, y = max(-65504, min(x, 65504)), max(-65504, min(y, 65504))
		}
		if most := unit*math.Abs(y) + least + 0x1p-21*largest; !(x == y || math.Abs(x-y) <= most || x != x && y != y) {
			t.Fatalf("%s: element %d of %v is %v, want %v within %v", name, i, v.Shape, x, y, most)
		}
	}
}

// moderate is an operand of any layout without infinities and NaN.
func (r fuzz) moderate(d kernels.DType, shape ...int) value {
	l, n := r.layout(shape)
	return value{d, r.numbers(d, n, true), l}
}

// contiguous is a moderate operand that is contiguous and aligned.
func (r fuzz) contiguous(d kernels.DType, shape ...int) value {
	l := kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)}
	return value{d, r.numbers(d, l.Len(), true), l}
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

// rowOf is an operation for tests of all element types.
func rowOf(name string, f func(l *kernels.Launch)) *kernels.Op {
	return &kernels.Op{Name: name, Kernel: name, CPU: f, Types: kernels.DTypes()}
}

// shape is a random shape of the given rank.
func (r fuzz) shape(rank, most int) []int {
	s := make([]int, rank)
	for d := range s {
		s[d] = r.IntN(most + 1)
	}
	return s
}

// with is a copy of a shape in which entry d has the given sizes in its place.
func with(shape []int, d int, sizes ...int) []int {
	return slices.Concat(shape[:d], sizes, shape[d+1:])
}

// reaches is a function that makes walks short for some cases of a test, so that an operation takes several.
func (r fuzz) reaches(t *testing.T) func() {
	was := maxReach
	t.Cleanup(func() { maxReach = was })
	return func() { maxReach = oneOf(r, was, 20+r.IntN(100)) }
}

// number is element k of a vector of integers.
func number(v value, k int) int {
	e := v.data[(v.Offset+k*v.Strides[0])*v.dtype.Size():]
	switch v.dtype {
	case kernels.Int64:
		return int(int64(binary.LittleEndian.Uint64(e)))
	case kernels.Int32:
		return int(int32(binary.LittleEndian.Uint32(e)))
	}
	return int(e[0])
}

// The tests of kernels run on the emulator or on a GPU, named by WEFT_CUDA_DRIVER, and compare with the CPU.
// kernelDevice opens the device for a test of kernels.
func kernelDevice(t testing.TB) *Backend {
	t.Helper()
	needKernels(t)
	return device(t)
}

// multiprocessors makes the device one of few for a test, so that kernels do for few blocks what they do for many.
func multiprocessors(t testing.TB, b *Backend, n int) {
	was := b.gpu.SMs
	b.gpu.SMs = n
	t.Cleanup(func() { b.gpu.SMs = was })
}

func needKernels(t testing.TB) {
	t.Helper()
	if onBare {
		t.Skip("needs the emulator or a GPU: WEFT_CUDA_DRIVER=build/emu/libcuda_emu.so")
	}
}

// value is content of an operand: the bytes of its buffer, and the layout of its elements there.
type value struct {
	dtype kernels.DType
	data  []byte
	kernels.Layout
}

// fuzz makes operands of random layouts.
type fuzz struct{ *rand.Rand }

func newFuzz(seed uint64) fuzz { return fuzz{rand.New(rand.NewPCG(seed, 77+round))} }

var shapes = flag.Int("shapes", 0, "how many cases the tests of kernels try, each, if not more as usual")

// cases is n, or a quarter of it but no fewer than 20 if tests are to be short; no fewer than -shapes in any event.
func cases(n int) int {
	if testing.Short() {
		n = max(min(n, 20), n/4)
	}
	return max(n, *shapes)
}

// round counts repetitions of the tests, which have other operands each.
var round uint64

// reschedule has the emulator run the next launch in another order, in tests of that.
var reschedule = func() {}

// oneOf picks one of the given.
func oneOf[T any](r fuzz, from ...T) T { return from[r.IntN(len(from))] }

// layout is a random layout of a shape, and the number of elements of its buffer: contiguous, permuted, with gaps, or
// repeated along axes.
func (r fuzz) layout(shape []int) (kernels.Layout, int) {
	strides := make([]int, len(shape))
	kernels.RowMajor(strides, shape)
	l := kernels.Layout{Shape: shape, Strides: strides}
	if r.IntN(3) == 0 {
		return l, max(1, l.Len())
	}
	next := 1 + r.IntN(2)*r.IntN(3)
	for _, d := range r.Perm(len(shape)) {
		if r.IntN(8) == 0 {
			strides[d] = 0
			continue
		}
		strides[d] = next
		next = next*max(1, shape[d]) + r.IntN(2)*r.IntN(4)
	}
	l.Offset = r.IntN(2) * r.IntN(9)
	return l, l.Offset + max(1, next)
}

// operand is a random value of a shape in any layout. Floating numbers are normal with some zeros of both signs and
// tiny ones; integers are below limit.
func (r fuzz) operand(d kernels.DType, limit int, shape ...int) value {
	l, n := r.layout(shape)
	return value{d, r.content(d, limit, n), l}
}

// content is n random elements.
func (r fuzz) content(d kernels.DType, limit, n int) []byte {
	var b []byte
	for range n {
		x := r.NormFloat64()
		switch r.IntN(40) {
		case 0:
			x = 0
		case 1:
			x = math.Copysign(0, -1)
		case 2:
			x *= 0x1p-130
		}
		switch d {
		case kernels.Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		case kernels.Float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		case kernels.Float16, kernels.BFloat16:
			u := uint16(r.Uint32()) // any kind of number
			switch {
			case r.IntN(4) == 0:
			case d == kernels.Float16:
				u = float16.Fromfloat32(float32(x)).Bits()
			default:
				u = uint16(math.Float32bits(float32(x)) >> 16)
			}
			b = binary.LittleEndian.AppendUint16(b, u)
		case kernels.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(r.IntN(limit)))
		case kernels.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(r.IntN(limit)))
		default:
			b = append(b, byte(r.IntN(min(limit, 256))))
		}
	}
	return b
}

// result is a contiguous result, with content that a kernel must overwrite.
func (r fuzz) result(d kernels.DType, shape ...int) value {
	l := kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape),
		Offset: r.IntN(2) * r.IntN(5)}
	return value{d, r.content(d, 100, l.Offset+max(1, l.Len())+r.IntN(5)), l}
}

// put copies a value to new memory of a device.
func put(t testing.TB, dev kernels.Backend, v value) kernels.Arg {
	t.Helper()
	m, err := dev.Alloc(len(v.data))
	if err != nil {
		t.Fatal(err)
	}
	dev.CopyIn(0, m, 0, v.data)
	return kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout}
}

// on runs a launch with operands and results of the given content on a device and returns the buffers of the results.
func on(t testing.TB, dev kernels.Backend, l *kernels.Launch, in, out []value) ([][]byte, error) {
	t.Helper()
	l = l.Clone()
	l.In, l.Out = nil, nil
	for _, v := range in {
		l.In = append(l.In, put(t, dev, v))
	}
	for _, v := range out {
		l.Out = append(l.Out, put(t, dev, v))
	}
	if _, ok := dev.(*Backend); ok {
		reschedule()
	}
	if err := dev.Run(l); err != nil {
		return nil, err
	}
	var got [][]byte
	for i, a := range l.Out {
		got = append(got, make([]byte, len(out[i].data)))
		dev.CopyOut(0, got[i], a.Buf, 0)
	}
	err := dev.Synchronize(0)
	for _, a := range append(l.In, l.Out...) {
		dev.Free(a.Buf)
	}
	return got, err
}

// sameAsCPU runs a launch on both devices. Results must have the same bits, but for the kind of NaN, and nothing around
// them may change.
func sameAsCPU(t testing.TB, b *Backend, l *kernels.Launch, in, out []value) {
	t.Helper()
	agrees(t, b, l, in, out, sameElement)
}

// agrees is sameAsCPU with a rule for what is the same.
func agrees(t testing.TB, b *Backend, l *kernels.Launch, in, out []value,
	same func(d kernels.DType, got, want []byte) bool) {
	t.Helper()
	name := l.Op.Name
	for _, v := range in {
		name += fmt.Sprintf(" %v%v%v", v.dtype, v.Shape, v.Strides)
	}
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	elements := 0
	for _, v := range out { // nobody asks the CPU for nothing
		want = append(want, v.data)
		elements += v.Len()
	}
	if elements > 0 {
		if want, err = on(t, host, l, in, out); err != nil {
			t.Fatalf("%s on the CPU: %v", name, err)
		}
	}
	got, err := on(t, b, l, in, out)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if n := planAllocations(t, b, l, in, out); n != 0 {
		t.Errorf("%s: planning allocates %v times", name, n)
	}
	for i := range want {
		size := out[i].dtype.Size()
		for at := 0; at+size <= len(want[i]); at += size {
			if x, y := got[i][at:at+size], want[i][at:at+size]; !same(out[i].dtype, x, y) {
				t.Fatalf("%s, %v %v: result %d, element %d (of %v from %d) is %x, on the CPU %x",
					name, l.Ints, l.Floats, i, at/size, out[i].Shape, out[i].Offset, x, y)
			}
		}
	}
}

// planAllocations is how often the plan of a launch allocates Go memory.
func planAllocations(t testing.TB, b *Backend, l *kernels.Launch, in, out []value) float64 {
	l = l.Clone()
	m := alloc(t, b, 1<<16)
	defer b.Free(m)
	for _, v := range in {
		l.In = append(l.In, kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout})
	}
	for _, v := range out {
		l.Out = append(l.Out, kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout})
	}
	s, err := b.stream("test", l.Stream)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return testing.AllocsPerRun(5, func() {
		plan, err := b.plan(l.Op, l.DType())
		if err != nil {
			t.Fatal(err)
		}
		s.call.reset(l.Op.Name)
		plan(&s.call, l)
	})
}

func sameElement(d kernels.DType, x, y []byte) bool {
	switch d {
	case kernels.Float32:
		x, y := binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(y)
		return x == y || x<<1 > 0xff<<24 && y<<1 > 0xff<<24
	case kernels.Float64:
		x, y := math.Float64frombits(binary.LittleEndian.Uint64(x)), math.Float64frombits(binary.LittleEndian.Uint64(y))
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	case kernels.Float16, kernels.BFloat16:
		u, v := halfNumber(d, x), halfNumber(d, y)
		return u == v && math.Signbit(u) == math.Signbit(v) || u != u && v != v
	}
	return string(x) == string(y)
}
