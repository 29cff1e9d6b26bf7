package optim_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func TestGoldenLookahead(t *testing.T) {
	follow(t, openGolden(t), "lookahead", tensor.Float64, 1e-12, func(dev *tensor.Device, w, b *tensor.Tensor) func(
		*tensor.Scope, int) error {
		params := []*tensor.Tensor{w, b}
		opt := optim.New(optim.SGD(0.1, optim.Momentum(0.9)), params)
		slow, err := optim.NewLookahead(dev, params, 3, 0.5)
		must(t, err)
		return func(s *tensor.Scope, i int) error {
			defer slow.Step(s, i)
			return opt.Step(s)
		}
	})
}

// Of a model of two types, halves too: every parameter comes back to its slow weight, and they are parts of a model.
func TestLookaheadTypes(t *testing.T) {
	dev := open(t)
	w, v := nn.Parameter(nn.Ones, 2), nn.Parameter(nn.Ones, 1)
	must(t, nn.Init(dev, w, nn.DType(tensor.BFloat16)))
	must(t, nn.Init(dev, v, nn.DType(tensor.Float64)))
	model := map[string]*tensor.Tensor{"w": w, "v": v}
	opt := optim.New(optim.SGD(1), model)
	look, err := optim.NewLookahead(dev, model, 1, 0.5)
	must(t, err)
	must(t, dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(w).To(tensor.Float32).Sum())
		autograd.Backward(s.In(v).Scale(2).Sum())
		if err := opt.Step(s); err != nil {
			return err
		}
		look.Step(s, 0)
		return nil
	}))
	wantValues(t, "w", w, 0.5, 0.5)
	wantValues(t, "v", v, 0)
	nn.Walk(look, func(name string, p *tensor.Tensor) {
		if p == w || p == v || !slices.Equal(tensor.ToSlice[float64](p), tensor.ToSlice[float64](model[name])) {
			t.Errorf("the slow weight of %s is %v", name, p)
		}
	})
	for _, f := range []func(){func() { optim.NewLookahead(dev, model, 0, 0.5) },
		func() { optim.NewLookahead(dev, model, 1, math.NaN()) }, func() { (&optim.Lookahead{}).Step(nil, 0) }} {
		wantError(t, engine.Try(f), tensor.ErrValue, "lookahead")
	}
}

var errFails = errors.New("the step fails")

func TestGroupErrors(t *testing.T) {
	w, b, other := param("w", 1), param("b", 1), param("other", 1)
	params := []*tensor.Tensor{w, b}
	for text, group := range map[string]optim.Option{
		"differs in more":           optim.Group(b, optim.AdamW(0.1, optim.Betas(0, 0))),
		"adam differs":              optim.Group(b, optim.Adam(0.1)),
		"is no parameter of the":    optim.Group(other, optim.AdamW(0.1)),
		"the group has no paramete": optim.Group(nn.ReLU, optim.AdamW(0.1)),
	} {
		wantError(t, engine.Try(func() { optim.New(optim.AdamW(0.1), params, group) }), tensor.ErrValue, "adamw", text)
	}
	opt := optim.New(optim.AdamW(0.1), params, optim.Group(b, optim.AdamW(0.5)))
	if opt.GroupLR(0).Value() != 0.5 || opt.LR.Value() != 0.1 {
		t.Errorf("rates %v and %v", opt.GroupLR(0).Value(), opt.LR.Value())
	}
	for _, i := range []int{-1, 1} {
		wantError(t, engine.Try(func() { opt.GroupLR(i) }), tensor.ErrIndex, "no group")
	}
	opt.GroupLR(0).Set(math.NaN())
	wantError(t, open(t).Step(opt.Step), tensor.ErrValue, "learning rate is NaN")
}

// Under a loss scaler: an overflow leaves everything as it is, to the bit, and what is scaled is clipped as if it were
// not. A later step that fails changes nothing either.
func TestWholeSkips(t *testing.T) {
	dev := open(t)
	for _, rule := range []optim.Rule{optim.LAMB(0.1), optim.Adafactor(0.1), optim.Muon(0.1), optim.SGD(0.1)} {
		step := func(opt *optim.Optimizer, w *tensor.Tensor, scale, factor float64, fails bool) error {
			return dev.Step(func(s *tensor.Scope) error {
				x := s.In(w)
				autograd.Backward(x.Mul(x).Scale(scale * factor).Sum())
				if _, err := opt.StepScaled(s, s.Full(1/scale, tensor.Float64)); err != nil || fails {
					return errFails
				}
				return nil
			}, amp.Autocast(tensor.BFloat16))
		}
		start := func() (*optim.Optimizer, *tensor.Tensor) {
			w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, -2, 3, 4, 5, 7}, 2, 3))
			return optim.New(rule, w, optim.ClipValue(2), optim.Clip(3)), w
		}
		plain, w := start()
		scaled, v := start()
		must(t, step(plain, w, 1, 1, false))
		must(t, step(scaled, v, 1024, 1, false))
		hash := plain.Hash()
		if scaled.Hash() != hash || w.AllEqual(tensor.FromSlice([]float32{1, -2, 3, 4, 5, 7}, 2, 3)) {
			t.Errorf("%s: scaled by 1024 the update is another one: %v, %v", rule.Name, w, v)
		}
		must(t, step(plain, w, 1, math.Inf(1), false))
		if plain.Hash() != hash || !math.IsInf(plain.GradNorm(), 1) {
			t.Errorf("%s: an overflow changed parameters or state, or has the norm %v", rule.Name, plain.GradNorm())
		}
		if err := step(plain, w, 1, 1, true); err != errFails || plain.Hash() != hash {
			t.Errorf("%s: error %v; a failed step changed parameters or state", rule.Name, err)
		}
	}
}

// Muon refuses vectors; a rule that returns too little is refused, and a rule of tensors is no operation.
func TestWholeErrors(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2)
	run := func(rule optim.Rule) error {
		opt := optim.New(rule, w)
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w).Sum())
			return opt.Step(s)
		})
	}
	wantError(t, run(optim.Muon(0.1)), tensor.ErrShape, "muon", "has 1 axes", "another optimizer")
	whole := func(f func(optim.Whole) (*tensor.Tensor, []*tensor.Tensor)) optim.Rule {
		return optim.Rule{Name: "mine", LR: 1, State: []string{"m"}, Whole: f}
	}
	wantError(t, run(whole(func(w optim.Whole) (*tensor.Tensor, []*tensor.Tensor) { return w.P, nil })),
		tensor.ErrValue, "mine", "returned 0 states, the rule has 1")
	wantError(t, run(whole(func(w optim.Whole) (*tensor.Tensor, []*tensor.Tensor) { return nil, w.State })),
		tensor.ErrValue, "mine", "nil")
	wantError(t, run(whole(func(w optim.Whole) (*tensor.Tensor, []*tensor.Tensor) {
		return w.P.Unsqueeze(0).Unsqueeze(0).Expand(3, 1, 2), w.State
	})), tensor.ErrShape, "does not fit")
	for _, f := range []func(optim.Whole) *tensor.Tensor{
		func(w optim.Whole) *tensor.Tensor { return w.P.Scale(w.Number("beta")) },
		func(w optim.Whole) *tensor.Tensor { return w.P.Mul(w.Counter("t")) },
	} {
		wantError(t, run(whole(func(w optim.Whole) (*tensor.Tensor, []*tensor.Tensor) { return f(w), w.State })),
			tensor.ErrValue, `"mine" has no`)
	}
	wantError(t, engine.Try(func() { optim.Operation(optim.LAMB(1)) }), tensor.ErrValue, "lamb", "not of elements")
	wantValues(t, "w", w, 1, 2)
}
