package tensor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
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
	nilTensor  *tensor.Tensor
	nilScope   *tensor.Scope
	nilDevice  *tensor.Device
	nilOp      *tensor.Op
	product    = tensor.MustPointwise("product", "x*y", []string{"x", "y"})
	unexpected = tensor.Option(func(m *tensor.Mode) { m.Autocast = tensor.Int64 })
)

// gradients is the sum of x, by an operation whose VJP gives what f says.
func gradients(s *tensor.Scope, x *tensor.Tensor, f func(g *tensor.Tensor) []*tensor.Tensor) {
	op := &tensor.Op{VJP: func(_ *tensor.Ctx, g *tensor.Tensor) []*tensor.Tensor { return f(g) }}
	op.Name = "vjp"
	x = s.In(x)
	autograd.Backward(s.Record(op, []*tensor.Tensor{x}, x.Detach().Clone(), nil).Sum())
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
		func(m *misuse) { m.s.Watch(nil) },
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
		func(m *misuse) { nilTensor.Arena() },
		func(m *misuse) { nilTensor.Grad() },
		func(m *misuse) { nilTensor.ClearGrads() },
		func(m *misuse) { nilTensor.OnGrad(func(*tensor.Tensor) {}) },
		func(m *misuse) { nilTensor.Item() },
		func(m *misuse) { nilTensor.Fetch() },
		func(m *misuse) { nilTensor.Assign(m.x) },
		func(m *misuse) { tensor.ToSlice[float32](nil) },
		func(m *misuse) { tensor.Data[float32](nil) },
		func(m *misuse) { tensor.ParameterOf("p", nil) },
	}},
	{"the zero Tensor", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { m.x.Add(&tensor.Tensor{}) },
		func(m *misuse) { (&tensor.Tensor{}).Exp() },
		func(m *misuse) { (&tensor.Tensor{}).Item() },
		func(m *misuse) { (&tensor.Tensor{}).Keep() },
		func(m *misuse) { tensor.ParameterOf("p", &tensor.Tensor{}) },
	}},
	{"element types that autocast does not lower to", tensor.ErrDType, []func(m *misuse){
		func(m *misuse) { m.s.With(func() {}, unexpected) },
		func(m *misuse) { panicIf(m.dev.Eval(func(*tensor.Scope) error { return nil }, unexpected)) },
	}},
	{"nil and zero devices", tensor.ErrDevice, []func(m *misuse){
		func(m *misuse) { panicIf(nilDevice.Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf(nilDevice.Eval(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf((&tensor.Device{}).Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicOf(nilDevice.NewState("s", tensor.Float32)) },
		func(m *misuse) { panicIf(nilDevice.Place("", nil, nil, tensor.Float32)) },
		func(m *misuse) { panicIf(nilDevice.Synchronize()) },
		func(m *misuse) { panicIf(nilDevice.Close()) },
		func(m *misuse) { nilDevice.Name() },
		func(m *misuse) { nilDevice.Seed() },
		func(m *misuse) { nilDevice.Stats() },
		func(m *misuse) { nilDevice.Counters() },
		func(m *misuse) { panicIf(nilDevice.SetCounters(tensor.Counters{})) },
		func(m *misuse) { m.x.To(nilDevice) },
		func(m *misuse) { m.x.To(&tensor.Device{}) },
	}},
	{"closed devices", tensor.ErrDevice, []func(m *misuse){
		func(m *misuse) { panicIf(m.closed.Step(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicIf(m.closed.Eval(func(*tensor.Scope) error { return nil })) },
		func(m *misuse) { panicOf(m.closed.NewState("s", tensor.Float32)) },
		func(m *misuse) { panicIf(m.closed.Place("", nil, nil, tensor.Float32)) },
		func(m *misuse) { panicIf(m.closed.Synchronize()) },
		func(m *misuse) { panicIf(m.closed.SetCounters(tensor.Counters{})) },
		func(m *misuse) { m.x.To(m.closed) },
	}},
	{"nil scopes", tensor.ErrStep, []func(m *misuse){
		func(m *misuse) { tensor.Of[float32](1).Scope().In(m.x) }, // host data has none
		func(m *misuse) { (&tensor.Scope{}).In(m.x) },
		func(m *misuse) { nilScope.Watch(m.x) },
		func(m *misuse) { nilScope.Full(1, tensor.Float32) },
		func(m *misuse) { nilScope.Region("r", func() []*tensor.Tensor { return nil }) },
		func(m *misuse) { nilScope.With(func() {}) },
		func(m *misuse) { nilScope.Update(product, 0, 1, nil, nil, nil) },
		func(m *misuse) { nilScope.Record(product, nil, m.x, nil) },
		func(m *misuse) { a, _, _ := m.p.Arena(); nilScope.Grads(a) },
		func(m *misuse) { a, _, _ := m.p.Arena(); nilScope.Claim(a) },
		func(m *misuse) { nilScope.HasGrad(m.p) },
		func(m *misuse) { nilScope.TakeGrads(m.p) },
		func(m *misuse) { nilScope.SetGrad(m.p, nil) },
		func(m *misuse) { nilScope.OnCommit(func() {}) },
		func(m *misuse) { nilScope.Abort(errors.New("e")) },
		func(m *misuse) { nilScope.Device() },
		func(m *misuse) { nilScope.Failed() },
		func(m *misuse) { nilScope.Training() },
		func(m *misuse) { nilScope.Recording() },
		func(m *misuse) { nilScope.Autocasting() },
	}},
	{"nil options", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { panicIf(m.dev.Eval(func(*tensor.Scope) error { return nil }, nil)) },
		func(m *misuse) { m.s.With(func() {}, tensor.NoGrad, nil) },
		func(m *misuse) { panicOf(tensor.Open("cpu", nil)) },
		func(m *misuse) { m.x.CrossEntropy(m.x, nil) },
		func(m *misuse) { autograd.Backward(m.x.Sum(), nil) },
	}},
	{"nil functions", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { panicIf(m.dev.Step(nil)) },
		func(m *misuse) { panicIf(m.dev.Eval(nil)) },
		func(m *misuse) { m.s.Region("r", nil) },
		func(m *misuse) { m.s.With(nil) },
		func(m *misuse) { m.s.OnCommit(nil) },
		func(m *misuse) { m.p.OnGrad(nil) },
		func(m *misuse) { tensor.Hook(m.x, nil) },
		func(m *misuse) { tensor.OnAnomaly(nil) },
		func(m *misuse) { tensor.Walk(m.x, nil) },
		func(m *misuse) { panicIf(tensor.Try(nil)) },
	}},
	{"nil operations and scalars", tensor.ErrValue, []func(m *misuse){
		func(m *misuse) { tensor.Apply(nil, []*tensor.Tensor{m.x}, nil, nil) },
		func(m *misuse) { tensor.ApplyAll(&tensor.Op{}, []*tensor.Tensor{m.x}, nil, nil) },
		func(m *misuse) { m.s.Record(nil, nil, m.x, nil) },
		func(m *misuse) { nilOp.Guard("skip") },
		func(m *misuse) { product.Guard("skip") },
		func(m *misuse) { product.Guard("skip", "z") },
		func(m *misuse) { tensor.MustPointwise("p", "x+", []string{"x"}) },
		func(m *misuse) { m.x.ScaleBy(nil) },
		func(m *misuse) { m.s.Grads(nil) },
		func(m *misuse) { m.s.Claim(nil) },
		func(m *misuse) { m.s.Claim(&tensor.Arena{}) },
		func(m *misuse) { (*tensor.Arena)(nil).Params() },
		func(m *misuse) { (*tensor.Arena)(nil).Len() },
		func(m *misuse) { (*tensor.Arena)(nil).DType() },
		func(m *misuse) { (&tensor.Arena{}).Values() },
	}},
	{"wrong gradients of a VJP", tensor.ErrGrad, []func(m *misuse){
		func(m *misuse) {
			gradients(m.s, m.p, func(g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g, g} })
		},
		func(m *misuse) { gradients(m.s, m.p, func(g *tensor.Tensor) []*tensor.Tensor { return nil }) },
		func(m *misuse) { m.s.Record(&tensor.Op{}, nil, m.x, nil) },
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
				s.Record(sumOp, []*tensor.Tensor{m.p}, s.Full(1, tensor.Float32), []*tensor.Tensor{m.x})
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
		func(m *misuse) { m.s.Update(nil, 0, 1, []*tensor.Tensor{m.x}, []*tensor.Tensor{m.x, m.x}, nil) },
		func(m *misuse) { m.s.Update(sumOp, 0, 1, []*tensor.Tensor{m.x}, []*tensor.Tensor{m.x, m.x}, nil) },
		func(m *misuse) { m.s.Update(product, 0, 1, nil, []*tensor.Tensor{m.x, m.x}, nil) },
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
var sumOp = func() *tensor.Op {
	op := &tensor.Op{VJP: func(_ *tensor.Ctx, g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g} }}
	op.Name = "sum_op"
	return op
}()

func update(m *misuse, lo, hi int, dst *tensor.Tensor, in ...*tensor.Tensor) {
	m.s.Update(product, lo, hi, []*tensor.Tensor{dst}, in, nil)
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
	p, q := tensor.Parameter(nil, 2, 3), tensor.Parameter(nil, 16)
	panicIf(dev.Place("", []string{"p", "q"}, []*tensor.Tensor{p, q}, tensor.Float32))
	count := 0
	for _, c := range misuses {
		for i, call := range c.calls {
			for _, lower := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
				err := dev.Step(func(s *tensor.Scope) error {
					m := &misuse{dev: dev, closed: closed, s: s, p: p, x: s.Full(1, tensor.Float32, 2, 3)}
					return untyped(func() { call(m) })
				}, tensor.Autocast(lower))
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
