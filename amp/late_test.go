package amp

import (
	"errors"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// overflowing is an optimizer whose gradients are never finite.
type overflowing struct{}

func (overflowing) Step(*tensor.Scope) error { return nil }
func (overflowing) Unscale(s *tensor.Scope, _ *tensor.Tensor) *tensor.Tensor {
	return s.Full(1, tensor.Float32)
}
func (overflowing) StepScaled(s *tensor.Scope, _ *tensor.Tensor) (*tensor.Tensor, error) {
	return s.Full(1, tensor.Float32), nil
}

// A device that is behind by more than a step is waited for by nobody, and its news are not dropped for later ones that
// would be as late.
func TestScalerLateNews(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	g := NewGradScaler(MaxSkips(2))
	step := func() error {
		return dev.Step(func(s *tensor.Scope) error {
			g.Scale(s.Full(1, tensor.Float32))
			return g.Step(s, overflowing{})
		})
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	news, late, asked := g.arrived, true, 0
	g.arrived = func() []float64 {
		asked++
		if late {
			return nil
		}
		return news()
	}
	for k := 2; k <= 5; k++ { // too many, as yet unknown
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", k, err)
		}
	}
	if asked == 0 {
		t.Error("nobody asked for the news")
	}
	late = false
	if err := step(); !errors.Is(err, ErrOverflow) { // old news, and those of now, which a CPU has at once
		t.Errorf("error %v after %+v", err, g.State())
	}
}

// failing is an optimizer that cannot step.
type failing struct{ overflowing }

var errFailing = errors.New("no step")

func (failing) Step(*tensor.Scope) error { return errFailing }
func (failing) StepScaled(*tensor.Scope, *tensor.Tensor) (*tensor.Tensor, error) {
	return nil, errFailing
}

// Where one of several optimizers fails the step fails, even if its function does not look at the error.
func TestScalerAbort(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, on := range []bool{false, true} {
		g := NewGradScaler(Enabled(on))
		if err := dev.Step(func(s *tensor.Scope) error {
			g.Scale(s.Full(1, tensor.Float32))
			g.Step(s, overflowing{}, failing{})
			return nil
		}); err != errFailing {
			t.Errorf("enabled %v: error %v", on, err)
		}
	}
}
