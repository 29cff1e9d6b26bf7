package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

func TestPadValues(t *testing.T) {
	x := ascending(2, 2)
	got, want := values(x.Pad(9, [2]int{1, 0}, [2]int{0, 2})), []int64{9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, dt := range kernels.DTypes() {
		y := ascending(2, 2).To(dt).T().Pad(1, [2]int{0, 1}, [2]int{1, 0})
		want := []int64{1, 0, 2, 1, 1, 3, 1, 1, 1}
		if dt == tensor.Bool {
			want = []int64{1, 0, 1, 1, 1, 1, 1, 1, 1}
		}
		if got := values(y); !slices.Equal(got, want) || y.DType() != dt {
			t.Errorf("%v: %v, want %v", y, got, want)
		}
	}
	inf := tensor.ToSlice[float32](tensor.Zeros(tensor.Float32, 1).Pad(math.Inf(-1), [2]int{0, 1}))
	if inf[0] != 0 || !math.IsInf(float64(inf[1]), -1) {
		t.Errorf("padded by -Inf: %v", inf)
	}
}

func TestFlipValues(t *testing.T) {
	x := ascending(2, 3)
	for _, c := range []struct {
		axes []int
		want []int64
	}{{[]int{0}, []int64{3, 4, 5, 0, 1, 2}}, {[]int{-1}, []int64{2, 1, 0, 5, 4, 3}}, {nil, []int64{5, 4, 3, 2, 1, 0}}} {
		if got := values(x.Flip(c.axes...)); !slices.Equal(got, c.want) {
			t.Errorf("axes %v: %v, want %v", c.axes, got, c.want)
		}
	}
	if got, want := values(x.T().Slice(0, 1, 3).Flip(0)), []int64{2, 5, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("of a view: %v, want %v", got, want)
	}
}

func TestTriangleValues(t *testing.T) {
	x := ascending(2, 3).AddScalar(1)
	for _, c := range []struct {
		k          int
		tril, triu []int64
	}{
		{0, []int64{1, 0, 0, 4, 5, 0}, []int64{1, 2, 3, 0, 5, 6}},
		{1, []int64{1, 2, 0, 4, 5, 6}, []int64{0, 2, 3, 0, 0, 6}},
		{-1, []int64{0, 0, 0, 4, 0, 0}, []int64{1, 2, 3, 4, 5, 6}},
		{math.MaxInt, []int64{1, 2, 3, 4, 5, 6}, make([]int64, 6)},
		{math.MinInt, make([]int64, 6), []int64{1, 2, 3, 4, 5, 6}},
	} {
		if got := values(x.Tril(c.k)); !slices.Equal(got, c.tril) {
			t.Errorf("tril %d: %v, want %v", c.k, got, c.tril)
		}
		if got := values(x.Triu(c.k)); !slices.Equal(got, c.triu) {
			t.Errorf("triu %d: %v, want %v", c.k, got, c.triu)
		}
	}
	nan := tensor.FromSlice([]float32{1, float32(math.NaN()), 2, 3}, 2, 2)
	if got := tensor.ToSlice[float32](nan.Tril(0)); got[1] != 0 {
		t.Errorf("NaN above the diagonal became %v, want 0", got[1])
	}
}

func TestCopyErrors(t *testing.T) {
	x := ascending(2, 3)
	wantMisuse(t, func() { x.Pad(0, [2]int{1, 1}) }, tensor.ErrShape,
		"pad: 1 pairs are given, int64[2 3] has 2 axes; {0, 0} leaves an axis alone")
	wantMisuse(t, func() { x.Pad(0, [2]int{-1, -2}, [2]int{}) }, tensor.ErrShape,
		"pad: [-1 -2] would remove more elements of axis 0 of int64[2 3] than there are")
	wantMisuse(t, func() { x.Pad(0, [2]int{math.MinInt, 1}, [2]int{}) }, tensor.ErrShape, "would remove more")
	wantMisuse(t, func() { x.PadReflect([2]int{2, 0}, [2]int{}) }, tensor.ErrShape,
		"pad_reflect: [2 0] elements around axis 0 of int64[2 3], which has 2 elements: there are 1 to take")
	wantMisuse(t, func() { x.PadCircular([2]int{}, [2]int{0, 4}) }, tensor.ErrShape, "there are 3 to take")
	wantMisuse(t, func() { ascending(0, 2).PadReplicate([2]int{0, 1}, [2]int{}) }, tensor.ErrShape, "0 to take")
	wantMisuse(t, func() { x.PadReplicate([2]int{math.MaxInt, 0}, [2]int{}) }, tensor.ErrShape, "to take on each side")
	wantMisuse(t, func() { x.Pad(0.5, [2]int{}, [2]int{1, 0}) }, tensor.ErrValue, "pad: 0.5 is no value of int64")
	wantMisuse(t, func() { x.Pad(0, [2]int{}, [2]int{math.MaxInt / 2, 0}) }, tensor.ErrShape, "pad: shape")
	wantMisuse(t, func() { x.Flip(0, -2) }, tensor.ErrShape, "flip: axis 0 of int64[2 3] is named twice")
	wantMisuse(t, func() { x.Flip(2) }, tensor.ErrShape, "flip: axis 2 is outside [-2, 2)")
	wantMisuse(t, func() { ascending(3).Tril(0) }, tensor.ErrShape, "tril: x int64[3] has 1 axes, at least 2 are")
	wantMisuse(t, func() { ascending(3).Triu(0) }, tensor.ErrShape, "triu: x int64[3] has 1 axes, at least 2 are")
}

func TestCatValues(t *testing.T) {
	a, b := ascending(2, 2), ascending(2, 1).AddScalar(100)
	for name, c := range map[string]struct {
		got  *tensor.Tensor
		want []int64
	}{
		"columns":    {tensor.Cat(1, a, b, a), []int64{0, 1, 100, 0, 1, 2, 3, 101, 2, 3}},
		"rows":       {tensor.Cat(-2, a, a.T()), []int64{0, 1, 2, 3, 0, 2, 1, 3}},
		"views":      {tensor.Cat(0, a.T().Slice(0, 1, 2), b.Expand(2, 2)), []int64{1, 3, 100, 100, 101, 101}},
		"nothing":    {tensor.Cat(0, a.Slice(0, 0, 0), a), []int64{0, 1, 2, 3}},
		"stack":      {tensor.Stack(1, a, a.T()), []int64{0, 1, 0, 2, 2, 3, 1, 3}},
		"stack last": {tensor.Stack(-1, a, a.T()), []int64{0, 0, 1, 2, 2, 1, 3, 3}},
		"rank 0":     {tensor.Stack(0, tensor.Of(int64(5)), tensor.Of(int64(7))), []int64{5, 7}},
	} {
		if got := values(c.got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	// All element types, and many operands.
	var many []*tensor.Tensor
	for range 40 {
		many = append(many, ascending(1, 3))
	}
	for _, dt := range kernels.DTypes() {
		x := make([]*tensor.Tensor, len(many))
		for i := range x {
			x[i] = many[i].To(dt)
		}
		y := tensor.Cat(0, x...)
		if !slices.Equal(values(y), values(many[0].To(dt).Expand(40, 3))) || y.DType() != dt {
			t.Errorf("%v: %v", y, values(y))
		}
	}
}

// Large operands are copied by several goroutines, in blocks.
func TestCatLarge(t *testing.T) {
	a, b := tensor.Randn(tensor.Seed(1), 300, 1000), tensor.Randn(tensor.Seed(2), 300, 77)
	threads(t, "cat", func() []*tensor.Tensor {
		y := tensor.Cat(1, a, b, a.T().Clone().T())
		for i, piece := range y.Split(1, 1000, 77, 1000) {
			want := []*tensor.Tensor{a, b, a}[i]
			if j := differentBits(tensor.ToSlice[float32](piece), tensor.ToSlice[float32](want)); j >= 0 {
				t.Errorf("piece %d, element %d differs", i, j)
			}
		}
		return []*tensor.Tensor{y}
	})
}

func TestCatErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	wantMisuse(t, func() { tensor.Cat(0) }, tensor.ErrValue, "cat: at least one tensor is needed")
	wantMisuse(t, func() { tensor.Cat(0, z(2, 3), z(2, 4)) }, tensor.ErrShape,
		"cat: only axis 0 may differ: operand 0 [2 3] has 3 on axis 1, operand 1 [2 4] has 4")
	wantMisuse(t, func() { tensor.Cat(0, z(2, 3), z(2)) }, tensor.ErrShape,
		"operand 0 [2 3] has 2 axes, operand 1 [2] has 1")
	wantMisuse(t, func() { tensor.Cat(2, z(2, 3)) }, tensor.ErrShape, "axis 2 is outside [-2, 2)")
	wantMisuse(t, func() { tensor.Cat(0, z(), z()) }, tensor.ErrShape, "axis 0 is outside [0, 0)")
	wantMisuse(t, func() { tensor.Cat(0, z(2), z(2).To(tensor.Float64)) }, tensor.ErrDType,
		"operand 0 is float32[2], operand 1 is float64[2]")
	wantMisuse(t, func() { tensor.Cat(0, nil, z(2)) }, tensor.ErrStep, "nil")
	wantMisuse(t, func() { tensor.Cat(0, z(2), nil) }, tensor.ErrStep, "nil")
	wantMisuse(t, func() { tensor.Stack(0, z(2), z(3)) }, tensor.ErrShape,
		"stack: shapes differ: operand 0 has [2], operand 1 has [3]")
	wantMisuse(t, func() { tensor.Stack(2, z(2), z(2)) }, tensor.ErrShape,
		"stack: axis 2 is outside [-2, 2) for float32[2]")
	wantMisuse(t, func() { tensor.Stack(0) }, tensor.ErrValue, "stack: at least one tensor is needed")
}

func ExampleTensor_Tril() {
	x := tensor.Arange(tensor.Int64, 1, 10, 1).Reshape(3, 3)
	fmt.Println(tensor.ToSlice[int64](x.Tril(0)))
	// Output: [1 0 0 4 5 0 7 8 9]
}

func ExampleCat() {
	a := tensor.FromSlice([]int64{1, 2}, 1, 2)
	b := tensor.FromSlice([]int64{3, 4}, 1, 2)
	fmt.Println(tensor.Cat(0, a, b).Shape(), tensor.Cat(1, a, b).Shape(), tensor.Stack(0, a, b).Shape())
	// Output: [2 2] [1 4] [2 1 2]
}
