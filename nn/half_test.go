package nn

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/linalg"
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
	norm, half := NewBatchNorm1d(1), NewBatchNorm1d(1)
	spectral := NewSpectralNorm(NewLinear(500, 500, NoBias(), WeightInit(Constant(1000))))
	if err := errors.Join(Init(dev, norm), Init(dev, half, DType(f16)), Init(dev, spectral, DType(f16))); err != nil {
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
		{"nll", func(s *tensor.Scope) *tensor.Tensor {
			return NLL(s.Full(-300, f16, 4, 2), s.Full(0, tensor.Int64, 4), ClassWeights(s.Full(300, f16, 2)))
		}, []float64{300}},
		{"smooth_l1", func(s *tensor.Scope) *tensor.Tensor {
			return SmoothL1(s.Full(500, f16, 1), s.Full(0, f16, 1), 500)
		}, []float64{250}},
		{"kl_div", func(s *tensor.Scope) *tensor.Tensor {
			return KLDiv(s.Full(-3, f16, 70000, 2), s.Full(.5, f16, 70000, 2))
		}, []float64{2.306853}},
		{"multi_margin", func(s *tensor.Scope) *tensor.Tensor {
			return MultiMargin(s.Full(5, f16, 1, 5000), s.Full(0, tensor.Int64, 1), Degree(2), Margin(6))
		}, []float64{36}},
		{"cosine_embedding", func(s *tensor.Scope) *tensor.Tensor {
			return CosineEmbedding(s.Full(300, f16, 1, 8), s.Full(-300, f16, 1, 8), s.Full(1, f16, 1))
		}, []float64{2}},
		{"gaussian_nll", func(s *tensor.Scope) *tensor.Tensor {
			return GaussianNLL(s.Full(300, f16, 1), s.Full(0, f16, 1), s.Full(1e4, f16, 1))
		}, []float64{9.10517}},
		{"poisson_nll", func(s *tensor.Scope) *tensor.Tensor {
			return PoissonNLL(s.Full(0, f16, 1), s.Full(1, f16, 1), NoLogInput())
		}, []float64{18.42068}},
		{"bce_with_logits", func(s *tensor.Scope) *tensor.Tensor {
			return BCEWithLogits(s.Full(10, f16, 1), s.Full(1, f16, 1))
		}, []float64{4.53989e-5}},
		{"bce_with_logits, float32", func(s *tensor.Scope) *tensor.Tensor {
			return BCEWithLogits(s.Full(20, tensor.Float32, 1), s.Full(1, tensor.Float32, 1))
		}, []float64{2.061154e-9}},
		{"lp_pool", func(s *tensor.Scope) *tensor.Tensor {
			return NewLPPool2d(2, 2).Forward(s.Full(300, f16, 1, 1, 2, 2))
		}, []float64{600}},
		{"local_response_norm", func(s *tensor.Scope) *tensor.Tensor {
			return NewLocalResponseNorm(3).Forward(s.Full(300, f16, 1, 1, 4))
		}, slices.Repeat([]float64{106.066}, 4)},
		{"matrix_norm", func(s *tensor.Scope) *tensor.Tensor {
			return linalg.MatrixNorm(s.Full(1e-4, f16, 4, 4), linalg.Frobenius)
		}, []float64{4e-4}},
		{"rfft", func(s *tensor.Scope) *tensor.Tensor {
			return fft.RFFT(s.Full(300, f16, 1024), fft.Ortho()).Slice(0, 0, 1).Slice(1, 0, 1)
		}, []float64{9600}},
		{"complex product", func(s *tensor.Scope) *tensor.Tensor {
			return fft.Mul(s.Full(300, f16, 2), s.In(tensor.FromSlice([]float32{300, 299}, 2).To(f16))).Slice(0, 0, 1)
		}, []float64{300}},
		{"cdist", func(s *tensor.Scope) *tensor.Tensor {
			return s.Full(100, f16, 30, 64).Cdist(s.Full(-100, f16, 2, 64), 2)
		}, slices.Repeat([]float64{1600}, 60)},
		{"cdist of two rows", func(s *tensor.Scope) *tensor.Tensor {
			return s.Full(60000, f16, 1, 1).Cdist(s.Full(-60000, f16, 1, 1), 2)
		}, []float64{120000}},
		{"pairwise_distance", func(s *tensor.Scope) *tensor.Tensor {
			return s.Full(60000, f16, 1, 1).PairwiseDistance(s.Full(-60000, f16, 1, 1), 1, 0)
		}, []float64{120000}},
		{"histc", func(s *tensor.Scope) *tensor.Tensor {
			return s.In(tensor.FromSlice([]float32{-60000, 0, 60000}, 3).To(f16)).Histc(3, -60000, 60000)
		}, []float64{1, 1, 1}},
		{"histc, float32", func(s *tensor.Scope) *tensor.Tensor {
			return s.In(tensor.FromSlice([]float32{-3e38, 0, 3e38}, 3)).Histc(3, 0, 0)
		}, []float64{1, 1, 1}},
		{"mse of a float32 and a half", func(s *tensor.Scope) *tensor.Tensor {
			return MSE(s.Full(300, tensor.Float32, 1), s.Full(0, f16, 1))
		}, []float64{90000}},
		{"gaussian_nll of a half variance", func(s *tensor.Scope) *tensor.Tensor {
			return GaussianNLL(s.Full(3000, tensor.Float32, 1), s.Full(0, tensor.Float32, 1), s.Full(1, f16, 1))
		}, []float64{4.5e6}},
		{"gaussian_nll of negative variances", func(s *tensor.Scope) *tensor.Tensor {
			x := s.Full(1, tensor.Float32, 2)
			return GaussianNLL(x, s.Full(0, tensor.Float32, 2), tensor.FromSlice([]float32{-1, -40}, 2), ReduceNone())
		}, []float64{499993.09, 499993.09}},
		{"gradient of var", func(s *tensor.Scope) *tensor.Tensor {
			x := autograd.Watch(s, s.Full(100, f16, 2, 10000).Mul(tensor.FromSlice([]float32{1, -1}, 2, 1).To(f16)))
			return autograd.Grad(x.Var(0).Scale(0.01), []*tensor.Tensor{x})[0].Slice(1, 0, 1)
		}, []float64{1e-4, -1e-4}},
		{"gradient of cumprod", func(s *tensor.Scope) *tensor.Tensor {
			x := autograd.Watch(s, tensor.FromSlice([]float32{1e-4, 1, 300, 300}, 4).To(f16))
			return autograd.Grad(x.CumProd(0).Sum(), []*tensor.Tensor{x})[0].Slice(0, 1, 4)
		}, []float64{9.03, .0301, .03}},
		{"gradient of logsumexp", func(s *tensor.Scope) *tensor.Tensor {
			x := autograd.Watch(s, s.Full(10000, f16, 2))
			return autograd.Grad(x.LogSumExp(), []*tensor.Tensor{x})[0]
		}, []float64{.5, .5}},
		{"gradient of max", func(s *tensor.Scope) *tensor.Tensor {
			x := autograd.Watch(s, s.Full(1, f16, 70000))
			return autograd.Grad(x.Max(), []*tensor.Tensor{x})[0]
		}, slices.Repeat([]float64{1.43e-5}, 70000)},
		{"gradient of a mask", func(s *tensor.Scope) *tensor.Tensor {
			q, v := s.Full(100, f16, 1, 1, 2, 64), s.In(tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 1, 2, 2).To(f16))
			mask := autograd.Watch(s, s.Full(0, f16, 2, 2))
			y := ScaledDotProductAttention(q, q, v, Mask(mask))
			return autograd.Grad(y.To(tensor.Float32).Sum(), []*tensor.Tensor{mask})[0]
		}, []float64{-1, 1, -1, 1}},
		{"spectral_norm", func(s *tensor.Scope) *tensor.Tensor {
			return spectral.Forward(s.Full(1, f16, 1, 500)).Slice(1, 0, 1).Abs()
		}, []float64{1}},
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
	half.Weight.Assign(tensor.FromSlice([]float32{300}, 1))
	half.Var.Assign(tensor.FromSlice([]float32{0}, 1))
	if err := dev.Eval(func(s *tensor.Scope) error {
		y := half.Forward(s.In(tensor.FromSlice([]float32{0, 0.01}, 2, 1).To(f16)))
		if got := tensor.ToSlice[float32](y.To(tensor.Float32)); got[0] != 0 || !(math.Abs(float64(got[1])-949) <= 4) ||
			y.DType() != f16 {
			t.Errorf("batch norm in evaluation: %v", y)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if v := norm.Var.Item(); math.IsInf(v, 0) || math.IsNaN(v) {
		t.Errorf("the running variance is %v", v)
	}
}
