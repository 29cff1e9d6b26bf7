package cpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

func Example() {
	dev, err := kernels.Open("cpu")
	if err != nil {
		fmt.Println(err)
		return
	}
	tensor := func(values ...float32) kernels.Arg {
		buf, err := dev.Alloc(4 * len(values))
		if err != nil {
			panic(err)
		}
		a := kernels.Arg{Buf: buf, DType: kernels.Float32,
			Layout: kernels.Layout{Shape: []int{len(values)}, Strides: []int{1}}}
		copy(Slice[float32](a), values)
		return a
	}
	relu := &kernels.Op{Name: "relu", Expr: expr.Must("relu(x)", []string{"x"}, nil)}
	x, y := tensor(-1, 0, 2), tensor(0, 0, 0)
	err = dev.Run(&kernels.Launch{Op: relu, In: []kernels.Arg{x}, Out: []kernels.Arg{y}})
	fmt.Println(Slice[float32](y), err)
	// Output: [0 0 2] <nil>
}

func TestOpen(t *testing.T) {
	for name, want := range map[string]string{"cpu": "", "cpu:0": "",
		"cpu:1": "open: there is one cpu device, cpu:0, not cpu:1"} {
		dev, err := kernels.Open(name)
		if want == "" {
			if err != nil || dev.Name() != "cpu" {
				t.Errorf("%s: %v, %v", name, dev, err)
			}
		} else if !errors.Is(err, kernels.ErrDevice) || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

func TestMemory(t *testing.T) {
	dev := Backend{}
	for _, n := range []int{0, 1, 63, 64, 1000, 1 << 20, 4 << 20, 5<<20 + 1} {
		b, err := dev.Alloc(n)
		if err != nil || b.Bytes() != n {
			t.Fatalf("%d bytes: %v, %v", n, b, err)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b.(*Mem).Data()))); n > 0 && at%64 != 0 || n >= hugeMemory &&
			at%hugePage != 0 {
			t.Errorf("%d bytes at %#x", n, at)
		}
	}
	for _, n := range []int{-1, math.MaxInt, math.MaxInt / 2} {
		if b, err := dev.Alloc(n); b != nil || !errors.Is(err, kernels.ErrMemory) {
			t.Errorf("%d bytes: %v, %v", n, b, err)
		}
	}

	b, _ := dev.Alloc(8)
	dev.CopyIn(0, b, 2, []byte{1, 2, 3})
	got := make([]byte, 4)
	dev.CopyOut(0, got, b, 1)
	if !slices.Equal(got, []byte{0, 1, 2, 3}) {
		t.Errorf("copied %v", got)
	}
	mustPanic(t, func() { dev.CopyIn(0, b, 6, []byte{1, 2, 3}) })
	mustPanic(t, func() { dev.CopyOut(0, got, b, 5) })
	mustPanic(t, func() { Slice[float64](newTensor(kernels.Float32, 2)) })

	e := dev.Record(3)
	dev.Wait(4, e)
	if err := dev.Synchronize(3); err != nil {
		t.Error(err)
	}
	if done, err := e.Done(); !done || err != nil {
		t.Errorf("event %v, error %v", done, err)
	}
	dev.Free(b)
	mustPanic(t, func() { dev.CopyOut(0, got, b, 0) })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

// Run takes the element types of an operation, and refuses the others.
func TestTypes(t *testing.T) {
	loops := &kernels.Op{CPU: func(*kernels.Launch) {}}
	typed := &kernels.Op{CPU: func(*kernels.Launch) {}, Types: []kernels.DType{kernels.Int64, kernels.Uint8}}
	slow := &kernels.Op{Ref: func(*kernels.Launch) {}}
	smooth := &kernels.Op{Expr: expr.Must("exp(x)", []string{"x"}, nil)}
	whole := &kernels.Op{Expr: expr.Must("x*x", []string{"x"}, nil)}
	for i, c := range []struct {
		op   *kernels.Op
		want string
	}{
		{loops, "float32 float16 bfloat16"}, {typed, "int64 uint8"}, {&kernels.Op{}, ""},
		{smooth, "float32 float64 float16 bfloat16"},
		{slow, "float32 float64 float16 bfloat16 int64 int32 uint8 bool"},
		{whole, "float32 float64 float16 bfloat16 int64 int32 uint8 bool"},
	} {
		var got []string
		for _, d := range kernels.DTypes() {
			a := newTensor(d, 1)
			err := (Backend{}).Run(&kernels.Launch{Op: c.op, In: []kernels.Arg{a}, Out: []kernels.Arg{newTensor(d, 1)}})
			switch {
			case err == nil:
				got = append(got, d.String())
			case !errors.Is(err, kernels.ErrDevice) && !errors.Is(err, kernels.ErrDType):
				t.Errorf("operation %d on %v: %v", i, d, err)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("operation %d runs on %v, want %s", i, got, c.want)
		}
	}
}

// The loops for the type of the first input come before the expression, and the expression before the reference.
func TestWhatRuns(t *testing.T) {
	ran := ""
	op := &kernels.Op{
		Name: "test", Types: []kernels.DType{kernels.Float32},
		CPU:  func(*kernels.Launch) { ran = "loops" },
		Expr: expr.Must("x", []string{"x"}, nil),
		Ref:  func(*kernels.Launch) { ran = "reference" },
	}
	for _, c := range []struct {
		d    kernels.DType
		want string
	}{{kernels.Float32, "loops"}, {kernels.Float64, "expression"}} {
		ran = "expression"
		mustRun(t, &kernels.Launch{Op: op, In: []kernels.Arg{newTensor(c.d, 1)},
			Out: []kernels.Arg{newTensor(kernels.Float32, 1)}})
		if ran != c.want {
			t.Errorf("%v ran the %s, want the %s", c.d, ran, c.want)
		}
	}
	op.Expr = nil
	mustRun(t, &kernels.Launch{Op: op, Out: []kernels.Arg{newTensor(kernels.Float64, 1)}})
	if ran != "reference" {
		t.Errorf("ran the %s, want the reference", ran)
	}
}

// The reference has its floating operands as contiguous float64 and the others in their own types.
func TestReference(t *testing.T) {
	x := with(layouts["transposed"](kernels.BFloat16, []int{2, 3}), 1, 2, 3, 4, 5, 6) // [1 3 5; 2 4 6]
	index := with(layouts["stepped"](kernels.Int32, []int{2}), 1, 9, 9, 0, 9, 9)
	mask := with(newTensor(kernels.Bool, 2), 1, 0)
	y, n := newTensor(kernels.Float16, 2, 3), newTensor(kernels.Int64, 1)
	op := &kernels.Op{Name: "pick", Ref: func(l *kernels.Launch) {
		if l.Ints[0] != 7 || !l.In[0].Contiguous() || !l.In[1].Contiguous() {
			t.Errorf("launch %+v", l)
		}
		for r, from := range Slice[int32](l.In[1]) {
			for c := range 3 {
				Slice[float64](l.Out[0])[r*3+c] = Slice[float64](l.In[0])[int(from)*3+c] + 1.0/4096
			}
		}
		Slice[int64](l.Out[1])[0] = int64(len(Slice[bool](l.In[2])))
	}}
	mustRun(t, &kernels.Launch{Op: op, In: []kernels.Arg{x, index, mask}, Out: []kernels.Arg{y, n}, Ints: []int{7}})
	if got, want := elements(y), []float64{2, 4, 6, 1, 3, 5}; !slices.Equal(got, want) { // rounded to float16
		t.Errorf("picked %v, want %v", got, want)
	}
	if got := Slice[int64](n)[0]; got != 2 {
		t.Errorf("counted %d", got)
	}
}

// A kernel reports misuse by a panic with an Error; other panics pass.
func TestPanics(t *testing.T) {
	fails := func(v any) *kernels.Launch {
		return &kernels.Launch{Op: &kernels.Op{CPU: func(*kernels.Launch) { panic(v) }},
			Out: []kernels.Arg{newTensor(kernels.Float32, 1)}}
	}
	want := kernels.Errorf(kernels.ErrIndex, "gather", "index 5")
	if err := (Backend{}).Run(fails(want)); err != error(want) {
		t.Errorf("error %v", err)
	}
	mustPanic(t, func() { Backend{}.Run(fails("a bug")) })
}
