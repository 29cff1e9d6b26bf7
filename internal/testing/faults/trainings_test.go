package faults

import (
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A maker makes a training on a device.
type maker func(t *testing.T, dev *tensor.Device) *training

var trainings = []maker{mlp, clipped, accumulated, bfloat16, float16, twoOptimizers, careless, gpt, checkpointed,
	offloaded, changingBatch, statistics}

func open(t *testing.T) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("faults", tensor.Seed(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place makes a parameter of ones in an arena of its own.
func place(t *testing.T, dev *tensor.Device, name string, dt tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	p := nn.Parameter(nn.Ones, shape...)
	must(t, engine.Place(dev, "", []string{name}, []*tensor.Tensor{p}, dt))
	return p
}

// reference is what a training does undisturbed: the hash after each step.
type reference struct {
	name   string
	hashes []string
}

func undisturbed(t *testing.T, begin maker, steps int) (r reference) {
	dev := open(t)
	tr := begin(t, dev)
	r.name = tr.name
	for k := range steps {
		must(t, tr.run(dev, k))
		r.hashes = append(r.hashes, tr.hash(dev))
	}
	return r
}

// batch is rows of numbers and a class for each.
func batch(s *tensor.Scope, k, rows, width int) (x, y *tensor.Tensor) {
	classes := make([]int64, rows)
	for i := range classes {
		classes[i] = int64((i + k) % 3)
	}
	return s.In(tensor.Randn(tensor.Seed(uint64(k)), rows, width)), s.In(tensor.FromSlice(classes, rows))
}

func newMLP(t *testing.T, dev *tensor.Device, dt tensor.DType) *nn.Chain {
	t.Helper()
	m := nn.Sequential(nn.NewLinear(4, 5), nn.GELU, nn.NewDropout(0.2), nn.NewLinear(5, 3))
	must(t, nn.Init(dev, m, nn.DType(dt)))
	return m
}

func mlp(t *testing.T, dev *tensor.Device) *training {
	m := newMLP(t, dev, tensor.Float32)
	opt := optim.New(optim.AdamW(0.1), m)
	return &training{name: "mlp", params: nn.Parameters(m), optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 4, 4)
			autograd.Backward(nn.CrossEntropy(m.Forward(x), y))
			return opt.Step(s)
		}}
}

// clipped has arenas of two types and two ranges of decay.
func clipped(t *testing.T, dev *tensor.Device) *training {
	a, b := newMLP(t, dev, tensor.Float32), newMLP(t, dev, tensor.Float64)
	both := []any{a, b}
	opt := optim.New(optim.SGD(0.1, optim.Momentum(0.9), optim.WeightDecay(0.1)), both, optim.Clip(0.1),
		optim.NoDecay(optim.Vectors))
	return &training{name: "clipped", params: nn.Parameters(both), optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 4, 4)
			loss := nn.CrossEntropy(a.Forward(x), y).To(tensor.Float64)
			autograd.Backward(loss.Add(nn.CrossEntropy(b.Forward(x.To(tensor.Float64)), y)))
			return opt.Step(s)
		}}
}

// accumulated updates in every second step, with parts in each.
func accumulated(t *testing.T, dev *tensor.Device) *training {
	m, u := newMLP(t, dev, tensor.Float32), place(t, dev, "u", tensor.Float64, 3)
	both := []any{m, u}
	opt := optim.New(optim.AdamW(0.1), both)
	return &training{name: "accumulated", params: nn.Parameters(both), optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			autograd.Accumulate(s, 2, 8, func(i int) *tensor.Tensor {
				x, y := batch(s, 2*k+i, 4, 4)
				loss := nn.CrossEntropy(m.Forward(x), y).Scale(4)
				return loss.To(tensor.Float64).Add(s.In(u).Square().Sum())
			})
			if k%2 == 0 {
				return nil
			}
			return opt.Step(s)
		}}
}

func bfloat16(t *testing.T, dev *tensor.Device) *training {
	tr := mlp(t, dev)
	tr.name, tr.opts = "bfloat16", []tensor.Option{amp.Autocast(tensor.BFloat16)}
	return tr
}

// float16 begins with a scale so high that updates are skipped.
func float16(t *testing.T, dev *tensor.Device) *training {
	m := newMLP(t, dev, tensor.Float32)
	opt := optim.New(optim.Lion(0.1), m, optim.Clip(1))
	scaler := amp.NewGradScaler(amp.InitScale(1<<18), amp.Growth(2, 1))
	return &training{name: "float16", params: nn.Parameters(m), optimizers: []*optim.Optimizer{opt}, scaler: scaler,
		opts: []tensor.Option{amp.Autocast(tensor.Float16)},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 4, 4)
			autograd.Backward(scaler.Scale(nn.CrossEntropy(m.Forward(x), y)))
			return scaler.Step(s, opt)
		}}
}

// twoOptimizers share a scaler; one is unscaled before.
func twoOptimizers(t *testing.T, dev *tensor.Device) *training {
	a, b := newMLP(t, dev, tensor.Float32), newMLP(t, dev, tensor.Float32)
	oa, ob := optim.New(optim.AdamW(0.1), a), optim.New(optim.SGD(0.1, optim.Momentum(0.9)), b, optim.Clip(1))
	scaler := amp.NewGradScaler(amp.InitScale(256))
	return &training{name: "two optimizers", params: nn.Parameters([]any{a, b}),
		optimizers: []*optim.Optimizer{oa, ob}, scaler: scaler, opts: []tensor.Option{amp.Autocast(tensor.Float16)},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 4, 4)
			hidden := tensor.Cat(1, a.Forward(x).Tanh(), x.Slice(1, 0, 1))
			autograd.Backward(scaler.Scale(nn.CrossEntropy(b.Forward(hidden), y)))
			scaler.Unscale(s, ob)
			return scaler.Step(s, oa, ob)
		}}
}

// careless does not look at errors.
func careless(t *testing.T, dev *tensor.Device) *training {
	tr := mlp(t, dev)
	step := tr.step
	tr.name, tr.step = "careless", func(s *tensor.Scope, k int) error {
		step(s, k)
		return nil
	}
	return tr
}

func gpt(t *testing.T, dev *tensor.Device) *training {
	return trainGPT(t, dev, "gpt", nn.GPTConfig{Vocab: 5, Context: 4, Width: 8, Heads: 2, Layers: 1, Dropout: 0.1})
}

func checkpointed(t *testing.T, dev *tensor.Device) *training {
	return trainGPT(t, dev, "gpt with checkpoints", nn.GPTConfig{Vocab: 5, Context: 4, Width: 8, Heads: 2, Layers: 1,
		Dropout: 0.1, CheckpointBlocks: 1})
}

func offloaded(t *testing.T, dev *tensor.Device) *training {
	tr := trainGPT(t, dev, "gpt offloaded", nn.GPTConfig{Vocab: 5, Context: 4, Width: 8, Heads: 2, Layers: 2,
		Dropout: 0.1, CheckpointBlocks: 1})
	tr.opts = []tensor.Option{autograd.Offload()}
	return tr
}

func trainGPT(t *testing.T, dev *tensor.Device, name string, c nn.GPTConfig) *training {
	m := nn.NewGPT(c)
	must(t, nn.Init(dev, m))
	opt := optim.New(optim.AdamW(0.1), m, optim.Clip(1), optim.NoDecay(optim.Vectors))
	return &training{name: name, params: nn.Parameters(m), optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			tokens := make([]int64, 10)
			for i := range tokens {
				tokens[i] = int64((i*i + k) % 5)
			}
			x, y := tensor.FromSlice(tokens[:8], 2, 4), tensor.FromSlice(tokens[2:], 2, 4)
			autograd.Backward(nn.CrossEntropy(m.Forward(s.In(x)), s.In(y)))
			return opt.Step(s)
		}}
}

func changingBatch(t *testing.T, dev *tensor.Device) *training {
	m := newMLP(t, dev, tensor.Float32)
	opt := optim.New(optim.SGD(0.1), m)
	return &training{name: "changing batch", params: nn.Parameters(m), optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 2+37*k, 4)
			autograd.Backward(nn.CrossEntropy(m.Forward(x), y))
			return opt.Step(s)
		}}
}

// statistics keeps a running mean.
func statistics(t *testing.T, dev *tensor.Device) *training {
	m := newMLP(t, dev, tensor.Float32)
	mean, err := engine.NewState(dev, "mean", tensor.Float32, 4)
	must(t, err)
	opt := optim.New(optim.AdamW(0.1), m)
	return &training{name: "statistics", params: nn.Parameters(m), state: []*tensor.Tensor{mean},
		optimizers: []*optim.Optimizer{opt},
		step: func(s *tensor.Scope, k int) error {
			x, y := batch(s, k, 4, 4)
			now := s.In(mean).Scale(0.9).Add(x.Mean(0).Scale(0.1))
			mean.Assign(now)
			autograd.Backward(nn.CrossEntropy(m.Forward(x.Sub(now)), y))
			return opt.Step(s)
		}}
}
