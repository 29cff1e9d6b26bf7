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

// The same of the other rules and of schedules.
func TestMoreHyperparameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	w := nn.ParameterOf("w", tensor.Zeros(tensor.Float32, 2))
	refused := func(f func(), parts ...string) {
		t.Helper()
		wantError(t, engine.Try(f), tensor.ErrValue, append(parts, "check_test.go:")...)
	}
	for _, v := range []float64{nan, inf, -inf, -0.5} {
		for _, rule := range []func(float64, ...optim.RuleOption) optim.Rule{optim.LAMB, optim.Adafactor, optim.Muon} {
			refused(func() { rule(v) }, "LR is", "[0, +Inf)")
			refused(func() { rule(1e-3, optim.Eps(v)) }, "Eps is")
			refused(func() { rule(1e-3, optim.WeightDecay(v)) }, "WeightDecay is")
		}
		refused(func() { optim.Adafactor(1e-3, optim.Beta2Decay(-v)) }, "adafactor", "Beta2Decay")
		refused(func() { optim.Adafactor(1e-3, optim.ScaleEps(v)) }, "adafactor", "ScaleEps")
		refused(func() { optim.Adafactor(1e-3, optim.UpdateClip(v)) }, "adafactor", "UpdateClip")
		refused(func() { optim.ClipValue(v) }, "clip_value", "the limit is")
		for _, rule := range []func(float64, ...optim.RuleOption) optim.Rule{optim.Adam, optim.NAdam, optim.RAdam,
			optim.Adamax, optim.RMSprop, optim.Adagrad, optim.Adadelta} {
			refused(func() { rule(v) }, "LR is", "[0, +Inf)")
			refused(func() { rule(1e-3, optim.Eps(v)) }, "Eps is")
			refused(func() { rule(1e-3, optim.WeightDecay(v)) }, "WeightDecay is")
		}
		refused(func() { optim.Rprop(v) }, "rprop", "LR is")
		refused(func() { optim.Rprop(1, optim.Etas(0.5, v)) }, "rprop", "Etas")
		refused(func() { optim.Rprop(1, optim.StepSizes(v, 1)) }, "rprop", "StepSizes are", "0 < least <= most")
		refused(func() { optim.NAdam(1e-3, optim.MomentumDecay(v)) }, "nadam", "MomentumDecay is")
		refused(func() { optim.Adagrad(1e-3, optim.LRDecay(v)) }, "adagrad", "LRDecay is")
		refused(func() { optim.Adagrad(1e-3, optim.InitialAccumulator(v)) }, "adagrad", "InitialAccumulator is")
		refused(func() { optim.StepLR(v, 1, 1) }, "step_lr", "outside [0, +Inf)")
		refused(func() { optim.MultiStepLR(1, nil, v) }, "multi_step_lr")
		refused(func() { optim.ConstantLR(1, v, 1) }, "constant_lr")
		refused(func() { optim.LinearLR(1, v, 1, 1) }, "linear_lr")
		refused(func() { optim.PolynomialLR(1, 1, v) }, "polynomial_lr")
		refused(func() { optim.CosineAnnealingLR(1, v, 1) }, "cosine_annealing_lr")
		refused(func() { optim.CosineAnnealingWarmRestarts(v, 0, 1, 1) }, "cosine_annealing_warm_restarts")
		refused(func() { optim.OneCycleLR(v, 5) }, "one_cycle_lr")
		refused(func() { optim.PctStart(v) }, "one_cycle_lr", "outside (0, 1)")
		refused(func() { optim.DivFactors(1, v) }, "one_cycle_lr", "positive and finite")
		refused(func() { optim.CyclicLR(0, v, 1, 1) }, "cyclic_lr")
		refused(func() { optim.ExpRange(v) }, "cyclic_lr")
		refused(func() { optim.ChainedScheduler(v, optim.Constant(1)) }, "chained_scheduler")
		refused(func() { (&optim.ReduceLROnPlateau{Rate: v}).Step(1) }, "reduce_lr_on_plateau")
		refused(func() { (&optim.ReduceLROnPlateau{Factor: v}).Step(1) }, "reduce_lr_on_plateau", "Factor")
	}
	for _, v := range []float64{nan, inf, -0.5, 1, 1.5, 1 - 1e-9} { // the last one is 1 in float32
		refused(func() { optim.New(optim.Adam(1e-3, optim.Betas(0.9, v), optim.AMSGrad()), w) }, "adam", "beta2 is")
		refused(func() { optim.New(optim.RMSprop(1e-3, optim.Alpha(v)), w) }, "rmsprop", "Alpha is")
		refused(func() { optim.New(optim.Adadelta(1e-3, optim.Rho(v)), w) }, "adadelta", "Rho is")
	}
	refused(func() { optim.StepLR(1, 0, 1) }, "size is 0", "positive")
	refused(func() { optim.MultiStepLR(1, []int{3, 2}, 1) }, "multi_step_lr", "[3 2] do not ascend")
	refused(func() { optim.CyclicLR(0, 1, -1, 1) }, "up is -1")
	refused(func() { optim.CosineAnnealingWarmRestarts(1, 0, 1, 0) }, "mult is 0")
	refused(func() { optim.SequentialLR(nil, nil) }, "sequential_lr", "no schedule")
	refused(func() { optim.SequentialLR([]optim.Schedule{optim.Constant(1)}, []int{1}) }, "1 schedules need 0")
	refused(func() { optim.ChainedScheduler(1, nil) }, "chained_scheduler", "nil")
	refused(func() { optim.Rprop(1, optim.Etas(1, 1.2)) }, "Etas are 1 and 1.2")
	refused(func() { optim.Rprop(1, optim.StepSizes(2, 1)) }, "StepSizes are 2 and 1")
	refused(func() { optim.Adam(1, optim.Momentum(0.9)) }, "adam", `no option "Momentum"`, "AMSGrad")
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
