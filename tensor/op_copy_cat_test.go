package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestCatValues(t *testing.T) {
	a, b := numbers(2, 2), numbers(2, 1).AddScalar(100)
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
	// Of all element types, and with many operands.
	var many []*tensor.Tensor
	for range 40 {
		many = append(many, numbers(1, 3))
	}
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool} {
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
	a, b := tensor.Randn(1, 300, 1000), tensor.Randn(2, 300, 77)
	threads(t, "cat", func() []*tensor.Tensor {
		y := tensor.Cat(1, a, b, a.T().Clone().T())
		for i, part := range y.Split(1, 1000, 77, 1000) {
			want := []*tensor.Tensor{a, b, a}[i]
			if j := differentBits(tensor.ToSlice[float32](part), tensor.ToSlice[float32](want)); j >= 0 {
				t.Errorf("part %d, element %d differs", i, j)
			}
		}
		return []*tensor.Tensor{y}
	})
}

func TestCatErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	for _, c := range []struct {
		f    func()
		kind error
		part string
	}{
		{func() { tensor.Cat(0) }, tensor.ErrValue, "cat: at least one tensor is needed"},
		{func() { tensor.Cat(0, z(2, 3), z(2, 4)) }, tensor.ErrShape, "cat: only axis 0 may differ: operand 0 [2 3] has 3 on axis 1, operand 1 [2 4] has 4"},
		{func() { tensor.Cat(0, z(2, 3), z(2)) }, tensor.ErrShape, "operand 0 [2 3] has 2 axes, operand 1 [2] has 1"},
		{func() { tensor.Cat(2, z(2, 3)) }, tensor.ErrShape, "axis 2 is outside [-2, 2)"},
		{func() { tensor.Cat(0, z(), z()) }, tensor.ErrShape, "axis 0 is outside [0, 0)"},
		{func() { tensor.Cat(0, z(2), z(2).To(tensor.Float64)) }, tensor.ErrDType, "operand 0 is float32[2], operand 1 is float64[2]"},
		{func() { tensor.Cat(0, nil, z(2)) }, tensor.ErrStep, "nil"},
		{func() { tensor.Cat(0, z(2), nil) }, tensor.ErrStep, "nil"},
		{func() { tensor.Stack(0, z(2), z(3)) }, tensor.ErrShape, "stack: shapes differ: operand 0 has [2], operand 1 has [3]"},
		{func() { tensor.Stack(2, z(2), z(2)) }, tensor.ErrShape, "stack: axis 2 is outside [-2, 2) for parts float32[2]"},
		{func() { tensor.Stack(0) }, tensor.ErrValue, "stack: at least one tensor is needed"},
	} {
		wantError(t, tensor.Try(c.f), c.kind, c.part)
	}
}

func ExampleCat() {
	a := tensor.FromSlice([]int64{1, 2}, 1, 2)
	b := tensor.FromSlice([]int64{3, 4}, 1, 2)
	fmt.Println(tensor.Cat(0, a, b).Shape(), tensor.Cat(1, a, b).Shape(), tensor.Stack(0, a, b).Shape())
	// Output: [2 2] [1 4] [2 1 2]
}
