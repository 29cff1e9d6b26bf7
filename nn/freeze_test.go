package nn_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// train makes steps of an optimizer on a chain.
func train(t *testing.T, dev *tensor.Device, model *nn.Chain, opt *optim.Optimizer, steps int) {
	t.Helper()
	x := tensor.Randn(tensor.Seed(1), 4, 3)
	for range steps {
		err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(model.Forward(s.In(x)).Square().Mean())
			return opt.Step(s)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Frozen parameters keep their bits, also in an optimizer that was made before, has moments, and decays weights.
func TestFreeze(t *testing.T) {
	dev := open(t)
	body, head := nn.NewLinear(3, 3), nn.NewLinear(3, 2)
	model := nn.Sequential(body, head)
	initialize(t, dev, model)
	opt := optim.New(optim.AdamW(0.1), model)
	train(t, dev, model, opt, 2)
	err := dev.Step(func(s *tensor.Scope) error { // leaves a gradient
		autograd.Backward(body.Forward(s.In(tensor.Randn(tensor.Seed(2), 4, 3))).Sum())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nn.Freeze(body)
	before, moving := body.Weight.Detach().Clone(), head.Weight.Detach().Clone()
	if body.Weight.NeedsGrad() || body.Weight.Grad() != nil || !head.Weight.NeedsGrad() {
		t.Errorf("frozen: %+v, with gradient %v; not frozen: %+v", body.Weight, body.Weight.Grad(), head.Weight)
	}
	train(t, dev, model, opt, 3)
	if !before.AllEqual(body.Weight.Detach()) || moving.AllEqual(head.Weight.Detach()) {
		t.Errorf("the frozen part is %v, was %v; the other is %v, was %v", body.Weight, before, head.Weight, moving)
	}
	nn.Unfreeze(model)
	train(t, dev, model, opt, 1)
	if before.AllEqual(body.Weight.Detach()) {
		t.Error("it is still frozen")
	}
	err = engine.Try(func() { tensor.Zeros(tensor.Float32, 1).SetNeedsGrad(true) })
	wantError(t, err, tensor.ErrGrad, "set_needs_grad: float32[1] is no parameter as a whole")
}

// Parameters that no optimizer owns are named, once.
func TestWarnLeft(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	dev := open(t)
	body, head := nn.NewLinear(3, 3), nn.NewLinear(3, 2)
	model := nn.Sequential(body, head)
	initialize(t, dev, model)
	opt := optim.New(optim.SGD(0.01), head)
	train(t, dev, model, opt, 9)
	if log.Len() > 0 {
		t.Errorf("too early: %s", &log)
	}
	train(t, dev, model, opt, 20)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `parameters="[0.weight 0.bias]"`) {
		t.Errorf("the log is %q", got)
	}
	log.Reset()
	initialize(t, dev, model) // afresh
	nn.Freeze(body)
	train(t, dev, model, optim.New(optim.SGD(0.01), head), 30)
	if log.Len() > 0 {
		t.Errorf("of frozen parameters: %s", &log)
	}
}

func ExampleFreeze() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	body := nn.NewLinear(2, 2)
	model := nn.Sequential(body, nn.NewLinear(2, 1))
	check(nn.Init(dev, model))
	nn.Freeze(body)
	check(dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(model.Forward(s.Full(1, tensor.Float32, 1, 2)).Sum())
		return nil
	}))
	for _, p := range nn.Parameters(model) {
		fmt.Println(p.Name(), p.Grad() != nil)
	}
	// Output:
	// 0.weight false
	// 0.bias false
	// 1.weight true
	// 1.bias true
}
