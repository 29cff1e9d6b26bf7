package nn_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// Sizes of the golden GPT.
const gptWidth, gptVocab = 12, 17

// A goldenModel is a model whose values PyTorch computed: what it is called and how Weft builds it.
type goldenModel struct {
	name  string
	build func() nn.Module
}

func newMLP() nn.Module {
	return nn.Sequential(nn.NewLinear(7, 16), nn.GELU, nn.NewLinear(16, 16), nn.GELU, nn.NewLinear(16, 5))
}

// newGPT is a GPT whose output layer has a bias, and if tied the weight of the token embedding.
func newGPT(tied bool) *nn.GPT {
	g := nn.NewGPT(nn.GPTConfig{Vocab: gptVocab, Context: 8, Width: gptWidth, Heads: 3, Layers: 2, TiedHead: tied})
	g.Head = nn.NewLinear(gptWidth, gptVocab)
	if tied {
		g.Head.Weight = g.Tok.Weight
	}
	return g
}

var goldenModels = []goldenModel{
	{"mlp", newMLP},
	{"gpt", func() nn.Module { return newGPT(false) }},
	{"gpt-tied", func() nn.Module { return newGPT(true) }},
}

// A precision is an element type with the allowed errors, relative to the value or, below 1, absolute.
type precision struct {
	label        string
	dtype        tensor.DType
	once, after  float64 // in one pass, and after ten steps
	skipsKeyBias bool
}

// The bias of the keys has no effect on softmax: its gradient is zero but for rounding, which AdamW scales up to
// steps of full size. In float32 no two programs agree on them, so the final weights are compared without them.
var precisions = []precision{
	{"f64", tensor.Float64, 1e-12, 1e-10, false},
	{"f32", tensor.Float32, 1e-5, 1e-5, true},
}

// keyBias tells whether element i of a parameter belongs to the bias of the keys.
func keyBias(name string, i int) bool {
	return strings.HasSuffix(name, "attn.qkv.bias") && i >= gptWidth && i < 2*gptWidth
}

// growing lists runs that overshoot: rounding errors grow about fourfold in each step, in float64 as in float32, and
// PyTorch's own float32 losses are off by 3e-6. Their allowed error is that many times larger.
var growing = map[string]float64{"gpt/f32/sgd-nesterov": 4}

// A trial is one model in one precision.
type trial struct {
	f     *golden.File
	model string
	precision
	build func() nn.Module
	dev   *tensor.Device
	x, y  *tensor.Tensor
	worst float64 // largest error over the allowed one
}

func TestGoldenModels(t *testing.T) {
	f := openGolden(t)
	for _, m := range goldenModels {
		for _, p := range precisions {
			t.Run(m.name+"/"+p.label, func(t *testing.T) {
				r := &trial{f: f, model: m.name, precision: p, build: m.build, dev: open(t)}
				r.x, r.y = r.batch()
				t.Run("pass", r.pass)
				t.Run("clip", r.clip)
				for name, rule := range map[string]optim.Rule{
					"adamw":        optim.AdamW(1e-2),
					"sgd":          optim.SGD(0.1, optim.Momentum(0.9)),
					"sgd-nesterov": optim.SGD(0.1, optim.Momentum(0.9), optim.Nesterov()),
					"sgd-decay":    optim.SGD(0.1, optim.Momentum(0.9), optim.WeightDecay(0.01)),
				} {
					if f.Has(r.at(name + "/losses")) {
						t.Run(name, func(t *testing.T) { r.train(t, name, rule) })
					}
				}
				t.Logf("largest error: %.2g of the allowed", r.worst)
			})
		}
	}
}

func openGolden(t *testing.T) *golden.File {
	t.Helper()
	f, err := golden.Open("models.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// at is the name of a value of this model and precision.
func (r *trial) at(name string) string { return r.model + "/" + r.label + "/" + name }

// batch is the input and the targets.
func (r *trial) batch() (x, y *tensor.Tensor) {
	targets, shape := r.f.Int64(r.model + "/y")
	y = tensor.FromSlice(targets, shape...)
	if a := r.f.Array(r.model + "/x"); a.DType == "int64" {
		ids, shape := r.f.Int64(r.model + "/x")
		return tensor.FromSlice(ids, shape...), y
	}
	v, shape := r.f.Float32(r.model + "/x")
	return tensor.FromSlice(v, shape...).To(r.dtype), y
}

// load makes the model with the golden's first weights.
func (r *trial) load(t *testing.T) nn.Module {
	t.Helper()
	model := r.build()
	if err := nn.Init(r.dev, model, nn.DType(r.dtype)); err != nil {
		t.Fatal(err)
	}
	var names []string
	nn.Walk(model, func(name string, p *tensor.Tensor) {
		names = append(names, name)
		v, shape := r.f.Float32(r.model + "/init/" + name)
		p.Assign(tensor.FromSlice(v, shape...))
	})
	slices.Sort(names)
	if want := r.f.Under(r.model + "/init/"); !slices.Equal(names, want) {
		t.Fatalf("parameters %v, PyTorch has %v", names, want)
	}
	return model
}

// compare checks values against a golden one.
func (r *trial) compare(t *testing.T, name string, got []float64, allowed float64, skip func(i int) bool) {
	t.Helper()
	want, _ := r.f.Values(name)
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", name, len(got), len(want))
	}
	wrong := 0
	for i := range want {
		if skip != nil && skip(i) {
			continue
		}
		e := math.Abs(got[i]-want[i]) / max(1, math.Abs(want[i])) / allowed
		r.worst = max(r.worst, e)
		if !(e <= 1) {
			if wrong++; wrong <= 3 {
				t.Errorf("%s, element %d: got %.17g, want %.17g", name, i, got[i], want[i])
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%s: %d elements differ", name, wrong)
	}
}

// step is the loss of one training step; update runs inside it, after the backward pass.
func (r *trial) step(t *testing.T, model nn.Module,
	update func(s *tensor.Scope, logits *tensor.Tensor) error) (loss float64) {
	t.Helper()
	err := r.dev.Step(func(s *tensor.Scope) error {
		logits := model.Forward(s.In(r.x))
		l := nn.CrossEntropy(logits, r.y)
		loss = l.Item()
		autograd.Backward(l)
		return update(s, logits)
	})
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// pass compares logits, loss and every gradient.
func (r *trial) pass(t *testing.T) {
	model := r.load(t)
	loss := r.step(t, model, func(_ *tensor.Scope, logits *tensor.Tensor) error {
		r.compare(t, r.at("logits"), tensor.ToSlice[float64](logits), r.once, nil)
		return nil
	})
	r.compare(t, r.at("loss"), []float64{loss}, r.once, nil)
	nn.Walk(model, func(name string, p *tensor.Tensor) {
		r.compare(t, r.at("grad/"+name), tensor.ToSlice[float64](p.Grad()), r.once, nil)
	})
}

// clip compares the norm and the clipped gradients, seen as the steps of SGD with rate 1.
func (r *trial) clip(t *testing.T) {
	model := r.load(t)
	opt := optim.New(optim.SGD(1), model, optim.Clip(0.25))
	before := map[string][]float64{}
	nn.Walk(model, func(name string, p *tensor.Tensor) { before[name] = tensor.ToSlice[float64](p) })
	r.step(t, model, func(s *tensor.Scope, _ *tensor.Tensor) error { return opt.Step(s) })
	r.compare(t, r.at("clip/norm"), []float64{opt.GradNorm()}, r.once, nil)
	nn.Walk(model, func(name string, p *tensor.Tensor) {
		change := before[name]
		for i, v := range tensor.ToSlice[float64](p) {
			change[i] -= v
		}
		r.compare(t, r.at("clip/grad/"+name), change, r.once, nil)
	})
}

// train compares the losses before each of ten steps and after the last, and the weights then.
func (r *trial) train(t *testing.T, name string, rule optim.Rule) {
	model := r.load(t)
	opt := optim.New(rule, model)
	allowed := r.after * cmp.Or(growing[r.at(name)], 1)
	var losses []float64
	for range 10 {
		losses = append(losses, r.step(t, model, func(s *tensor.Scope, _ *tensor.Tensor) error { return opt.Step(s) }))
	}
	losses = append(losses, r.step(t, model, func(*tensor.Scope, *tensor.Tensor) error { return nil }))
	r.compare(t, r.at(name+"/losses"), losses, allowed, nil)
	nn.Walk(model, func(param string, p *tensor.Tensor) {
		skip := func(i int) bool { return r.skipsKeyBias && keyBias(param, i) }
		r.compare(t, r.at(fmt.Sprint(name, "/final/", param)), tensor.ToSlice[float64](p), allowed, skip)
	})
}

func TestGoldenSchedule(t *testing.T) {
	want, _ := openGolden(t).Float64("schedule")
	rate := optim.WarmupCosine(1e-3, 1e-4, 7, len(want))
	for i, w := range want {
		if got := rate(i); math.Abs(got-w) > 1e-15 {
			t.Errorf("step %d: rate %v, want %v", i, got, w)
		}
	}
}
