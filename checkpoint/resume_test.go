package checkpoint

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A run has every kind of state: parameters, state of the model, moments, gradients in the midst of accumulation, a
// scaler whose updates overflow, random numbers of steps and of evaluations, a shuffled order, a schedule.
type run struct {
	dev     *tensor.Device
	net     nn.Module
	average *tensor.Tensor // of the losses
	opt     *optim.Optimizer
	scaler  *amp.GradScaler
	loader  *data.Loader
	dtype   tensor.DType
	step    int
	log     []float64
	each    func() error // after each step; may be nil
}

const (
	micro = 2  // steps for an update
	steps = 20 // of a run
)

// model is what is saved.
func (r *run) model() any { return map[string]any{"net": r.net, "average": r.average} }

// state is all of it.
func (r *run) state() *State {
	return &State{Device: r.dev, Model: r.model(), Optimizer: r.opt, Scaler: r.scaler, Data: r.loader,
		Values: map[string]any{"step": &r.step, "log": &r.log}}
}

// runsOn is the device of runs.
var runsOn = "cpu"

func newRun(t *testing.T, dt tensor.DType) *run {
	t.Helper()
	dev, err := tensor.Open(runsOn, tensor.Seed(11))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	digits, _, err := data.Digits(11)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{dev: dev, dtype: dt, average: nn.State(nil)}
	r.net = nn.Sequential(nn.NewLinear(64, 24), nn.GELU, nn.NewDropout(0.2), nn.NewLinear(24, 10))
	if err := nn.Init(dev, r.model()); err != nil {
		t.Fatal(err)
	}
	r.opt = optim.New(optim.AdamW(1e-2, optim.WeightDecay(0.1)), r.net, optim.Clip(1), optim.NoDecay(optim.Vectors))
	r.scaler = amp.NewGradScaler(amp.InitScale(1<<22), amp.Growth(8, 3), amp.Enabled(dt == tensor.Float16))
	r.loader = &data.Loader{Dataset: digits, BatchSize: 150, Shuffle: true, Seed: 11, Epochs: data.Forever}
	return r
}

// until trains up to a step.
func (r *run) until(t *testing.T, end int) {
	t.Helper()
	if r.step >= end {
		return
	}
	rate := optim.WarmupCosine(1e-2, 1e-3, 3, steps/micro)
	for batch, err := range r.loader.Batches(t.Context()) {
		if err == nil {
			r.opt.LR.Set(rate(r.step / micro))
			err = r.dev.Step(func(s *tensor.Scope) error {
				loss := nn.CrossEntropy(r.net.Forward(s.In(batch.X)), s.In(batch.Y))
				average := s.In(r.average).Scale(0.9).Add(loss.Detach().Scale(0.1))
				r.average.Assign(average)
				r.log = append(r.log, loss.Item(), average.Item())
				autograd.Backward(r.scaler.Scale(loss))
				if r.step%micro < micro-1 {
					return nil
				}
				return r.scaler.Step(s, r.opt)
			}, amp.Autocast(r.dtype))
		}
		if err == nil { // a sample
			err = r.dev.Eval(func(s *tensor.Scope) error {
				r.log = append(r.log, s.Uniform(0, 1, 100).Sum().Item())
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		r.step++
		if r.each != nil {
			if err := r.each(); err != nil {
				t.Fatal(err)
			}
		}
		if r.step == end {
			return
		}
	}
}

// kinds of state, each moved by itself. Counters of the device come last: restoring an optimizer is a step.
var kinds = []struct {
	name string
	move func(from, to *run) error
}{
	{"parameters", func(from, to *run) error { return moveModel(from.net, to.net) }},
	{"state of the model", func(from, to *run) error {
		return moveModel([]any{from.average}, []any{to.average})
	}},
	{"optimizer", func(from, to *run) error {
		st := from.opt.State()
		st.Grads = to.opt.State().Grads
		return to.dev.Step(func(s *tensor.Scope) error { return to.opt.Restore(s, st) })
	}},
	{"gradients", func(from, to *run) error {
		return to.dev.Step(func(s *tensor.Scope) error {
			grads := from.opt.State().Grads
			for _, p := range nn.Parameters(to.net) {
				engine.SetGrad(s, p, grads[p.Name()])
			}
			return nil
		})
	}},
	{"scaler", func(from, to *run) error { return to.scaler.Restore(from.scaler.State()) }},
	{"steps of the device", func(from, to *run) error {
		c := engine.Counters(to.dev)
		c.Steps = engine.Counters(from.dev).Steps
		return engine.SetCounters(to.dev, c)
	}},
	{"evaluations of the device", func(from, to *run) error {
		c := engine.Counters(to.dev)
		c.Evals = engine.Counters(from.dev).Evals
		return engine.SetCounters(to.dev, c)
	}},
	{"data", func(from, to *run) error {
		state, err := from.loader.State()
		if err != nil {
			return err
		}
		return to.loader.Restore(state)
	}},
	{"number of the step", func(from, to *run) error { to.step = from.step; return nil }},
}

func moveModel(from, to any) error {
	values := map[string]*tensor.Tensor{}
	nn.Walk(from, func(name string, t *tensor.Tensor) { values[name] = t })
	var err error
	nn.Walk(to, func(name string, t *tensor.Tensor) {
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(engine.Raw(t), 0), io.NewSectionReader(engine.Raw(values[name]), 0,
				engine.Raw(values[name]).Size()))
		}
	})
	return err
}

// resume moves all kinds of state but one to a new run.
func (r *run) resume(t *testing.T, but string) *run {
	t.Helper()
	next := newRun(t, r.dtype)
	next.log = slices.Clone(r.log)
	for _, kind := range kinds {
		if kind.name == but {
			continue
		}
		if err := kind.move(r, next); err != nil {
			t.Fatalf("%s: %v", kind.name, err)
		}
	}
	return next
}

// end is all that tells two runs apart.
func (r *run) end(t *testing.T) string {
	t.Helper()
	r.until(t, steps)
	return fmt.Sprintf("%s %x %+v", r.opt.Hash(), r.log, r.scaler.State())
}

// A run that goes on in new objects is the unbroken run, wherever it is cut; and three times in a row.
func TestExactResume(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16} {
		whole := newRun(t, dt).end(t)
		overflowed := 0
		for cut := range steps {
			r := newRun(t, dt)
			r.until(t, cut)
			if st := r.scaler.State(); st.SkippedInRow > 0 && cut%micro == 0 {
				overflowed++
			}
			if got := r.resume(t, "").end(t); got != whole {
				t.Errorf("%v, cut after step %d: %s, want %s", dt, cut, got, whole)
			}
		}
		if dt == tensor.Float16 && (overflowed < 2 || overflowed > 7) {
			t.Errorf("%d cuts right after an overflow", overflowed)
		}
		r := newRun(t, dt)
		for _, cut := range []int{5, 6, 13} {
			r.until(t, cut)
			r = r.resume(t, "")
		}
		if got := r.end(t); got != whole {
			t.Errorf("%v, cut three times: %s, want %s", dt, got, whole)
		}
	}
}

// Each kind of state is needed: without it the run is another one.
func TestResumeWithout(t *testing.T) {
	whole := newRun(t, tensor.Float16).end(t)
	for _, kind := range kinds {
		r := newRun(t, tensor.Float16)
		r.until(t, 11) // after the first step of an update that is not skipped
		if got := r.resume(t, kind.name).end(t); got == whole {
			t.Errorf("a run resumed without the %s is the unbroken one", kind.name)
		}
	}
}
