package nn_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// Layers compute PyTorch's values.
func TestConvGolden(t *testing.T) {
	f, err := golden.Open("ops_conv.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for name, layer := range map[string]nn.Module{
		"conv/1d":              nn.NewConv1d(3, 4, 3),
		"conv/1d-all":          nn.NewConv1d(4, 6, 3, nn.Stride(2), nn.Padding(3), nn.Dilation(2), nn.Groups(2)),
		"conv/1d-same":         nn.NewConv1d(2, 3, 4, nn.SamePadding()),
		"conv/1d-same-dilated": nn.NewConv1d(2, 3, 2, nn.SamePadding(), nn.Dilation(3), nn.NoBias()),
		"conv/2d":              nn.NewConv2d(3, 4, 3),
		"conv/2d-depthwise":    nn.NewConv2d(3, 3, 3, nn.Padding(1), nn.Groups(3)),
		"conv/2d-1x1":          nn.NewConv2d(3, 5, 1),
		"conv_transpose/1d":    nn.NewConvTranspose1d(3, 4, 3),
		"conv_transpose/1d-all": nn.NewConvTranspose1d(4, 6, 3, nn.Stride(3), nn.Padding(2),
			nn.OutputPadding(1), nn.Dilation(2), nn.Groups(2)),
		"conv_transpose/2d-stride-2":  nn.NewConvTranspose2d(2, 3, 4, nn.Stride(2), nn.Padding(1)),
		"conv_transpose/2d-depthwise": nn.NewConvTranspose2d(3, 3, 3, nn.Stride(2, 1), nn.Padding(1), nn.Groups(3)),
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(f.Cases, func(c golden.Case) bool { return c.Name == name })
			c := f.Cases[i]
			dev := open(t)
			initialize(t, dev, layer, nn.DType(tensor.Float64))
			input := func(i int) *tensor.Tensor {
				v, shape := f.Float64(c.Inputs[i])
				return tensor.FromSlice(v, shape...)
			}
			if got, want := names(layer), []string{"weight", "bias"}[:len(c.Inputs)-1]; !slices.Equal(got, want) {
				t.Fatalf("parameters %v, want %v", got, want)
			}
			for k, p := range nn.Parameters(layer) {
				p.Assign(input(k + 1))
			}
			want, shape := f.Float64(c.Outputs[0])
			err := dev.Eval(func(s *tensor.Scope) error {
				y := layer.Forward(s.In(input(0)))
				if !y.AllClose(tensor.FromSlice(want, shape...), 1e-12, 1e-12) {
					t.Error("values differ")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// First values are uniform within 1/sqrt(fan-in), where the fan-in of a weight is that of its rows, as in PyTorch.
func TestConvInit(t *testing.T) {
	for name, c := range map[string]struct {
		layer nn.Module
		fanIn float64
		shape []int
	}{
		"conv1d":           {nn.NewConv1d(64, 32, 5, nn.Groups(2)), 32 * 5, []int{32, 32, 5}},
		"conv2d":           {nn.NewConv2d(16, 64, 3), 16 * 9, []int{64, 16, 3, 3}},
		"conv3d":           {nn.NewConv3d(8, 64, 2), 8 * 8, []int{64, 8, 2, 2, 2}},
		"conv_transpose1d": {nn.NewConvTranspose1d(64, 32, 5), 32 * 5, []int{64, 32, 5}},
		"conv_transpose2d": {nn.NewConvTranspose2d(16, 64, 3, nn.Groups(4)), 16 * 9, []int{16, 16, 3, 3}},
		"conv_transpose3d": {nn.NewConvTranspose3d(64, 8, 2), 8 * 8, []int{64, 8, 2, 2, 2}},
	} {
		initialize(t, open(t), c.layer)
		p := nn.Parameters(c.layer)
		bound, most := 1/math.Sqrt(c.fanIn), 0.0
		for _, v := range tensor.ToSlice[float64](p[0]) {
			most = max(most, math.Abs(v))
		}
		if most > bound || most < 0.99*bound || !slices.Equal(p[0].Shape(), c.shape) {
			t.Errorf("%s: weight %v up to %v, want %v up to %v", name, p[0].Shape(), most, c.shape, bound)
		}
		for _, v := range tensor.ToSlice[float64](p[1]) {
			if math.Abs(v) > bound || v == 0 {
				t.Errorf("%s: bias %v, want values within %v", name, v, bound)
			}
		}
	}
}

func TestConvOptionErrors(t *testing.T) {
	same := nn.SamePadding()
	for want, f := range map[string]func(){
		"conv2d: 3 channels to 4 do not divide into 2 groups": func() { nn.NewConv2d(3, 4, 3, nn.Groups(2)) },
		"conv1d: the window has 0 elements":                   func() { nn.NewConv1d(3, 4, 0) },
		"conv3d: SamePadding goes with a stride of 1":         func() { nn.NewConv3d(1, 1, 3, nn.Stride(2), same) },
		"conv2d: Padding and SamePadding are both given":      func() { nn.NewConv2d(1, 1, 3, nn.Padding(1), same) },
		"conv2d: this layer takes no option OutputPadding":    func() { nn.NewConv2d(1, 1, 3, nn.OutputPadding(1)) },
		"conv2d: Dilation has 3 numbers": func() {
			nn.NewConv2d(1, 1, 3, nn.Dilation(1, 2, 3), same)
		},
		"conv_transpose2d: -1 channels": func() { nn.NewConvTranspose2d(-1, 1, 3) },
	} {
		wantError(t, engine.Try(f), tensor.ErrValue, want)
	}
	x := tensor.Zeros(tensor.Float32, 3, 5)
	wantError(t, engine.Try(func() { nn.NewConv2d(3, 4, 3).Forward(x) }), tensor.ErrShape,
		"x float32[3 5] has 2 axes, weight")
}

func ExampleNewConv2d() {
	dev, err := tensor.Open("cpu")
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	layer := nn.NewConv2d(3, 8, 3, nn.SamePadding())
	if err := nn.Init(dev, layer); err != nil {
		panic(err)
	}
	err = dev.Eval(func(s *tensor.Scope) error {
		fmt.Println(layer.Forward(s.In(tensor.Zeros(tensor.Float32, 10, 3, 32, 32))).Shape())
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: [10 8 32 32]
}
