package tensor_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// What PyTorch 1.13 leaves open: shifts by negative amounts and by more bits than there are.
func TestShiftsBeyondTheType(t *testing.T) {
	amounts := tensor.FromSlice([]int64{-1, math.MinInt64, 8, 31, 32, 63, 64, math.MaxInt64}, 8)
	for _, c := range []struct {
		x           *tensor.Tensor
		left, right []int64
	}{
		{tensor.FromSlice([]int64{-3}, 1), []int64{0, 0, -768, -3 << 31, -3 << 32, math.MinInt64, 0, 0},
			[]int64{-1, -1, -1, -1, -1, -1, -1, -1}},
		{tensor.FromSlice([]int64{math.MaxInt64}, 1), []int64{0, 0, -256, -1 << 31, -1 << 32, math.MinInt64, 0, 0},
			[]int64{0, 0, 1<<55 - 1, 1<<32 - 1, 1<<31 - 1, 0, 0, 0}},
	} {
		if got := tensor.ToSlice[int64](c.x.ShiftLeft(amounts)); !slices.Equal(got, c.left) {
			t.Errorf("%v shifted left by %v is %v, want %v", c.x, amounts, got, c.left)
		}
		if got := tensor.ToSlice[int64](c.x.ShiftRight(amounts)); !slices.Equal(got, c.right) {
			t.Errorf("%v shifted right by %v is %v, want %v", c.x, amounts, got, c.right)
		}
	}
	narrow := tensor.FromSlice([]int32{-1, 31, 32, 40}, 4)
	want := []int32{0, math.MinInt32, 0, 0}
	if got := tensor.ToSlice[int32](tensor.Of[int32](3).ShiftLeft(narrow)); !slices.Equal(got, want) {
		t.Errorf("int32 3 shifted left is %v", got)
	}
	if got := tensor.ToSlice[uint8](tensor.Of[uint8](200).ShiftRight(tensor.Of[uint8](255))); got[0] != 0 {
		t.Errorf("uint8 200 shifted right by 255 is %v", got)
	}
}

func TestBitsRefuse(t *testing.T) {
	i, f, b := tensor.Of[int64](3), tensor.Of[float32](3), tensor.Of(true)
	wantError(t, engine.Try(func() { i.BitAnd(f) }), tensor.ErrDType, "bit_and", "must hold integers or bools")
	wantError(t, engine.Try(func() { f.BitNot() }), tensor.ErrDType, "bit_not", "must hold integers or bools")
	wantError(t, engine.Try(func() { b.ShiftLeft(b) }), tensor.ErrDType, "shift_left", "hold bools, which have no bits")
	user := tensor.MustPointwise("low", "bitand(x, 15)", []string{"x"})
	wantError(t, engine.Try(func() { user.Call(f) }), tensor.ErrDType, "low", "must hold integers or bools")
	if y := user.Call(tensor.Of[int32](-3)); y.DType() != tensor.Int32 || y.Item() != 13 {
		t.Errorf("the low bits of -3 are %v", y)
	}
}
