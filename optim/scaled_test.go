package optim_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// An overflow in one arena leaves all of an optimizer's parameters, of several types, as they are, with the decay and
// without.
func TestStepScaled(t *testing.T) {
	for name, rule := range map[string]optim.Rule{
		"adamw": optim.AdamW(0.1, optim.WeightDecay(0.1)), "sgd": optim.SGD(0.1),
		"momentum": optim.SGD(0.1, optim.Momentum(0.9)), "lion": optim.Lion(0.1),
	} {
		t.Run(name, func(t *testing.T) {
			dev := open(t)
			single := nn.ParameterOf("single", tensor.FromSlice([]float32{1, 2}, 2))
			double, idle := param("double", 3, 4), param("idle", 5)
			opt := optim.New(rule, []*tensor.Tensor{single, double, idle},
				optim.NoDecay(func(p *tensor.Tensor) bool { return p == double }))
			step := func(g float32, h float64) (overflow float64) {
				must(t, dev.Step(func(s *tensor.Scope) error {
					autograd.Backward(s.In(single), autograd.GradOutput(s.In(tensor.FromSlice([]float32{8, g}, 2))))
					autograd.Backward(s.In(double), autograd.GradOutput(s.In(tensor.FromSlice([]float64{h, 8}, 2))))
					o, err := opt.StepScaled(s, s.Full(0.125, tensor.Float32))
					if err == nil {
						overflow = o.Item()
					}
					return err
				}))
				return overflow
			}
			if o := step(8, 8); o != 0 || opt.GradNorm() != 2 {
				t.Errorf("overflow %v, norm %v, want 0 and 2", o, opt.GradNorm())
			}
			before := opt.Hash()
			inf, nan := math.Inf(1), math.NaN()
			for _, bad := range [][2]float64{{inf, 8}, {8, -inf}, {nan, inf}, {8, nan}} {
				if o := step(float32(bad[0]), bad[1]); o != 1 || opt.Hash() != before {
					t.Errorf("gradients %v: overflow %v, weights %v and %v", bad, o, single, double)
				}
				if single.Grad() != nil || double.Grad() != nil {
					t.Errorf("gradients %v are left", bad)
				}
			}
			if o := step(8, 8); o != 0 || opt.Hash() == before {
				t.Errorf("overflow %v after a skipped update", o)
			}
			wantValues(t, "a parameter without gradient", idle, 5)
		})
	}
}

// Unscale multiplies the gradients that are there, and tells of an overflow.
func TestUnscale(t *testing.T) {
	dev := open(t)
	single := nn.ParameterOf("single", tensor.FromSlice([]float32{1, 2}, 2))
	double := param("double", 3)
	opt := optim.New(optim.SGD(1), []*tensor.Tensor{single, double})
	for _, c := range []struct{ g, overflow float64 }{{16, 0}, {math.Inf(-1), 1}, {math.NaN(), 1}} {
		must(t, dev.Step(func(s *tensor.Scope) error {
			single.ClearGrads()
			autograd.Backward(s.In(single), autograd.GradOutput(s.In(tensor.FromSlice([]float32{4, float32(c.g)}, 2))))
			if o := opt.Unscale(s, s.Full(0.25, tensor.Float32)); o.Item() != c.overflow {
				t.Errorf("overflow %v of the gradient %v", o.Item(), c.g)
			}
			return nil
		}))
		v := tensor.ToSlice[float64](single.Grad())
		if v[0] != 1 || v[1] != c.g/4 && !math.IsNaN(c.g) || double.Grad() != nil {
			t.Errorf("gradients %v and %v of 4 and %v, divided by 4", v, double.Grad(), c.g)
		}
	}
}

// Parameters in half precision: the norm and factors that their type cannot hold are right all the same, and so are
// bias corrections, which make the first step of AdamW one of size lr.
func TestHalfParameters(t *testing.T) {
	const n, g = 4096, 60000 // the norm is 64*60000, far above the largest float16
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		dev := open(t)
		w := nn.ParameterOf("w", tensor.Zeros(dt, n))
		opt := optim.New(optim.SGD(64), w, optim.Clip(1e-3))
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w), autograd.GradOutput(s.Full(g, dt, n)))
			return opt.Step(s)
		}))
		true16 := tensor.ToSlice[float64](tensor.Of(float64(g)).To(dt))[0]
		if norm := opt.GradNorm() / (64 * true16); math.Abs(norm-1) > 1e-6 { // a sum in float32
			t.Errorf("%v: the norm is %v of the true one", dt, norm)
		}
		if v := tensor.ToSlice[float64](w)[0]; math.Abs(v+1e-3) > 4e-6 {
			t.Errorf("%v: clipped to 1e-3/64 and times 64, the weight is %v", dt, v)
		}

		p := nn.ParameterOf("p", tensor.Zeros(dt, 1))
		adam := optim.New(optim.AdamW(1, optim.WeightDecay(0)), p)
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(p), autograd.GradOutput(s.Full(0.5, dt, 1)))
			return adam.Step(s)
		}))
		if v := p.Item(); v != -1 {
			t.Errorf("%v: the first step of AdamW is %v, want -1", dt, v)
		}
	}
}

// The norm of the gradients takes no memory of their size: a step that unscales and clips has what a plain one has.
func TestNormMemory(t *testing.T) {
	const n = 1 << 20
	dev := open(t)
	limit := func(bytes int) { open(t, tensor.MemoryLimit(bytes)) }
	limit(1) // gives back what is cached
	limit(dev.Stats().Memory.Reserved + 2*4*n + 64<<10)
	t.Cleanup(func() { limit(1 << 40) })
	p := nn.Parameter(nil, n)
	must(t, engine.Place(dev, "", []string{"p"}, []*tensor.Tensor{p}, tensor.Float32))
	opt := optim.New(optim.SGD(1), p, optim.Clip(1))
	for range 2 {
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(p), autograd.GradOutput(s.Full(1, tensor.Float32).Expand(n)))
			inv := s.Full(0.5, tensor.Float32)
			opt.Unscale(s, inv)
			_, err := opt.StepScaled(s, inv)
			return err
		}))
	}
	if norm := opt.GradNorm(); norm != 256 {
		t.Errorf("the norm is %v, want 1024 / 2 / 2", norm)
	}
}
