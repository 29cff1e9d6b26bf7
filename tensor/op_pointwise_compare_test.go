package tensor_test

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestScalarComparisons compares each with the comparison of two tensors.
func TestScalarComparisons(t *testing.T) {
	for name, c := range map[string]struct {
		scalar func(x *tensor.Tensor, a float64) *tensor.Tensor
		tensor func(x, y *tensor.Tensor) *tensor.Tensor
	}{
		"less":          {(*tensor.Tensor).LessScalar, (*tensor.Tensor).Less},
		"less_equal":    {(*tensor.Tensor).LessEqualScalar, (*tensor.Tensor).LessEqual},
		"greater":       {(*tensor.Tensor).GreaterScalar, (*tensor.Tensor).Greater},
		"greater_equal": {(*tensor.Tensor).GreaterEqualScalar, (*tensor.Tensor).GreaterEqual},
		"equal":         {(*tensor.Tensor).EqualScalar, (*tensor.Tensor).Equal},
		"not_equal":     {(*tensor.Tensor).NotEqualScalar, (*tensor.Tensor).NotEqual},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64,
			tensor.Int32, tensor.Uint8, tensor.Bool} {
			x := vector(0.0, 1, 2, 3, 156, 255).To(dt)
			for _, a := range []float64{-100, 0, 1, 2, 255, 256, 300} {
				y := tensor.Of(int64(a))
				if dt.IsFloat() {
					y = tensor.Of(a).To(dt)
				}
				if got, want := c.scalar(x, a), c.tensor(x, y); !got.AllEqual(want) {
					t.Errorf("%s %v, %v: got %v, want %v", name, x, a, got, want)
				}
			}
		}
		wantMisuse(t, func() { c.scalar(vector[int64](1), 0.5) }, tensor.ErrValue,
			name+"_scalar: int64[1] holds integers and 0.5 is none; x.To(tensor.Float32) converts")
	}
	wantTensor(t, "float32", vector[float32](0.1, 0.2).EqualScalar(0.1), tensor.Bool, []int{2}, 1, 0)
}

func ExampleTensor_SubFrom() {
	p := tensor.FromNested([]float32{0.25, 0.5})
	fmt.Println(p.SubFrom(1), p.DivInto(1), p.GreaterScalar(0.3))
	// Output:
	// float32[2] [0.75 0.5 ] float32[2] [4. 2.] bool[2] [false  true]
}
