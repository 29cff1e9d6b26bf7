package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// unfolded is the matrix [C*KH*KW, N*H*W] of what windows see of x.
func unfolded(x *tensor.Tensor, kh, kw int, w tensor.Window) *tensor.Tensor {
	p, s, d := w.Padding[0], w.Stride[0], w.Dilation[0]
	x = x.Pad(0, [2]int{}, [2]int{}, [2]int{p, p}, [2]int{p, p})
	h, v := (x.Dim(2)-(kh-1)*d-1)/s+1, (x.Dim(3)-(kw-1)*d-1)/s+1
	var taps []*tensor.Tensor
	for i := range kh {
		for j := range kw {
			taps = append(taps, x.Slice(2, i*d, i*d+(h-1)*s+1, s).Slice(3, j*d, j*d+(v-1)*s+1, s))
		}
	}
	return tensor.Stack(2, taps...).Permute(1, 2, 0, 3, 4).Reshape(x.Dim(1)*kh*kw, x.Dim(0)*h*v)
}

// A convolution and the gradient of its weight are matrix products with the unfolded operand, to the bit.
func TestConvIsMatMul(t *testing.T) {
	dev := open(t)
	for _, c := range []struct {
		n, c, h, v, o, kh, kw, stride, padding, dilation int
	}{{3, 33, 9, 8, 7, 3, 3, 1, 1, 1}, {2, 5, 31, 30, 13, 3, 2, 1, 0, 2}, {2, 12, 16, 17, 9, 5, 5, 3, 2, 1}} {
		w := tensor.Window{Stride: []int{c.stride}, Padding: []int{c.padding}, Dilation: []int{c.dilation}}
		x, bias := tensor.Randn(tensor.Seed(1), c.n, c.c, c.h, c.v), tensor.Randn(tensor.Seed(3), c.o)
		weight := tensor.Randn(tensor.Seed(2), c.o, c.c, c.kh, c.kw)
		conv := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].Conv(x[1], x[2], w)
		}, x, weight, bias)
		product := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			y := x[1].Reshape(c.o, -1).MatMul(unfolded(x[0], c.kh, c.kw, w)).Add(x[2].Unsqueeze(1))
			return y.Reshape(append([]int{c.o, c.n}, conv[0].Shape()[2:]...)...).Transpose(0, 1)
		}, x, weight, bias)
		for i, name := range []string{"result", "gradient of x", "of the weight"} {
			got, want := tensor.ToSlice[float32](conv[i]), tensor.ToSlice[float32](product[i])
			if i == 1 { // whose terms have another order
				if !conv[i].AllClose(product[i], 1e-5, 1e-4) {
					t.Errorf("%v: the %s differs", c, name)
				}
			} else if j := differentBits(got, want); j >= 0 {
				t.Errorf("%v: element %d of the %s is %v, want %v", c, j, name, got[j], want[j])
			}
		}
	}
}

// Small integers are exact in every type.
func TestConvTypes(t *testing.T) {
	x, w, b := counting([]int{1, 2, 3, 4}), counting([]int{2, 2, 2, 2}), counting([]int{2})
	for name, f := range map[string]func(x, w, b *tensor.Tensor) *tensor.Tensor{
		"conv": func(x, w, b *tensor.Tensor) *tensor.Tensor { return x.Conv(w, b, tensor.Window{Padding: []int{1}}) },
		"conv_transpose": func(x, w, b *tensor.Tensor) *tensor.Tensor {
			return x.ConvTranspose(w, b, tensor.Window{Stride: []int{2}}, 1)
		},
	} {
		want := tensor.ToSlice[float64](f(x, w, b))
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			y := f(x.To(dt), w.To(dt), b.To(dt))
			if got := tensor.ToSlice[float64](y); !slices.Equal(got, want) || y.DType() != dt {
				t.Errorf("%s, %v: %v, want %v", name, dt, got, want)
			}
		}
	}
}

// Without the axis of images there is one image.
func TestConvOneImage(t *testing.T) {
	x, w := tensor.Randn(tensor.Seed(1), 2, 5, 4), tensor.Randn(tensor.Seed(2), 3, 2, 2, 2)
	y := x.Conv(w, nil, tensor.Window{})
	if !y.AllEqual(x.Unsqueeze(0).Conv(w, nil, tensor.Window{}).Squeeze(0)) || y.Rank() != 3 {
		t.Errorf("got %v", y)
	}
	z := y.ConvTranspose(w, nil, tensor.Window{})
	if !z.AllEqual(y.Unsqueeze(0).ConvTranspose(w, nil, tensor.Window{}).Squeeze(0)) || z.Rank() != 3 {
		t.Errorf("got %v", z)
	}
}

func TestConvErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	type window = tensor.Window
	for _, c := range []struct {
		call func()
		kind error
		want string
	}{
		{func() { z(1, 3, 4, 4).Conv(z(5, 3, 5, 2), nil, window{}) }, tensor.ErrShape,
			"conv: the window reaches over 5 elements on axis 2, x float32[1 3 4 4] has 4 there with its padding"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 3), nil, window{Dilation: []int{2}}) }, tensor.ErrShape,
			"reaches over 5 elements on axis 2"},
		{func() { z(1, 3, 4, 4).Conv(z(5, 2, 3, 3), nil, window{}) }, tensor.ErrShape,
			"x float32[1 3 4 4] has 3 channels on axis 1, weight float32[5 2 3 3] wants 2 in 1 groups"},
		{func() { z(1, 4, 4).Conv(z(5, 2, 3), nil, window{Groups: 2}) }, tensor.ErrValue,
			"5 channels of weight float32[5 2 3] on axis 0 do not divide into 2 groups"},
		{func() { z(1, 4, 4).Conv(z(5, 2, 3), nil, window{Groups: -1}) }, tensor.ErrValue, "-1 groups"},
		{func() { z(1, 3, 4, 4).Conv(z(5, 3), nil, window{}) }, tensor.ErrShape, "must have 3, 4 or 5 axes"},
		{func() { z(3, 4).Conv(z(5, 3, 2, 2), nil, window{}) }, tensor.ErrShape,
			"x float32[3 4] has 2 axes, weight float32[5 3 2 2] has 4; x must have as many, or one less for one image"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2), z(4), window{}) }, tensor.ErrShape, "bias [4] must be [5]"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 0), nil, window{}) }, tensor.ErrValue, "Size is 0 on spatial axis 0"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2), nil, window{Size: []int{2}}) }, tensor.ErrValue, "for pooling"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2), nil, window{Stride: []int{0}}) }, tensor.ErrValue, "Stride is 0"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2), nil, window{Padding: []int{-1}}) }, tensor.ErrValue, "Padding is -1"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2), nil, window{Stride: []int{1, 2}}) }, tensor.ErrValue, "Stride has 2"},
		{func() { z(1, 3, 4).Conv(z(5, 3, 2).To(tensor.Float64), nil, window{}) }, tensor.ErrDType,
			"weight is float64"},
		{func() { z(1, 3, 4).To(tensor.Int64).Conv(z(5, 3, 2), nil, window{}) }, tensor.ErrDType, "floating"},
		{func() { z(1, 3, 4).Conv(nil, nil, window{}) }, tensor.ErrStep, "nil"},
		{func() { z(1, 3, 4).ConvTranspose(z(2, 5, 2), nil, window{}) }, tensor.ErrShape,
			"x float32[1 3 4] has 3 channels on axis 1, weight float32[2 5 2] wants 2 in 1 groups"},
		{func() { z(1, 2, 4).ConvTranspose(z(2, 5, 2), nil, window{Stride: []int{2}}, 2) }, tensor.ErrValue,
			"conv_transpose: the output padding is 2 on spatial axis 0, outside [0, 2)"},
		{func() { z(1, 2, 4).ConvTranspose(z(2, 5, 2), nil, window{Padding: []int{4}}) }, tensor.ErrShape,
			"the result would have -3 elements on axis 2"},
		{func() { z(1, 2, 0).ConvTranspose(z(2, 5, 2), nil, window{Padding: []int{4}}) }, tensor.ErrShape, "has 0"},
		{func() { z(1, 2, 4).ConvTranspose(z(2, 5, 2), z(2), window{}) }, tensor.ErrShape, "bias [2] must be [5]"},
		{func() { z(1, 2, 4).ConvTranspose(z(2, 5, 2), nil, window{}, 0, 0) }, tensor.ErrValue, "has 2 numbers"},
	} {
		wantMisuse(t, c.call, c.kind, c.want)
	}
}

func ExampleTensor_Conv() {
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 1, 4)
	weight := tensor.FromSlice([]float32{10, 1}, 1, 1, 2)
	fmt.Println(tensor.ToSlice[float32](x.Conv(weight, nil, tensor.Window{})))
	// Output: [12 23 34]
}

func ExampleTensor_ConvTranspose() {
	x := tensor.FromSlice([]float32{1, 2, 3}, 1, 1, 3)
	weight := tensor.FromSlice([]float32{10, 1}, 1, 1, 2)
	fmt.Println(tensor.ToSlice[float32](x.ConvTranspose(weight, nil, tensor.Window{Stride: []int{2}})))
	// Output: [10 1 20 2 30 3]
}
