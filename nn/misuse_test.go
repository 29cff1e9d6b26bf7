package nn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// byValue is an optimizer that cannot be compared.
type byValue struct {
	amp.Optimizer
	_ []int
}

// none is an optimizer that tells nothing of overflows.
type none struct{ amp.Optimizer }

func (*none) Unscale(*tensor.Scope, *tensor.Tensor) *tensor.Tensor { return nil }

// sgdWith is SGD with another expression.
func sgdWith(update string) optim.Rule {
	r := optim.SGD(1e-3)
	r.Update = update
	return r
}

// misuse is what the calls of TestNil are made with, in a step.
type misuse struct {
	dev  *tensor.Device
	s    *tensor.Scope
	x    *tensor.Tensor // float32[2 3], of the step
	p    *tensor.Tensor // float32[2 3], a parameter
	loss *tensor.Tensor
}

func (m *misuse) custom(forward, backward bool, gradients int) {
	f := func(c *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Scale(2) }
	b := func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return make([]*tensor.Tensor, gradients) }
	if !forward {
		f = nil
	}
	if !backward {
		b = nil
	}
	autograd.Backward(autograd.Custom("double", f, b, m.s.In(m.p)).Sum())
}

func forward(m nn.Module, x *tensor.Tensor) { m.Forward(x) }

func sumOf(xs []*tensor.Tensor) *tensor.Tensor { return xs[0].Sum() }

var misuses = []struct {
	cause string
	kind  error
	calls []func(m *misuse)
}{
	{"losses of nil", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { nn.CrossEntropy(nil, m.x) },
		func(m *misuse) { nn.CrossEntropy(m.x, nil) },
		func(m *misuse) { nn.NLL(nil, m.x) },
		func(m *misuse) { nn.NLL(m.x, nil) },
	}},
	{"losses of nil beside a shape", tensor.ErrShape, []func(m *misuse){
		func(m *misuse) { nn.MSE(m.x, nil) },
		func(m *misuse) { nn.MSE(nil, nil) },
		func(m *misuse) { nn.L1(nil, m.x) },
		func(m *misuse) { nn.Huber(m.x, nil, 1) },
		func(m *misuse) { nn.BCE(nil, m.x) },
		func(m *misuse) { nn.BCEWithLogits(m.x, nil) },
		func(m *misuse) { nn.KLDiv(nil, m.x) },
	}},
	{"nil modules", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { nn.Sequential(nil) },
		func(m *misuse) { nn.Sequential(nn.ReLU, (*nn.Linear)(nil)) },
		func(m *misuse) { nn.Sequential(nn.Func(nil)) },
		func(m *misuse) { nn.Call("part", nil, m.x) },
		func(m *misuse) { nn.Call("part", (*nn.Linear)(nil), m.x) },
		func(m *misuse) { forward(nn.Func(nil), m.x) },
		func(m *misuse) { forward((*nn.Chain)(nil), m.x) },
		func(m *misuse) { forward((*nn.Linear)(nil), m.x) },
		func(m *misuse) { forward((*nn.Embedding)(nil), m.x) },
		func(m *misuse) { forward((*nn.LayerNorm)(nil), m.x) },
		func(m *misuse) { forward((*nn.RMSNorm)(nil), m.x) },
		func(m *misuse) { forward((*nn.Dropout)(nil), m.x) },
		func(m *misuse) { forward((*nn.CausalAttention)(nil), m.x) },
		func(m *misuse) { forward((*nn.MLP)(nil), m.x) },
		func(m *misuse) { forward(&nn.MLP{}, m.x) },
		func(m *misuse) { forward((*nn.Block)(nil), m.x) },
		func(m *misuse) { forward(&nn.Block{}, m.x) },
		func(m *misuse) { forward((*nn.GPT)(nil), m.x) },
		func(m *misuse) { forward(&nn.GPT{Config: nn.GPTConfig{Context: 3}}, m.x) },
		func(m *misuse) { (*nn.Chain)(nil).Children() },
		func(m *misuse) { second(nn.Summary(m.dev, nil, m.x)) },
		func(m *misuse) { _ = (*nn.Report)(nil).String() },
	}},
	{"nil tensors of modules", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { forward(&nn.Linear{}, m.x) },
		func(m *misuse) { forward(&nn.Embedding{}, m.x) },
		func(m *misuse) { forward(nn.NewLinear(3, 2), nil) },
		func(m *misuse) { forward(nn.Sequential(nn.ReLU), nil) },
		func(m *misuse) { nn.Call("relu", nn.ReLU, nil) },
	}},
	{"nil devices", tensor.ErrDevice, []func(m *misuse){
		func(m *misuse) { panicIf(nn.Init(nil, m.p)) },
		func(m *misuse) { second(nn.Summary(nil, nn.ReLU, m.x)) },
		func(m *misuse) { panicIf(autograd.Gradcheck(nil, sumOf, tensor.Zeros(tensor.Float64, 2))) },
		func(m *misuse) { panicIf(autograd.GradGradcheck(nil, sumOf, tensor.Zeros(tensor.Float64, 2))) },
	}},
	{"nil rules and optimizers", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { optim.New(optim.Rule{}, m.p) },
		func(m *misuse) { optim.Operation(optim.Rule{}) },
		func(m *misuse) { optim.New(sgdWith("p - lr*q"), m.p) },
		func(m *misuse) { optim.New(sgdWith("p - lr*g; p"), m.p) },
		func(m *misuse) { panicIf((*optim.Optimizer)(nil).Step(m.s)) },
		func(m *misuse) { panicIf((&optim.Optimizer{}).Step(m.s)) },
		func(m *misuse) { (&optim.Optimizer{}).Unscale(m.s, m.loss) },
		func(m *misuse) { (&optim.Optimizer{}).GradNorm() },
		func(m *misuse) { (*optim.Optimizer)(nil).State() },
		func(m *misuse) { (*optim.Optimizer)(nil).Hash() },
		func(m *misuse) { panicIf((*optim.Optimizer)(nil).Restore(m.s, optim.State{})) },
		func(m *misuse) { o := optim.New(optim.SGD(1e-3), m.p); o.LR = nil; panicIf(o.Step(m.s)) },
	}},
	{"nil scalers", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { (*amp.GradScaler)(nil).Scale(m.loss) },
		func(m *misuse) { (&amp.GradScaler{}).Scale(m.loss) },
		func(m *misuse) { panicIf((&amp.GradScaler{}).Step(m.s, optim.New(optim.SGD(1e-3), m.p))) },
		func(m *misuse) { (&amp.GradScaler{}).Unscale(m.s, optim.New(optim.SGD(1e-3), m.p)) },
		func(m *misuse) { (*amp.GradScaler)(nil).State() },
		func(m *misuse) { panicIf((*amp.GradScaler)(nil).Restore(amp.State{})) },
		func(m *misuse) { panicIf(m.scaler().Step(m.s, nil)) },
		func(m *misuse) { m.scaler().Unscale(m.s, (*optim.Optimizer)(nil)) },
		func(m *misuse) { m.scaler().Unscale(m.s, byValue{}) },
		func(m *misuse) { panicIf(m.scaler().Step(m.s, byValue{}, byValue{})) },
		func(m *misuse) { m.scaler().Unscale(m.s, &none{}) },
	}},
	{"nil functions", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { m.custom(false, true, 1) },
		func(m *misuse) { m.custom(true, false, 1) },
		func(m *misuse) {
			autograd.Custom("none", func(*autograd.Ctx, ...*tensor.Tensor) *tensor.Tensor { return nil },
				func(_ *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return nil }, m.x)
		},
		func(m *misuse) { autograd.Accumulate(m.s, 1, 1, nil) },
		func(m *misuse) { autograd.Accumulate(m.s, 1, 1, func(int) *tensor.Tensor { return m.loss }, nil) },
		func(m *misuse) { autograd.Hook(m.loss, nil) },
		func(m *misuse) { panicIf(autograd.Gradcheck(m.dev, nil)) },
		func(m *misuse) { panicIf(autograd.GradGradcheck(m.dev, nil)) },
	}},
	{"gradients of a custom operation", tensor.ErrGrad, []func(m *misuse){
		func(m *misuse) { m.custom(true, true, 0) },
		func(m *misuse) { m.custom(true, true, 2) },
	}},
	{"saved tensors", tensor.ErrIndex, []func(m *misuse){
		func(m *misuse) { (&autograd.Ctx{}).Saved(0) },
		func(m *misuse) { (&autograd.Ctx{}).Saved(-1) },
	}},
	{"nil scopes and operands", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { autograd.Accumulate(nil, 1, 1, func(int) *tensor.Tensor { return m.loss }) },
		func(m *misuse) { autograd.Accumulate(m.s, 1, 1, func(int) *tensor.Tensor { return nil }) },
		func(m *misuse) { autograd.Unused(nil, []*tensor.Tensor{m.p}) },
		func(m *misuse) { autograd.Unused(m.s, []*tensor.Tensor{nil}) },
		func(m *misuse) { amp.NonFinite(nil, nil) },
		func(m *misuse) { amp.NonFinite(m.s, []*tensor.Tensor{nil}) },
		func(m *misuse) { panicIf(optim.New(optim.SGD(1e-3), m.p).Step(nil)) },
		func(m *misuse) { m.scaler().Scale(nil) },
		func(m *misuse) { panicIf(m.scaler().Step(nil, optim.New(optim.SGD(1e-3), m.p))) },
	}},
}

// scaler has scaled a loss in the step.
func (m *misuse) scaler() *amp.GradScaler {
	g := amp.NewGradScaler()
	autograd.Backward(g.Scale(m.loss))
	return g
}

func panicIf(err error) {
	if err != nil {
		panic(err)
	}
}

func second(_ any, err error) { panicIf(err) }

// Every misuse is an error of its kind with the line of this file, in plain steps and under autocast.
func TestNil(t *testing.T) {
	dev, err := tensor.Open("cpu")
	panicIf(err)
	defer dev.Close()
	count := 0
	for _, c := range misuses {
		for i, call := range c.calls {
			for _, lower := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
				p := nn.ParameterOf("p", tensor.Randn(tensor.Seed(1), 2, 3))
				err := dev.Step(func(s *tensor.Scope) (err error) {
					defer func() {
						switch e := recover().(type) {
						case nil:
						case *tensor.Error:
							err = e
						default:
							err = fmt.Errorf("panic: %v", e)
						}
					}()
					call(&misuse{dev, s, s.Full(1, tensor.Float32, 2, 3), p, s.In(p).Sum()})
					return nil
				}, amp.Autocast(lower))
				var e *tensor.Error
				if !errors.As(err, &e) || !strings.HasPrefix(e.Site, "misuse_test.go:") || !errors.Is(e, c.kind) {
					t.Errorf("%s, call %d under %v: %v, want %v at a line of this file", c.cause, i, lower, err, c.kind)
				}
				count++
			}
		}
	}
	t.Logf("%d calls", count)
}

// A panic of the program's own code stays a panic, with its own value, and the device can be used.
func TestPanicsOfTheProgram(t *testing.T) {
	dev, err := tensor.Open("cpu")
	panicIf(err)
	defer dev.Close()
	own := errors.New("of the program")
	fails := nn.Func(func(*tensor.Tensor) *tensor.Tensor { panic(own) })
	before := dev.Stats()
	for name, f := range map[string]func(s *tensor.Scope, p, loss *tensor.Tensor){
		"step":    func(s *tensor.Scope, p, loss *tensor.Tensor) { panic(own) },
		"forward": func(s *tensor.Scope, p, loss *tensor.Tensor) { nn.Call("part", nn.Sequential(fails), loss) },
		"hook": func(s *tensor.Scope, p, loss *tensor.Tensor) {
			autograd.Hook(loss, func(*tensor.Tensor) *tensor.Tensor { panic(own) })
			autograd.Backward(loss)
		},
		"on grad": func(s *tensor.Scope, p, loss *tensor.Tensor) {
			p.OnGrad(func(*tensor.Tensor) { panic(own) })
			autograd.Backward(loss)
		},
		"backward": func(s *tensor.Scope, p, loss *tensor.Tensor) {
			autograd.Backward(autograd.Custom("c",
				func(_ *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Exp() },
				func(*autograd.Ctx, *tensor.Tensor) []*tensor.Tensor { panic(own) }, loss))
		},
		"initializer": func(s *tensor.Scope, p, loss *tensor.Tensor) {
			panics := func([]float64, []int, nn.Random) { panic(own) }
			nn.Init(dev, nn.NewLinear(2, 2, nn.WeightInit(panics)))
		},
		"nil of the program": func(s *tensor.Scope, p, loss *tensor.Tensor) {
			var m map[string]int
			defer func() {
				if fmt.Sprint(recover()) != "assignment to entry in nil map" {
					t.Error("another panic")
				}
				panic(own)
			}()
			nn.Func(func(*tensor.Tensor) *tensor.Tensor { m["x"] = 1; return nil }).Forward(loss)
		},
	} {
		p := nn.ParameterOf("p", tensor.Randn(tensor.Seed(1), 2, 3))
		func() {
			defer func() {
				if e := recover(); e != own {
					t.Errorf("%s: panic %v, want its own", name, e)
				}
			}()
			dev.Step(func(s *tensor.Scope) error { f(s, p, s.In(p).Sum()); return nil })
		}()
		p = nn.ParameterOf("p", tensor.Randn(tensor.Seed(1), 2, 3))
		err := dev.Step(func(s *tensor.Scope) error { autograd.Backward(s.In(p).Sum()); return nil })
		if err != nil || tensor.ToSlice[float32](p.Grad())[5] != 1 {
			t.Errorf("%s: the next step: %v", name, err)
		}
		p.ClearGrads()
	}
	if after := dev.Stats(); after.Memory.Blocks != before.Memory.Blocks {
		t.Errorf("%d blocks are live, %d before", after.Memory.Blocks, before.Memory.Blocks)
	}
}
