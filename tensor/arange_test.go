package tensor_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestFull(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int32, tensor.Uint8} {
		wantTensor(t, "full", tensor.Full(3, dt, 2, 2), dt, []int{2, 2}, 3, 3, 3, 3)
		wantTensor(t, "ones", tensor.Ones(dt, 3), dt, []int{3}, 1, 1, 1)
		if x := tensor.Full(3, dt, 2); !x.IsContiguous() {
			t.Errorf("%+v is not contiguous", x)
		}
	}
	wantTensor(t, "rank 0", tensor.Full(0.5, tensor.Float32), tensor.Float32, nil, 0.5)
	wantTensor(t, "empty", tensor.Ones(tensor.Bool, 0, 2), tensor.Bool, []int{0, 2})
	wantMisuse(t, func() { tensor.Full(1, tensor.Float32, -2) }, tensor.ErrShape, "full: shape [-2] has size -2")
	wantMisuse(t, func() { tensor.Ones(tensor.Float32, -2) }, tensor.ErrShape, "ones: shape [-2] has size -2")
}

func TestArangeAndEye(t *testing.T) {
	for _, c := range []struct {
		start, stop, step float64
		want              []float64
	}{
		{0, 3, 1, []float64{0, 1, 2}}, {1, 2, 0.25, []float64{1, 1.25, 1.5, 1.75}}, {3, 0, -2, []float64{3, 1}},
		{1, 1, 1, nil}, {2, 0, 1, nil},
	} {
		got := tensor.ToSlice[float64](tensor.Arange(tensor.Float64, c.start, c.stop, c.step))
		if !slices.Equal(got, c.want) {
			t.Errorf("from %g to %g by %g: %v, want %v", c.start, c.stop, c.step, got, c.want)
		}
	}
	f64 := tensor.Float64
	wantTensor(t, "linspace", tensor.Linspace(f64, 1, 2, 5), f64, []int{5}, 1, 1.25, 1.5, 1.75, 2)
	wantTensor(t, "linspace down", tensor.Linspace(tensor.Int32, 3, -3, 3), tensor.Int32, []int{3}, 3, 0, -3)
	wantTensor(t, "linspace of one", tensor.Linspace(f64, 4, 9, 1), f64, []int{1}, 4)
	wantTensor(t, "linspace of none", tensor.Linspace(f64, 4, 9, 0), f64, []int{0})
	for n := 2; n < 100; n++ {
		if v := tensor.ToSlice[float64](tensor.Linspace(f64, 0.1, 0.7, n)); v[0] != 0.1 || v[n-1] != 0.7 {
			t.Errorf("%d from 0.1 to 0.7: %v", n, v)
		}
	}
	wantMisuse(t, func() { tensor.Linspace(f64, 0, 1, -1) }, tensor.ErrShape, "linspace: shape [-1] has size -1")
	wantMisuse(t, func() { tensor.Linspace(f64, 0, inf, 3) }, tensor.ErrValue, "linspace: from 0 to +Inf is no range")
	if x := tensor.Eye(tensor.Int32, 2); !slices.Equal(values(x), []int64{1, 0, 0, 1}) || x.DType() != tensor.Int32 {
		t.Errorf("eye is %v %v", x, values(x))
	}
	wantMisuse(t, func() { tensor.Arange(tensor.Int64, 0, 1, 0) }, tensor.ErrValue,
		"arange: from 0 to 1 by 0 is no range")
	wantMisuse(t, func() { tensor.Arange(tensor.Int64, 0, 0, 0) }, tensor.ErrValue,
		"arange: from 0 to 0 by 0 is no range")
	wantMisuse(t, func() { tensor.Eye(tensor.Int64, -1) }, tensor.ErrShape,
		"eye: shape [-1 -1] has size -1 on axis 0")
}

// Elements are computed in float64 and rounded once, whatever the type.
func TestArangeTypes(t *testing.T) {
	for _, c := range [][3]float64{{0, 1000, 1}, {-3.7, 9.9, 0.3}, {5, -5, -0.75}, {1 << 24, 1<<24 + 9, 1}, {0, 0, 1},
		{-0x1p63, 0x1p63, 0x1p60}, {0x1p62, 0x1p64, 0x1p61}, {1e300, 3e300, 1e299}, {0, 1e-40, 1e-42}} {
		exact := tensor.Arange(tensor.Float64, c[0], c[1], c[2])
		for _, d := range []tensor.DType{tensor.Float32, tensor.Int64, tensor.Int32, tensor.Float16} {
			got, want := tensor.Arange(d, c[0], c[1], c[2]), exact.To(d)
			if got.DType() != d || !slices.Equal(tensor.ToSlice[float64](got), tensor.ToSlice[float64](want)) {
				t.Errorf("%v of %v: %v, want %v", c, d, got, want)
			}
		}
	}
}
