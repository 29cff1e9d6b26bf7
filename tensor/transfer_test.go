package tensor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// Outside steps, To copies to a device, and the copy stays there; a tensor that is there already is returned itself.
func TestToOutsideSteps(t *testing.T) {
	host, other := openDevice(t, "cpu"), openDevice(t, "null")
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	if x.Device() != nil || x.To(host) != x || x.To(tensor.Float32) != x {
		t.Error("host data are at home on the CPU")
	}
	k := x.T().To(other)
	if k.Device().Name() != "null" || k.To(other) != k || k.Scope() != nil || !slices.Equal(k.Shape(), []int{2, 2}) {
		t.Errorf("%v is on %v", k, k.Device())
	}
	if back := k.To(host); back.Device() != host || len(tensor.ToSlice[float32](back)) != 4 {
		t.Errorf("%v is on %v", back, back.Device())
	}
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1}, 1))
	wantMisuse(t, func() { w.To(other) }, tensor.ErrStep, "to: w float32[1] belongs to no step")
}

// Operations run on the device of their operands, gradients on that of their forward, also the operations of a
// derivative that have no operands.
func TestStepOnTwoDevices(t *testing.T) {
	host, other := openDevice(t, "cpu"), openDevice(t, "null")
	err := host.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
		y := x.Square().To(other)
		z := y.IndexSelect(0, tensor.FromSlice([]int64{2, 0}, 2)).Exp()
		if z.Device() != other || x.Device() != host || s.Device() != host {
			t.Errorf("x on %v, z on %v", x.Device(), z.Device())
		}
		calls := other.Stats().Launches
		g := autograd.Grad(z.Sum(), []*tensor.Tensor{x, y})
		if g[0].Device() != host || g[1].Device() != other {
			t.Errorf("gradients on %v and %v", g[0].Device(), g[1].Device())
		}
		if other.Stats().Launches == calls {
			t.Error("nothing ran on the second device")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(x, y *tensor.Tensor){
		"add": func(x, y *tensor.Tensor) { x.Add(y) }, "matmul": func(x, y *tensor.Tensor) { y.MatMul(x) },
	} {
		err := host.Eval(func(s *tensor.Scope) error {
			x := s.In(tensor.Zeros(tensor.Float32, 2, 2))
			f(x, x.To(other))
			return nil
		})
		wantError(t, err, tensor.ErrStep, name+": operands on two devices: ", "on null", "on cpu")
	}
	if n := other.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the steps", n)
	}
}

// Two handles of one device are the same target; nil is none.
func TestToItself(t *testing.T) {
	host, again := openDevice(t, "cpu"), openDevice(t, "cpu")
	if err := host.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float32{2}, 1))
		if y := x.To(again); y != x {
			t.Errorf("%v became %v", x, y)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := engine.Try(func() { tensor.Of(float32(1)).To(nil) }); !errors.Is(err, tensor.ErrValue) {
		t.Errorf("to nothing: %v", err)
	}
}

func openDevice(t *testing.T, name string) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}
