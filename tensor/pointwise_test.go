package tensor_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A pointwise gradient takes the memory of the gradient of the result, where nothing else reads that, and has the bits
// that it has in memory of its own.
func TestPointwiseGradInPlace(t *testing.T) {
	dev := open(t)
	through := tensor.MustPointwise("through", "x + y*z", []string{"x", "y", "z"})
	var seen *tensor.Tensor
	for _, c := range []struct {
		name  string
		saves int // blocks
		f     func(x, w *tensor.Tensor) *tensor.Tensor
	}{
		{"one operand", 2, func(x, w *tensor.Tensor) *tensor.Tensor { return w.Tanh().ReLU().MatMul(x) }},
		{"two operands", 1, func(x, w *tensor.Tensor) *tensor.Tensor { return w.Mul(w.Transpose(0, 1)).MatMul(x) }},
		{"an operand that repeats", 1, func(x, w *tensor.Tensor) *tensor.Tensor {
			return w.Mul(w.Slice(0, 0, 1)).MatMul(x)
		}},
		{"a gradient of two tensors", 1, func(x, w *tensor.Tensor) *tensor.Tensor {
			return w.Tanh().Add(w.Exp()).MatMul(x)
		}},
		{"a gradient that passes through", 0, func(x, w *tensor.Tensor) *tensor.Tensor {
			return w.Apply(through, []*tensor.Tensor{w, w}).MatMul(x)
		}},
		{"a gradient that a hook keeps", 1, func(x, w *tensor.Tensor) *tensor.Tensor {
			y := w.Tanh()
			autograd.Hook(y, func(g *tensor.Tensor) *tensor.Tensor { seen = g.Keep(); return nil })
			return y.ReLU().MatMul(x)
		}},
		{"a gradient of other strides", 0, func(x, w *tensor.Tensor) *tensor.Tensor { return w.Tanh().Sum(0, 1) }},
		{"another type", 0, func(x, w *tensor.Tensor) *tensor.Tensor {
			return w.To(tensor.Float64).MatMul(x.To(tensor.Float64))
		}},
	} {
		w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 16, 16))
		var g, kept [2][]float32
		var blocks [2]int
		for i, opts := range [][]autograd.Option{{autograd.Retain()}, nil} {
			step(t, dev, func(s *tensor.Scope) {
				y := c.f(s.In(tensor.Randn(tensor.Seed(4), 16, 1)), s.In(w)).Sum()
				before := dev.Stats().Memory.Allocs
				autograd.Backward(y, opts...)
				blocks[i] = dev.Stats().Memory.Allocs - before
			})
			g[i] = tensor.ToSlice[float32](w.Grad())
			w.ClearGrads()
			if seen != nil {
				kept[i], seen = tensor.ToSlice[float32](seen), nil
			}
		}
		if !slices.Equal(g[0], g[1]) || !slices.Equal(kept[0], kept[1]) {
			t.Errorf("%s: the gradient is another one in the memory of that of the result", c.name)
		}
		if blocks[1] != blocks[0]-c.saves {
			t.Errorf("%s: backward takes %d blocks, %d with Retain, want %d less",
				c.name, blocks[1], blocks[0], c.saves)
		}
	}

	err := dev.Step(func(s *tensor.Scope) error {
		x := s.In(nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 16, 16))).Exp()
		y := x.Tanh()
		autograd.Hook(y, func(g *tensor.Tensor) *tensor.Tensor { seen = g; return nil })
		autograd.Hook(x, func(*tensor.Tensor) *tensor.Tensor { return seen.Neg() })
		autograd.Backward(y.ReLU().Sum())
		return nil
	})
	wantError(t, err, tensor.ErrStep, "neg")
}
