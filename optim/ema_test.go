package optim_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// emaModel has a parameter and a state.
type emaModel struct{ W, Count *tensor.Tensor }

// The averages are those of the formula, from values after the optimizer's update; steps that fail change none.
func TestEMA(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16} {
		dev := open(t)
		m := &emaModel{nn.Parameter(nn.Constant(1), 2, 3), nn.State(nn.Zeros, 1)}
		if err := nn.Init(dev, m, nn.DType(dt)); err != nil {
			t.Fatal(err)
		}
		const decay = 0.7
		ema, err := optim.NewEMA(dev, m, decay)
		if err != nil {
			t.Fatal(err)
		}
		opt := optim.New(optim.SGD(0.25), m)
		broken := errors.New("broken")
		want := 1.0
		for i := range 4 {
			err := dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(s.In(m.W).Scale(float64(i + 1)).Sum())
				if err := opt.Step(s); err != nil {
					return err
				}
				ema.Step(s)
				m.Count.Assign(s.Full(float64(i), tensor.Float32, 1))
				if i == 2 {
					return broken
				}
				return nil
			})
			if i == 2 {
				if err != broken {
					t.Fatal(err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want += (1 - decay) * (tensor.ToSlice[float64](m.W)[0] - want)
			copied, err := nn.Clone(dev, m)
			if err != nil {
				t.Fatal(err)
			}
			if err := nn.CopyTo(copied, ema); err != nil {
				t.Fatal(err)
			}
			nn.Walk(ema, func(name string, a *tensor.Tensor) {
				if got := tensor.ToSlice[float64](a)[0]; name == "w" && math.Abs(got-want) > 1e-6 {
					t.Errorf("%v, step %d: the average is %v, want %v", dt, i, got, want)
				}
			})
			if got := tensor.ToSlice[float64](copied.W)[5]; math.Abs(got-want) > 1e-2 {
				t.Errorf("%v, step %d: the copy has %v, want %v", dt, i, got, want)
			}
			if got := tensor.ToSlice[int](copied.Count)[0]; got != i {
				t.Errorf("the state is %d, not %d", got, i)
			}
		}
		if want == 1 {
			t.Error("nothing was trained")
		}
	}
}

func TestEMAErrors(t *testing.T) {
	dev := open(t)
	m := nn.NewLinear(2, 2)
	if err := nn.Init(dev, m); err != nil {
		t.Fatal(err)
	}
	for _, decay := range []float64{-0.1, 1, math.NaN(), math.Inf(1)} {
		err := engine.Try(func() { optim.NewEMA(dev, m, decay) })
		wantError(t, err, tensor.ErrValue, "ema: decay is")
	}
	wantError(t, engine.Try(func() { optim.NewEMA(dev, struct{}{}, 0.9) }), tensor.ErrValue, "no parameters")
	wantError(t, engine.Try(func() { optim.NewEMA(dev, nn.NewLinear(1, 1), 0.9) }), tensor.ErrStep, "placed")
	err := dev.Step(func(s *tensor.Scope) error { new(optim.EMA).Step(s); return nil })
	wantError(t, err, tensor.ErrValue, "optim.NewEMA")
}

// An average of a part of a model, and a lookahead of it, leave the other parts alone, whatever lies between.
func TestEMAOfPart(t *testing.T) {
	dev := open(t)
	type model struct{ A, B, C, D, E *tensor.Tensor }
	one := func() *tensor.Tensor { return nn.Parameter(nn.Constant(1), 3) }
	m := &model{one(), one(), one(), one(), one()}
	must(t, nn.Init(dev, m))
	part := &struct{ B, C, E *tensor.Tensor }{m.B, m.C, m.E}
	look, err := optim.NewLookahead(dev, part, 1, 0.5)
	must(t, err)
	ema, err := optim.NewEMA(dev, part, 0.75)
	must(t, err)
	opt := optim.New(optim.SGD(1), m)
	must(t, dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(tensor.Cat(0, s.In(m.A), m.B, m.C, m.D, m.E).Sum())
		if err := opt.Step(s); err != nil {
			return err
		}
		look.Step(s, 0)
		ema.Step(s)
		return nil
	}))
	for name, c := range map[string]struct {
		model any
		want  []float64
	}{"model": {m, []float64{0, 0.5, 0.5, 0, 0.5}}, "slow": {look, []float64{0.5, 0.5, 0.5}},
		"average": {ema, []float64{0.875, 0.875, 0.875}}} {
		var got []float64
		nn.Walk(c.model, func(_ string, p *tensor.Tensor) { got = append(got, p.Slice(0, 1, 2).Item()) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
