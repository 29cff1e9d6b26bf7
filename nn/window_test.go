package nn_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func ExampleNewMaxPool2d() {
	features := nn.Sequential(nn.NewPad("reflect", 1, 1, 1, 1), nn.NewMaxPool2d(3, nn.Stride(2)),
		nn.NewAdaptiveAvgPool(1, 1), nn.Flatten)
	x := tensor.Arange(tensor.Float32, 0, 32, 1).Reshape(2, 1, 4, 4)
	fmt.Println(features)
	fmt.Println(features.Forward(x).Shape())
	// Output:
	// Chain
	//   0: Pad              pads [1 1 1 1]
	//   1: MaxPool          size [3 3], stride [2]
	//   2: AdaptiveAvgPool  sizes [1 1]
	//   3: flatten
	// [2 1]
}

// TestWindowLayers: options reach the operations, and layers without arguments have PyTorch's defaults. Values are
// compared with PyTorch's in the goldens of package autograd.
func TestWindowLayers(t *testing.T) {
	x := tensor.Arange(tensor.Float32, 0, 2*4*6*6, 1).Reshape(2, 4, 6, 6)
	pooled, indices := x.MaxPoolIndices(tensor.Window{Size: []int{2, 2}})
	for _, c := range []struct {
		name  string
		layer nn.Module
		want  *tensor.Tensor
	}{
		{"max", nn.NewMaxPool2d(2), pooled},
		{"max, options", nn.NewMaxPool2d(2, nn.Stride(3), nn.Padding(1), nn.Dilation(2), nn.CeilMode()),
			x.MaxPool(tensor.Window{Size: []int{2, 2}, Stride: []int{3}, Padding: []int{1}, Dilation: []int{2},
				Ceil: true})},
		{"max 1-D", nn.NewMaxPool1d(3), x.MaxPool(tensor.Window{Size: []int{3}})},
		{"max 3-D", nn.NewMaxPool3d(2), x.MaxPool(tensor.Window{Size: []int{2, 2, 2}})},
		{"mean", nn.NewAvgPool2d(2, nn.Padding(1), nn.CountIncludePad(false)),
			x.AvgPool(tensor.Window{Size: []int{2, 2}, Padding: []int{1}, ExcludePadding: true})},
		{"mean, divisor", nn.NewAvgPool2d(2, nn.DivisorOverride(3)),
			x.AvgPool(tensor.Window{Size: []int{2, 2}, Divisor: 3})},
		{"mean 1-D", nn.NewAvgPool1d(2), x.AvgPool(tensor.Window{Size: []int{2}})},
		{"mean 3-D", nn.NewAvgPool3d(2), x.AvgPool(tensor.Window{Size: []int{2, 2, 2}})},
		{"adaptive", nn.NewAdaptiveMaxPool(1, 1), x.Max(2, 3, tensor.KeepDims)},
		{"unpool", nn.Func(func(x *tensor.Tensor) *tensor.Tensor {
			return nn.NewMaxUnpool2d(2).Forward(pooled, indices)
		}), pooled.MaxUnpool(indices, 6, 6)},
		{"unpool 1-D", nn.Func(func(x *tensor.Tensor) *tensor.Tensor {
			return nn.NewMaxUnpool1d(3, nn.Stride(2), nn.Padding(1)).Forward(pooled, indices.Scale(0))
		}), pooled.MaxUnpool(indices.Scale(0), 5)},
		{"upsample", nn.NewUpsample(nn.ScaleFactor(2)), x.Resample(2, 12, "nearest", 2, false, false).
			Resample(3, 12, "nearest", 2, false, false)},
		{"unflatten", nn.NewUnflatten(1, 2, -1), x.Reshape(2, 2, 2, 6, 6)},
		{"shuffle", nn.Sequential(nn.NewPixelShuffle(2), nn.NewPixelUnshuffle(2), nn.Identity), x},
		{"columns", nn.NewUnfold(2, nn.Stride(2)), x.Im2Col(tensor.Window{Size: []int{2, 2}, Stride: []int{2}})},
		{"tiles", nn.Sequential(nn.NewUnfold(2, nn.Stride(2)), nn.NewFold([]int{6, 6}, 2, nn.Stride(2))), x},
		{"constant", &nn.Pad{Mode: "constant", Pads: []int{1, 0}, Value: 3}, x.Pad(3, [2]int{}, [2]int{}, [2]int{},
			[2]int{1, 0})},
	} {
		if y := c.layer.Forward(x); !slices.Equal(y.Shape(), c.want.Shape()) || !y.AllEqual(c.want) {
			t.Errorf("%s: %v, want %v", c.name, y, c.want)
		}
	}
	y := nn.NewMaxUnpool3d(2).Forward(x, x.To(tensor.Int64).Scale(0))
	if !slices.Equal(y.Shape(), []int{2, 8, 12, 12}) {
		t.Errorf("unpool 3-D: %v", y)
	}
}

func TestWindowLayerErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 1, 2, 3)
	for _, c := range []struct {
		f    func()
		kind error
		want string
	}{
		{func() { nn.NewMaxPool2d(2, nn.NoBias()) }, tensor.ErrValue, "max_pool: this layer takes no option NoBias"},
		{func() { nn.Interpolate(x, nn.Mode("bilinear"), nn.Size(3)) }, tensor.ErrShape,
			"mode bilinear is for 2 spatial axes"},
		{func() { nn.Interpolate(x, nn.Mode("cubic"), nn.Size(3)) }, tensor.ErrValue, `no mode "cubic"`},
		{func() { nn.Interpolate(x) }, tensor.ErrValue, "0 sizes or factors are given, float32[1 2 3] has 1 spatial"},
		{func() { nn.Interpolate(x, nn.Size(1), nn.ScaleFactor(2)) }, tensor.ErrValue, "one of them is needed"},
		{func() { nn.Interpolate(x, nn.ScaleFactor(-2)) }, tensor.ErrValue, "ScaleFactor is -2"},
		{func() { nn.Interpolate(x, nn.ScaleFactor(1e300)) }, tensor.ErrValue, "the size that ScaleFactor makes"},
		{func() { nn.Interpolate(x, nn.Size(2), nn.AlignCorners()) }, tensor.ErrValue, "mode nearest has no corners"},
		{func() { nn.Interpolate(x, nn.Size(2), nn.Mode("linear"), nn.Antialias()) }, tensor.ErrValue,
			"no antialiasing"},
		{func() { nn.Interpolate(x.Select(0, 0), nn.Size(2)) }, tensor.ErrShape, "float32[2 3] has 2 axes"},
		{func() { nn.NewPad("mirror", 1, 1).Forward(x) }, tensor.ErrValue, `pad: there is no mode "mirror"`},
		{func() { nn.NewPad("reflect", 1).Forward(x) }, tensor.ErrValue, "1 numbers are given"},
		{func() { nn.NewMaxUnpool2d(2).Forward(tensor.Zeros(tensor.Float32, 3), nil) }, tensor.ErrShape,
			"moves along 2 axes"},
		{func() { nn.NewLPPool1d(0, 2) }, tensor.ErrValue, "P is 0"},
		{func() { nn.NewLocalResponseNorm(0) }, tensor.ErrValue, "Size is 0"},
		{func() { nn.NewLocalResponseNorm(2).Forward(x.Select(0, 0)) }, tensor.ErrShape, "[N C ..] is needed"},
	} {
		wantError(t, engine.Try(c.f), c.kind, c.want)
	}
}
