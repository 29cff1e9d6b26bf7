//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A model on two GPUs, its halves on one each, learns what it learns on one, to the bit.
func TestTwoGPUs(t *testing.T) {
	if !inChild(t, "WEFT_EMU=devices=2") {
		return
	}
	one, two := open(t, "cuda:0"), open(t, "cuda:1")
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 5, 8)
	gradients := func(second *tensor.Device) (all [][]float32) {
		a, b := nn.NewLinear(8, 6), nn.NewLinear(6, 3)
		if err := errors.Join(nn.Init(one, a, nn.Named("a")), nn.Init(second, b, nn.Named("b"))); err != nil {
			t.Fatal(err)
		}
		err := one.Step(func(s *tensor.Scope) error {
			h := a.Forward(s.In(x)).To(second)
			if h.Device().Name() != second.Name() || h.Scope() != s {
				t.Errorf("%v is on %v", h, h.Device())
			}
			y := b.Forward(h)
			autograd.Backward(y.Mul(y).Sum())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range append(nn.Parameters(a), nn.Parameters(b)...) {
			all = append(all, tensor.ToSlice[float32](p.Grad()))
		}
		return all
	}
	want, got := gradients(one), gradients(two)
	if len(want) != 4 || len(want[0]) != 48 || want[0][0] == 0 {
		t.Fatalf("gradients %v", want)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("gradient %d is %v, want %v", i, got[i], want[i])
		}
	}
	err := one.Eval(func(s *tensor.Scope) error {
		a := s.In(x)
		b := a.To(two)
		a.MatMul(b.T())
		return nil
	})
	if !errors.Is(err, tensor.ErrStep) ||
		!strings.Contains(err.Error(),
			"matmul: operands on two devices: float32[8 5] is on cuda:1, another one on cuda:0; x.To(dev) moves x") {
		t.Errorf("mixing devices: %v", err)
	}
	if n := one.Stats().Memory.Blocks + two.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the steps", n)
	}
}

// Forward and backward wait for nothing once their memory is in the pool.
func TestStepDoesNotWait(t *testing.T) {
	gpu := open(t, "cuda")
	model := nn.NewLinear(8, 3)
	if err := nn.Init(gpu, model); err != nil {
		t.Fatal(err)
	}
	x, classes := tensor.Uniform(tensor.Seed(1), -1, 1, 5, 8), tensor.FromSlice([]int64{0, 2, 1, 1, 0}, 5)
	var waits []uint64
	for range 5 {
		if err := gpu.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(classes)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, gpu.Stats().Waits)
	}
	if waits[4] != waits[1] || waits[0] == 0 {
		t.Errorf("hidden waits after each step: %v", waits)
	}
}
