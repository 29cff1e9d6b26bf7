package tensor

import (
	"math"
	"testing"
)

// TestFit: scalars that become elements saturate where their type has no such number.
func TestFit(t *testing.T) {
	u, i := FromSlice([]uint8{1, 5}, 2), FromSlice([]int32{1, -5}, 2)
	yes := FromSlice([]bool{true, false}, 2)
	for name, c := range map[string][2]*Tensor{
		"clamp above":     {u.Clamp(400, 500), FromSlice([]uint8{255, 255}, 2)},
		"clamp below":     {u.Clamp(-10, -5), FromSlice([]uint8{0, 0}, 2)},
		"clamp around":    {u.Clamp(-5, 300), u},
		"clamp int32":     {i.Clamp(1<<32, 1<<33), FromSlice([]int32{1<<31 - 1, 1<<31 - 1}, 2)},
		"masked fill":     {u.MaskedFill(yes, 300), FromSlice([]uint8{255, 5}, 2)},
		"threshold":       {u.Threshold(2, 300), FromSlice([]uint8{255, 5}, 2)},
		"hardtanh within": {u.HardtanhWithin(300, 400), FromSlice([]uint8{255, 255}, 2)},
	} {
		if !c[0].AllEqual(c[1]) {
			t.Errorf("%s: %v, want %v", name, ToSlice[int64](c[0].To(Int64)), ToSlice[int64](c[1].To(Int64)))
		}
	}
}

// TestLongScans: running sums and products of a million numbers are right to their last bit or so.
func TestLongScans(t *testing.T) {
	const n = 1_000_000
	x := Full(float64(float32(0.1)), Float32, n)
	for at, sums := range []*Tensor{x.CumSum(0).Slice(0, n-1, End), x.Flip(0).CumSum(0).Slice(0, n-1, End)} {
		if got, want := sums.Item(), n*float64(float32(0.1)); math.Abs(got/want-1) > 1e-7 {
			t.Errorf("%d: the sum is %v, want %v", at, got, want)
		}
	}
	factor := float64(float32(1.000001))
	got := Full(factor, Float32, n).CumProd(0).Slice(0, n-1, End).Item()
	if want := math.Pow(factor, n); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("the product is %v, want %v", got, want)
	}
}
