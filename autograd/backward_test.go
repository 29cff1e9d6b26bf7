package autograd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func param(name string, v ...float64) *tensor.Tensor {
	return nn.ParameterOf(name, tensor.FromSlice(v, len(v)))
}

func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v is not of kind %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func wantValues(t *testing.T, what string, got *tensor.Tensor, want ...float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: nil, want %v", what, want)
	}
	v := tensor.ToSlice[float64](got)
	for i := range want {
		if len(v) != len(want) || v[i] != want[i] {
			t.Fatalf("%s: got %v, want %v", what, v, want)
		}
	}
}

func TestBackwardAccumulates(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2, 3)
	step := func() {
		if err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w).Square().Sum())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	step()
	wantValues(t, "first", w.Grad(), 2, 4, 6)
	step()
	wantValues(t, "second", w.Grad(), 4, 8, 12)
	w.ClearGrads()
	if w.Grad() != nil {
		t.Error("gradient left after ClearGrads")
	}
}

// Products write the first gradient of a weight where the step has its gradients. It has the bits of one that is copied
// there, as those that an observer sees are.
func TestGradientsWritten(t *testing.T) {
	dev := open(t)
	random := func(seed uint64, shape ...int) *tensor.Tensor { return tensor.Randn(tensor.Seed(seed), shape...) }
	w, v := nn.ParameterOf("w", random(1, 8, 8)), nn.ParameterOf("v", random(2, 5, 8))
	kernel := nn.ParameterOf("kernel", random(3, 4, 2, 3))
	for _, c := range []struct {
		name    string
		written int // gradients
		run     func(x *tensor.Tensor)
	}{
		{"two weights", 2, func(x *tensor.Tensor) { autograd.Backward(x.Linear(w, nil).Tanh().Linear(v, nil).Sum()) }},
		{"a convolution", 1, func(x *tensor.Tensor) {
			autograd.Backward(x.Reshape(3, 2, 8).Conv(kernel, nil, tensor.Window{}).Square().Sum())
		}},
		{"as many rows as features", 1, func(x *tensor.Tensor) {
			autograd.Backward(x.Slice(0, 0, 2).Sum(0).Add(random(4, 8, 8)).Linear(w, nil).Square().Sum())
		}},
		{"an operand that is copied", 1, func(x *tensor.Tensor) {
			autograd.Backward(x.Reshape(2, 3, 8).Transpose(0, 1).Linear(w, nil).Square().Sum())
		}},
		{"a weight used twice", 0, func(x *tensor.Tensor) {
			autograd.Backward(x.Linear(w, nil).Tanh().Linear(w, nil).Square().Sum())
		}},
		{"and its transpose", 0, func(x *tensor.Tensor) {
			autograd.Backward(x.Linear(w, nil).Tanh().Linear(x.Scope().In(w).T(), nil).Square().Sum())
		}},
		{"two passes", 1, func(x *tensor.Tensor) {
			autograd.Backward(x.Linear(w, nil).Square().Sum())
			autograd.Backward(x.Linear(w, nil).Exp().Sum())
		}},
		{"only the other one", 1, func(x *tensor.Tensor) {
			autograd.Backward(x.Linear(w, nil).Tanh().Linear(v, nil).Sum(), autograd.Only(v))
		}},
		{"a hook that replaces it", 0, func(x *tensor.Tensor) {
			w := x.Scope().In(w)
			autograd.Hook(w, func(g *tensor.Tensor) *tensor.Tensor { return g.Scale(2) })
			autograd.Backward(x.Linear(w, nil).Square().Sum())
		}},
		{"a hook that transposes it", 0, func(x *tensor.Tensor) {
			w := x.Scope().In(w)
			autograd.Hook(w, func(g *tensor.Tensor) *tensor.Tensor { return g.T() })
			autograd.Backward(x.Linear(w, nil).Square().Sum())
		}},
		{"a pass that fails in between", 1, func(x *tensor.Tensor) {
			x.Scope().In(v) // its node comes first, so that it gets its gradient last
			y := x.Linear(w, nil)
			autograd.Hook(y, func(*tensor.Tensor) *tensor.Tensor { panic(errStopped) })
			func() {
				defer func() {
					if e := recover(); e != errStopped {
						panic(e)
					}
				}()
				autograd.Backward(y.Linear(v, nil).Sum())
			}()
			autograd.Backward(x.Slice(0, 0, 3).Linear(v, nil).Sum())
		}},
		{"a gradient of a gradient", 1, func(x *tensor.Tensor) {
			g := autograd.Grad(x.Linear(w, nil).Tanh().Sum(), []*tensor.Tensor{w}, autograd.CreateGraph())[0]
			autograd.Backward(g.Square().Sum())
		}},
		{"a gradient for the caller between passes", 2, func(x *tensor.Tensor) {
			autograd.Backward(x.Linear(w, nil).Square().Sum())
			g := autograd.Grad(x.Linear(v, nil).Square().Sum(), []*tensor.Tensor{v})[0]
			autograd.Backward(x.Linear(v, nil).Exp().Sum())
			autograd.Backward(x.Linear(w, nil).Mul(g.Sum()).Sum())
		}},
	} {
		observed := engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) {})
		params := []*tensor.Tensor{w, v, kernel}
		var grads [2][][]float32
		var calls [2]uint64
		for i, opts := range [][]tensor.Option{{observed}, nil} {
			for range 2 { // the second step adds to what the first has committed
				before := dev.Stats().Launches
				err := dev.Step(func(s *tensor.Scope) error { c.run(s.In(random(5, 6, 8))); return nil }, opts...)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if calls[i] == 0 {
					calls[i] = dev.Stats().Launches - before
				}
			}
			for _, p := range params {
				var g []float32
				if p.Grad() != nil {
					g = tensor.ToSlice[float32](p.Grad())
				}
				grads[i] = append(grads[i], g)
				p.ClearGrads()
			}
		}
		if !slices.EqualFunc(grads[0], grads[1], slices.Equal[[]float32]) {
			t.Errorf("%s: the gradients are %v, want %v", c.name, grads[1], grads[0])
		}
		if calls[1] != calls[0]-uint64(c.written) {
			t.Errorf("%s: %d op calls, %d where all gradients are copied, want %d less",
				c.name, calls[1], calls[0], c.written)
		}
	}
}

// What a hook has replaced is no gradient of the step: it ends with its region, as other gradients in flight do.
func TestReplacedGradient(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Ones(tensor.Float32, 8, 8))
	wantError(t, dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.Ones(tensor.Float32, 6, 8))
		y := x.Linear(w, nil)
		v := s.In(nn.ParameterOf("v", tensor.Ones(tensor.Float32, 8, 8))) // gets its gradient before y
		var seen *tensor.Tensor
		autograd.Hook(v, func(g *tensor.Tensor) *tensor.Tensor { seen = g; return g.Scale(2) })
		autograd.Hook(y, func(g *tensor.Tensor) *tensor.Tensor { return g.Add(seen.Sum()) })
		autograd.Backward(x.Linear(v, nil).Square().Sum().Add(y.Sum()))
		return nil
	}), tensor.ErrStep, "sum")
}

var errStopped = errors.New("stopped")

func TestFailedStepCommitsNothing(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2)
	boom := errors.New("boom")
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(w).Square().Sum())
		return boom
	})
	if !errors.Is(err, boom) || w.Grad() != nil {
		t.Errorf("error %v, gradient %v", err, w.Grad())
	}
}

func TestRetain(t *testing.T) {
	dev := open(t)
	w := param("w", 3)
	err := dev.Step(func(s *tensor.Scope) error {
		loss := s.In(w).Square().Sum()
		autograd.Backward(loss)
		autograd.Backward(loss)
		return nil
	})
	wantError(t, err, tensor.ErrGrad, "backward_test.go:", "Retain")
	err = dev.Step(func(s *tensor.Scope) error {
		loss := s.In(w).Square().Sum()
		autograd.Backward(loss, autograd.Retain())
		autograd.Backward(loss)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "two passes", w.Grad(), 12)
}

func TestGradHigherOrder(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float64{2}, 1))
		y := x.Square().Mul(x).Sum() // x³
		for i, want := range []float64{12, 12, 6} {
			y = autograd.Grad(y, []*tensor.Tensor{x}, autograd.CreateGraph())[0].Sum()
			if got := y.Item(); got != want {
				t.Errorf("derivative %d of x³ at 2 is %v, want %v", i+1, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGradUnused(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float64{2}, 1))
		z := autograd.Watch(s, tensor.FromSlice([]float64{2}, 1))
		y := x.Square().Sum()
		if g := autograd.Grad(y, []*tensor.Tensor{x, z}, autograd.AllowUnused()); g[1] != nil {
			t.Errorf("gradient of an unused tensor is %v", g[1])
		}
		autograd.Grad(y, []*tensor.Tensor{z})
		return nil
	})
	wantError(t, err, tensor.ErrGrad, "does not depend", "AllowUnused")
}

func TestHooks(t *testing.T) {
	dev := open(t)
	w := param("w", 1)
	var seen float64
	stop := w.OnGrad(func(g *tensor.Tensor) { seen = g.Item() })
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.In(w)
		autograd.Hook(x, func(g *tensor.Tensor) *tensor.Tensor { return g.Scale(2) })
		autograd.Hook(x, func(g *tensor.Tensor) *tensor.Tensor { return g.AddScalar(1) })
		autograd.Backward(x.Scale(3).Add(x).Sum()) // total 4
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "hooked", w.Grad(), 9)
	if seen != 9 {
		t.Errorf("OnGrad saw %v, want 9", seen)
	}
	stop()
}

// The next step uses the records of a step again: what is left of it, a function that stops a hook and a tensor, does
// not reach into the next.
func TestLeftOfAStep(t *testing.T) {
	dev := open(t)
	w := param("w", 2, 3)
	var stop func()
	var left *tensor.Tensor
	for range 3 {
		called := 0
		err := dev.Step(func(s *tensor.Scope) error {
			x := s.In(w)
			y := x.Mul(x)
			own := autograd.Hook(y, func(g *tensor.Tensor) *tensor.Tensor { called++; return g })
			if stop != nil {
				stop()
				wantError(t, dev.Eval(func(*tensor.Scope) error { left.Square(); return nil }), tensor.ErrStep, "ended")
			}
			autograd.Backward(y.Sum())
			stop, left = own, y
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if called != 1 {
			t.Errorf("the hook was called %d times", called)
		}
		wantValues(t, "gradient", w.Grad(), 4, 6)
		w.ClearGrads()
	}
	err := dev.Eval(func(*tensor.Scope) error {
		autograd.Hook(left, func(g *tensor.Tensor) *tensor.Tensor { return g })
		return nil
	})
	wantError(t, err, tensor.ErrStep, "ended")
}

func TestStaleValue(t *testing.T) {
	dev := open(t)
	w := param("w", 1)
	err := dev.Step(func(s *tensor.Scope) error {
		loss := s.In(w).Square().Sum()
		w.Assign(s.Full(5, tensor.Float64, 1))
		autograd.Backward(loss)
		return nil
	})
	wantError(t, err, tensor.ErrVersion, "w float64[1]", "version 1", "version 0", "after Backward")
}

func TestUnused(t *testing.T) {
	dev := open(t)
	w, u := param("w", 1), param("head.bias", 1)
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(w).Square().Sum())
		if names := autograd.Unused(s, []*tensor.Tensor{w, u}); len(names) != 1 || names[0] != "head.bias" {
			t.Errorf("unused: %v", names)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBackwardMisuse(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2)
	for _, c := range []struct {
		f    func(s *tensor.Scope)
		want string
	}{
		{func(s *tensor.Scope) { autograd.Backward(s.In(w).Square()) }, "2 elements"},
		{func(s *tensor.Scope) { autograd.Backward(s.Full(1, tensor.Float64)) }, "no path to a parameter"},
		{func(s *tensor.Scope) { autograd.Backward(s.In(w).Detach().Sum()) }, "no path to a parameter"},
		{func(s *tensor.Scope) { autograd.Backward(tensor.FromSlice([]float64{1})) }, "belongs to no step"},
	} {
		err := dev.Step(func(s *tensor.Scope) error { c.f(s); return nil })
		wantError(t, err, tensor.ErrGrad, c.want, "backward_test.go:")
	}
	err := dev.Eval(func(s *tensor.Scope) error { autograd.Backward(s.In(w).Sum()); return nil })
	wantError(t, err, tensor.ErrGrad, "Eval")
}

// The generator's tape must survive the critic's backward pass: only nodes that a pass consumed are freed.
func TestTwoLosses(t *testing.T) {
	dev := open(t)
	g, d := param("g", 2), param("d", 3)
	err := dev.Step(func(s *tensor.Scope) error {
		fake := s.In(g).Square()
		autograd.Backward(fake.Detach().Mul(d).Sum())
		autograd.Backward(fake.Mul(d).Sum(), autograd.Only(g))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "d", d.Grad(), 4)
	wantValues(t, "g", g.Grad(), 12)
}

// A gradient comes back through a cast in the type of the operand.
func TestCast(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2, 3}, 3))
	err := dev.Step(func(s *tensor.Scope) error {
		y := s.In(w).To(tensor.Float64)
		if y.DType() != tensor.Float64 {
			t.Errorf("the cast is %v", y)
		}
		autograd.Backward(y.Square().Sum())
		x := autograd.Watch(s, tensor.FromSlice([]float64{2}, 1))
		g := autograd.Grad(x.To(tensor.Float32).Square().Mul(x).Sum(), []*tensor.Tensor{x}, autograd.CreateGraph())[0]
		wantValues(t, "first derivative of x³ through float32", g, 12)
		wantValues(t, "second", autograd.Grad(g.Sum(), []*tensor.Tensor{x})[0], 12)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if g := w.Grad(); g.DType() != tensor.Float32 {
		t.Errorf("the gradient is %v", g)
	}
	wantValues(t, "gradient", w.Grad(), 2, 4, 6)
}

func TestFinite(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{0, 1}, 2))
	loss := func(opts ...autograd.Option) error {
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w).Div(w).Sum(), opts...)
			return nil
		})
	}
	wantError(t, loss(autograd.Finite()), tensor.ErrValue, "backward: float64[] is not finite: it has 1 NaN")
	if w.Grad() != nil {
		t.Errorf("the gradient is %v", w.Grad())
	}
	if err := loss(); err != nil || w.Grad() == nil {
		t.Errorf("without the option: %v, gradient %v", err, w.Grad())
	}
	w.Assign(tensor.Of(1.0))
	if err := loss(autograd.Finite()); err != nil {
		t.Error(err)
	}
}
