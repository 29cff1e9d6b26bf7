package tensor_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// wantAnomaly fails unless a step under Anomaly ends with an error that says all of want.
func wantAnomaly(t *testing.T, dev *tensor.Device, f func(s *tensor.Scope), want ...string) {
	t.Helper()
	err := dev.Step(func(s *tensor.Scope) error { f(s); return nil }, tensor.Anomaly())
	if len(want) == 0 {
		if err != nil {
			t.Errorf("%v", err)
		}
		return
	}
	if !errors.Is(err, tensor.ErrValue) {
		t.Errorf("error %v", err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestAnomaly(t *testing.T) {
	dev := open(t)
	x := tensor.FromSlice([]float32{4, -1, 0}, 3)
	in := func(s *tensor.Scope, name string, f func() *tensor.Tensor) *tensor.Tensor {
		return s.Region(name, func() []*tensor.Tensor { return []*tensor.Tensor{f()} })[0]
	}
	t.Run("forward", func(t *testing.T) {
		wantAnomaly(t, dev, func(s *tensor.Scope) {
			in(s, "block", func() *tensor.Tensor {
				return in(s, "head", func() *tensor.Tensor {
					return s.In(x).AddScalar(1).Sub(s.In(x)).Mul(s.In(x)).Sqrt()
				})
			}).Exp()
		}, "anomaly_test.go:", ": sqrt: the result float32[3] has 1 NaN and 0 infinite of 3 elements, "+
			"the first at position 1; the operands are finite, in block/head")
	})
	t.Run("infinity", func(t *testing.T) {
		wantAnomaly(t, dev, func(s *tensor.Scope) { s.In(x).Scale(100).Exp() }, ": exp: ",
			"0 NaN and 1 infinite of 3 elements, the first at position 0")
	})
	t.Run("given infinity", func(t *testing.T) { // masks are not anomalies
		wantAnomaly(t, dev, func(s *tensor.Scope) {
			s.In(x).MaskedFill(s.In(x).Greater(s.In(tensor.Of(float32(0)))), math.Inf(-1)).Softmax(0)
		})
	})
	t.Run("given NaN", func(t *testing.T) {
		bad := tensor.FromSlice([]float32{1, float32(math.NaN())}, 2)
		wantAnomaly(t, dev, func(s *tensor.Scope) { s.In(bad).AddScalar(1) }, "; x float32[2] has 1 NaN")
	})
	t.Run("backward", func(t *testing.T) {
		wantAnomaly(t, dev, func(s *tensor.Scope) {
			x := autograd.Watch(s, tensor.FromSlice([]float32{1, 0}, 2))
			y := in(s, "layer", x.Sqrt)
			autograd.Grad(y.Sum(), []*tensor.Tensor{x})
		}, "infinite of 2 elements, the first at position 1", "; this is the gradient of sqrt at anomaly_test.go:",
			" in layer", "sqrt backward")
	})
	t.Run("beside an observer", func(t *testing.T) {
		seen := 0
		err := dev.Step(func(s *tensor.Scope) error { s.In(x).Sqrt(); return nil },
			engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) { seen++ }), tensor.Anomaly())
		if err == nil || seen != 1 {
			t.Errorf("error %v, %d operations observed", err, seen)
		}
	})
	t.Run("steps go on", func(t *testing.T) {
		var found []string
		watch := tensor.Anomaly(func(err error) { found = append(found, err.Error()) })
		for range 2 {
			err := dev.Step(func(s *tensor.Scope) error {
				positive := autograd.Watch(s, tensor.FromSlice([]float32{1, 0}, 2))
				y := in(s, "layer", positive.Sqrt)
				autograd.Grad(y.Sum(), []*tensor.Tensor{positive})
				s.In(x).Log()
				return nil
			}, watch)
			if err != nil {
				t.Error(err)
			}
		}
		if len(found) != 2 {
			t.Fatalf("%q", found)
		}
		for _, part := range []string{": sqrt_grad_x: ", "; this is the gradient of sqrt at anomaly_test.go:",
			" in layer", "sqrt backward"} {
			if !strings.Contains(found[1], part) {
				t.Errorf("%q does not say %q", found[1], part)
			}
		}
	})
	t.Run("off", func(t *testing.T) {
		if err := dev.Step(func(s *tensor.Scope) error { s.In(x).Sqrt(); return nil }); err != nil {
			t.Error(err)
		}
	})
}
