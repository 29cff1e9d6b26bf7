package optim_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// Every hyperparameter that is no number, infinite, out of range or in contradiction to another is refused where it is
// given, by name, with its value and its range.
func TestHyperparameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	w := nn.ParameterOf("w", tensor.Zeros(tensor.Float32, 2))
	double := param("double", 1)
	tried := 0
	refused := func(f func(), parts ...string) {
		t.Helper()
		tried++
		wantError(t, engine.Try(f), tensor.ErrValue, append(parts, "check_test.go:")...)
	}
	for _, v := range []float64{nan, inf, -inf, -0.5} {
		refused(func() { optim.New(optim.AdamW(v), w) }, "adamw", "LR is", "[0, +Inf)")
		refused(func() { optim.New(optim.AdamW(1e-3, optim.Eps(v)), w) }, "adamw", "Eps is", "outside [0, +Inf)")
		refused(func() { optim.New(optim.AdamW(1e-3, optim.WeightDecay(v)), w) }, "adamw", "WeightDecay is")
		refused(func() { optim.New(optim.SGD(v), w) }, "sgd", "LR is")
		refused(func() { optim.New(optim.SGD(1e-3, optim.WeightDecay(v)), w) }, "sgd", "WeightDecay is")
		refused(func() { optim.New(optim.Lion(v), w) }, "lion", "LR is")
		refused(func() { optim.New(optim.Lion(1e-4, optim.WeightDecay(v)), w) }, "lion", "WeightDecay is")
		refused(func() { optim.Clip(v) }, "clip", "the norm is")
		refused(func() { optim.Constant(v) }, "constant", "rate is")
		refused(func() { optim.WarmupCosine(v, 0, 1, 2) }, "warmup_cosine", "peak is")
		refused(func() { optim.WarmupLinear(1, v, 1, 2) }, "warmup_linear", "floor is")
	}
	for _, v := range []float64{nan, inf, -0.5, 1, 1.5, 1 - 1e-9} { // the last one is 1 in float32
		refused(func() { optim.New(optim.AdamW(1e-3, optim.Betas(v, 0.999)), w) }, "adamw", "beta1 is",
			"outside [0, 1)")
		refused(func() { optim.New(optim.AdamW(1e-3, optim.Betas(0.9, v)), w) }, "adamw", "beta2 is")
		refused(func() { optim.New(optim.SGD(1e-3, optim.Momentum(v)), w) }, "sgd", "Momentum is")
		refused(func() { optim.New(optim.Lion(1e-4, optim.Betas(v, 0.99)), w) }, "lion", "beta1 is")
		refused(func() { optim.New(optim.Lion(1e-4, optim.Betas(0.9, v)), w) }, "lion", "beta2 is")
	}
	for _, v := range []float64{1e39, 1e-50} { // infinite and 0 in float32
		refused(func() { optim.New(optim.SGD(v), w) }, "sgd", "in float32")
		refused(func() { optim.New(optim.AdamW(1e-3, optim.Eps(v)), w) }, "adamw", "in float32")
		optim.New(optim.SGD(v), double)
	}
	refused(func() { optim.New(optim.SGD(1e-3, optim.Nesterov()), w) }, "sgd", "Nesterov", "momentum")
	refused(func() { optim.AdamW(1e-3, optim.Momentum(0.9)) }, "adamw", `no option "Momentum"`,
		"Betas, Eps, WeightDecay")
	refused(func() { optim.SGD(1e-3, optim.RuleOption{}) }, "sgd", "no option")
	refused(func() { optim.New(optim.Rule{}, w) }, "optim", "no name", "optim.AdamW(1e-3)")
	refused(func() { optim.New(optim.Rule{Name: "mine", LR: 1}, w) }, "optim", "no update")
	refused(func() { optim.Clip(0) }, "clip", "the norm is 0", "positive")
	refused(func() { optim.WarmupCosine(1, 2, 1, 2) }, "floor is 2, above the peak 1")
	refused(func() { optim.WarmupCosine(1, 0, 3, 2) }, "warmup is 3, outside [0, 2]")
	refused(func() { optim.WarmupLinear(1, 0, -1, 2) }, "warmup is -1")
	for _, o := range []amp.Option{
		amp.InitScale(nan), amp.InitScale(inf), amp.InitScale(0), amp.Growth(nan, 1), amp.Growth(inf, 1),
		amp.Growth(1, 1), amp.Growth(2, 0), amp.Backoff(nan), amp.Backoff(0), amp.Backoff(1), amp.MinScale(nan),
		amp.MinScale(0), amp.MinScale(inf), amp.MaxSkips(0),
	} {
		refused(func() { amp.NewGradScaler(o) }, "grad_scaler")
	}

	opt := optim.New(optim.SGD(1e-3), w)
	for _, v := range []float64{nan, inf, -1, 1e39} {
		opt.LR.Set(v)
		tried++
		wantError(t, open(t).Step(opt.Step), tensor.ErrValue, "sgd", "the learning rate is", "in float32")
	}
	for _, r := range []optim.Rule{optim.AdamW(0, optim.Betas(0, 0), optim.Eps(0), optim.WeightDecay(0)),
		optim.Lion(1e-4, optim.Betas(0, 0.99)), optim.SGD(1e-3, optim.Momentum(0.9), optim.Nesterov())} {
		optim.New(r, w)
	}
	t.Logf("%d tried and typed", tried)
}

// Zero is zero: no decay, no learning. What is not named has PyTorch's default.
func TestZeroHyperparametersAreZero(t *testing.T) {
	number := func(r optim.Rule, name string) float64 {
		for _, n := range r.Numbers {
			if n.Name == name {
				return n.Value
			}
		}
		t.Fatalf("%s has no %s", r.Name, name)
		return 0
	}
	if r := optim.AdamW(0, optim.WeightDecay(0)); r.LR != 0 || number(r, "decay") != 0 || number(r, "eps") != 1e-8 {
		t.Errorf("%+v", r)
	}
	if r := optim.AdamW(1e-3); number(r, "decay") != 0.01 || number(r, "beta1") != 0.9 || number(r, "beta2") != 0.999 {
		t.Errorf("%+v", r)
	}
	if r := optim.SGD(0.1); number(r, "decay") != 0 || len(r.State) != 0 {
		t.Errorf("%+v", r)
	}
}
