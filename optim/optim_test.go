package optim_test

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB, opts ...tensor.OpenOption) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", append([]tensor.OpenOption{tensor.Seed(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func param(name string, v ...float64) *tensor.Tensor {
	return nn.ParameterOf(name, tensor.FromSlice(v, len(v)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v is not of kind %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func wantValues(t *testing.T, what string, got *tensor.Tensor, want ...float64) {
	t.Helper()
	v := tensor.ToSlice[float64](got)
	for i := range want {
		if len(v) != len(want) || math.Abs(v[i]-want[i]) > 1e-12 {
			t.Fatalf("%s: %v, want %v", what, v, want)
		}
	}
}

// update runs one step whose gradient of each parameter w is g: that of sum(w*g).
func update(t *testing.T, dev *tensor.Device, opt *optim.Optimizer, grads map[*tensor.Tensor][]float64) {
	t.Helper()
	must(t, dev.Step(func(s *tensor.Scope) error {
		gradients(s, grads)
		return opt.Step(s)
	}))
}

func gradients(s *tensor.Scope, grads map[*tensor.Tensor][]float64) {
	for w, g := range grads {
		autograd.Backward(s.In(w).Mul(tensor.FromSlice(g, w.Shape()...)).Sum())
	}
}

func TestSGD(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2)
	opt := optim.New(optim.SGD(0.5), w)
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {2, -4}})
	wantValues(t, "plain", w, 0, 4)
	if w.Grad() != nil {
		t.Error("the gradient is left after the step that applied it")
	}

	w = param("w", 1)
	opt = optim.New(optim.SGD(1, optim.Momentum(0.5)), w)
	for _, want := range []float64{0, -1.5, -3.25} { // b is 1, 1.5, 1.75
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1}})
		wantValues(t, "momentum", w, want)
	}

	w = param("w", 1)
	opt = optim.New(optim.SGD(1, optim.Momentum(0.5), optim.Nesterov()), w)
	for _, want := range []float64{-0.5, -2.25} { // g + b/2 is 1.5, 1.75
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1}})
		wantValues(t, "Nesterov", w, want)
	}
}

// AdamW against its formula, in float64.
func TestAdamW(t *testing.T) {
	dev := open(t)
	rule := optim.AdamW(0.1, optim.Betas(0.8, 0.9), optim.Eps(1e-3), optim.WeightDecay(0.2))
	w := param("w", 1, -2)
	opt := optim.New(rule, w)
	p, m, v := []float64{1, -2}, make([]float64, 2), make([]float64, 2)
	for step := 1; step <= 5; step++ {
		g := []float64{float64(step), -0.25}
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: g})
		for i := range p {
			m[i] = 0.8*m[i] + 0.2*g[i]
			v[i] = 0.9*v[i] + 0.1*g[i]*g[i]
			mean, square := m[i]/(1-math.Pow(0.8, float64(step))), v[i]/(1-math.Pow(0.9, float64(step)))
			p[i] -= 0.1*0.2*p[i] + 0.1*mean/(math.Sqrt(square)+1e-3)
		}
		wantValues(t, "weights", w, p...)
	}
}

// Lion against its formula, in float64.
func TestLion(t *testing.T) {
	dev := open(t)
	w := param("w", 1, -2, 3)
	opt := optim.New(optim.Lion(0.1, optim.Betas(0.75, 0.9), optim.WeightDecay(0.2)), w)
	p, m := []float64{1, -2, 3}, make([]float64, 3)
	for step := range 30 {
		g := []float64{math.Sin(float64(step)), math.Cos(float64(2 * step)), 0}
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: g})
		for i := range p {
			c := 0.75*m[i] + 0.25*g[i]
			p[i] -= 0.1 * 0.2 * p[i]
			if c != 0 {
				p[i] -= math.Copysign(0.1, c)
			}
			m[i] = 0.9*m[i] + 0.1*g[i]
		}
		wantValues(t, "weights", w, p...)
		wantValues(t, "momentum", opt.State().Tensors["m.w"], m...)
	}
}

// Parameters without a gradient stay as they are, weight decay included, and so do their moments.
func TestParametersWithoutGradient(t *testing.T) {
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(2, 2), nn.NewLinear(2, 2), nn.NewLinear(2, 2))
	must(t, nn.Init(dev, model))
	opt := optim.New(optim.AdamW(0.1, optim.WeightDecay(0.5)), model)
	before := map[string][]float64{}
	nn.Walk(model, func(name string, p *tensor.Tensor) { before[name] = tensor.ToSlice[float64](p) })
	must(t, dev.Step(func(s *tensor.Scope) error {
		var middle []*tensor.Tensor
		nn.Walk(model, func(name string, p *tensor.Tensor) {
			if strings.HasPrefix(name, "1.") {
				middle = append(middle, p)
			}
		})
		autograd.Backward(model.Forward(s.Full(1, tensor.Float32, 1, 2)).Sum(), autograd.Only(middle...))
		return opt.Step(s)
	}))
	nn.Walk(model, func(name string, p *tensor.Tensor) {
		changed := !slices.Equal(before[name], tensor.ToSlice[float64](p))
		if want := strings.HasPrefix(name, "1."); changed != want {
			t.Errorf("%s changed: %v, want %v", name, changed, want)
		}
		m := tensor.ToSlice[float64](opt.State().Tensors["m."+name])
		if moved := slices.ContainsFunc(m, func(v float64) bool { return v != 0 }); moved != strings.HasPrefix(name,
			"1.") {
			t.Errorf("moment of %s: %v", name, m)
		}
	})
}

func TestNoDecay(t *testing.T) {
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(2, 2))
	run := func(opts ...optim.Option) (weight, bias float64) {
		must(t, nn.Init(dev, model, nn.DType(tensor.Float64)))
		nn.Walk(model, func(_ string, p *tensor.Tensor) { p.Assign(tensor.Of(2.0)) })
		opt := optim.New(optim.SGD(0.1, optim.WeightDecay(0.5)), model, opts...)
		must(t, dev.Step(func(s *tensor.Scope) error { // all gradients are zero
			autograd.Backward(model.Forward(s.Full(0, tensor.Float64, 1, 2)).Scale(0).Sum())
			return opt.Step(s)
		}))
		ps := nn.Parameters(model)
		return tensor.ToSlice[float64](ps[0])[0], tensor.ToSlice[float64](ps[1])[0]
	}
	if w, b := run(); w != 1.9 || b != 1.9 {
		t.Errorf("weight %v and bias %v with decay, want 1.9", w, b)
	}
	if w, b := run(optim.NoDecay(optim.Vectors)); w != 1.9 || b != 2 {
		t.Errorf("weight %v and bias %v, want 1.9 and 2", w, b)
	}
}

func TestClip(t *testing.T) {
	dev := open(t)
	w, u := param("w", 0), param("u", 0)
	opt := optim.New(optim.SGD(1), []*tensor.Tensor{w, u}, optim.Clip(1))
	if n := opt.GradNorm(); n != 0 {
		t.Errorf("norm %v before the first step", n)
	}
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {3}, u: {4}})
	if n := opt.GradNorm(); n != 5 {
		t.Errorf("norm %v, want 5", n)
	}
	wantValues(t, "w", w, -3/(5+1e-6))
	wantValues(t, "u", u, -4/(5+1e-6))
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {0.3}, u: {0.4}}) // short enough
	wantValues(t, "w", w, -3/(5+1e-6)-0.3)
	if n := opt.GradNorm(); math.Abs(n-0.5) > 1e-15 {
		t.Errorf("norm %v, want 0.5", n)
	}
	unclipped := optim.New(optim.SGD(1), w)
	update(t, dev, unclipped, map[*tensor.Tensor][]float64{w: {3}})
	if n := unclipped.GradNorm(); n != 0 {
		t.Errorf("norm %v without Clip", n)
	}
}

// One optimizer serves float32 and float64 parameters; the norm is that of all together.
func TestTwoTypes(t *testing.T) {
	dev := open(t)
	single := nn.ParameterOf("single", tensor.FromSlice([]float32{0}, 1))
	double := param("double", 0)
	opt := optim.New(optim.SGD(1, optim.Momentum(0.9)), []*tensor.Tensor{single, double}, optim.Clip(1))
	must(t, dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(single).Scale(3).Sum())
		autograd.Backward(s.In(double).Scale(4).Sum())
		return opt.Step(s)
	}))
	if n := opt.GradNorm(); n != 5 {
		t.Errorf("norm %v, want 5", n)
	}
	wantValues(t, "double", double, -4/(5+1e-6))
	if got := float32(single.Item()); got != float32(-3/(5+1e-6)) {
		t.Errorf("float32 parameter is %v", got)
	}
	state := opt.State().Tensors
	if state["b.single"].DType() != tensor.Float32 || state["b.double"].DType() != tensor.Float64 {
		t.Errorf("state %v", state)
	}
}

func TestFailures(t *testing.T) {
	dev := open(t)
	w, u := param("w", 1, 2), param("u", 3)
	opt := optim.New(optim.AdamW(0.1), w)
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1, -1}})
	hash := opt.Hash()
	check := func(what string) {
		t.Helper()
		if opt.Hash() != hash {
			t.Errorf("%s changed parameters or state", what)
		}
	}
	wantError(t, dev.Step(opt.Step), tensor.ErrGrad, "adamw", "no parameter has a gradient", "Backward")
	check("a step without gradient")
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(u).Sum())
		return opt.Step(s)
	})
	wantError(t, err, tensor.ErrGrad, "no parameter has a gradient", "optim_test.go:")
	check("a step with another parameter's gradient")
	boom := errors.New("boom")
	err = dev.Step(func(s *tensor.Scope) error {
		gradients(s, map[*tensor.Tensor][]float64{w: {1, 1}})
		return boom
	})
	if !errors.Is(err, boom) || w.Grad() != nil {
		t.Errorf("error %v, gradient %v", err, w.Grad())
	}
	check("a failed step")

	for _, rate := range []float64{math.NaN(), math.Inf(1), -1} {
		opt.LR.Set(rate)
		err := dev.Step(func(s *tensor.Scope) error {
			gradients(s, map[*tensor.Tensor][]float64{w: {1, 1}})
			return opt.Step(s)
		})
		wantError(t, err, tensor.ErrValue, "adamw", "learning rate")
		check("a step with a wrong rate")
	}

	wantError(t, engine.Try(func() { optim.New(optim.SGD(1e-3), nn.ReLU) }), tensor.ErrValue, "sgd", "no parameters")
	wantError(t, engine.Try(func() { optim.New(optim.SGD(1e-3), nn.NewLinear(1, 1)) }), tensor.ErrStep,
		"has no values yet", "optim_test.go:")
}

// Memory that is short for the moments fails before anything is written.
func TestShortOfMemory(t *testing.T) {
	const n = 1 << 20
	dev := open(t, tensor.MemoryLimit(19<<20)) // small ones 2 MiB, parameters, gradients, source 12, a moment 4
	p := nn.Parameter(nn.Ones, n)
	must(t, nn.Init(dev, p))
	opt := optim.New(optim.AdamW(0.1), p)
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(p), autograd.GradOutput(s.Full(1, tensor.Float32, n)))
		return opt.Step(s)
	})
	wantError(t, err, tensor.ErrMemory, "adamw.v")
	if v := tensor.ToSlice[float32](p); slices.ContainsFunc(v, func(x float32) bool { return x != 1 }) {
		t.Error("the failed step changed parameters")
	}
}

// Two optimizers share one model: each takes the gradients of its part and leaves the others.
func TestTwoOptimizers(t *testing.T) {
	dev := open(t)
	type gan struct{ Generator, Critic *nn.Linear }
	m := &gan{nn.NewLinear(1, 1, nn.NoBias()), nn.NewLinear(1, 1, nn.NoBias())}
	must(t, nn.Init(dev, m, nn.DType(tensor.Float64)))
	m.Generator.Weight.Assign(tensor.Of(2.0))
	m.Critic.Weight.Assign(tensor.Of(3.0))
	g, c := optim.New(optim.SGD(0.5), m.Generator), optim.New(optim.SGD(0.25), m.Critic)
	must(t, dev.Step(func(s *tensor.Scope) error {
		score := m.Critic.Forward(m.Generator.Forward(s.Full(1, tensor.Float64, 1, 1)))
		autograd.Backward(score.Sum()) // gradients 3 and 2
		return c.Step(s)
	}))
	wantValues(t, "critic", m.Critic.Weight, 2.5)
	wantValues(t, "generator", m.Generator.Weight, 2)
	wantValues(t, "gradient of the generator", m.Generator.Weight.Grad(), 3)
	if m.Critic.Weight.Grad() != nil {
		t.Error("the critic's gradient is left")
	}
	must(t, dev.Step(g.Step))
	wantValues(t, "generator", m.Generator.Weight, 0.5)
	wantValues(t, "critic", m.Critic.Weight, 2.5)
}

// Gradients of several steps add up to that of one big batch.
func TestAccumulation(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(tensor.Seed(3), -1, 1, 8, 4).To(tensor.Float64)
	y := tensor.FromSlice([]int64{0, 1, 2, 0, 2, 1, 1, 0}, 8)
	train := func(parts int) []float64 {
		model := nn.Sequential(nn.NewLinear(4, 5), nn.Tanh, nn.NewLinear(5, 3))
		must(t, nn.Init(dev, model, nn.DType(tensor.Float64), nn.Named("mlp")))
		opt := optim.New(optim.AdamW(0.1), model, optim.Clip(0.1))
		for range 3 {
			for i := range parts {
				must(t, dev.Step(func(s *tensor.Scope) error {
					n := 8 / parts
					logits := model.Forward(s.In(x.Slice(0, i*n, (i+1)*n)))
					loss := nn.CrossEntropy(logits, y.Slice(0, i*n, (i+1)*n), nn.ReduceSum())
					autograd.Backward(loss.Scale(1. / 8))
					if i < parts-1 {
						return nil
					}
					return opt.Step(s)
				}))
			}
		}
		var all []float64
		for _, p := range nn.Parameters(model) {
			all = append(all, tensor.ToSlice[float64](p)...)
		}
		return all
	}
	whole := train(1)
	for _, parts := range []int{2, 4, 8} {
		for i, v := range train(parts) {
			if math.Abs(v-whole[i]) > 1e-12 {
				t.Fatalf("%d parts: weight %d is %v, in one piece %v", parts, i, v, whole[i])
			}
		}
	}
}

func TestLearningRate(t *testing.T) {
	dev := open(t)
	w := param("w", 0)
	opt := optim.New(optim.SGD(0.5), w)
	if lr := opt.LR.Value(); lr != 0.5 {
		t.Errorf("rate %v, want that of the rule", lr)
	}
	rate := optim.WarmupLinear(1, 0.1, 2, 5)
	sum := 0.0
	for i := range 6 {
		opt.LR.Set(rate(i))
		sum -= rate(i)
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1}})
		wantValues(t, "w", w, sum)
	}
}

func TestSchedules(t *testing.T) {
	if v := optim.WarmupCosine(1, 0, 10, 100)(-2); v != 0.1 {
		t.Errorf("a step before the first has the rate %v, not the first's", v)
	}
	linear, cosine := optim.WarmupLinear(1, 0.2, 4, 12), optim.WarmupCosine(1, 0.2, 4, 12)
	for _, c := range []struct {
		name string
		rate optim.Schedule
		step int
		want float64
	}{
		{"constant", optim.Constant(0.3), 7, 0.3},
		{"linear", linear, 0, 0.25}, {"linear", linear, 3, 1}, {"linear", linear, 4, 1}, {"linear", linear, 8, 0.6},
		{"linear", linear, 12, 0.2}, {"linear", linear, 99, 0.2},
		{"cosine", cosine, 0, 0.25}, {"cosine", cosine, 3, 1}, {"cosine", cosine, 4, 1}, {"cosine", cosine, 8, 0.6},
		{"cosine", cosine, 12, 0.2}, {"cosine", cosine, 99, 0.2},
		{"without warm-up", optim.WarmupCosine(1, 0, 0, 2), 0, 1}, {"without warm-up", optim.WarmupCosine(1, 0, 0, 2),
			1, 0.5},
		{"warm-up alone", optim.WarmupLinear(1, 0.5, 2, 2), 1, 1}, {"warm-up alone", optim.WarmupLinear(1, 0.5, 2, 2),
			2, 0.5},
	} {
		if got := c.rate(c.step); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%s, step %d: %v, want %v", c.name, c.step, got, c.want)
		}
	}
}

// A rule from outside the package, with a counter: the sign of a mean of gradients (Chen et al. 2023).
func TestOwnRule(t *testing.T) {
	dev := open(t)
	w := param("w", 0, 0)
	lion := optim.Rule{
		Name: "lion", LR: 0.5, Numbers: []optim.Number{{Name: "beta", Value: 0.5}}, State: []string{"m"},
		Counters: []optim.Counter{{Name: "n", First: 1, Next: "n + 1"}},
		Update:   "m1 = beta*m + (1-beta)*g; p - lr/n*sign(m1); m1",
	}
	opt := optim.New(lion, w)
	for i, want := range [][]float64{{-0.25, 0.25}, {-0.25 - 0.5/3, 0.25 - 0.5/3}} { // n is 2, then 3
		update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1, []float64{-1, 9}[i]}})
		wantValues(t, "w", w, want...)
	}
	wantValues(t, "counter", opt.State().Tensors["n"], 3)
	lion.Update = "p - lr*velocity; m"
	wantError(t, engine.Try(func() { optim.New(lion, w) }), tensor.ErrValue, "lion", "velocity")
}

// trainer makes a small model with its optimizer and a function that runs one step.
func trainer(t testing.TB, dev *tensor.Device) (*optim.Optimizer, func()) {
	t.Helper()
	model := nn.Sequential(nn.NewLinear(6, 16), nn.GELU, nn.NewDropout(0.1), nn.NewLinear(16, 3))
	must(t, nn.Init(dev, model))
	opt := optim.New(optim.AdamW(0.01), model, optim.Clip(1), optim.NoDecay(optim.Vectors))
	x, y := tensor.Randn(tensor.Seed(5), 8, 6), tensor.FromSlice([]int64{0, 1, 2, 0, 1, 2, 0, 1}, 8)
	return opt, func() {
		t.Helper()
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), y))
			return opt.Step(s)
		}))
	}
}

func TestHash(t *testing.T) {
	run := func(steps int) (before, after string) {
		opt, step := trainer(t, open(t))
		if n := len(opt.State().Tensors); n != 0 {
			t.Errorf("%d state tensors before the first step", n)
		}
		before = opt.Hash()
		for range steps {
			step()
		}
		for _, name := range []string{"m.0.weight", "v.0.bias", "c1", "c2"} {
			if opt.State().Tensors[name] == nil {
				t.Errorf("no state %s in %v", name, opt.State().Tensors)
			}
		}
		if again := opt.Hash(); again != opt.Hash() || len(again) != 64 {
			t.Errorf("hash %q", again)
		}
		return before, opt.Hash()
	}
	before, after := run(3)
	again, same := run(3)
	if before != again || after != same {
		t.Error("two runs of one seed have different hashes")
	}
	if _, later := run(4); before == after || after == later {
		t.Error("the hash does not see steps")
	}
}

func TestFlatMemory(t *testing.T) {
	dev := open(t)
	_, step := trainer(t, dev)
	used := func() (device, heap int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s := dev.Stats().Memory
		return s.Active, int(m.HeapAlloc)
	}
	for range 100 {
		step()
	}
	device, heap := used()
	for range 1900 {
		step()
	}
	deviceLater, heapLater := used()
	step() // the model lives until here
	if deviceLater != device {
		t.Errorf("%d bytes of the device in use after 100 steps, %d after 2000", device, deviceLater)
	}
	if heapLater > heap+64<<10 {
		t.Errorf("%d bytes on the heap after 100 steps, %d after 2000", heap, heapLater)
	}
}
