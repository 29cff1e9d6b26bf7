package tensor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// misuse is what the calls of TestMisuse are made with, in a step.
type misuse struct {
	dev, closed *tensor.Device
	s           *tensor.Scope
	x           *tensor.Tensor // float32[2 3], of the step
	p           *tensor.Tensor // float32[2 3], a parameter placed together with others
}

var (
	nilTensor *tensor.Tensor
	nilScope  *tensor.Scope
	nilDevice *tensor.Device
	nilOp     *tensor.Op
	product   = tensor.MustPointwise("product", "x*y", []string{"x", "y"})
)

// gradients is the sum of x, by an operation whose VJP gives what f says.
func gradients(s *tensor.Scope, x *tensor.Tensor, f func(g *tensor.Tensor) []*tensor.Tensor) {
	x = s.In(x)
	autograd.Backward(engine.Record(s, "vjp", []*tensor.Tensor{x}, x.Detach().Clone(), nil, f).Sum())
}

var misuses = []struct {
	cause string
	kind  error
	calls []func(m *misuse)
}{
	{"nil operands", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { m.x.Add(nil) },
		func(m *misuse) { nilTensor.Add(m.x) },
		func(m *misuse) { m.x.MatMul(nil) },
		func(m *misuse) { m.x.Linear(nil, nil) },
		func(m *misuse) { m.x.CrossEntropy(nil) },
		func(m *misuse) { nilTensor.Sum(-1) },
		func(m *misuse) { nilTensor.SumTo(2) },
		func(m *misuse) { nilTensor.AddRMSNorm(m.x, nil, 1e-5) },
		func(m *misuse) { tensor.Cat(0, m.x, nil) },
		func(m *misuse) { m.s.In(nil) },
		func(m *misuse) { autograd.Watch(m.s, nil) },
		func(m *misuse) { m.p.Assign(nil) },
	}},
	{"methods of a nil tensor", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { nilTensor.Shape() },
		func(m *misuse) { nilTensor.Rank() },
		func(m *misuse) { nilTensor.Dim(0) },
		func(m *misuse) { nilTensor.Len() },
		func(m *misuse) { nilTensor.DType() },
		func(m *misuse) { nilTensor.Scope() },
		func(m *misuse) { nilTensor.NeedsGrad() },
		func(m *misuse) { nilTensor.IsContiguous() },
		func(m *misuse) { nilTensor.Origin() },
		func(m *misuse) { nilTensor.Name() },
		func(m *misuse) { nilTensor.Device() },
		func(m *misuse) { nilTensor.Detach() },
		func(m *misuse) { nilTensor.Keep() },
		func(m *misuse) { nilTensor.To(tensor.Float64) },
		func(m *misuse) { nilTensor.To(m.dev) },
		func(m *misuse) { nilTensor.Trainable() },
		func(m *misuse) { engine.Arena(nilTensor) },
		func(m *misuse) { nilTensor.Grad() },
		func(m *misuse) { nilTensor.ClearGrads() },
		func(m *misuse) { nilTensor.OnGrad(func(*tensor.Tensor) {}) },
		func(m *misuse) { nilTensor.Item() },
		func(m *misuse) { nilTensor.Fetch() },
		func(m *misuse) { nilTensor.Assign(m.x) },
		func(m *misuse) { tensor.ToSlice[float32](nil) },
		func(m *misuse) { engine.Bytes(nil) },
		func(m *misuse) { nn.ParameterOf("p", nil) },
	}},
	{"the zero Tensor", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { m.x.Add(&tensor.Tensor{}) },
		func(m *misuse) { (&tensor.Tensor{}).Exp() },
		func(m *misuse) { (&tensor.Tensor{}).Item() },
		func(m *misuse) { (&tensor.Tensor{}).Keep() },
		func(m *misuse) { nn.ParameterOf("p", &tensor.Tensor{}) },
	}},
	{"element types that autocast does not lower to", tensor.ErrDType, []func(m *misuse){
		func(m *misuse) { m.s.With(func() {}, engine.Autocast(tensor.Int64)) },
	}},
	{"nil and zero devices", tensor.ErrDevice, []func(m *misuse){
		func(m *misuse) { panicIf(nilDevice.Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf(nilDevice.Eval(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf((&tensor.Device{}).Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicOf(engine.NewState(nilDevice, "s", tensor.Float32)) },
		func(m *misuse) { panicIf(engine.Place(nilDevice, "", nil, nil, tensor.Float32)) },
		func(m *misuse) { panicIf(nilDevice.Synchronize()) },
		func(m *misuse) { panicIf(nilDevice.Close()) },
		func(m *misuse) { nilDevice.Name() },
		func(m *misuse) { engine.Seed(nilDevice) },
		func(m *misuse) { nilDevice.Stats() },
		func(m *misuse) { engine.Counters(nilDevice) },
		func(m *misuse) { panicIf(engine.SetCounters(nilDevice, seam.Counters{})) },
		func(m *misuse) { m.x.To(nilDevice) },
		func(m *misuse) { m.x.To(&tensor.Device{}) },
	}},
	{"closed devices", tensor.ErrDevice, []func(m *misuse){
		func(m *misuse) { panicIf(m.closed.Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf(m.closed.Eval(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicOf(engine.NewState(m.closed, "s", tensor.Float32)) },
		func(m *misuse) { panicIf(engine.Place(m.closed, "", nil, nil, tensor.Float32)) },
		func(m *misuse) { panicIf(m.closed.Synchronize()) },
		func(m *misuse) { panicIf(engine.SetCounters(m.closed, seam.Counters{})) },
		func(m *misuse) { m.x.To(m.closed) },
	}},
	{"nil scopes", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { tensor.Of[float32](1).Scope().In(m.x) }, // host data has none
		func(m *misuse) { (&tensor.Scope{}).In(m.x) },
		func(m *misuse) { autograd.Watch(nilScope, m.x) },
		func(m *misuse) { nilScope.Full(1, tensor.Float32) },
		func(m *misuse) { nilScope.Region("r", func() []*tensor.Tensor { return nil }) },
		func(m *misuse) { nilScope.With(func() {}) },
		func(m *misuse) { engine.Update(nilScope, product, 0, 1, nil, nil, nil) },
		func(m *misuse) { a, _, _ := engine.Arena(m.p); engine.Grads(nilScope, a) },
		func(m *misuse) { a, _, _ := engine.Arena(m.p); engine.Claim(nilScope, a) },
		func(m *misuse) { engine.HasGrad(nilScope, m.p) },
		func(m *misuse) { engine.TakeGrads(nilScope, m.p) },
		func(m *misuse) { engine.SetGrad(nilScope, m.p, nil) },
		func(m *misuse) { engine.OnCommit(nilScope, func() {}) },
		func(m *misuse) { engine.Abort(nilScope, errors.New("e")) },
		func(m *misuse) { nilScope.Device() },
		func(m *misuse) { engine.Failed(nilScope) },
		func(m *misuse) { nilScope.Training() },
		func(m *misuse) { engine.Autocasting(nilScope) },
	}},
	{"nil options", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { panicOf(tensor.Open("cpu", nil)) },
	}},
	{"nil functions", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { panicIf(m.dev.Step(nil)) },
		func(m *misuse) { panicIf(m.dev.Eval(nil)) },
		func(m *misuse) { m.s.Region("r", nil) },
		func(m *misuse) { m.s.With(nil) },
		func(m *misuse) { engine.OnCommit(m.s, nil) },
		func(m *misuse) { m.p.OnGrad(nil) },
		func(m *misuse) { engine.Hook(m.x, nil) },
		func(m *misuse) { tensor.Anomaly(nil) },
		func(m *misuse) { nn.Walk(m.x, nil) },
		func(m *misuse) { panicIf(engine.Try(nil)) },
	}},
	{"nil operations and scalars", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { engine.Apply(nil, []*tensor.Tensor{m.x}, nil, nil) },
		func(m *misuse) { engine.ApplyAll(&tensor.Op{}, []*tensor.Tensor{m.x}, nil, nil) },
		func(m *misuse) { engine.Guard(nilOp, "skip") },
		func(m *misuse) { engine.Guard(product, "skip") },
		func(m *misuse) { engine.Guard(product, "skip", "z") },
		func(m *misuse) { tensor.MustPointwise("p", "x+", []string{"x"}) },
		func(m *misuse) { m.x.ScaleBy(nil) },
		func(m *misuse) { engine.Grads(m.s, nil) },
		func(m *misuse) { engine.Claim(m.s, nil) },
		func(m *misuse) { engine.Claim(m.s, m.p) },
		func(m *misuse) { engine.Params(nil) },
		func(m *misuse) { engine.Model(m.x) },
	}},
	{"wrong gradients of a VJP", tensor.ErrGrad, []func(m *misuse){
		func(m *misuse) {
			gradients(m.s, m.p, func(g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g, g} })
		},
		func(m *misuse) { gradients(m.s, m.p, func(g *tensor.Tensor) []*tensor.Tensor { return nil }) },
	}},
	{"gradients of another step, or released", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) {
			panicIf(m.dev.Step(func(s *tensor.Scope) error {
				gradients(s, m.p, func(g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{m.x} })
				return nil
			}))
		},
		func(m *misuse) {
			gradients(m.s, m.p, func(g *tensor.Tensor) []*tensor.Tensor {
				var inner *tensor.Tensor
				m.s.Region("", func() []*tensor.Tensor { inner = g.Exp(); return nil })
				return []*tensor.Tensor{inner}
			})
		},
		func(m *misuse) {
			panicIf(m.dev.Step(func(s *tensor.Scope) error {
				one := s.Full(1, tensor.Float32)
				engine.Record(s, "sum_op", []*tensor.Tensor{m.p}, one, []*tensor.Tensor{m.x}, nil)
				return nil
			}))
		},
	}},
	{"ranges of Update", tensor.ErrIndex, []func(m *misuse){
		func(m *misuse) { update(m, -1, 2, m.x.Clone(), m.x, m.x) },
		func(m *misuse) { update(m, 2, 1, m.x.Clone(), m.x, m.x) },
		func(m *misuse) { update(m, 0, 7, m.x.Clone(), m.x, m.x) },
		func(m *misuse) { update(m, 0, 7, m.p, m.p, m.p) }, // its neighbour's elements
	}},
	{"layouts of Update", tensor.ErrShape, []func(m *misuse){
		func(m *misuse) { update(m, 0, 2, m.x.Clone().T(), m.x, m.x) },
		func(m *misuse) { update(m, 0, 2, m.x.Clone(), m.x.T(), m.x) },
		func(m *misuse) { update(m, 0, 2, m.x.Clone(), m.s.Full(1, tensor.Float32, 7), m.x) },
		func(m *misuse) { update(m, 0, 2, m.x.Clone(), m.x.Slice(1, 0, 2), m.x) },
		func(m *misuse) { update(m, 0, 2, m.x.Clone(), m.s.Full(1, tensor.Float32).Expand(2, 3), m.x) },
	}},
	{"operands of Update", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { engine.Update(m.s, nil, 0, 1, []*tensor.Tensor{m.x}, []*tensor.Tensor{m.x, m.x}, nil) },
		func(m *misuse) {
			engine.Update(m.s, sumOp, 0, 1, []*tensor.Tensor{m.x}, []*tensor.Tensor{m.x, m.x}, nil)
		},
		func(m *misuse) { engine.Update(m.s, product, 0, 1, nil, []*tensor.Tensor{m.x, m.x}, nil) },
		func(m *misuse) { update(m, 0, 1, m.x.Clone(), m.x) },
	}},
	{"tensors of Update", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { update(m, 0, 1, nil, m.x, m.x) },
		func(m *misuse) { update(m, 0, 1, m.x.Clone(), m.x, nil) },
		func(m *misuse) { update(m, 0, 1, m.s.In(m.p), m.x, m.x) },
		// would be written at once
		func(m *misuse) { update(m, 0, 1, m.s.In(tensor.Randn(tensor.Seed(1), 2, 3)), m.x, m.x) },
		// the program's slice
		func(m *misuse) { update(m, 0, 1, tensor.Randn(tensor.Seed(1), 2, 3), m.x, m.x) }, // likewise
		func(m *misuse) {
			panicIf(m.dev.Step(func(s *tensor.Scope) error {
				update(m, 0, 1, s.Full(1, tensor.Float32, 2, 3), m.x, m.x)
				return nil
			}))
		},
	}},
}

// sumOp is an operation that is not pointwise.
var sumOp = engine.NewOp(kernels.Op{Name: "sum_op"}, tensor.Float32)

func update(m *misuse, lo, hi int, dst *tensor.Tensor, in ...*tensor.Tensor) {
	engine.Update(m.s, product, lo, hi, []*tensor.Tensor{dst}, in, nil)
}

func panicIf(err error) {
	if err != nil {
		panic(err)
	}
}

// untyped runs f and makes what it panics with an error, typed errors apart.
func untyped(f func()) (err error) {
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(*tensor.Error); ok {
				panic(e)
			}
			err = fmt.Errorf("panic: %v", e)
		}
	}()
	f()
	return nil
}

func panicOf(_ any, err error) { panicIf(err) }

// Every misuse is an error of its kind, with the line of this file, in plain steps and under autocast; nothing is left
// behind, and nothing has changed.
func TestMisuse(t *testing.T) {
	dev := open(t)
	closed, err := tensor.Open("cpu")
	panicIf(errors.Join(err, closed.Close()))
	p, q := nn.Parameter(nil, 2, 3), nn.Parameter(nil, 16)
	panicIf(engine.Place(dev, "", []string{"p", "q"}, []*tensor.Tensor{p, q}, tensor.Float32))
	count := 0
	for _, c := range misuses {
		for i, call := range c.calls {
			for _, lower := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
				err := dev.Step(func(s *tensor.Scope) error {
					m := &misuse{dev: dev, closed: closed, s: s, p: p, x: s.Full(1, tensor.Float32, 2, 3)}
					return untyped(func() { call(m) })
				}, engine.Autocast(lower))
				var e *tensor.Error
				if !errors.As(err, &e) || !errors.Is(e, c.kind) || !strings.HasPrefix(e.Site, "misuse_test.go:") {
					t.Errorf("%s, call %d under %v: %v, want %v at a line of this file", c.cause, i, lower, err, c.kind)
				}
				count++
			}
		}
	}
	t.Logf("%d calls", count)
	for _, v := range append(tensor.ToSlice[float64](p), tensor.ToSlice[float64](q)...) {
		if v != 0 {
			t.Fatal("a misuse has changed a parameter")
		}
	}
}
