package optim_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/weft-ml/weft/autograd"
	_ "github.com/weft-ml/weft/kernels/null"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// An update that meets an evaluation changes nothing, in no arena.
func TestUpdateBesideEvaluation(t *testing.T) {
	dev := open(t)
	w, u := param("w", 1, 2), param("u", 3, 4)
	opt := optim.New(optim.AdamW(0.1), []*tensor.Tensor{w, u})
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1, 1}, u: {1, 1}})
	before := opt.Hash()
	must(t, dev.Eval(func(reader *tensor.Scope) error {
		reader.In(u)
		err := dev.Step(func(s *tensor.Scope) error {
			gradients(s, map[*tensor.Tensor][]float64{w: {1, 1}, u: {1, 1}})
			return opt.Step(s)
		})
		wantError(t, err, tensor.ErrBusy, "u float64[2]", "evaluat")
		return nil
	}))
	if opt.Hash() != before {
		t.Error("the refused update changed something")
	}
	update(t, dev, opt, map[*tensor.Tensor][]float64{w: {1, 1}, u: {1, 1}})
}

// A step that fails after its update has changed nothing: the gradients of earlier steps are there for the next update.
func TestFailureAfterUpdate(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{1}, 1))
	opt := optim.New(optim.SGD(1), w)
	must(t, dev.Step(func(s *tensor.Scope) error { autograd.Backward(s.In(w).Sum()); return nil }))
	boom := errors.New("boom")
	if err := dev.Step(func(s *tensor.Scope) error {
		must(t, opt.Step(s))
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if g := w.Grad(); g == nil || g.Item() != 1 || w.Item() != 1 {
		t.Errorf("w is %v, its gradient %v", w.Item(), g)
	}
	must(t, dev.Step(opt.Step))
	if w.Grad() != nil || w.Item() != 0 {
		t.Errorf("w is %v after one update, want 0", w.Item())
	}
}

// A step whose memory ends, at one place after the other, changes nothing.
func TestOutOfMemory(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2, 3)
	opt := optim.New(optim.AdamW(0.1), w, optim.Clip(1))
	step := func() error {
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w).Square().Sum())
			return opt.Step(s)
		})
	}
	must(t, step())
	before := opt.Hash()
	limit := func(bytes int) { open(t, tensor.MemoryLimit(bytes)) }
	defer limit(1 << 40)
	for range 5 { // what other tests have dropped goes back to the pool
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	refused := 0
	for room := 0; ; room += 512 {
		limit(1) // gives back what is cached
		limit(dev.Stats().Memory.Active + room)
		err := step()
		if err == nil {
			break
		}
		refused++
		wantError(t, err, tensor.ErrMemory)
		if opt.Hash() != before {
			t.Fatalf("with room for %d bytes the step failed and changed something: %v", room, err)
		}
	}
	if opt.Hash() == before || refused < 5 {
		t.Errorf("%d steps failed", refused)
	}
}

// An optimizer of parameters that have been placed again says so.
func TestPlacedAgain(t *testing.T) {
	dev := open(t)
	m := nn.NewLinear(2, 2)
	must(t, nn.Init(dev, m))
	opt := optim.New(optim.AdamW(1e-3), m)
	must(t, nn.Init(dev, m))
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(m.Forward(s.In(tensor.Ones(tensor.Float32, 1, 2))).Sum())
		return opt.Step(s)
	})
	for _, err := range []error{err, engine.Try(func() { opt.StateBytes() })} {
		wantError(t, err, tensor.ErrStep, "adamw", "parameter weight", "placed again", "robust_test.go:")
	}
}

// A first update in a step of another device, or in one that is over, is refused with the names of both, and leaves the
// optimizer as new.
func TestUpdateElsewhere(t *testing.T) {
	dev := open(t)
	other, err := tensor.Open("null")
	must(t, err)
	defer other.Close()
	host, placed := param("host", 1, 2), nn.Parameter(nil, 2)
	must(t, engine.Place(dev, "", []string{"placed"}, []*tensor.Tensor{placed}, tensor.Float64))
	for _, w := range []*tensor.Tensor{host, placed} {
		opt := optim.New(optim.AdamW(0.1), w)
		var over *tensor.Scope
		must(t, dev.Step(func(s *tensor.Scope) error {
			over = s
			autograd.Backward(s.In(w).Sum())
			return nil
		}))
		for name, update := range map[string]func(s *tensor.Scope) error{
			"Step":    opt.Step,
			"Unscale": func(s *tensor.Scope) error { opt.Unscale(s, s.Full(1, tensor.Float32)); return nil },
			"Restore": func(s *tensor.Scope) error { return opt.Restore(s, optim.State{Rule: "adamw"}) },
		} {
			if w == host && name == "Restore" {
				continue // takes its place from the step
			}
			wantError(t, other.Step(update), tensor.ErrStep, "on cpu", "null")
		}
		wantError(t, engine.Try(func() { must(t, opt.Step(over)) }), tensor.ErrStep, "adamw", "on cpu", "has ended")
		must(t, dev.Step(opt.Step))
	}
}
