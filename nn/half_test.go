package nn

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestHalvesOutOfRange: sums, squares and variances on the way to a result that float16 holds may be outside its range.
func TestHalvesOutOfRange(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	f16 := tensor.Float16
	bag := NewEmbeddingBag(2, 1, "mean")
	bag.Weight = ParameterOf("w", tensor.FromSlice([]float32{30, 30}, 2, 1).To(f16))
	norm := NewBatchNorm1d(1)
	if err := Init(dev, norm); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		f    func(s *tensor.Scope) *tensor.Tensor
		want []float64
	}{
		{"mse", func(s *tensor.Scope) *tensor.Tensor {
			return MSE(s.Full(0, f16, 70000), s.Full(1, f16, 70000), Weights(s.Full(1, f16, 70000)))
		}, []float64{1}},
		{"cross_entropy", func(s *tensor.Scope) *tensor.Tensor {
			return CrossEntropy(s.Full(1, f16, 8000, 64), s.Full(0, tensor.Int64, 8000),
				ClassWeights(s.Full(10, f16, 64)))
		}, []float64{math.Log(64)}},
		{"std", func(s *tensor.Scope) *tensor.Tensor {
			return s.In(tensor.FromSlice([]float32{0, 600, 1200, 1800, 1e-4, 2e-4, 3e-4, 4e-4}, 2, 4).To(f16)).Std(1, 1)
		}, []float64{774.5967, 1.290994e-4}},
		{"scatter_reduce", func(s *tensor.Scope) *tensor.Tensor {
			at, x := s.Full(0, tensor.Int64, 3000), s.Full(30, f16, 3000)
			return s.Full(0, f16, 1).ScatterReduce(0, at, x, "mean", false)
		}, []float64{30}},
		{"embedding_bag", func(s *tensor.Scope) *tensor.Tensor {
			return bag.Forward(s.Full(1, tensor.Int64, 1, 3000))
		}, []float64{30}},
		{"batch_norm", func(s *tensor.Scope) *tensor.Tensor {
			return norm.Forward(s.In(tensor.FromSlice([]float32{0, 600, 1200, 1800}, 4, 1).To(f16)))
		}, []float64{-1.341641, -.447214, .447214, 1.341641}},
		{"gradient of batch_norm", func(s *tensor.Scope) *tensor.Tensor {
			x := autograd.Watch(s, tensor.FromSlice([]float32{256, 258, 258, 258}, 4, 1).To(tensor.BFloat16))
			return autograd.Grad(norm.Forward(x).Slice(0, 0, 1).Sum(), []*tensor.Tensor{x})[0]
		}, []float64{1.1444e-5, -3.8147e-6, -3.8147e-6, -3.8147e-6}},
	} {
		if err := dev.Step(func(s *tensor.Scope) error {
			y := c.f(s)
			for i, got := range tensor.ToSlice[float64](y.To(tensor.Float64)) {
				if !(math.Abs(got-c.want[i]) <= 0x1p-8*math.Abs(c.want[i])) {
					t.Errorf("%s: %v, want %v", c.name, y, c.want)
					break
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if v := norm.Var.Item(); math.IsInf(v, 0) || math.IsNaN(v) {
		t.Errorf("the running variance is %v", v)
	}
}
