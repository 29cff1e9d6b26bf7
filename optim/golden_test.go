package optim_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func openGolden(t *testing.T) *golden.File {
	t.Helper()
	f, err := golden.Open("optim.json.gz")
	must(t, err)
	return f
}

// follow runs the 20 steps of the golden and compares the parameters after each one, within tol of their size.
func follow(t *testing.T, f *golden.File, name string, dt tensor.DType, tol float64,
	start func(dev *tensor.Device, w, b *tensor.Tensor) func(*tensor.Scope, int) error) {
	t.Helper()
	dev := open(t)
	params := map[string]*tensor.Tensor{"w": nn.Parameter(nn.Zeros, 4, 3), "b": nn.Parameter(nn.Zeros, 3)}
	must(t, nn.Init(dev, params, nn.DType(dt)))
	for k, p := range params {
		v, shape := f.Float64("p/" + k)
		p.Assign(tensor.FromSlice(v, shape...))
	}
	step := start(dev, params["w"], params["b"])
	for i := range 20 {
		must(t, dev.Step(func(s *tensor.Scope) error {
			grads := map[*tensor.Tensor][]float64{}
			for k, p := range params {
				all, _ := f.Float64("g/" + k)
				grads[p] = all[i*p.Len() : (i+1)*p.Len()]
			}
			gradients(s, grads)
			return step(s, i)
		}))
		for k, p := range params {
			want, _ := f.Float64(name + "/" + k)
			for j, got := range tensor.ToSlice[float64](p) {
				if w := want[i*p.Len()+j]; !(math.Abs(got-w) <= tol*max(1, math.Abs(w))) {
					t.Fatalf("step %d, %s[%d]: %.17g, want %.17g", i, k, j, got, w)
				}
			}
		}
	}
}

// Every rule against PyTorch, or the formula of its paper.
func TestGoldenRules(t *testing.T) {
	f := openGolden(t)
	betas, eps, decay := optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.1)
	for name, rule := range map[string]optim.Rule{
		"adam":             optim.Adam(0.1),
		"adam-decay":       optim.Adam(0.1, betas, eps, decay),
		"adam-amsgrad":     optim.Adam(0.1, optim.AMSGrad(), decay),
		"adamw":            optim.AdamW(0.1),
		"adamw-amsgrad":    optim.AdamW(0.1, betas, decay, optim.AMSGrad()),
		"nadam":            optim.NAdam(0.1),
		"nadam-decay":      optim.NAdam(0.1, betas, eps, decay, optim.MomentumDecay(0.1)),
		"radam":            optim.RAdam(0.1),
		"radam-decay":      optim.RAdam(0.1, betas, eps, decay),
		"adamax":           optim.Adamax(0.1),
		"adamax-decay":     optim.Adamax(0.1, betas, eps, decay),
		"rmsprop":          optim.RMSprop(0.1),
		"rmsprop-momentum": optim.RMSprop(0.1, optim.Alpha(0.9), eps, decay, optim.Momentum(0.8)),
		"rmsprop-centered": optim.RMSprop(0.1, optim.Alpha(0.9), optim.Centered()),
		"rmsprop-all":      optim.RMSprop(0.1, optim.Alpha(0.9), optim.Centered(), optim.Momentum(0.8), decay),
		"adagrad":          optim.Adagrad(0.1),
		"adagrad-decay":    optim.Adagrad(0.1, optim.LRDecay(0.2), decay, optim.InitialAccumulator(0.5), eps),
		"adadelta":         optim.Adadelta(1),
		"adadelta-decay":   optim.Adadelta(0.5, optim.Rho(0.8), eps, decay),
		"lamb":             optim.LAMB(0.1),
		"lamb-decay":       optim.LAMB(0.1, betas, eps, decay),
		"adafactor":        optim.Adafactor(0.1),
		"adafactor-decay": optim.Adafactor(0.5, optim.Beta2Decay(-0.5), optim.Eps(1e-6), optim.ScaleEps(0.5),
			optim.UpdateClip(0.8), decay),
		"muon":       optim.Muon(0.1),
		"muon-plain": optim.Muon(0.1, optim.Momentum(0.8), optim.WeightDecay(0), optim.Eps(100)),
		"rprop":      optim.Rprop(0.1),
		"rprop-etas": optim.Rprop(0.1, optim.Etas(0.3, 1.5), optim.StepSizes(0.05, 0.5)),
	} {
		for dt, tol := range map[tensor.DType]float64{tensor.Float64: 1e-12, tensor.Float32: 2e-5} {
			t.Run(name+"/"+dt.String(), func(t *testing.T) {
				follow(t, f, name, dt, tol, func(_ *tensor.Device, w, b *tensor.Tensor) func(*tensor.Scope, int) error {
					params := []*tensor.Tensor{w, b}
					if rule.Name == "muon" {
						params = params[:1]
					}
					opt := optim.New(rule, params)
					return func(s *tensor.Scope, _ int) error { return opt.Step(s) }
				})
			})
		}
	}
}

// Groups with one clip, and clipping by value.
func TestGoldenGroups(t *testing.T) {
	f := openGolden(t)
	for name, start := range map[string]func(w, b *tensor.Tensor) *optim.Optimizer{
		"sgd-groups": func(w, b *tensor.Tensor) *optim.Optimizer {
			rule := func(lr, decay float64) optim.Rule {
				return optim.SGD(lr, optim.Momentum(0.9), optim.WeightDecay(decay))
			}
			return optim.New(rule(0.1, 0.1), []*tensor.Tensor{w, b}, optim.Clip(2), optim.Group(b, rule(0.02, 0.3)))
		},
		"sgd-clip-value": func(w, b *tensor.Tensor) *optim.Optimizer {
			return optim.New(optim.SGD(0.1), []*tensor.Tensor{w, b}, optim.ClipValue(0.7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			by := func(_ *tensor.Device, w, b *tensor.Tensor) func(*tensor.Scope, int) error {
				opt := start(w, b)
				return func(s *tensor.Scope, _ int) error { return opt.Step(s) }
			}
			follow(t, f, name, tensor.Float64, 1e-12, by)
		})
	}
}

// Every schedule against PyTorch's.
func TestGoldenSchedules(t *testing.T) {
	f := openGolden(t)
	const rate = 0.5
	all := map[string]optim.Schedule{
		"step":        optim.StepLR(rate, 7, 0.3),
		"multi-step":  optim.MultiStepLR(rate, []int{3, 4, 4, 20}, 0.3),
		"exponential": optim.ExponentialLR(rate, 0.8),
		"constant":    optim.ConstantLR(rate, 0.25, 6),
		"linear":      optim.LinearLR(rate, 0.25, 0.75, 11),
		"polynomial":  optim.PolynomialLR(rate, 21, 2.5),
		"cosine":      optim.CosineAnnealingLR(rate, 0.1, 11),
		"restarts":    optim.CosineAnnealingWarmRestarts(rate, 0.1, 4, 2),
		"restarts-1":  optim.CosineAnnealingWarmRestarts(rate, 0.1, 7, 1),
		"one-cycle":   optim.OneCycleLR(0.5, 30),
		"one-cycle-options": optim.OneCycleLR(0.5, 31, optim.PctStart(0.21), optim.AnnealLinear(),
			optim.DivFactors(7, 70), optim.ThreePhase()),
		"cyclic":     optim.CyclicLR(0.1, 0.5, 4, 7),
		"cyclic-2":   optim.CyclicLR(0.1, 0.5, 3, 5, optim.Triangular2()),
		"cyclic-exp": optim.CyclicLR(0.1, 0.5, 5, 5, optim.ExpRange(0.9)),
		"sequential": optim.SequentialLR([]optim.Schedule{optim.ConstantLR(rate, 0.25, 3),
			optim.LinearLR(rate, 0.25, 0.75, 8), optim.StepLR(rate, 5, 0.5)}, []int{4, 15}),
		"chained": optim.ChainedScheduler(rate, optim.ConstantLR(1, 0.25, 6), optim.ExponentialLR(1, 0.9)),
	}
	for _, name := range f.Under("schedule/") {
		if all[name] == nil {
			t.Errorf("schedule %s is not compared", name)
			continue
		}
		want, _ := f.Float64("schedule/" + name)
		for i, w := range want {
			if got := all[name](i); math.Abs(got-w) > 1e-14 {
				t.Errorf("%s, step %d: %.17g, want %.17g", name, i, got, w)
			}
		}
	}
}

func TestGoldenPlateau(t *testing.T) {
	f := openGolden(t)
	values, _ := f.Float64("plateau/values")
	for name, p := range map[string]optim.ReduceLROnPlateau{
		"plain":    {Rate: 0.5, Factor: 0.1, Patience: 2, MinDelta: 1e-4},
		"cooldown": {Rate: 0.5, Factor: 0.5, Patience: 1, MinDelta: 1e-4, Cooldown: 3, MinRate: 0.05},
		"absolute": {Rate: 0.5, Factor: 0.5, Patience: 2, MinDelta: 0.2, Absolute: true},
		"max":      {Rate: 0.5, Factor: 0.5, Patience: 2, MinDelta: 0.05, Max: true},
	} {
		want, _ := f.Float64("plateau/" + name)
		for i, v := range values {
			if got := p.Step(v); math.Abs(got-want[i]) > 1e-15 {
				t.Errorf("%s, value %d: %v, want %v", name, i, got, want[i])
			}
		}
	}
	p := optim.ReduceLROnPlateau{Rate: 1, Factor: 0.5}
	for i, v := range []float64{math.NaN(), math.Inf(-1), 3, math.NaN()} {
		if got := p.Step(v); got != []float64{0.5, 0.25, 0.25, 0.125}[i] {
			t.Errorf("rate %v after value %d, %v", got, i, v)
		}
	}
}
