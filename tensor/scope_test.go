package tensor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
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

// wantError checks the kind of an error, and that its text has all parts.
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

// wantMisuse checks the error of a call outside a step.
func wantMisuse(t *testing.T, call func(), kind error, parts ...string) {
	t.Helper()
	wantError(t, tensor.Try(call), kind, parts...)
}

func TestStepBasics(t *testing.T) {
	dev := open(t)
	var kept *tensor.Tensor
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
		y := x.Add(x.T()).Scale(2)
		kept = y.Keep()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.ToSlice[float32](kept); got[0] != 4 || got[1] != 10 || got[2] != 10 || got[3] != 16 {
		t.Errorf("got %v", got)
	}
}

func TestUseAfterStep(t *testing.T) {
	dev := open(t)
	var leaked *tensor.Tensor
	dev.Step(func(s *tensor.Scope) error {
		leaked = s.In(tensor.FromSlice([]float32{1, 2}, 2)).Square()
		return nil
	})
	err := dev.Step(func(s *tensor.Scope) error {
		leaked.Add(leaked)
		return nil
	})
	wantError(t, err, tensor.ErrStep, "scope_test.go:", "ended", "Keep")
}

// What a region uses for the last time ends with it, unless it is returned or saved for backward.
func TestRegionEnds(t *testing.T) {
	dev := open(t)
	step(t, dev, func(s *tensor.Scope) {
		x := s.Watch(tensor.FromSlice([]float32{1, 2, -3}, 3))
		used, saved, kept := x.Scale(2), x.Scale(3), x.Scale(4)
		var y *tensor.Tensor
		s.Region("last", func() []*tensor.Tensor {
			y = used.Scale(2).Add(saved.Square()).Add(kept)
			return []*tensor.Tensor{y, kept}
		}, used, nil, saved, kept)
		for _, gone := range []*tensor.Tensor{used, saved} {
			wantError(t, tensor.Try(func() { gone.Sum() }), tensor.ErrStep, "was released when region last ended")
		}
		g := autograd.Grad(y.Add(kept).Sum(), []*tensor.Tensor{x})[0] // of 4x + 9x^2 + 2 * 4x
		if got := tensor.ToSlice[float32](g); !slices.Equal(got, []float32{30, 48, -42}) {
			t.Errorf("the gradient is %v", got)
		}
	})
}
