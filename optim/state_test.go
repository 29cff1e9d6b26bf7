package optim_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A pair is a model of two layers, in one arena or in two, in either order.
type pair struct {
	dev  *tensor.Device
	a, b *nn.Linear
	opt  *optim.Optimizer
}

func newPair(t *testing.T, rule optim.Rule, layout string) pair {
	t.Helper()
	dev := open(t)
	p := pair{dev: dev, a: nn.NewLinear(3, 5), b: nn.NewLinear(5, 2)}
	parts := map[string]any{"a": p.a, "b": p.b}
	switch layout {
	case "one arena":
		must(t, nn.Init(dev, parts))
	case "two arenas":
		for _, name := range []string{"b", "a"} {
			must(t, nn.Init(dev, map[string]any{name: parts[name]}))
		}
	}
	model := []any{p.a, p.b}
	if layout == "two arenas" {
		slices.Reverse(model)
	}
	p.opt = optim.New(rule, model, optim.Clip(0.1))
	return p
}

func (p pair) backward(s *tensor.Scope) {
	x := s.In(tensor.Randn(tensor.Seed(3), 4, 3))
	autograd.Backward(p.b.Forward(p.a.Forward(x).Tanh()).Square().Sum())
}

func (p pair) step(t *testing.T) {
	t.Helper()
	must(t, p.dev.Step(func(s *tensor.Scope) error { p.backward(s); return p.opt.Step(s) }))
}

// accumulate leaves gradients.
func (p pair) accumulate(t *testing.T) {
	t.Helper()
	must(t, p.dev.Step(func(s *tensor.Scope) error { p.backward(s); return nil }))
}

// copyOf are host copies.
func copyOf(tensors map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, v := range tensors {
		switch v.DType() {
		case tensor.Float32:
			out[name] = tensor.FromSlice(tensor.ToSlice[float32](v), v.Shape()...)
		default:
			out[name] = tensor.FromSlice(tensor.ToSlice[float64](v), v.Shape()...)
		}
	}
	return out
}

func stateOf(o *optim.Optimizer) optim.State {
	st := o.State()
	return optim.State{Rule: st.Rule, Tensors: copyOf(st.Tensors), Grads: copyOf(st.Grads)}
}

func equalStates(a, b optim.State) bool {
	same := func(x, y *tensor.Tensor) bool {
		return x.DType() == y.DType() && slices.Equal(x.Shape(), y.Shape()) &&
			slices.Equal(tensor.ToSlice[float64](x), tensor.ToSlice[float64](y))
	}
	return a.Rule == b.Rule && maps.EqualFunc(a.Tensors, b.Tensors, same) && maps.EqualFunc(a.Grads, b.Grads, same)
}

// moveWeights copies parameters by name.
func moveWeights(from, to pair) {
	values := map[string]*tensor.Tensor{}
	nn.Walk([]any{from.a, from.b}, func(_ string, p *tensor.Tensor) { values[p.Name()] = p })
	nn.Walk([]any{to.a, to.b}, func(_ string, p *tensor.Tensor) {
		p.Assign(tensor.FromSlice(tensor.ToSlice[float32](values[p.Name()]), p.Shape()...))
	})
}

// counting has a counter that does not begin at 0.
var counting = optim.Rule{Name: "counting", LR: 0.1, State: []string{"m"}, Update: "p - lr*(g + m)/n; g",
	Counters: []optim.Counter{{Name: "n", First: 3, Next: "n + 1"}}}

// State goes from any arena layout to any other; the hash does not see the layout.
func TestRestore(t *testing.T) {
	for _, rule := range []optim.Rule{optim.AdamW(0.1), optim.Lion(0.1), optim.SGD(0.1, optim.Momentum(0.9)),
		optim.SGD(0.1), optim.NAdam(0.1), optim.Adam(0.1, optim.AMSGrad()), optim.Rprop(0.1), optim.LAMB(0.1),
		optim.Adafactor(0.1), counting} {
		for _, to := range []string{"one arena", "two arenas"} {
			for updates := range 3 { // none: gradients alone
				old, now := newPair(t, rule, "one arena"), newPair(t, rule, to)
				for range updates {
					old.step(t)
				}
				old.accumulate(t)
				now.step(t) // its state and gradients are replaced
				now.accumulate(t)
				moveWeights(old, now)
				st := stateOf(old.opt)
				if n := len(st.Grads); n != 4 {
					t.Fatalf("%d gradients", n)
				}
				must(t, now.dev.Step(func(s *tensor.Scope) error { return now.opt.Restore(s, st) }))
				if !equalStates(st, stateOf(now.opt)) || old.opt.Hash() != now.opt.Hash() {
					t.Errorf("%s, %s, %d updates: %+v, want %+v", rule.Name, to, updates, now.opt.State(), st)
				}
				for range 2 {
					old.accumulate(t)
					now.accumulate(t)
				}
				if !equalStates(stateOf(old.opt), stateOf(now.opt)) {
					t.Errorf("%s, %s, %d updates: the sums of gradients differ", rule.Name, to, updates)
				}
				old.step(t)
				now.step(t)
				// Of two arenas the norm that clips is summed in another order.
				if to == "one arena" && !equalStates(stateOf(old.opt), stateOf(now.opt)) {
					t.Errorf("%s, %s, %d updates: the next update differs", rule.Name, to, updates)
				}
			}
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	old := newPair(t, optim.AdamW(0.1), "one arena")
	old.step(t)
	old.accumulate(t)
	now := newPair(t, optim.AdamW(0.1), "two arenas")
	now.step(t)
	now.step(t)
	now.accumulate(t)
	before, hash := stateOf(now.opt), now.opt.Hash()
	type state = optim.State
	for text, spoil := range map[string]func(st *state){
		`it is of the rule "sgd", want "adamw"`: func(st *state) { *st = state{Rule: "sgd"} },
		`it is of the rule "", want "adamw"`:    func(st *state) { *st = state{} },
		"c1 is missing; v.b.weight is missing": func(st *state) {
			delete(st.Tensors, "c1")
			delete(st.Tensors, "v.b.weight")
		},
		"v.a.bias is missing":               func(st *state) { st.Tensors["v.a.bias"] = nil },
		"m.c.weight is not the optimizer's": func(st *state) { st.Tensors["m.c.weight"] = tensor.Of(1.0) },
		"m.a.weight is float32[3 5], want float32[5 3]": func(st *state) {
			st.Tensors["m.a.weight"] = tensor.Zeros(tensor.Float32, 3, 5)
		},
		"c2 is float32[], want float64[]":             func(st *state) { st.Tensors["c2"] = tensor.Of(float32(1)) },
		"the gradient of c.bias is not the optimizer": func(st *state) { st.Grads["c.bias"] = tensor.Of(1.0) },
		"the gradient of b.bias is float64[2], want": func(st *state) {
			st.Grads["b.bias"] = tensor.Zeros(tensor.Float64, 2)
		},
	} {
		st := stateOf(old.opt)
		spoil(&st)
		err := now.dev.Step(func(s *tensor.Scope) error { now.opt.Restore(s, st); return nil })
		wantError(t, err, tensor.ErrValue, "adamw", text)
	}
	boom := errors.New("boom")
	if err := now.dev.Step(func(s *tensor.Scope) error {
		must(t, now.opt.Restore(s, stateOf(old.opt)))
		return boom
	}); err != boom {
		t.Error(err)
	}
	fresh := newPair(t, optim.AdamW(0.1), "one arena")
	if err := fresh.dev.Step(func(s *tensor.Scope) error {
		must(t, fresh.opt.Restore(s, stateOf(old.opt)))
		return boom
	}); err != boom || len(fresh.opt.State().Tensors) > 0 {
		t.Errorf("error %v, a new optimizer has the state %+v", err, fresh.opt.State())
	}
	// Its own state is not one to go back to.
	wantError(t, now.dev.Step(func(s *tensor.Scope) error { return now.opt.Restore(s, now.opt.State()) }),
		tensor.ErrVersion, "")
	if !equalStates(before, stateOf(now.opt)) || now.opt.Hash() != hash {
		t.Error("a refused state changed the optimizer")
	}
}

// Two parameters of one name have no state by name.
func TestStateOfOneName(t *testing.T) {
	dev := open(t)
	opt := optim.New(optim.SGD(1, optim.Momentum(0.5)), []*tensor.Tensor{param("w", 1), param("w", 2)})
	wantError(t, engine.Try(func() { opt.State() }), tensor.ErrValue, "sgd", "two parameters are called w")
	wantError(t, dev.Step(func(s *tensor.Scope) error { return opt.Restore(s, optim.State{Rule: "sgd"}) }),
		tensor.ErrValue, "sgd", "two parameters are called w")
	if len(opt.Hash()) != 64 {
		t.Error("no hash")
	}
}

func TestSetGrad(t *testing.T) {
	dev := open(t)
	w, v := param("w", 1, 2), param("v", 3)
	calls := 0
	defer w.OnGrad(func(*tensor.Tensor) { calls++ })()
	set := func(p *tensor.Tensor, g *tensor.Tensor) error {
		return dev.Step(func(s *tensor.Scope) error { engine.SetGrad(s, p, g); return nil })
	}
	must(t, set(w, tensor.FromSlice([]float64{5, 6}, 2)))
	wantValues(t, "gradient", w.Grad(), 5, 6)
	must(t, set(w, tensor.FromSlice([]float64{7, 8}, 2)))
	wantValues(t, "gradient", w.Grad(), 7, 8)
	if v.Grad() != nil || calls != 0 {
		t.Errorf("v has the gradient %v, hooks were called %d times", v.Grad(), calls)
	}
	wantError(t, set(w, tensor.FromSlice([]float64{5, 6, 7}, 3)), tensor.ErrShape, "set_grad", "[3]", "[2]")
	wantError(t, set(w, tensor.FromSlice([]float32{5, 6}, 2)), tensor.ErrShape, "set_grad", "float32", "float64")
	wantError(t, set(w.Slice(0, 0, 1), tensor.FromSlice([]float64{5}, 1)), tensor.ErrGrad, "set_grad")
	v.SetNeedsGrad(false)
	wantError(t, set(v, tensor.FromSlice([]float64{5}, 1)), tensor.ErrGrad, "set_grad", "gets a gradient")
	wantValues(t, "gradient", w.Grad(), 7, 8)
	opt := optim.New(optim.SGD(1), w)
	wantError(t, dev.Step(func(s *tensor.Scope) error {
		must(t, opt.Step(s)) // reads the gradient when the step commits
		engine.SetGrad(s, w, tensor.FromSlice([]float64{5, 6}, 2))
		return nil
	}), tensor.ErrVersion, "set_grad", "after the step has updated")
	wantValues(t, "gradient", w.Grad(), 7, 8)
	must(t, set(w, nil))
	if w.Grad() != nil {
		t.Error("the gradient was not dropped")
	}
}

// A gradient may come from that of another parameter. One that comes too late changes no update that waits.
func TestGradientsOfAStep(t *testing.T) {
	dev := open(t)
	l := nn.NewLinear(2, 2)
	must(t, nn.Init(dev, l))
	must(t, dev.Step(func(s *tensor.Scope) error {
		l.Weight.Assign(s.In(tensor.Of(1.0)))
		l.Bias.Assign(s.In(tensor.Of(1.0)))
		return nil
	}))
	x := tensor.FromSlice([]float32{3, 5}, 1, 2)
	must(t, dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(x).Linear(l.Weight, nil).Sum())
		values, lo, _ := engine.Arena(l.Weight)
		flat, _ := engine.Grads(s, values)
		engine.SetGrad(s, l.Bias, flat.Slice(0, lo, lo+2))
		return nil
	}))
	wantValues(t, "bias", l.Bias.Grad(), 3, 5)
	opt := optim.New(optim.SGD(1), l)
	var late any
	must(t, dev.Step(func(s *tensor.Scope) error {
		y := s.In(x).Linear(l.Weight, nil).Scale(100).Sum()
		must(t, opt.Step(s))
		engine.SetGrad(s, l.Weight, nil)
		func() {
			defer func() { late = recover() }()
			autograd.Backward(y)
		}()
		return nil
	}))
	err, _ := late.(error)
	wantError(t, err, tensor.ErrVersion, "after the step has updated")
	wantValues(t, "weight", l.Weight.Reshape(4), -2, -4, -2, -4)
}
