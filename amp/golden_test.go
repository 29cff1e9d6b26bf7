package amp_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// count is a rule that counts its updates.
var count = optim.Rule{
	Name: "count", LR: 1, Counters: []optim.Counter{{Name: "n", Next: "n + 1"}}, Update: "p - lr*g",
}

// settings are the options of a golden case's scaler; PyTorch's has no smallest scale.
func settings(c *golden.Case) []amp.Option {
	return []amp.Option{amp.InitScale(c.Float("init")), amp.Growth(c.Float("growth"), c.Int("interval")),
		amp.Backoff(c.Float("backoff")),
		amp.MinScale(0x1p-126), amp.MaxSkips(1000)}
}

func openGolden(t *testing.T) *golden.File {
	t.Helper()
	f, err := golden.Open("scaler.json.gz")
	must(t, err)
	return f
}

// Scale, count and decisions are those of PyTorch to the bit, over random overflows.
func TestGoldenTraces(t *testing.T) {
	long(t)
	f := openGolden(t)
	for _, c := range f.Cases {
		if c.Op != "grad_scaler" {
			continue
		}
		t.Run(strings.TrimPrefix(c.Name, "trace/"), func(t *testing.T) {
			found, shape := f.Values(c.Inputs[0])
			scales, _ := f.Values(c.Outputs[0])
			trackers, _ := f.Values(c.Outputs[1])
			stepped, _ := f.Values(c.Outputs[2])
			dev, scaler := open(t), amp.NewGradScaler(settings(&c)...)
			var opts []amp.Optimizer
			var params []*tensor.Tensor
			for range shape[1] {
				w := param("w", 0, 0)
				params, opts = append(params, w), append(opts, optim.New(count, w))
			}
			updates := make([]float64, shape[1])
			for k := range shape[0] {
				if c.Has("change") && k == c.Ints("change")[0] {
					st := scaler.State()
					st.Interval = c.Ints("change")[1]
					must(t, scaler.Restore(st))
				}
				must(t, dev.Step(func(s *tensor.Scope) error {
					scaler.Scale(s.Full(0, tensor.Float32))
					for i, w := range params {
						g := row(1, 2)
						if found[k*shape[1]+i] != 0 {
							g = row(1, float32([]float64{math.NaN(), math.Inf(1)}[k%2]))
						}
						autograd.Backward(s.In(w), autograd.GradOutput(s.In(g)))
					}
					return scaler.Step(s, opts...)
				}))
				if st := scaler.State(); st.Scale != scales[k] || st.Tracker != int(trackers[k]) {
					t.Fatalf("update %d: scale %v after %d updates, want %v after %v",
						k, st.Scale, st.Tracker, scales[k], trackers[k])
				}
				for i, opt := range opts {
					updates[i] += stepped[k*shape[1]+i]
					if n := opt.(*optim.Optimizer).State().Tensors["n"].Item(); n != updates[i] {
						t.Fatalf("update %d: optimizer %d has stepped %v times, want %v", k, i, n, updates[i])
					}
				}
			}
		})
	}
}

// Optimizers under a scaler take PyTorch's steps, with clipping too: by Clip, and by Unscale and hand. In float64: what
// is left are the scale's reciprocal, rounded to float32 alike, and the order of operations.
func TestGoldenTraining(t *testing.T) {
	rules := map[string]optim.Rule{
		"adamw":    optim.AdamW(0.05, optim.WeightDecay(0.1)),
		"sgd":      optim.SGD(0.1),
		"momentum": optim.SGD(0.1, optim.Momentum(0.9), optim.WeightDecay(0.01)),
		"nesterov": optim.SGD(0.1, optim.Momentum(0.9), optim.Nesterov()),
	}
	f := openGolden(t)
	train := func(t *testing.T, c *golden.Case, byHand bool) {
		init, _ := f.Float64(c.Inputs[0])
		grads, shape := f.Float64(c.Inputs[1])
		weights, _ := f.Float64(c.Outputs[0])
		scales, _ := f.Values(c.Outputs[1])
		n, clip := shape[1], c.Float("clip")
		dev, scaler := open(t), amp.NewGradScaler(settings(c)...)
		w := nn.ParameterOf("w", tensor.FromSlice(slices.Clone(init), n))
		var opts []optim.Option
		if clip > 0 && !byHand {
			opts = append(opts, optim.Clip(clip))
		}
		opt := optim.New(rules[c.Op], w, opts...)
		for k := range shape[0] {
			must(t, dev.Step(func(s *tensor.Scope) error {
				g := tensor.FromSlice(grads[k*n:(k+1)*n], n)
				autograd.Backward(scaler.Scale(s.In(w).Mul(g).Sum()))
				if byHand {
					scaler.Unscale(s, opt)
					clipByHand(s, w, clip)
				}
				return scaler.Step(s, opt)
			}))
			if st := scaler.State(); st.Scale != scales[k] {
				t.Fatalf("step %d: scale %v, want %v", k, st.Scale, scales[k])
			}
			for i, v := range values(w) {
				if want := weights[k*n+i]; math.Abs(v-want) > 1e-12*max(1, math.Abs(want)) {
					t.Fatalf("step %d: weight %d is %v, want %v", k, i, v, want)
				}
			}
		}
	}
	for _, c := range f.Cases {
		if c.Op == "grad_scaler" {
			continue
		}
		t.Run(strings.TrimPrefix(c.Name, "train/"), func(t *testing.T) { train(t, &c, false) })
		if c.Float("clip") > 0 {
			t.Run(strings.TrimPrefix(c.Name, "train/")+" by hand", func(t *testing.T) { train(t, &c, true) })
		}
	}
}

var scaleGrad = tensor.MustPointwise("scale_grad", "g*by", []string{"g", "by"})

// clipByHand does what a program does between Unscale and Step: it reads the gradient of w and changes it.
func clipByHand(s *tensor.Scope, w *tensor.Tensor, norm float64) {
	a, lo, hi := engine.Arena(w)
	g, _ := engine.Grads(s, a)
	s.With(func() {
		total := g.Slice(0, lo, hi).Square().Sum().Sqrt()
		by := total.AddScalar(1e-6).Reciprocal().Scale(norm).Minimum(s.Full(1, g.DType()))
		engine.Update(s, scaleGrad, lo, hi, []*tensor.Tensor{g}, []*tensor.Tensor{g, by}, nil)
	}, tensor.NoGrad(), amp.Autocast(tensor.Float32))
}
