package tensor_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
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

// The gradients of all operands have the same bits from one op call and from one each, which a recording makes.
func TestPull(t *testing.T) {
	dev := open(t)
	joint := 0
	for _, op := range engine.Ops() {
		f := op.Expr
		if f == nil || len(f.Params) > 0 || len(f.Streams()) > 0 || len(f.Args) < 2 || op.NoGrad != "" {
			continue
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64} {
			step(t, dev, func(s *tensor.Scope) {
				var in []*tensor.Tensor
				for range f.Args {
					in = append(in, s.Uniform(0.1, 0.9, 7, 300).To(dt).Slice(1, 11, 290))
				}
				y, g := engine.Apply(op, in, nil, nil), s.Randn(7, 279).To(dt)
				apart, calls := engine.Pull(op, in, y, g), 0
				var together []*tensor.Tensor
				s.With(func() { together = engine.Pull(op, in, y, g) }, tensor.NoGrad(),
					engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) { calls++ }))
				if calls == 1 {
					joint++
				}
				for i, d := range apart {
					if !slices.Equal(bitsOf(d), bitsOf(together[i])) {
						t.Errorf("%s of %v: gradient of %s is %v, want %v", op.Name, dt, f.Args[i], together[i], d)
					}
				}
			})
		}
	}
	if joint < 40 {
		t.Errorf("%d operations and types have their gradients in one op call", joint)
	}
}

// Into puts a result where it is wanted, by the op call itself if it can.
func TestInto(t *testing.T) {
	dev := open(t)
	step(t, dev, func(s *tensor.Scope) {
		x := s.In(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
		all := engine.Empty(s, tensor.Float32, 5, 2, 2)
		for i, c := range []struct {
			blocks int
			f      func() *tensor.Tensor
		}{
			{1, func() *tensor.Tensor { return x.Neg().Neg() }}, // the first is there: copied
			{0, func() *tensor.Tensor { return x.Neg() }},
			{1, func() *tensor.Tensor { return x.Slice(0, 0, 1).Neg().Expand(2, 2) }}, // copied
			{0, func() *tensor.Tensor { return all.Select(0, 0) }},
			{1, func() *tensor.Tensor { return tensor.Cat(0, x.Slice(0, 0, 1).Neg(), x.Slice(0, 1, 2)) }},
		} {
			before := dev.Stats().Memory.Allocs
			engine.Into(all.Select(0, i), c.f)
			if got := dev.Stats().Memory.Allocs - before; got != c.blocks {
				t.Errorf("%d: %d blocks of memory, want %d", i, got, c.blocks)
			}
		}
		want := []float32{1, 2, 3, 4, -1, -2, -3, -4, -1, -2, -1, -2, 1, 2, 3, 4, -1, -2, 3, 4}
		if got := tensor.ToSlice[float32](all); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
	for _, f := range []func(x *tensor.Tensor) *tensor.Tensor{
		func(x *tensor.Tensor) *tensor.Tensor { return x.Flatten(0, 1).Neg() },
		func(x *tensor.Tensor) *tensor.Tensor { return x.To(tensor.Float16) },
	} {
		err := dev.Step(func(s *tensor.Scope) error {
			engine.Into(engine.Empty(s, tensor.Float32, 2, 2), func() *tensor.Tensor { return f(s.Randn(2, 2)) })
			return nil
		})
		wantError(t, err, tensor.ErrShape, "into", "does not fit")
	}
}
