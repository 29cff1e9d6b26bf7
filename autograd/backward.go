package autograd

import (
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// Option changes how a backward pass runs.
type Option func(*pass)

// Retain keeps saved values, so that another backward pass may go through the same operations.
func Retain(p *pass) { p.retain = true }

// CreateGraph records the backward pass itself, so that its results can be differentiated. It implies Retain.
func CreateGraph(p *pass) { p.create, p.retain = true, true }

// AllowUnused makes Grad return nil for tensors that the result does not depend on, instead of failing.
func AllowUnused(p *pass) { p.unused = true }

// Seed gives the gradient of the result itself, of its shape. It is 1 by default, which only a result with
// one element allows.
func Seed(g *tensor.Tensor) Option { return func(p *pass) { p.seed = g } }

// Only restricts Backward to the given parameters.
func Only(params ...*tensor.Tensor) Option {
	return func(p *pass) {
		p.only = map[*tensor.Tensor]bool{}
		for _, t := range params {
			p.only[t] = true
		}
	}
}

// pass is one walk over the tape.
type pass struct {
	retain, create, unused bool
	seed                   *tensor.Tensor
	only                   map[*tensor.Tensor]bool

	scope *tensor.Scope
	tape  *tensor.Tape
	grads []*tensor.Tensor // of the outputs of nodes, by ID; those in flight are retained
	want  []bool           // nodes whose gradient the caller asked for
	need  []bool           // nodes on a path to one of those
}

// Backward adds the gradient of loss with respect to every parameter it depends on to that parameter.
// The parameters see it when the step succeeds, or an optimizer takes it inside the step. It fails if loss
// has more than one element and no Seed, was not recorded, or depends on nothing that needs a gradient.
func Backward(loss *tensor.Tensor, opts ...Option) {
	p := start("backward", loss, opts)
	for _, n := range p.tape.Nodes[:len(p.want)] {
		if w := n.Param(); w != nil {
			p.want[n.ID] = p.only == nil || p.only[w]
		}
	}
	p.run(loss, func(n *tensor.Node, g *tensor.Tensor) {
		if w := n.Param(); w != nil {
			p.scope.AddGrad(w, g)
		}
	})
}

// Grad returns the gradient of y with respect to each of xs, which were watched with Scope.Watch, are
// parameters, or were computed from such. No parameter's gradient changes.
func Grad(y *tensor.Tensor, xs []*tensor.Tensor, opts ...Option) []*tensor.Tensor {
	p := start("grad", y, opts)
	p.retain = true
	nodes := make([]*tensor.Node, len(xs))
	for i, x := range xs {
		if x == nil || !x.NeedsGrad() {
			tensor.Fail(tensor.ErrGrad, "grad", "operand %d, %v, needs no gradient; make it with Scope.Watch", i, x)
		}
		p.scope.Differentiate(true, func() { nodes[i] = p.scope.In(x).Node() }) // parameters have a node while recording
		if id := nodes[i].ID; id < len(p.want) {
			p.want[id] = true
		}
	}
	found := map[*tensor.Node]*tensor.Tensor{}
	p.run(y, func(n *tensor.Node, g *tensor.Tensor) {
		g = g.To(n.Out[0].DType())
		p.tape.Retain(g)
		p.scope.Own(g)
		found[n] = g
	})
	grads := make([]*tensor.Tensor, len(xs))
	for i, n := range nodes {
		if grads[i] = found[n]; grads[i] == nil && !p.unused {
			tensor.Fail(tensor.ErrGrad, "grad", "the result does not depend on operand %d, %v; autograd.AllowUnused permits that", i, xs[i])
		}
	}
	return grads
}

func start(op string, y *tensor.Tensor, opts []Option) *pass {
	p := &pass{}
	for _, o := range opts {
		o(p)
	}
	if y == nil || y.Scope() == nil {
		tensor.Fail(tensor.ErrGrad, op, "%v belongs to no step, so nothing was recorded", y)
	}
	y.Scope().In(y) // fails after the step
	if y.Node() == nil {
		tensor.Fail(tensor.ErrGrad, op, "%v has no path to a parameter: it was made under NoGrad or in Eval, from detached tensors, or from data alone", y)
	}
	switch {
	case p.seed == nil && y.Len() != 1:
		tensor.Fail(tensor.ErrGrad, op, "%v has %d elements; reduce it to one, as with Mean, or give autograd.Seed", y, y.Len())
	case p.seed != nil && !slices.Equal(p.seed.Shape(), y.Shape()):
		tensor.Fail(tensor.ErrShape, op, "the seed has shape %v, the result %v", p.seed.Shape(), y.Shape())
	}
	p.scope, p.tape = y.Scope(), y.Scope().Tape()
	n := y.Node().ID + 1
	p.grads, p.want, p.need = make([]*tensor.Tensor, n), make([]bool, n), make([]bool, n)
	return p
}

// run walks back from y and hands the gradients of wanted nodes to found.
func (p *pass) run(y *tensor.Tensor, found func(*tensor.Node, *tensor.Tensor)) {
	nodes := p.tape.Nodes[:len(p.grads)]
	for i, n := range nodes { // operands come before their users
		p.need[i] = p.want[i]
		for _, x := range n.In {
			if m := x.Node(); m != nil && p.need[m.ID] {
				p.need[i] = true
			}
		}
	}
	defer p.drop()
	p.scope.Differentiate(p.create, func() {
		if p.seed == nil {
			p.seed = p.scope.Full(1, y.DType(), y.Shape()...).To(y.Device())
		}
		seed := p.take(p.seed, y, y.DType())
		p.tape.Retain(seed)
		p.grads[len(nodes)-1] = seed
		for i := len(nodes) - 1; i >= 0; i-- {
			if p.grads[i] == nil {
				continue
			}
			p.step(nodes[i], found)
			if !p.retain {
				nodes[i].Free()
			}
		}
	})
}

// take makes what the caller gave as the gradient of y one: a tensor of the step, of type dt, on the tape only if the pass
// is recorded.
func (p *pass) take(g, y *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if !slices.Equal(g.Shape(), y.Shape()) {
		tensor.Fail(tensor.ErrShape, "backward", "a hook gives the gradient %v to %v", g, y)
	}
	g = p.scope.In(g).To(dt)
	if !p.create {
		g = g.Detach()
	}
	return g
}

// drop lets go of the gradients that a failed pass left in flight.
func (p *pass) drop() {
	for i, g := range p.grads {
		if g != nil {
			p.tape.Release(g)
			p.grads[i] = nil
		}
	}
}

// step takes the gradient of node n back to its operands.
func (p *pass) step(n *tensor.Node, found func(*tensor.Node, *tensor.Tensor)) {
	g := p.grads[n.ID]
	p.grads[n.ID] = nil
	defer func() { p.tape.Release(g) }()
	if !p.need[n.ID] {
		return
	}
	for _, hook := range n.Hooks {
		if h := hook(g); h != nil && h != g {
			h = p.take(h, n.Out[0], g.DType())
			p.tape.Retain(h)
			p.tape.Release(g)
			g = h
		}
	}
	if p.want[n.ID] {
		found(n, g)
	}
	if n.Op == nil {
		return
	}
	spread := func() []*tensor.Tensor {
		for i, d := range n.Backward(g, !p.retain) {
			if m := n.In[i].Node(); d != nil && m != nil && p.need[m.ID] {
				p.add(m, d)
			}
		}
		return nil
	}
	if p.create {
		spread() // what the new tape entries save must outlive this node
	} else {
		p.scope.Region(n.Op.Name+" backward", spread)
	}
}

// add adds d to the gradient of m's output.
func (p *pass) add(m *tensor.Node, d *tensor.Tensor) {
	if old := p.grads[m.ID]; old != nil {
		d = old.To(m.SumType()).Add(d) // in the wider of their types
		p.tape.Release(old)
	}
	p.tape.Retain(d)
	p.grads[m.ID] = d
}

// Unused lists the names of parameters that have no gradient in this step: Backward did not reach them.
func Unused(s *tensor.Scope, params []*tensor.Tensor) []string {
	var names []string
	for _, w := range params {
		if !s.HasGrad(w) {
			names = append(names, w.Name())
		}
	}
	return names
}

// Hook calls f with the gradient of t when a backward pass has it in full, before it goes on. If f returns a
// tensor, that takes the gradient's place. Hooks run in the order they were added; stop removes this one. The gradient of a
// cast to half precision, or of a view of it, that is used more than once is the sum in float32.
func Hook(t *tensor.Tensor, f func(g *tensor.Tensor) *tensor.Tensor) (stop func()) {
	if t.Scope() == nil || t.Node() == nil {
		tensor.Fail(tensor.ErrGrad, "hook", "%v is not on a tape; hooks go on tensors of a step that need a gradient (Scope.In takes a parameter in)", t)
	}
	n := t.Node()
	i := len(n.Hooks)
	n.Hooks = append(n.Hooks, f)
	return func() { n.Hooks[i] = func(*tensor.Tensor) *tensor.Tensor { return nil } }
}
