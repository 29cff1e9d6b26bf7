package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestPadValues(t *testing.T) {
	x := numbers(2, 2)
	if got, want := values(x.Pad(9, [2]int{1, 0}, [2]int{0, 2})), []int64{9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int32, tensor.Uint8, tensor.Bool} {
		y := numbers(2, 2).To(dt).T().Pad(1, [2]int{0, 1}, [2]int{1, 0})
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
	x := numbers(2, 3)
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
	x := numbers(2, 3).AddScalar(1)
	for _, c := range []struct {
		k          int
		tril, triu []int64
	}{
		{0, []int64{1, 0, 0, 4, 5, 0}, []int64{1, 2, 3, 0, 5, 6}}, {1, []int64{1, 2, 0, 4, 5, 6}, []int64{0, 2, 3, 0, 0, 6}},
		{-1, []int64{0, 0, 0, 4, 0, 0}, []int64{1, 2, 3, 4, 5, 6}}, {math.MaxInt, []int64{1, 2, 3, 4, 5, 6}, make([]int64, 6)},
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

func TestMoveErrors(t *testing.T) {
	x := numbers(2, 3)
	for _, c := range []struct {
		f    func()
		kind error
		part string
	}{
		{func() { x.Pad(0, [2]int{1, 1}) }, tensor.ErrShape, "pad: 1 pairs are given, int64[2 3] has 2 axes; {0, 0} leaves an axis alone"},
		{func() { x.Pad(0, [2]int{0, -1}, [2]int{}) }, tensor.ErrValue, "pad: [0 -1] elements on axis 0; Slice removes elements"},
		{func() { x.Pad(0.5, [2]int{}, [2]int{1, 0}) }, tensor.ErrValue, "pad: 0.5 is no value of int64"},
		{func() { x.Pad(0, [2]int{}, [2]int{math.MaxInt / 2, 0}) }, tensor.ErrShape, "pad: shape"},
		{func() { x.Flip(0, -2) }, tensor.ErrShape, "flip: axis 0 of int64[2 3] is named twice"},
		{func() { x.Flip(2) }, tensor.ErrShape, "flip: axis 2 is outside [-2, 2)"},
		{func() { numbers(3).Tril(0) }, tensor.ErrShape, "tril: x int64[3] has 1 axes, at least 2 are needed"},
		{func() { numbers(3).Triu(0) }, tensor.ErrShape, "triu: x int64[3] has 1 axes, at least 2 are needed"},
	} {
		wantError(t, tensor.Try(c.f), c.kind, c.part)
	}
}

func TestArangeAndEye(t *testing.T) {
	for _, c := range []struct {
		start, stop, step float64
		want              []float64
	}{{0, 3, 1, []float64{0, 1, 2}}, {1, 2, 0.25, []float64{1, 1.25, 1.5, 1.75}}, {3, 0, -2, []float64{3, 1}}, {1, 1, 1, nil}, {2, 0, 1, nil}} {
		if got := tensor.ToSlice[float64](tensor.Arange(tensor.Float64, c.start, c.stop, c.step)); !slices.Equal(got, c.want) {
			t.Errorf("from %g to %g by %g: %v, want %v", c.start, c.stop, c.step, got, c.want)
		}
	}
	if x := tensor.Eye(tensor.Int32, 2); !slices.Equal(values(x), []int64{1, 0, 0, 1}) || x.DType() != tensor.Int32 {
		t.Errorf("eye is %v %v", x, values(x))
	}
	wantError(t, tensor.Try(func() { tensor.Arange(tensor.Int64, 0, 1, 0) }), tensor.ErrValue, "arange: from 0 to 1 by 0 is no range")
	wantError(t, tensor.Try(func() { tensor.Arange(tensor.Int64, 0, 0, 0) }), tensor.ErrValue, "arange: from 0 to 0 by 0 is no range")
	wantError(t, tensor.Try(func() { tensor.Eye(tensor.Int64, -1) }), tensor.ErrShape, "eye: shape [-1 -1] has size -1 on axis 0")
}

func ExampleTensor_Tril() {
	x := tensor.Arange(tensor.Int64, 1, 10, 1).Reshape(3, 3)
	fmt.Println(tensor.ToSlice[int64](x.Tril(0)))
	// Output: [1 0 0 4 5 0 7 8 9]
}
