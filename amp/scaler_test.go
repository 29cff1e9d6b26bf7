package amp_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A rig is a parameter with its optimizer and scaler, whose gradients the test gives.
type rig struct {
	dev    *tensor.Device
	w      *tensor.Tensor
	opt    *optim.Optimizer
	scaler *amp.GradScaler
}

func newRig(t testing.TB, opts ...amp.Option) *rig {
	w := param("w", 1, 2, 3)
	return &rig{open(t), w, optim.New(optim.AdamW(0.1), w, optim.Clip(1)), amp.NewGradScaler(opts...)}
}

// step runs one update whose true gradient is v everywhere.
func (r *rig) step(v float64) error {
	return r.dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(r.scaler.Scale(s.In(r.w).Scale(v).Sum()))
		return r.scaler.Step(s, r.opt)
	})
}

// A new scaler says 65536. An overflow leaves weights, moments and counters as they were, to the bit, halves the scale
// and starts the count again.
func TestScalerSkip(t *testing.T) {
	for name, bad := range map[string]float64{"inf": math.Inf(1), "-inf": math.Inf(-1), "NaN": math.NaN()} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if st := r.scaler.State(); st.Scale != 65536 || st.Growth != 2 || st.Backoff != 0.5 || st.Interval != 2000 {
				t.Errorf("a new scaler is %+v", st)
			}
			must(t, r.step(bad)) // the first update: moments are zero
			if v := values(r.opt.State().Tensors["c1"]); v[0] != 0 {
				t.Errorf("a skipped update was counted: the bias correction is %v", v)
			}
			for range 3 {
				must(t, r.step(0.25))
			}
			if st := r.scaler.State(); st.Scale != 32768 || st.Tracker != 3 {
				t.Errorf("%+v", st)
			}
			before := r.opt.Hash()
			must(t, r.step(bad))
			if r.opt.Hash() != before {
				t.Error("a skipped update changed parameters or state")
			}
			if r.w.Grad() != nil {
				t.Error("the gradient that overflowed is left")
			}
			if n := r.opt.GradNorm(); !math.IsNaN(n) && !math.IsInf(n, 0) {
				t.Errorf("the norm of a skipped update is %v", n)
			}
			if st := r.scaler.State(); st.Scale != 16384 || st.Tracker != 0 || st.Skipped != 2 || st.SkippedInRow != 1 {
				t.Errorf("%+v", st)
			}
			must(t, r.step(0.25))
			if st := r.scaler.State(); st.Skipped != 2 || st.SkippedInRow != 0 || st.Tracker != 1 {
				t.Errorf("%+v", st)
			}
			if r.opt.Hash() == before {
				t.Error("the update after the skipped one did nothing")
			}
		})
	}
}

// With a scale that is a power of two, scaled training is plain training to the bit, whatever the rule.
func TestScalerIsExact(t *testing.T) {
	for _, rule := range []optim.Rule{
		optim.AdamW(1e-3), optim.SGD(1e-3), optim.SGD(1e-3, optim.Momentum(0.9), optim.WeightDecay(0.1)),
		optim.SGD(1e-3, optim.Momentum(0.9), optim.Nesterov()), optim.Lion(1e-4, optim.WeightDecay(0.1)),
	} {
		train := func(opts ...amp.Option) string {
			dev := open(t)
			model := nn.Sequential(nn.NewLinear(5, 8), nn.Tanh, nn.NewLinear(8, 3))
			must(t, nn.Init(dev, model))
			opt, scaler := optim.New(rule, model, optim.Clip(0.5)), amp.NewGradScaler(opts...)
			x, y := tensor.Randn(tensor.Seed(3), 6, 5), tensor.FromSlice([]int64{0, 1, 2, 2, 1, 0}, 6)
			for range 20 {
				must(t, dev.Step(func(s *tensor.Scope) error {
					autograd.Backward(scaler.Scale(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y))))
					return scaler.Step(s, opt)
				}))
			}
			return opt.Hash()
		}
		plain := train(amp.Enabled(false))
		if train() != plain || train(amp.InitScale(0x1p-8), amp.Growth(8, 2)) != plain {
			t.Errorf("%#v: the scale changed the weights", rule)
		}
	}
}

// After exactly 2000 good updates the scale doubles, once; an overflow at update 1999 starts the count again.
func TestScalerGrowth(t *testing.T) {
	long(t)
	w := param("w", 0)
	dev, opt := open(t), optim.New(optim.SGD(1e-3), w)
	run := func(overflows map[int]bool, updates int) (scales []float64) {
		scaler := amp.NewGradScaler()
		for k := range updates {
			v := 1.0
			if overflows[k] {
				v = math.Inf(1)
			}
			must(t, dev.Step(func(s *tensor.Scope) error {
				scaler.Scale(s.Full(0, tensor.Float32))
				autograd.Backward(s.In(w), autograd.GradOutput(s.Full(v, tensor.Float32, 1)))
				return scaler.Step(s, opt)
			}))
			scales = append(scales, scaler.State().Scale)
		}
		return scales
	}
	if s := run(nil, 2001); s[1998] != 65536 || s[1999] != 131072 || s[2000] != 131072 {
		t.Errorf("scales %v around update 2000", s[1998:])
	}
	if s := run(map[int]bool{1998: true}, 2001); s[1997] != 65536 || s[1998] != 32768 || s[2000] != 32768 {
		t.Errorf("scales %v after an overflow at update 1999", s[1997:])
	}
}

// A lower interval than the count so far takes effect at the next update; PyTorch, which asks for equality, would grow
// no more.
func TestScalerIntervalBelowCount(t *testing.T) {
	r := newRig(t, amp.Growth(2, 100))
	for range 5 {
		must(t, r.step(1))
	}
	st := r.scaler.State()
	st.Interval = 3
	must(t, r.scaler.Restore(st))
	must(t, r.step(1))
	if st := r.scaler.State(); st.Scale != 131072 || st.Tracker != 0 {
		t.Errorf("%+v", st)
	}
}

// The optimizer whose gradients overflowed is skipped, the other one steps; the scale they share is halved once.
func TestScalerTwoOptimizers(t *testing.T) {
	dev := open(t)
	a, b := param("a", 1), param("b", 1)
	oa, ob := optim.New(optim.SGD(1), a), optim.New(optim.SGD(1, optim.Momentum(0.5)), b)
	scaler := amp.NewGradScaler()
	step := func(ga, gb float64, unscale bool) {
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(scaler.Scale(s.In(a).Scale(ga).Sum().Add(s.In(b).Scale(gb).Sum())))
			if unscale {
				scaler.Unscale(s, ob)
			}
			return scaler.Step(s, oa, ob)
		}))
	}
	step(1, 1, false)
	for k, unscale := range []bool{false, true} {
		before := ob.Hash()
		step(1, math.Inf(1), unscale)
		if a.Item() != float64(-1-k) || ob.Hash() != before {
			t.Errorf("after an overflow of b alone, a is %v and b %v", a.Item(), b.Item())
		}
		if st := scaler.State(); st.Scale != 65536/math.Pow(2, float64(k+1)) || st.Skipped != k+1 {
			t.Errorf("%+v", st)
		}
	}
	before := scaler.State().Scale
	step(math.Inf(1), math.NaN(), false)
	if st := scaler.State(); st.Scale != before/2 {
		t.Errorf("two overflows in one step took the scale from %v to %v", before, st.Scale)
	}
}

// Each misuse has an error of its own.
func TestScalerMisuse(t *testing.T) {
	m := &misuse{rig: newRig(t), texts: map[string]string{}}
	m.inOneStep(t)
	m.afterStep(t)
	m.acrossSteps(t)
}

// misuse is a rig whose errors must differ.
type misuse struct {
	*rig
	texts map[string]string // names of cases
}

func (m *misuse) loss(s *tensor.Scope) *tensor.Tensor { return s.In(m.w).Sum() }
func (m *misuse) scaled(s *tensor.Scope)              { autograd.Backward(m.scaler.Scale(m.loss(s))) }

// unscaled is scaled, and the gradients are unscaled.
func (m *misuse) unscaled(s *tensor.Scope) {
	m.scaled(s)
	m.scaler.Unscale(s, m.opt)
}

// differs holds that no other case has the same text.
func (m *misuse) differs(t *testing.T, name, text string) {
	if twin := m.texts[text]; twin != "" {
		t.Errorf("the error is that of %s", twin)
	}
	m.texts[text] = name
}

// fails runs a step that must fail and change nothing.
func (m *misuse) fails(t *testing.T, name string, kind error, text string, f func(s *tensor.Scope) error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		before := m.opt.Hash()
		err := m.dev.Step(f)
		wantError(t, err, kind, text, "scaler_test.go:")
		for _, k := range []error{amp.ErrNotScaled, amp.ErrUnscaled, amp.ErrStepped} {
			if errors.Is(err, k) != (k == kind) || k == kind && !errors.Is(err, tensor.ErrStep) {
				t.Errorf("%v is of kind %v: %v", err, k, k != kind)
			}
		}
		m.differs(t, name, text)
		if m.opt.Hash() != before {
			t.Error("the step changed something")
		}
	})
}

func (m *misuse) inOneStep(t *testing.T) {
	other := optim.New(optim.SGD(1e-3), param("u", 1))
	h := nn.ParameterOf("h", row(1).To(tensor.Float16))
	half := optim.New(optim.SGD(1e-3), h)
	m.fails(t, "unscale before scale", amp.ErrNotScaled, "Unscale before Scale", func(s *tensor.Scope) error {
		m.scaler.Unscale(s, m.opt)
		return nil
	})
	m.fails(t, "step before scale", amp.ErrNotScaled, "Step before Scale", func(s *tensor.Scope) error {
		return m.scaler.Step(s, m.opt)
	})
	must(t, m.step(1))
	m.fails(t, "unscale twice", amp.ErrUnscaled, "Unscale twice", func(s *tensor.Scope) error {
		m.unscaled(s)
		m.scaler.Unscale(s, m.opt)
		return nil
	})
	m.fails(t, "step without an optimizer", tensor.ErrValue, "Step needs an optimizer", func(s *tensor.Scope) error {
		m.scaled(s)
		return m.scaler.Step(s)
	})
	m.fails(t, "one optimizer twice", tensor.ErrValue, "optimizer 1 twice", func(s *tensor.Scope) error {
		m.scaled(s)
		return m.scaler.Step(s, m.opt, m.opt)
	})
	m.fails(t, "unscaled and forgotten", amp.ErrUnscaled, "an optimizer that Unscale was called for",
		func(s *tensor.Scope) error {
			m.unscaled(s)
			return m.scaler.Step(s, other)
		})
	m.fails(t, "no gradient", tensor.ErrGrad, "no parameter has a gradient", func(s *tensor.Scope) error {
		m.scaler.Scale(m.loss(s))
		return m.scaler.Step(s, m.opt)
	})
	m.fails(t, "unscale float16 gradients", tensor.ErrDType, "keep parameters in float32", func(s *tensor.Scope) error {
		autograd.Backward(s.In(h), autograd.GradOutput(s.Full(1, tensor.Float16, 1)))
		return m.scaler.Step(s, half)
	})
	m.fails(t, "state between unscale and step", amp.ErrUnscaled, "State between Unscale and Step",
		func(s *tensor.Scope) error {
			m.unscaled(s)
			m.scaler.State()
			return nil
		})
	m.fails(t, "a loss of no step", tensor.ErrStep, "belongs to no step", func(*tensor.Scope) error {
		m.scaler.Scale(row(1))
		return nil
	})
}

// afterStep has what fails after Step in one step.
func (m *misuse) afterStep(t *testing.T) {
	after := func(name, text string, f func(s *tensor.Scope) error) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			err := m.dev.Step(func(s *tensor.Scope) error {
				m.scaled(s)
				must(t, m.scaler.Step(s, m.opt))
				return f(s)
			})
			wantError(t, err, amp.ErrStepped, text)
			m.differs(t, name, text)
		})
	}
	after("unscale after step", "Unscale after Step", func(s *tensor.Scope) error {
		m.scaler.Unscale(s, m.opt)
		return nil
	})
	after("step twice", "Step after Step", func(s *tensor.Scope) error { return m.scaler.Step(s, m.opt) })
	after("scale after step", "Scale after Step", func(s *tensor.Scope) error {
		m.scaler.Scale(s.Full(1, tensor.Float32))
		return nil
	})
}

func (m *misuse) acrossSteps(t *testing.T) {
	// A step that unscales and does not update leaves gradients that are no longer scaled.
	must(t, m.dev.Step(func(s *tensor.Scope) error {
		m.unscaled(s)
		return nil
	}))
	wantError(t, engine.Try(func() { m.scaler.State() }), amp.ErrUnscaled, "State between Unscale and Step")
	m.fails(t, "unscale in an earlier step", amp.ErrUnscaled, "an earlier step called Unscale and not Step",
		func(s *tensor.Scope) error {
			m.scaled(s)
			return nil
		})
	m.w.ClearGrads()
	must(t, m.step(1))

	// One that fails leaves nothing.
	boom := errors.New("boom")
	if err := m.dev.Step(func(s *tensor.Scope) error {
		m.unscaled(s)
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	m.scaler.State()
	must(t, m.step(1))
}

// Numbers that make no sense are refused, in options and in states.
func TestScalerOptions(t *testing.T) {
	for _, c := range []struct {
		opt  amp.Option
		text string
	}{
		{amp.InitScale(0), "scale 0"}, {amp.InitScale(-1), "scale -1"}, {amp.InitScale(math.NaN()), "scale NaN"},
		{amp.InitScale(math.Inf(1)), "scale +Inf"},
		{amp.InitScale(1e39), "scale 1e+39"}, {amp.Growth(1, 10), "growth factor 1"},
		{amp.Growth(math.NaN(), 10), "growth factor NaN"}, {amp.Growth(2, 0), "interval 0"},
		{amp.Growth(2, 1<<25), "interval 33554432"}, {amp.Backoff(1), "backoff factor 1"},
		{amp.Backoff(0), "backoff factor 0"}, {amp.MinScale(0), "smallest scale 0"},
		{amp.MinScale(1e-40), "smallest scale 1e-40"}, {amp.MinScale(1e6), "scale 65536"},
		{amp.MaxSkips(0), "0 skipped"},
	} {
		wantError(t, engine.Try(func() { amp.NewGradScaler(c.opt) }), tensor.ErrValue, "grad_scaler", c.text)
	}
	r := newRig(t)
	must(t, r.step(1))
	good := r.scaler.State()
	for text, spoil := range map[string]func(*amp.State){
		"smallest scale 0":    func(st *amp.State) { *st = amp.State{} }, // what {} decodes to
		"scale NaN":           func(st *amp.State) { st.Scale = math.NaN() },
		"a count is negative": func(st *amp.State) { st.Tracker = -1 },
		"negative: 1, -3, 0":  func(st *amp.State) { st.Skipped = -3 },
		"negative: 1, 0, -1":  func(st *amp.State) { st.SkippedInRow = -1 },
		"a count is 16777217": func(st *amp.State) { st.Skipped = 1<<24 + 1 },
	} {
		st := good
		spoil(&st)
		if err := r.scaler.Restore(st); err == nil {
			t.Errorf("a state with %s was restored", text)
		} else if got := err.Error(); !strings.Contains(got, text) {
			t.Errorf("error %q lacks %q", got, text)
		}
		if r.scaler.State() != good {
			t.Errorf("a refused state changed the scaler to %+v", r.scaler.State())
		}
	}
}

// The scale is never infinite or zero, whatever overflows: it stays between the smallest scale and the largest float32,
// and follows the rule.
func TestScalerBounds(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(1, 2))
	dev, w := open(t), param("w", 0)
	opt := optim.New(optim.SGD(1e-3), w)
	for trial := range 24 {
		growth, backoff := 1+math.Exp(rng.Float64()*8-4), rng.Float64()*0.98+0.01
		interval, chance := 1+rng.IntN(4), rng.Float64()
		if trial < 2 { // all the way down, all the way up
			growth, backoff, interval, chance = 4, 0.25, 1, float64(1-trial)
		}
		floor := math.Ldexp(1, -126+rng.IntN(130))
		start := max(floor, math.Ldexp(1+rng.Float64(), -126+rng.IntN(253)))
		scaler := amp.NewGradScaler(amp.InitScale(start), amp.Growth(growth, interval), amp.Backoff(backoff),
			amp.MinScale(floor), amp.MaxSkips(1<<20))
		want, tracker, floors, ceilings := float32(start), 0, 0, 0
		for update := range 200 {
			bad := rng.Float64() < chance
			must(t, dev.Step(func(s *tensor.Scope) error {
				scaler.Scale(s.Full(0, tensor.Float32))
				v := 0.0 // anything else would overflow when the smallest scale divides it
				if bad {
					v = math.Inf(1)
				}
				autograd.Backward(s.In(w), autograd.GradOutput(s.Full(v, tensor.Float32, 1)))
				return scaler.Step(s, opt)
			}))
			tracker++
			switch up := float32(float64(want) * growth); {
			case bad:
				want, tracker = max(float32(float64(want)*backoff), float32(floor)), 0
				if want == float32(floor) {
					floors++
				}
			case tracker >= interval:
				if tracker = 0; math.IsInf(float64(up), 0) {
					ceilings++
				} else {
					want = up
				}
			}
			st := scaler.State()
			if st.Scale != float64(want) || st.Tracker != tracker {
				t.Fatalf("trial %d, update %d, growth %v, backoff %v: scale %v after %d, want %v after %d",
					trial, update, growth, backoff, st.Scale, st.Tracker, want, tracker)
			}
			if inv := float32(1 / st.Scale); !(st.Scale >= floor && st.Scale <= math.MaxFloat32 && inv > 0 &&
				inv <= math.MaxFloat32) {
				t.Fatalf("trial %d: the scale is %v, its reciprocal %v", trial, st.Scale, inv)
			}
		}
		if trial == 0 && floors == 0 || trial == 1 && ceilings == 0 {
			t.Errorf("trial %d did not reach the end of the range: growth %v, backoff %v, scale %v",
				trial, growth, backoff, want)
		}
	}
}

// Overflows without end take the scale to its floor, and then end the run with an error, at most one step late.
func TestScalerMaxSkips(t *testing.T) {
	r := newRig(t, amp.MaxSkips(5), amp.MinScale(16384))
	must(t, r.step(1))
	for range 5 {
		must(t, r.step(math.NaN()))
	}
	if st := r.scaler.State(); st.Scale != 16384 || st.SkippedInRow != 5 {
		t.Errorf("%+v", st)
	}
	must(t, r.step(1)) // five in a row are allowed
	before := r.opt.Hash()
	var err error
	skipped := 0
	for ; err == nil && skipped < 10; skipped++ {
		err = r.step(math.Inf(1))
	}
	if skipped != 6 && skipped != 7 {
		t.Errorf("the error came at update %d in a row, want 6 or 7", skipped)
	}
	wantError(t, err, amp.ErrOverflow, "grad_scaler", "6 updates in a row were skipped", "scale 16384", "amp.MaxSkips")
	wantError(t, r.step(1), amp.ErrOverflow, "6 updates")
	if r.opt.Hash() != before {
		t.Error("skipped updates changed parameters or state")
	}
	st := r.scaler.State()
	st.SkippedInRow = 0
	must(t, r.scaler.Restore(st)) // the caller takes responsibility
	must(t, r.step(1))
}

// A scaler that is saved and restored, through JSON too, continues bit for bit.
func TestScalerState(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const updates, half = 120, 57
	grads := make([]float64, updates)
	for k := range grads {
		if grads[k] = rng.NormFloat64(); rng.Float64() < 0.15 {
			grads[k] = math.Inf(1)
		}
	}
	odd := []amp.Option{amp.InitScale(1234.5), amp.Growth(1.37, 4), amp.Backoff(0.61), amp.MinScale(0.01),
		amp.MaxSkips(99)}
	whole := newRig(t, odd...)
	var states []amp.State
	for _, g := range grads {
		must(t, whole.step(g))
		states = append(states, whole.scaler.State())
	}
	text, err := json.Marshal(states[half-1])
	must(t, err)
	for name, restore := range map[string]func(t *testing.T) *amp.GradScaler{
		"a new scaler": func(t *testing.T) *amp.GradScaler {
			var st amp.State
			must(t, json.Unmarshal(text, &st))
			if st != states[half-1] {
				t.Errorf("JSON makes %+v of %+v", st, states[half-1])
			}
			s := amp.NewGradScaler()
			must(t, s.Restore(st))
			if s.State() != st {
				t.Errorf("restored %+v, have %+v", st, s.State())
			}
			return s
		},
		"a used scaler": func(t *testing.T) *amp.GradScaler {
			r := newRig(t)
			for _, g := range []float64{1, math.Inf(1), math.Inf(1)} {
				must(t, r.step(g))
			}
			must(t, r.scaler.Restore(states[half-1]))
			return r.scaler
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, odd...)
			for _, g := range grads[:half] {
				must(t, r.step(g))
			}
			r.scaler = restore(t)
			for k := half; k < updates; k++ {
				must(t, r.step(grads[k]))
				if st := r.scaler.State(); st != states[k] {
					t.Fatalf("update %d: %+v, without the break %+v", k, st, states[k])
				}
			}
			if r.opt.Hash() != whole.opt.Hash() {
				t.Error("the weights differ from those without the break")
			}
		})
	}
	// The state of a scaler at its smallest scale is one, though float32 has less than 0.7.
	low := newRig(t, amp.InitScale(0.7), amp.MinScale(0.7), amp.MaxSkips(2))
	must(t, low.step(math.Inf(1)))
	if st := low.scaler.State(); st.Scale != float64(float32(0.7)) {
		t.Errorf("%+v", st)
	}
	must(t, low.scaler.Restore(low.scaler.State()))
	// Restoring forgets an Unscale without Step. Inside a step it fails, and changes nothing.
	must(t, low.dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(low.scaler.Scale(s.In(low.w).Sum()))
		low.scaler.Unscale(s, low.opt)
		return nil
	}))
	low.w.ClearGrads()
	must(t, low.scaler.Restore(states[0]))
	must(t, low.step(1))
	before := low.scaler.State()
	err = low.dev.Step(func(s *tensor.Scope) error {
		low.scaler.Scale(s.In(low.w).Sum())
		return low.scaler.Restore(amp.NewGradScaler(amp.Growth(9, 9)).State())
	})
	wantError(t, err, tensor.ErrBusy, "grad_scaler")
	if st := low.scaler.State(); st != before {
		t.Errorf("a refused state changed the scaler to %+v", st)
	}
	// Saved before its first step, it is what its options say.
	fresh := amp.NewGradScaler(odd...)
	again := amp.NewGradScaler()
	must(t, again.Restore(fresh.State()))
	if again.State() != fresh.State() || again.State().Interval != 4 {
		t.Errorf("%+v, want %+v", again.State(), fresh.State())
	}
}

// Unscale gives the true gradients. Clipping [3, 4] to the norm 1 then gives [0.6, 0.8], as clipping by the optimizer
// does.
func TestScalerUnscaleClip(t *testing.T) {
	for name, byHand := range map[string]bool{"by hand": true, "by the optimizer": false} {
		t.Run(name, func(t *testing.T) {
			dev, w := open(t), param("w", 0, 0)
			var opts []optim.Option
			if !byHand {
				opts = append(opts, optim.Clip(1))
			}
			opt, scaler := optim.New(optim.SGD(1), w, opts...), amp.NewGradScaler()
			must(t, dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(scaler.Scale(s.In(w).Mul(row(3, 4)).Sum()))
				a, _, _ := engine.Arena(w)
				g, _ := engine.Grads(s, a)
				if v := values(g); v[0] != 3*65536 || v[1] != 4*65536 {
					t.Errorf("scaled gradients %v", v)
				}
				scaler.Unscale(s, opt)
				if v := values(g); v[0] != 3 || v[1] != 4 {
					t.Errorf("unscaled gradients %v", v)
				}
				if byHand {
					clipByHand(s, w, 1)
				}
				return scaler.Step(s, opt)
			}))
			v := values(w)
			if math.Abs(v[0]+0.6) > 1e-6 || math.Abs(v[1]+0.8) > 1e-6 {
				t.Errorf("the update is %v, want -0.6 and -0.8", v)
			}
			if n := opt.GradNorm(); byHand && math.Abs(n-1) > 1e-6 || !byHand && n != 5 {
				t.Errorf("the norm is %v", n)
			}
		})
	}
}

// What the program makes of gradients after Unscale does not hide that they overflowed.
func TestScalerOverflowBeforeChange(t *testing.T) {
	r := newRig(t)
	must(t, r.step(1))
	before := r.opt.Hash()
	must(t, r.dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(r.scaler.Scale(s.In(r.w).Scale(math.Inf(1)).Sum()))
		r.scaler.Unscale(s, r.opt)
		a, lo, hi := engine.Arena(r.w)
		g, _ := engine.Grads(s, a)
		engine.Update(s, scaleGrad, lo, hi, []*tensor.Tensor{g},
			[]*tensor.Tensor{s.Full(1, tensor.Float32), s.Full(1, tensor.Float32)}, nil)
		if v := values(g); v[0] != 1 {
			t.Fatalf("gradients %v", v)
		}
		return r.scaler.Step(s, r.opt)
	}))
	if st := r.scaler.State(); st.Scale != 32768 || st.Skipped != 1 || r.opt.Hash() != before {
		t.Errorf("the overflow went unnoticed: %+v", st)
	}
}

// Enabled(false) makes a scaler that leaves loss and optimizers alone.
func TestScalerOff(t *testing.T) {
	r, plain := newRig(t, amp.Enabled(false)), newRig(t)
	must(t, r.dev.Step(func(s *tensor.Scope) error {
		loss := s.In(r.w).Scale(3).Sum()
		if r.scaler.Scale(loss) != loss {
			t.Error("Scale made another loss")
		}
		autograd.Backward(loss)
		r.scaler.Unscale(s, r.opt)
		return r.scaler.Step(s, r.opt)
	}))
	must(t, plain.dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(plain.w).Scale(3).Sum())
		return plain.opt.Step(s)
	}))
	if r.opt.Hash() != plain.opt.Hash() {
		t.Error("the weights differ from those without a scaler")
	}
	var st amp.State
	text, err := json.Marshal(r.scaler.State())
	must(t, err)
	must(t, json.Unmarshal(text, &st))
	again := amp.NewGradScaler()
	must(t, again.Restore(st))
	if !again.State().Off {
		t.Error("a restored scaler that is off is on")
	}
}

// Gradients of several steps add up scaled, with one scale; an overflow in any of them skips the update.
func TestScalerAccumulation(t *testing.T) {
	run := func(scaler *amp.GradScaler, grads ...float64) *optim.Optimizer {
		dev, w := open(t), param("w", 1, 2, 3)
		opt := optim.New(optim.AdamW(0.1), w, optim.Clip(1))
		for k, g := range grads {
			must(t, dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(scaler.Scale(s.In(w).Scale(g).Sum()))
				if k%3 < 2 {
					return nil
				}
				return scaler.Step(s, opt)
			}))
		}
		return opt
	}
	scaler := amp.NewGradScaler()
	plain, scaled := run(amp.NewGradScaler(amp.Enabled(false)), 1, 2, 3, 4, 5, 6), run(scaler, 1, 2, 3, 4, 5, 6)
	if plain.Hash() != scaled.Hash() {
		t.Error("the weights differ from those without a scaler")
	}
	if st := scaler.State(); st.Tracker != 2 {
		t.Errorf("two updates of three steps count as %d", st.Tracker)
	}
	skipped := run(scaler, 1, 2, 3, math.Inf(1), 5, 6)
	if first := run(amp.NewGradScaler(), 1, 2, 3); skipped.Hash() != first.Hash() {
		t.Error("an overflow in the first of three steps did not skip their update")
	}
	if st := scaler.State(); st.Skipped != 1 || st.Scale != 32768 {
		t.Errorf("%+v", st)
	}
}
