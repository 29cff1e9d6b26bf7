package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestMaxPoolLoops compares the loops of float32 with the reference, which float64 has, on planes wider than a vector
// with many ties and some NaN: values and indices are equal.
func TestMaxPoolLoops(t *testing.T) {
	x := tensor.Uniform(tensor.Seed(3), -3, 3, 2, 5, 23, 37).Round()
	x = tensor.Uniform(tensor.Seed(4), 0, 1, 2, 5, 23, 37).LessScalar(0.05).Where(tensor.Of(float32(math.NaN())), x)
	x = x.EqualScalar(1).Where(tensor.Of(float32(math.Copysign(0, -1))), x)
	for i, w := range []tensor.Window{
		{Size: []int{2, 2}}, {Size: []int{3, 3}, Stride: []int{2}, Padding: []int{1}, Ceil: true},
		{Size: []int{5, 1}, Stride: []int{1}}, {Size: []int{1, 7}},
		{Size: []int{3, 2}, Dilation: []int{3, 5}, Stride: []int{1}},
		{Size: []int{2, 3, 3}, Stride: []int{1}, Padding: []int{1}}, {Size: []int{4}, Padding: []int{2}},
		{Size: []int{23, 37}},
	} {
		y, at := x.MaxPoolIndices(w)
		want, wantAt := x.To(tensor.Float64).MaxPoolIndices(w)
		if !at.AllEqual(wantAt) {
			t.Errorf("window %d: other indices than the reference", i)
		}
		same := func(a, b float64) bool { return a == b || a != a && b != b }
		if !slices.EqualFunc(tensor.ToSlice[float64](y), tensor.ToSlice[float64](want), same) {
			t.Errorf("window %d: other values than the reference", i)
		}
	}
}

// TestResampleLoops compares the loops of float32 with the reference on lines longer than a vector.
func TestResampleLoops(t *testing.T) {
	x := tensor.Uniform(tensor.Seed(5), -1, 1, 3, 41, 19)
	wide := x.To(tensor.Float64)
	for axis := range 3 {
		for _, size := range []int{1, 7, 41, 60} {
			for _, antialias := range []bool{false, true} {
				y := x.Resample(axis, size, "cubic", 0, false, antialias).To(tensor.Float64)
				want := wide.Resample(axis, size, "cubic", 0, false, antialias)
				if !y.AllClose(want, 1e-5, 1e-6) {
					t.Errorf("axis %d, size %d, antialias %v: not the reference", axis, size, antialias)
				}
			}
		}
	}
	if y := x.AvgPool(tensor.Window{Size: []int{41, 19}}); !y.Reshape(3).AllClose(x.Mean(1, 2), 1e-5, 1e-6) {
		t.Error("the mean over a whole plane is not the mean")
	}
}

// TestUnfoldShares: windows are a view, and Fold counts how many windows each element is in.
func TestUnfoldShares(t *testing.T) {
	y := ascending(2, 5).Unfold(1, 3, 2)
	if got := values(y); !slices.Equal(y.Shape(), []int{2, 2, 3}) ||
		!slices.Equal(got, []int64{0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9}) {
		t.Errorf("%v %v", y, got)
	}
	if y.IsContiguous() {
		t.Error("overlapping windows were copied")
	}
	counts := tensor.Ones(tensor.Float32, 6).Unfold(0, 3, 1).Fold(0, 1, 6)
	if got := tensor.ToSlice[float32](counts); !slices.Equal(got, []float32{1, 2, 3, 3, 2, 1}) {
		t.Errorf("counts %v", got)
	}
}

// TestUnpoolTwice: the last element stays where several go.
func TestUnpoolTwice(t *testing.T) {
	x, at := tensor.FromSlice([]float32{3, 1, 2, 4}, 4), tensor.FromSlice([]int64{1, 0, 1, 0}, 4)
	for _, x := range []*tensor.Tensor{x, x.To(tensor.Float64)} {
		if got := tensor.ToSlice[float64](x.MaxUnpool(at, 3)); !slices.Equal(got, []float64{4, 2, 0}) {
			t.Errorf("%v: %v", x, got)
		}
	}
}

func TestNearestIntegers(t *testing.T) {
	x := tensor.FromSlice([]uint8{1, 2, 3}, 3)
	if y := x.Resample(0, 6, "nearest", 0, false, false); y.DType() != tensor.Uint8 ||
		!slices.Equal(tensor.ToSlice[uint8](y), []uint8{1, 1, 2, 2, 3, 3}) {
		t.Errorf("%v", y)
	}
}

func TestWindowErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 1, 4, 5)
	square := func(n int) tensor.Window { return tensor.Window{Size: []int{n, n}} }
	for _, c := range []struct {
		f    func()
		kind error
		want string
	}{
		{func() { x.MaxPool(square(6)) }, tensor.ErrShape,
			"max_pool: the window reaches over 6 elements on axis 1, x float32[1 4 5] has 4 there with its padding"},
		{func() { x.MaxPool(tensor.Window{}) }, tensor.ErrValue, "max_pool: 0 sizes are given"},
		{func() { x.MaxPool(tensor.Window{Size: []int{1, 1, 1, 1}}) }, tensor.ErrValue, "4 sizes are given"},
		{func() { tensor.Zeros(tensor.Float32, 3).MaxPool(square(2)) }, tensor.ErrShape,
			"2 sizes are given, float32[3] has 1"},
		{func() { x.MaxPool(square(0)) }, tensor.ErrValue, "Size is 0 on spatial axis 0, outside [1, "},
		{func() { x.MaxPool(tensor.Window{Size: []int{2, 2}, Stride: []int{-1}}) }, tensor.ErrValue, "Stride is -1"},
		{func() { x.MaxPool(tensor.Window{Size: []int{2, 2}, Groups: 2}) }, tensor.ErrValue, "no groups, got 2"},
		{func() { x.MaxPool(tensor.Window{Size: []int{2, 2}, Padding: []int{0, 3}}) }, tensor.ErrShape,
			"window 0 along axis 2 of float32[1 4 5] has no element: there is padding alone"},
		{func() { x.MaxPool(tensor.Window{Size: []int{2, 2}, Padding: []int{1}, Dilation: []int{5, 1}}) },
			tensor.ErrShape, "window 0 along axis 1 of float32[1 4 5] has no element"},
		{func() {
			x.MaxPool(tensor.Window{Size: []int{3, 1}, Stride: []int{1}, Dilation: []int{6, 1}, Padding: []int{6, 0},
				PaddingEnd: []int{9, 0}})
		}, tensor.ErrShape, "window 4 along axis 1 of float32[1 4 5] has no element"},
		{func() { x.To(tensor.Int64).MaxPool(square(2)) }, tensor.ErrDType, "must hold floating numbers"},
		{func() { x.AvgPool(tensor.Window{Size: []int{2, 2}, Dilation: []int{2}}) }, tensor.ErrValue,
			"avg_pool: dilation 2"},
		{func() { x.AvgPool(tensor.Window{Size: []int{2, 2}, Divisor: -1}) }, tensor.ErrValue,
			"divisor -1 is negative"},
		{func() { x.AdaptiveMaxPool(-1) }, tensor.ErrValue, "adaptive_max_pool: size -1 of spatial axis 0"},
		{func() { tensor.Zeros(tensor.Float32, 0).AdaptiveAvgPool(2) }, tensor.ErrShape, "window 0 along axis 0"},
		{func() { x.AdaptiveAvgPool(math.MaxInt32) }, tensor.ErrMemory, "adaptive_avg_pool"},
		{func() { x.Resample(1, 2, "cubics", 0, false, false) }, tensor.ErrValue, `mode "cubics" is none of`},
		{func() { x.Resample(1, -2, "cubic", 0, false, false) }, tensor.ErrShape, "size -2 of axis 1"},
		{func() { x.Resample(1, 2, "cubic", math.NaN(), false, false) }, tensor.ErrValue, "scale NaN"},
		{func() { x.Resample(1, 2, "nearest", 1e-300, false, false) }, tensor.ErrValue,
			"scale 1e-300 is neither 0 nor in [2^-31, 2^31]"},
		{func() { x.Resample(1, 2, "nearest", 0, true, false) }, tensor.ErrValue, "no corners to align"},
		{func() { x.Resample(1, math.MaxInt32, "linear", 0, false, false) }, tensor.ErrMemory, "resample"},
		{func() { x.Unfold(1, 5, 1) }, tensor.ErrShape,
			"unfold: windows of 5 elements on axis 1 of float32[1 4 5], which has 4"},
		{func() { x.Unfold(1, 2, 0) }, tensor.ErrValue, "unfold: step 0 on axis 1"},
		{func() { x.Fold(1, 2, 10) }, tensor.ErrShape, "fold: 4 windows of 5 elements, 2 apart, do not fit into 10"},
		{func() { x.Fold(2, 2, 10) }, tensor.ErrShape, "axis 2 of float32[1 4 5] has the elements of windows"},
		{func() { x.Im2Col(square(2)) }, nil, ""},
		{func() { x.Select(0, 0).Im2Col(square(2)) }, tensor.ErrShape, "im2col: 2 sizes are given"},
		{func() { x.Col2Im(square(2), 3, 3) }, tensor.ErrShape,
			"col2im: float32[1 4 5] must be [.. C*4 4]: there are 4 windows of 4"},
		{func() { x.Col2Im(square(2), 3) }, tensor.ErrValue, "1 sizes are given"},
		{func() { x.MaxUnpool(tensor.Zeros(tensor.Int64, 1, 4), 9) }, tensor.ErrShape, "must have one shape"},
		{func() { x.MaxUnpool(tensor.Full(9, tensor.Int64, 1, 4, 5), 3, 3) }, tensor.ErrIndex,
			"max_unpool: the index at [0 0 0] is 9, outside [0, 9)"},
		{func() { x.To(tensor.Float64).MaxUnpool(tensor.Full(-1, tensor.Int64, 1, 4, 5), 3, 3) }, tensor.ErrIndex,
			"max_unpool: the index at [0 0 0] is -1, outside [0, 9)"},
		{func() { x.PixelShuffle(2) }, tensor.ErrShape,
			"pixel_shuffle: 1 channels of float32[1 4 5] are no multiple of 2*2"},
		{func() { x.PixelUnshuffle(0) }, tensor.ErrValue, "factor 0"},
		{func() { x.Unflatten(1, 3, -1) }, tensor.ErrShape,
			"unflatten: sizes [3 1] make 3, axis 1 of float32[1 4 5] has 4"},
	} {
		if c.kind == nil {
			c.f()
			continue
		}
		wantMisuse(t, c.f, c.kind, c.want)
	}
}

func ExampleTensor_MaxPoolIndices() {
	x := tensor.FromSlice([]float32{1, 2, 0, 4, 3, 1, 1, 0}, 2, 4)
	y, indices := x.MaxPoolIndices(tensor.Window{Size: []int{2, 2}})
	fmt.Println(tensor.ToSlice[float32](y), tensor.ToSlice[int64](indices))
	fmt.Println(tensor.ToSlice[float32](y.MaxUnpool(indices, 2, 4)))
	// Output:
	// [3 4] [4 3]
	// [0 0 0 4 3 0 0 0]
}
