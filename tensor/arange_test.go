package tensor_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

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
