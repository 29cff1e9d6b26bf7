package autograd_test

import (
	"math"
	"sync"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// inStep runs f as a step and returns its error.
func inStep(dev *tensor.Device, f func(s *tensor.Scope)) error {
	return dev.Step(func(s *tensor.Scope) error { f(s); return nil })
}

// A gradient that is the seed itself does not end the seed's life when its region ends.
func TestGradReturnsItsSeed(t *testing.T) {
	dev := open(t)
	err := inStep(dev, func(s *tensor.Scope) {
		seed, x := s.Full(2, tensor.Float64, 3), autograd.Watch(s, tensor.Zeros(tensor.Float64, 3))
		s.Region("inner", func() []*tensor.Tensor {
			autograd.Grad(x.AddScalar(1), []*tensor.Tensor{x}, autograd.GradOutput(seed))
			return nil
		})
		wantValues(t, "the seed", seed, 2, 2, 2)
		out := s.Region("inner", func() []*tensor.Tensor {
			return autograd.Grad(x.AddScalar(1).Scale(3), []*tensor.Tensor{x}, autograd.GradOutput(seed))
		})
		wantValues(t, "the gradient", out[0], 6, 6, 6)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the step", n)
	}
}

// Seeds and what hooks return take the element type of their tensor; their shape must be right.
func TestGivenGradients(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2, 3}, 3))
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Int64} {
		err := inStep(dev, func(s *tensor.Scope) {
			autograd.Backward(s.In(w).Softmax(-1), autograd.GradOutput(tensor.Zeros(dt, 3)))
		})
		if err != nil {
			t.Errorf("a seed of %v: %v", dt, err)
		}
	}
	hooked := func(h *tensor.Tensor) error {
		return inStep(dev, func(s *tensor.Scope) {
			x := s.In(w)
			autograd.Hook(x, func(*tensor.Tensor) *tensor.Tensor { return h })
			autograd.Backward(x.Square().Sum())
		})
	}
	w.ClearGrads()
	if err := hooked(tensor.FromSlice([]float64{4, 5, 6}, 3)); err != nil {
		t.Error(err)
	}
	wantValues(t, "a hook's host data", w.Grad(), 4, 5, 6)
	for _, shape := range [][]int{{2}, {3, 3}, nil} {
		wantError(t, hooked(tensor.Zeros(tensor.Float32, shape...)), tensor.ErrShape, "a hook gives the gradient",
			"w float32[3]")
	}
}

// A backward pass that fails in the middle leaves no memory behind.
func TestFailedBackwardReturnsMemory(t *testing.T) {
	dev := open(t)
	a, b := param("a", 1, 2), param("b", 3, 4)
	err := inStep(dev, func(s *tensor.Scope) {
		x := s.In(a).Mul(b).Exp()
		y := s.In(b).Mul(s.In(a).Square()).Sin().Add(x)
		autograd.Hook(x, func(*tensor.Tensor) *tensor.Tensor { return s.Full(1, tensor.Float64, 5) })
		autograd.Backward(y.Sum())
	})
	wantError(t, err, tensor.ErrShape, "hook")
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the step", n)
	}
}

func TestGradWhileNotRecording(t *testing.T) {
	dev := open(t)
	w := param("w", 3)
	err := inStep(dev, func(s *tensor.Scope) {
		y := s.In(w).Square().Sum()
		s.With(func() { wantValues(t, "gradient", autograd.Grad(y, []*tensor.Tensor{w})[0], 6) }, tensor.NoGrad())
		autograd.Grad(y, []*tensor.Tensor{nil})
	})
	wantError(t, err, tensor.ErrGrad, "operand 0, nil tensor", "robust_test.go:")
}

func TestBackwardAfterItsStep(t *testing.T) {
	dev := open(t)
	w := param("w", 3)
	var y *tensor.Tensor
	if err := inStep(dev, func(s *tensor.Scope) { y = s.In(w).Square().Sum() }); err != nil {
		t.Fatal(err)
	}
	wantError(t, engine.Try(func() { autograd.Backward(y) }), tensor.ErrStep, "ended", "Keep", "robust_test.go:")
}

// Operands of a custom operation may be parameters alone, and its result one of them.
func TestCustomOperands(t *testing.T) {
	dev := open(t)
	w, u := param("w", 1, 2), param("u", 3, 4)
	err := inStep(dev, func(s *tensor.Scope) {
		y := autograd.Custom("product", func(c *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor {
			c.Save(xs...)
			return xs[0].Mul(xs[1].Square().Sqrt()) // the second is a parameter
		}, func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{g.Mul(c.Saved(1)), g.Mul(c.Saved(0))}
		}, s.In(w), u)
		autograd.Backward(y.Sum())
		reversed := autograd.Custom("reverse",
			func(_ *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor { return xs[0] },
			func(_ *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g.Neg()} }, s.In(w))
		autograd.Backward(reversed.Sum())
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "w", w.Grad(), 2, 3)
	wantValues(t, "u", u.Grad(), 1, 2)
	err = inStep(dev, func(s *tensor.Scope) {
		rounded := autograd.Custom("rounded",
			func(_ *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].To(tensor.Int64) },
			func(_ *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g} }, s.In(w))
		if rounded.NeedsGrad() {
			t.Error("integers have a gradient")
		}
		autograd.Backward(rounded.To(tensor.Float32).Scale(0.5).Sum())
	})
	wantError(t, err, tensor.ErrGrad, "no path to a parameter")
	err = inStep(dev, func(s *tensor.Scope) {
		autograd.Custom("careless", func(c *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor {
			c.Save(nil)
			return xs[0]
		}, nil, s.In(w))
	})
	wantError(t, err, tensor.ErrStep, "careless", "nil", "robust_test.go:")
}

// gptLoss is the loss of a model on a few tokens.
func gptLoss(s *tensor.Scope, model nn.Module) *tensor.Tensor {
	x := s.In(tensor.FromSlice([]int64{1, 2, 3, 4, 5, 6, 7, 8}, 1, 8))
	return nn.CrossEntropy(model.Forward(x), x)
}

func newGPT() *nn.GPT {
	return nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 8, Width: 32, Heads: 2, Layers: 1, Dropout: 0.1, TiedHead: true})
}

// However little memory there is, a training step is done as a whole or not at all.
func TestStepWithinEveryMemoryLimit(t *testing.T) {
	model := newGPT()
	failures := 0
	for extra := 0; ; extra += 20_000 {
		dev := open(t)
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		want := optim.New(optim.SGD(1e-3), model).Hash()
		opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1))
		m := dev.Stats().Memory
		limited, err := tensor.Open("cpu", tensor.MemoryLimit(m.Active+extra), tensor.Poison())
		if err != nil {
			t.Fatal(err)
		}
		err = limited.Step(func(s *tensor.Scope) error {
			autograd.Backward(gptLoss(s, model))
			return opt.Step(s)
		})
		live := limited.Stats().Memory.Blocks
		limited.Close()
		dev.Close()
		if err == nil {
			break
		}
		failures++
		wantError(t, err, tensor.ErrMemory)
		if got := optim.New(optim.SGD(1e-3), model).Hash(); got != want {
			t.Fatalf("with %d bytes the step failed and changed the parameters: %v", extra, err)
		}
		if live != m.Blocks {
			t.Fatalf("with %d bytes the step failed and left %d blocks: %v", extra, live-m.Blocks, err)
		}
	}
	if failures < 5 {
		t.Errorf("only %d limits were too low", failures)
	}
}

// Steps and evaluations in parallel share parameters; what they keep is theirs.
func TestParallelSteps(t *testing.T) {
	dev := open(t, tensor.Poison())
	model := newGPT()
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	var first [3]float64
	var wg sync.WaitGroup
	for k := range first {
		wg.Go(func() {
			for round := range 5 {
				var kept []*tensor.Tensor
				err := dev.Step(func(s *tensor.Scope) error {
					for _, g := range autograd.Grad(gptLoss(s, model), nn.Parameters(model)) {
						kept = append(kept, g.Keep())
					}
					return nil
				}, tensor.RandomStream(uint64(k)))
				if err != nil {
					t.Error(err)
				}
				if err := dev.Eval(func(s *tensor.Scope) error { gptLoss(s, model).Item(); return nil }); err != nil {
					t.Error(err)
				}
				sum := 0.0
				for _, g := range kept {
					sum += g.Square().Sum().Item()
				}
				if round == 0 {
					first[k] = sum
				}
				if sum != first[k] || math.IsNaN(sum) {
					t.Errorf("stream %d: sum of squares %v, at first %v", k, sum, first[k])
				}
			}
		})
	}
	wg.Wait()
}
