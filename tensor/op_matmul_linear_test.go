package tensor_test

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// The product, the bias and the operation after it are rounded one after the other, so fusing them changes no bit.
func TestLinearIsItsParts(t *testing.T) {
	dev := open(t)
	for _, c := range []struct {
		x       []int
		in, out int
	}{
		{[]int{7}, 7, 5}, {[]int{33, 300}, 300, 37}, {[]int{3, 11, 70}, 70, 9},
		{[]int{2, 0, 3}, 3, 2}, {[]int{4, 0}, 0, 3},
	} {
		x, w, b := tensor.Randn(tensor.Seed(1), c.x...), tensor.Randn(tensor.Seed(2), c.out, c.in),
			tensor.Randn(tensor.Seed(3), c.out)
		parts := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].MatMul(x[1].T()).Add(x[2]).GELU() }
		fused := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Linear(x[1], x[2]).GELU() }
		strided := func(x []*tensor.Tensor) *tensor.Tensor {
			bias := tensor.Stack(-1, x[2], x[2]).Select(-1, 0)
			in := x[0]
			if in.Rank() > 1 {
				in = in.Transpose(0, -1).Clone().Transpose(0, -1)
			}
			return in.Linear(x[1].T().Clone().T(), bias).GELU()
		}
		want := forwardAndGrads(t, dev, parts, x, w, b)
		for name, f := range map[string]func([]*tensor.Tensor) *tensor.Tensor{"contiguous": fused, "strided": strided} {
			for i, got := range forwardAndGrads(t, dev, f, x, w, b) {
				if j := differentBits(tensor.ToSlice[float32](got), tensor.ToSlice[float32](want[i])); j >= 0 {
					t.Errorf("x %v, %s: result %d, element %d differs", c.x, name, i, j)
				}
			}
		}
	}
}

// The gradient of the weight is one product over all rows, whatever the leading axes are.
func TestLinearWeightGrad(t *testing.T) {
	dev := open(t)
	x, w := tensor.Randn(tensor.Seed(1), 600, 5), tensor.Randn(tensor.Seed(2), 3, 5)
	grad := func(shape ...int) []float32 {
		return tensor.ToSlice[float32](forwardAndGrads(t, dev, func(v []*tensor.Tensor) *tensor.Tensor {
			return v[0].Reshape(shape...).Linear(v[1], nil).Reshape(600, 3)
		}, x, w)[2])
	}
	want := grad(600, 5)
	for _, shape := range [][]int{{2, 300, 5}, {300, 2, 5}, {6, 10, 10, 5}} {
		if j := differentBits(grad(shape...), want); j >= 0 {
			t.Errorf("x %v: element %d differs from that of one matrix", shape, j)
		}
	}
}

func TestLinearThreads(t *testing.T) {
	dev := open(t)
	x, w, b := tensor.Randn(tensor.Seed(1), 4, 70, 300), tensor.Randn(tensor.Seed(2), 65, 300),
		tensor.Randn(tensor.Seed(3), 65)
	threads(t, "linear", func() []*tensor.Tensor {
		return forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].Linear(x[1], x[2])
		}, x, w, b)
	})
}

func TestLinearHalf(t *testing.T) {
	// Small integers are exact in every type.
	want := tensor.ToSlice[float64](counting([]int{2, 3}).Linear(counting([]int{4, 3}), counting([]int{4})))
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		y := counting([]int{2, 3}).To(dt).Linear(counting([]int{4, 3}).To(dt), counting([]int{4}).To(dt))
		if got := tensor.ToSlice[float64](y); fmt.Sprint(got) != fmt.Sprint(want) || y.DType() != dt {
			t.Errorf("%v: %v, want %v", y, got, want)
		}
	}
}

func TestLinearErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	wantMisuse(t, func() { z(8, 512, 768).Linear(z(768, 3072), nil) }, tensor.ErrShape,
		"linear: inner sizes differ: x [8 512 768] has 768 on axis 2, weight [768 3072] has 3072 on axis 1; "+
			"weight transposed would fit")
	wantMisuse(t, func() { z(2, 3).Linear(z(4, 5), nil) }, tensor.ErrShape,
		"x [2 3] has 3 on axis 1, weight [4 5] has 5 on axis 1")
	wantMisuse(t, func() { z(2, 3).Linear(z(3), nil) }, tensor.ErrShape,
		"weight float32[3] must have two axes, [out in]")
	wantMisuse(t, func() { z().Linear(z(3, 3), nil) }, tensor.ErrShape, "x float32[] has 0 axes, at least 1 are needed")
	wantMisuse(t, func() { z(2, 3).Linear(z(4, 3), z(3)) }, tensor.ErrShape,
		"bias [3] must be [4], one number for each row of weight [4 3]")
	wantMisuse(t, func() { z(2, 3).Linear(z(4, 3), z(4).To(tensor.Float64)) }, tensor.ErrDType,
		"x is float32[2 3], bias is float64[4]")
	wantMisuse(t, func() { z(2, 3).To(tensor.Int64).Linear(z(4, 3), nil) }, tensor.ErrDType,
		"x int64[2 3] must hold floating numbers")
}

func ExampleTensor_Linear() {
	x := tensor.FromSlice([]float32{1, 2}, 2)
	weight := tensor.FromSlice([]float32{1, 0, 0, 1, 1, 1}, 3, 2)
	bias := tensor.FromSlice([]float32{0, 0, 10}, 3)
	fmt.Println(tensor.ToSlice[float32](x.Linear(weight, bias)))
	// Output: [1 2 13]
}
