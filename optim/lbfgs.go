package optim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// LBFGS is the quasi-Newton method with limited memory (Liu and Nocedal 1989), for losses without noise: the direction
// follows from the last changes of parameters and gradients. Unlike an [Optimizer] it evaluates the loss several times
// in one step, reads it, and so waits for the device. Its arithmetic is that of tensors: the same bits on every device.
// Make one with [NewLBFGS].
type LBFGS struct {
	LR *tensor.Scalar // the length of a step, and the first guess of a line search

	params []*tensor.Tensor
	set    lbfgsSettings
	state  lbfgsState
}

// LBFGSOption changes an [LBFGS]. The zero LBFGSOption changes nothing.
type LBFGSOption struct{ set func(*lbfgsSettings) }

type lbfgsSettings struct {
	iterations, evaluations, history int
	gradient, change                 float64
	wolfe                            bool
}

// lbfgsState is what goes from one step to the next. Tensors are flat, of all parameters, and never written.
type lbfgsState struct {
	iterations int
	length     float64        // of the last step along direction
	direction  *tensor.Tensor // of the last step
	gradient   *tensor.Tensor // before it
	changes    []change       // the oldest first
}

// A change is that of the parameters in a step, s, and that of the gradient, y.
type change struct{ s, y *tensor.Tensor }

// MaxIter is the largest number of iterations in a step; 20 if it is not given.
func MaxIter(n int) LBFGSOption {
	wantSteps("lbfgs", "MaxIter", n)
	return LBFGSOption{func(s *lbfgsSettings) { s.iterations = n }}
}

// MaxEval is the number of evaluations of the loss after which a step ends; 1.25 times MaxIter if it is not given.
func MaxEval(n int) LBFGSOption {
	wantSteps("lbfgs", "MaxEval", n)
	return LBFGSOption{func(s *lbfgsSettings) { s.evaluations = n }}
}

// Tolerances end a step: a gradient with no larger element, 1e-7 if they are not given, and no larger change of the
// loss or of a parameter, 1e-9.
func Tolerances(gradient, change float64) LBFGSOption {
	wantRates("lbfgs", gradient, change)
	return LBFGSOption{func(s *lbfgsSettings) { s.gradient, s.change = gradient, change }}
}

// HistorySize is how many changes are remembered; 100 if it is not given.
func HistorySize(n int) LBFGSOption {
	wantSteps("lbfgs", "HistorySize", n)
	return LBFGSOption{func(s *lbfgsSettings) { s.history = n }}
}

// StrongWolfe looks for a length of step that meets the strong Wolfe conditions (Nocedal and Wright 2006, section 3.5).
func StrongWolfe() LBFGSOption { return LBFGSOption{func(s *lbfgsSettings) { s.wolfe = true }} }

// NewLBFGS makes an optimizer for the parameters of a model, which are all float64 or all float32 and on one device.
// The usual rate is 1. It panics with a [tensor.Error] for what is out of range.
func NewLBFGS(model any, lr float64, options ...LBFGSOption) *LBFGS {
	wantRate("lbfgs", "LR", lr)
	l := &LBFGS{LR: tensor.NewScalar(lr), params: engine.Parameters(model),
		set: lbfgsSettings{iterations: 20, history: 100, gradient: 1e-7, change: 1e-9}}
	for _, o := range options {
		if o.set != nil {
			o.set(&l.set)
		}
	}
	if l.set.evaluations == 0 {
		l.set.evaluations = l.set.iterations * 5 / 4
	}
	if len(l.params) == 0 {
		engine.Fail(tensor.ErrValue, "lbfgs", "the model has no parameters")
	}
	for _, p := range l.params {
		if dt := p.DType(); dt != l.params[0].DType() || dt != wide(dt) {
			engine.Fail(tensor.ErrDType, "lbfgs", "parameter %v; all must be float64 or all float32", p)
		}
	}
	return l
}

// Step improves the parameters until the options end it, and returns the loss before. The function computes the loss of
// the parameters in a step of the device, and must give the same for the same parameters; it runs in several steps, one
// for each evaluation. If one fails, or a loss is not finite, parameters and state are what they were.
func (l *LBFGS) Step(dev *tensor.Device, loss func(s *tensor.Scope) *tensor.Tensor) (first float64, err error) {
	l.given()
	engine.Given("lbfgs", "the device", dev)
	engine.Given("lbfgs", "the loss", loss)
	wantRate("lbfgs", "the learning rate", l.LR.Value())
	m := &minimization{LBFGS: l, dev: dev, loss: loss, at: l.state}
	m.at.changes = slices.Clone(l.state.changes)
	if err := m.do(func(s *tensor.Scope) { m.x = flat(s, l.params).Keep() }); err != nil {
		return 0, err
	}
	before := m.x
	if first, err = m.run(); err == nil {
		err = m.place(m.x)
	}
	if err != nil {
		if back := m.place(before); back != nil {
			err = fmt.Errorf("%w; and the parameters could not be put back: %w", err, back)
		}
		return 0, err
	}
	l.state = m.at
	return first, nil
}

// A minimization is one step.
type minimization struct {
	*LBFGS
	dev  *tensor.Device
	loss func(s *tensor.Scope) *tensor.Tensor
	at   lbfgsState
	x    *tensor.Tensor // the parameters
	used int            // evaluations
}

// A point is one on the line x + t direction.
type point struct {
	t, loss, slope float64
	gradient       *tensor.Tensor
}

// run iterates, and returns the first loss.
func (m *minimization) run() (first float64, err error) {
	here, err := m.evaluate(0, nil)
	if err = cmp.Or(err, finite(here.loss)); err != nil {
		return 0, err
	}
	first = here.loss
	for n := 1; ; n++ {
		largest, err := m.largest(here.gradient)
		if err != nil || largest <= m.set.gradient {
			return first, err
		}
		if err := m.turn(here.gradient); err != nil {
			return 0, err
		}
		rate := m.LR.Value()
		if m.at.iterations == 1 {
			sum, err := m.number(func(s *tensor.Scope) *tensor.Tensor { return s.In(here.gradient).Abs().Sum() })
			if err != nil {
				return 0, err
			}
			rate *= min(1, 1/sum)
		}
		m.at.gradient, m.at.length, here.t = here.gradient, rate, 0
		if here.slope, err = m.dot(here.gradient, m.at.direction); err != nil {
			return 0, err
		}
		if here.slope > -m.set.change {
			return first, nil
		}
		last := here.loss
		switch {
		case m.set.wolfe:
			here, err = m.search(here, rate)
		case n < m.set.iterations:
			here, err = m.evaluate(rate, m.at.direction)
		default: // the last one is not evaluated
			here.t = rate
		}
		if err = cmp.Or(err, finite(here.loss)); err != nil {
			return 0, err
		}
		if err := m.move(here.t); err != nil {
			return 0, err
		}
		moved, err := m.largest(m.at.direction)
		if err != nil || n == m.set.iterations || m.used >= m.set.evaluations ||
			moved*here.t <= m.set.change || math.Abs(here.loss-last) < m.set.change {
			return first, err
		}
	}
}

// turn finds the direction from the gradient and the changes before.
func (m *minimization) turn(g *tensor.Tensor) error {
	at := &m.at
	at.iterations++
	if at.iterations > 1 {
		var c change
		if err := m.do(func(s *tensor.Scope) {
			c = change{s.In(at.direction).Scale(at.length).Keep(), s.In(g).Sub(at.gradient).Keep()}
		}); err != nil {
			return err
		}
		if curvature, err := m.dot(c.s, c.y); err != nil {
			return err
		} else if curvature > 1e-10 {
			at.changes = append(at.changes[max(0, len(at.changes)+1-m.set.history):], c)
		}
	}
	return m.do(func(s *tensor.Scope) {
		product := func(a, b *tensor.Tensor) *tensor.Tensor { return s.In(a).Mul(b).Sum() }
		d := s.In(g).Neg()
		share := make([]*tensor.Tensor, len(at.changes))
		for i, c := range slices.Backward(at.changes) {
			share[i] = product(c.s, d).Div(product(c.s, c.y))
			d = d.Sub(share[i].Mul(c.y))
		}
		if n := len(at.changes); n > 0 {
			c := at.changes[n-1]
			d = d.Mul(product(c.s, c.y).Div(product(c.y, c.y)))
		}
		for i, c := range at.changes {
			d = d.Add(share[i].Sub(product(c.y, d).Div(product(c.s, c.y))).Mul(c.s))
		}
		at.direction = d.Keep()
	})
}

// evaluate gives loss and gradient at x + t d; without d those of the parameters as they are.
func (m *minimization) evaluate(t float64, d *tensor.Tensor) (p point, err error) {
	if d != nil {
		var x *tensor.Tensor
		if err := m.do(func(s *tensor.Scope) { x = s.In(m.x).Add(s.In(d).Scale(t)).Keep() }); err != nil {
			return p, err
		}
		if err := m.place(x); err != nil {
			return p, err
		}
	}
	m.used++
	p.t = t
	err = m.dev.Step(func(s *tensor.Scope) error {
		y := m.loss(s)
		engine.Given("lbfgs", "the loss", y)
		grads := autograd.Grad(y, m.params, autograd.AllowUnused())
		for i, g := range grads {
			if g == nil {
				grads[i] = s.Full(0, m.params[i].DType(), m.params[i].Shape()...)
			}
		}
		p.loss, p.gradient = y.Item(), flat(s, grads).Keep()
		return nil
	})
	if err != nil || d == nil {
		return p, err
	}
	p.slope, err = m.dot(p.gradient, d)
	return p, err
}

// move makes x + t direction the new x.
func (m *minimization) move(t float64) error {
	m.at.length = t
	return m.do(func(s *tensor.Scope) { m.x = s.In(m.x).Add(s.In(m.at.direction).Scale(t)).Keep() })
}

// place writes x into the parameters.
func (m *minimization) place(x *tensor.Tensor) error {
	return m.dev.Step(func(s *tensor.Scope) error {
		at := 0
		for _, p := range m.params {
			n := p.Len()
			p.Assign(s.In(x).Slice(0, at, at+n).Reshape(p.Shape()...))
			at += n
		}
		return nil
	})
}

// do computes without gradients.
func (m *minimization) do(f func(s *tensor.Scope)) error {
	return m.dev.Eval(func(s *tensor.Scope) error { f(s); return nil })
}

// number is one that f computes. It is an error if it is not finite.
func (m *minimization) number(f func(s *tensor.Scope) *tensor.Tensor) (v float64, err error) {
	if err := m.do(func(s *tensor.Scope) { v = f(s).Item() }); err != nil {
		return 0, err
	}
	return v, finite(v)
}

// finite is an error if v is not.
func finite(v float64) error {
	if v-v == 0 {
		return nil
	}
	return engine.Try(func() { engine.Fail(tensor.ErrValue, "lbfgs", "the loss or its gradient is not finite") })
}

// dot is the inner product.
func (m *minimization) dot(a, b *tensor.Tensor) (float64, error) {
	return m.number(func(s *tensor.Scope) *tensor.Tensor { return s.In(a).Mul(b).Sum() })
}

// largest is the largest absolute value.
func (m *minimization) largest(a *tensor.Tensor) (float64, error) {
	return m.number(func(s *tensor.Scope) *tensor.Tensor { return s.In(a).Abs().Max() })
}

// State is what the next steps depend on beside the parameters, the learning rate and the options, by parameter name
// as in [Optimizer.State]: the last direction "d." with its length "t", the gradient before it, "grad.", and the
// changes "s.0." and "y.0.", the oldest, "s.1." and so on. It is empty before the first step.
func (l *LBFGS) State() State {
	l.given()
	st := State{"lbfgs", map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}}
	if l.state.direction == nil {
		return st
	}
	st.Tensors["t"], st.Tensors["iterations"] = tensor.Of(l.state.length), tensor.Of(float64(l.state.iterations))
	add := func(prefix string, v *tensor.Tensor) {
		at := 0
		for _, p := range l.params {
			st.Tensors[prefix+p.Name()] = v.Slice(0, at, at+p.Len()).Reshape(p.Shape()...)
			at += p.Len()
		}
	}
	add("d.", l.state.direction)
	add("grad.", l.state.gradient)
	for i, c := range l.state.changes {
		add(fmt.Sprintf("s.%d.", i), c.s)
		add(fmt.Sprintf("y.%d.", i), c.y)
	}
	return st
}

// Restore makes st, which another LBFGS for parameters of the same names had, the state, when the step commits. It
// fails with an error of kind [tensor.ErrValue], and the step with it, if a tensor is missing, unknown, or has
// another shape.
func (l *LBFGS) Restore(s *tensor.Scope, st State) error {
	l.given()
	used := 0
	take := func(name string, dt tensor.DType, shape ...int) *tensor.Tensor {
		v := st.Tensors[name]
		if v == nil || v.DType() != dt || !slices.Equal(v.Shape(), shape) {
			engine.Fail(tensor.ErrValue, "lbfgs", "the state does not fit: %s is %v, want %v%v", name, v, dt, shape)
		}
		used++
		return v
	}
	join := func(prefix string) *tensor.Tensor {
		var parts []*tensor.Tensor
		for _, p := range l.params {
			v := take(prefix+p.Name(), p.DType(), p.Shape()...)
			parts = append(parts, s.In(v.Detach()).To(s.Device()))
		}
		return flat(s, parts).Keep()
	}
	var next lbfgsState
	err := engine.Try(func() {
		if st.Rule != "lbfgs" {
			engine.Fail(tensor.ErrValue, "lbfgs", "the state is of the rule %q", st.Rule)
		}
		if len(st.Tensors) == 0 {
			return
		}
		next = lbfgsState{iterations: int(take("iterations", tensor.Float64).Item()),
			length: take("t", tensor.Float64).Item(), direction: join("d."), gradient: join("grad.")}
		for i := 0; used < len(st.Tensors); i++ {
			next.changes = append(next.changes, change{join(fmt.Sprintf("s.%d.", i)), join(fmt.Sprintf("y.%d.", i))})
		}
	})
	if err != nil {
		engine.Abort(s, err)
		return err
	}
	engine.OnCommit(s, func() { l.state = next })
	return nil
}

// flat is all elements of all tensors.
func flat(s *tensor.Scope, all []*tensor.Tensor) *tensor.Tensor {
	var parts []*tensor.Tensor
	for _, t := range all {
		parts = append(parts, s.In(t).Detach().Reshape(-1))
	}
	return tensor.Cat(0, parts...)
}

// given fails for an optimizer that NewLBFGS has not made.
func (l *LBFGS) given() {
	if l == nil || l.LR == nil {
		engine.Fail(tensor.ErrValue, "lbfgs", "the optimizer is nil; optim.NewLBFGS makes one")
	}
}
