package autograd_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestHessianAtEdges: where functions are in several pieces, or a factor is 0, second derivatives are the piece's.
func TestHessianAtEdges(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	zero := tensor.FromSlice([]float64{0}, 1)
	prod := func(x *tensor.Tensor) *tensor.Tensor {
		at := tensor.FromSlice([]int64{0, 0, 0, 1}, 4)
		return x.Scope().Full(1, tensor.Float64, 2).ScatterReduce(0, at, x, "prod", true).Sum()
	}
	pow := func(x *tensor.Tensor) *tensor.Tensor { return x.Select(0, 0).Pow(x.Select(0, 1)) }
	for _, c := range []struct {
		name     string
		f        func(x *tensor.Tensor) *tensor.Tensor
		at, want []float64
	}{
		{"logaddexp", func(x *tensor.Tensor) *tensor.Tensor { return x.Select(0, 0).LogAddExp(x.Select(0, 1)) },
			[]float64{2, 2}, []float64{.25, -.25, -.25, .25}},
		{"logcumsumexp", func(x *tensor.Tensor) *tensor.Tensor { return x.LogCumSumExp(0).Select(0, 1) },
			[]float64{1, 1}, []float64{.25, -.25, -.25, .25}},
		{"xlogy", func(x *tensor.Tensor) *tensor.Tensor { return x.Select(0, 0).XLogY(x.Select(0, 1)) },
			[]float64{0, 2}, []float64{0, .5, .5, 0}},
		{"2^0", pow, []float64{2, 0}, []float64{0, .5, .5, math.Ln2 * math.Ln2}},
		{"x^0", func(x *tensor.Tensor) *tensor.Tensor { return x.PowScalar(0).Sum() }, []float64{0}, []float64{0}},
		{"x^1", func(x *tensor.Tensor) *tensor.Tensor { return x.PowScalar(1).Sum() }, []float64{0}, []float64{0}},
		{"x^2", func(x *tensor.Tensor) *tensor.Tensor { return x.PowScalar(2).Sum() }, []float64{0}, []float64{2}},
		{"huber", func(x *tensor.Tensor) *tensor.Tensor { return nn.Huber(x, zero, 2) }, []float64{0}, []float64{1}},
		{"smooth_l1", func(x *tensor.Tensor) *tensor.Tensor { return nn.SmoothL1(x, zero, 2) },
			[]float64{0}, []float64{.5}},
		{"digamma", func(x *tensor.Tensor) *tensor.Tensor {
			return x.To(tensor.Float32).Digamma().To(tensor.Float64).Sum()
		}, []float64{-.5}, []float64{-0.8287966}}, // polygamma(2, -1/2)
		{"prod", prod, []float64{0, 3, 4, 5}, []float64{0, 4, 3, 0, 4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}},
		{"prod, two zeros", prod, []float64{0, 0, 4, 5}, []float64{0, 4, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		if err := dev.Step(func(s *tensor.Scope) error {
			h := autograd.Hessian(s, c.f, s.In(tensor.FromSlice(c.at, len(c.at))))
			for i, got := range tensor.ToSlice[float64](h) {
				if !(math.Abs(got-c.want[i]) <= 1e-5) {
					t.Errorf("%s at %v: %v, want %v", c.name, c.at, h, c.want)
					break
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestGradAtEdges: gradients where a function is at the end of its range, or not differentiable.
func TestGradAtEdges(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, c := range []struct {
		name     string
		f        func(x *tensor.Tensor) *tensor.Tensor
		at, want []float32
	}{
		{"abs of a spectrum with zeros",
			func(x *tensor.Tensor) *tensor.Tensor { return fft.Abs(fft.RFFT(x)).Sum() },
			[]float32{1, 1, 1, 1, 1, 1, 1, 1}, []float32{1, 1, 1, 1, 1, 1, 1, 1}},
		{"focal loss, sure and right", func(x *tensor.Tensor) *tensor.Tensor {
			return nn.SigmoidFocal(x, tensor.FromSlice([]float32{1, 0, 1, 0}, 4), -1, 0.5)
		}, []float32{20, -20, 200, -200}, []float32{0, 0, 0, 0}},
		{"mod by a divisor below a quotient that rounds up", func(x *tensor.Tensor) *tensor.Tensor {
			return tensor.Of(float32(-3)).Mod(x).Sum()
		}, []float32{0.3}, []float32{10}},
	} {
		if err := dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, tensor.FromSlice(c.at, len(c.at)))
			g := autograd.Grad(c.f(x), []*tensor.Tensor{x})[0]
			for i, got := range tensor.ToSlice[float32](g) {
				if !(math.Abs(float64(got-c.want[i])) <= 1e-6) {
					t.Errorf("%s at %v: %v, want %v", c.name, c.at, g, c.want)
					break
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestInfiniteGradient: of an extreme with its index only the element that was found gets a gradient, infinite or not.
func TestInfiniteGradient(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float32{1, 2, 3}, 3))
		y, _ := x.MaxIndex(0)
		g := tensor.ToSlice[float32](autograd.Grad(y.Scale(math.Inf(1)), []*tensor.Tensor{x})[0])
		if g[0] != 0 || g[1] != 0 || !math.IsInf(float64(g[2]), 1) {
			t.Errorf("%v, want [0 0 +Inf]", g)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCTCPadding: second derivatives do not look at targets behind their lengths, nor fail without steps.
func TestCTCPadding(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	hessian := func(padding int64) (h []float64) {
		if err := dev.Step(func(s *tensor.Scope) error {
			x := s.In(tensor.FromSlice([]float64{-1, -2, -.5, -.3, -1, -2, -2, -.1, -3}, 3, 1, 3))
			h = tensor.ToSlice[float64](autograd.Hessian(s, func(x *tensor.Tensor) *tensor.Tensor {
				return x.CTC(tensor.FromSlice([]int64{2, padding}, 1, 2), []int{3}, []int{1}, 0).Sum()
			}, x))
			return nil
		}); err != nil {
			t.Fatalf("padding %d: %v", padding, err)
		}
		return h
	}
	if want := hessian(1); !slices.Equal(hessian(-1), want) || !slices.Equal(hessian(7), want) {
		t.Errorf("padding counts: %v", want)
	}
	if err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.Zeros(tensor.Float64, 0, 1, 3))
		y := x.CTC(tensor.Zeros(tensor.Int64, 1, 0), []int{0}, []int{0}, 0).Sum()
		autograd.Grad(y, []*tensor.Tensor{x}, autograd.CreateGraph())
		return nil
	}); err != nil {
		t.Error(err)
	}
}
