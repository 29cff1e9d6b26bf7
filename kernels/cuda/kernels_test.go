//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

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
	if onFake {
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
	l := kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape), Offset: r.IntN(2) * r.IntN(5)}
	return value{d, r.content(d, 100, l.Offset+max(1, l.Len())+r.IntN(5)), l}
}

// on runs a launch with operands and results of the given content on a device and returns the buffers of the results.
func on(t testing.TB, dev kernels.Backend, l *kernels.Launch, in, out []value) ([][]byte, error) {
	t.Helper()
	l = l.Clone()
	put := func(v value) kernels.Arg {
		m, err := dev.Alloc(len(v.data))
		if err != nil {
			t.Fatal(err)
		}
		dev.CopyIn(0, m, 0, v.data)
		return kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout}
	}
	l.In, l.Out = nil, nil
	for _, v := range in {
		l.In = append(l.In, put(v))
	}
	for _, v := range out {
		l.Out = append(l.Out, put(v))
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
func agrees(t testing.TB, b *Backend, l *kernels.Launch, in, out []value, same func(d kernels.DType, got, want []byte) bool) {
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
	s, err := b.stream(l.Stream)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return testing.AllocsPerRun(5, func() {
		plan, err := b.plan(l.Op, typeOf(l))
		if err != nil {
			t.Fatal(err)
		}
		s.call.reset(l.Op.Name)
		if err := plan(&s.call, l); err != nil {
			t.Fatal(err)
		}
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

var (
	matmulOp = &kernels.Op{Name: "matmul", Kernel: "matmul", CPU: cpu.MatMul, Types: []kernels.DType{kernels.Float32, kernels.Float64}}
	linearOp = &kernels.Op{Name: "linear", Kernel: "matmul", CPU: cpu.Linear, Types: []kernels.DType{kernels.Float32, kernels.Float64}}
)

func TestMatMul(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(1)
	for i := range cases(240) {
		d := oneOf(r, kernels.Float32, kernels.Float32, kernels.Float64)
		m, n, k := r.IntN(50), r.IntN(50), oneOf(r, 0, 1, 15, 16, 17, 255, 256, 257, 300, 530, r.IntN(40))
		shapeA, shapeB, shape := []int{m, k}, []int{k, n}, []int{m, n}
		switch i % 6 {
		case 0: // a row
			shapeA, shape = shapeA[1:], shape[1:]
		case 1: // a column
			shapeB, shape = shapeB[:1], shape[:1]
		case 2:
			shapeA, shape = append([]int{2, 3}, shapeA...), append([]int{2, 3}, shape...)
		case 3:
			shapeA, shapeB, shape = append([]int{2, 1}, shapeA...), append([]int{2, 1, 3}, shapeB...), append([]int{2, 2, 3}, shape...)
		}
		sameAsCPU(t, b, &kernels.Launch{Op: matmulOp}, []value{r.operand(d, 0, shapeA...), r.operand(d, 0, shapeB...)}, []value{r.result(d, shape...)})
	}
}

// Products with so many tiles that the large ones are taken.
func TestMatMulLarge(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 2)
	r := newFuzz(2)
	for range cases(32) {
		m, n, k := 129+r.IntN(150), 1+r.IntN(200), oneOf(r, 1, 16, 40, 257, 272, 513)
		d := kernels.Float32
		a, y := r.operand(d, 0, m, k), r.result(d, m, n)
		sameAsCPU(t, b, &kernels.Launch{Op: matmulOp}, []value{a, r.operand(d, 0, k, n)}, []value{y})
		sameAsCPU(t, b, &kernels.Launch{Op: linearOp}, []value{a, r.operand(d, 0, n, k), r.operand(d, 0, n)}, []value{y})
	}
}

func TestLinear(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(3)
	for i := range cases(160) {
		d := oneOf(r, kernels.Float32, kernels.Float64)
		m, n, k := r.IntN(40), 1+r.IntN(40), oneOf(r, 0, 1, 31, 32, 257, r.IntN(60))
		in := []value{r.operand(d, 0, 2, m, k), r.operand(d, 0, n, k), r.operand(d, 0, n)}
		sameAsCPU(t, b, &kernels.Launch{Op: linearOp}, in[:2+i%2], []value{r.result(d, 2, m, n)})
	}
}
