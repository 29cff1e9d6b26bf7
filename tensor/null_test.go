package tensor_test

import (
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// The null device takes the memory and the op calls of a CPU step, and computes nothing.
func TestNullDevice(t *testing.T) {
	use := func(device string) (live int, calls uint64) {
		dev, err := tensor.Open(device, tensor.Seed(1))
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		w, err := engine.NewState(dev, "w", tensor.Float32, 64, 64)
		if err != nil {
			t.Fatal(err)
		}
		before := dev.Stats()
		if err := dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, s.Full(1, tensor.Float32, 32, 64))
			y := x.MatMul(w).GELU().Softmax(-1).Mean()
			autograd.Grad(y, []*tensor.Tensor{x})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		after := dev.Stats()
		return after.Memory.Allocated - after.Memory.Kept, after.Launches - before.Launches
	}
	cpuLive, cpuCalls := use("cpu")
	nullLive, nullCalls := use("null")
	if nullCalls != cpuCalls || nullCalls < 8 {
		t.Errorf("%d op calls on null, %d on cpu", nullCalls, cpuCalls)
	}
	if nullLive > cpuLive {
		t.Errorf("%d live bytes on null, %d on cpu", nullLive, cpuLive)
	}
}
