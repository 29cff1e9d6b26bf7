package optim_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// Every hyperparameter that is no number, infinite, out of range or in contradiction to another is refused where it is
// given, by name, with its value and its range.
func TestHyperparameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	w := tensor.ParameterOf("w", tensor.Zeros(tensor.Float32, 2))
	double := param("double", 1)
	begin := func(r optim.Rule) func() { return func() { optim.New(r, w) } }
	tried := 0
	refused := func(f func(), parts ...string) {
		t.Helper()
		tried++
		wantError(t, tensor.Try(f), tensor.ErrValue, append(parts, "check_test.go:")...)
	}
	for _, v := range []float64{nan, inf, -inf, -0.5} {
		refused(begin(optim.AdamW{LR: v}), "adamw", "LR is", "[0, +Inf)")
		refused(begin(optim.AdamW{Eps: v}), "adamw", "Eps is", "-1 stands for 0")
		refused(begin(optim.AdamW{WeightDecay: v}), "adamw", "WeightDecay is")
		refused(begin(optim.SGD{LR: v}), "sgd", "LR is")
		refused(begin(optim.SGD{WeightDecay: v}), "sgd", "WeightDecay is")
		refused(begin(optim.Lion{LR: v}), "lion", "LR is")
		refused(begin(optim.Lion{WeightDecay: v}), "lion", "WeightDecay is")
		refused(func() { optim.Clip(v) }, "clip", "the norm is")
		refused(func() { optim.Constant(v) }, "constant", "rate is")
		refused(func() { optim.WarmupCosine(v, 0, 1, 2) }, "warmup_cosine", "peak is")
		refused(func() { optim.WarmupLinear(1, v, 1, 2) }, "warmup_linear", "floor is")
	}
	for _, v := range []float64{nan, inf, -0.5, 1, 1.5, 1 - 1e-9} { // the last one is 1 in float32
		refused(begin(optim.AdamW{Beta1: v}), "adamw", "Beta1 is", "outside [0, 1)")
		refused(begin(optim.AdamW{Beta2: v}), "adamw", "Beta2 is")
		refused(begin(optim.SGD{Momentum: v}), "sgd", "Momentum is")
		refused(begin(optim.Lion{Beta1: v}), "lion", "Beta1 is")
		refused(begin(optim.Lion{Beta2: v}), "lion", "Beta2 is")
	}
	for _, v := range []float64{1e39, 1e-50} { // infinite and 0 in float32
		refused(begin(optim.SGD{LR: v}), "sgd", "in float32")
		refused(begin(optim.AdamW{Eps: v}), "adamw", "in float32")
		optim.New(optim.SGD{LR: v}, double)
	}
	refused(begin(optim.SGD{Nesterov: true}), "sgd", "Nesterov", "momentum")
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

	opt := optim.New(optim.SGD{}, w)
	for _, v := range []float64{nan, inf, -1, 1e39} {
		opt.LR.Set(v)
		tried++
		wantError(t, open(t).Step(opt.Step), tensor.ErrValue, "sgd", "the learning rate is", "in float32")
	}
	for _, r := range []optim.Rule{optim.AdamW{WeightDecay: -1, Beta1: -1, Beta2: -1, Eps: -1}, optim.Lion{Beta1: -1},
		optim.SGD{Momentum: 0.9, Nesterov: true}, optim.AdamW{}} {
		optim.New(r, w)
	}
	t.Logf("%d tried and typed", tried)
}
