package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
)

// pass is a backward pass to be run.
type pass seam.Pass[*Tensor]

// run adds the gradient of y with respect to every parameter it depends on to that parameter.
func (o pass) run(y *Tensor) { y.step("backward").alone(func() { o.backward(y) }) }

func (o pass) backward(y *Tensor) {
	p := o.start("backward", y)
	if o.Finite {
		if bad := y.notFinite(); bad != (notFinite{}) {
			fail(ErrValue, "backward", "%v is not finite: it has %v; tensor.Anomaly finds where that begins", y, bad)
		}
	}
	for _, n := range p.nodes {
		if w := n.param; w != nil {
			p.want[n.grad] = o.Only == nil || o.Only[w]
		}
	}
	if p.mark(); !p.need[y.node.grad] {
		fail(ErrGrad, "backward", "%v depends on no parameter that is to get a gradient; autograd.Grad gives those of "+
			"tensors that were watched", y)
	}
	defer func(outer *backward) { p.scope.adds = outer }(p.scope.adds)
	p.scope.adds = p
	p.run(y, func(x, g *Tensor) {
		if w := x.node.param; w != nil {
			p.scope.addGrad(w, g)
		}
	})
	p.scope.runWaiting()
}

// gradOf is f(), the gradient of operand i. If that is a whole parameter, and it is its first gradient of the step, an
// op call of f that gives so many elements writes them to the step's gradients.
func (c *ctx) gradOf(i int, f func() *Tensor) *Tensor {
	s, n := c.scope, c.In[i].node
	if p := s.adds; p != nil && n != nil && n.param != nil && n.hooks == nil && p.grads[n.grad] == nil {
		a, lo, hi := n.param.arena()
		if g := s.stepGrads(a, true); !g.present[n.param.root.index] {
			s.unappliedGrads("backward", g.flat, lo, hi)
			s.target = span(g.flat, lo, hi)
			defer func() { s.target = nil }()
		}
	}
	return f()
}

// aimed puts y, the result of an op call, where gradOf or placed wants it, and tells whether it did.
func (s *Scope) aimed(y *Tensor) bool {
	t := s.target
	if t == nil || t.Len() != y.Len() || t.dtype != y.dtype || s.top.mode.observe != nil {
		return false
	}
	y.blk, y.layout.Offset, s.target = t.blk, t.layout.Offset, nil
	return true
}

// of is the gradient of y with respect to each of xs, nil where there is none and o.Unused permits that.
func (o pass) of(y *Tensor, xs []*Tensor) (grads []*Tensor) {
	y.step("grad").alone(func() { grads = o.grad(y, xs) })
	return grads
}

func (o pass) grad(y *Tensor, xs []*Tensor) []*Tensor {
	o.Retain = true
	p := o.start("grad", y)
	index := make([]int, len(xs)) // of the gradients
	for i, x := range xs {
		if x == nil || !x.needs {
			fail(ErrGrad, "grad", "operand %d, %v, needs no gradient; make it with autograd.Watch", i, x)
		}
		p.differentiate(true, func() { x = p.scope.In(x) }) // parameters have a node while recording
		if index[i] = x.gradIndex(); index[i] < len(p.want) {
			p.want[index[i]] = true
		}
	}
	found := map[int]*Tensor{}
	p.mark()
	p.run(y, func(x, g *Tensor) {
		g = g.To(x.dtype)
		g.blk.retain()
		p.own(g)
		found[x.gradIndex()] = g
	})
	grads := make([]*Tensor, len(xs))
	for i, k := range index {
		if grads[i] = found[k]; grads[i] == nil && !o.Unused {
			fail(ErrGrad, "grad", "the result does not depend on operand %d, %v; autograd.AllowUnused permits that",
				i, xs[i])
		}
	}
	return grads
}

// addHook is autograd.Hook.
func addHook(t *Tensor, f func(g *Tensor) *Tensor) (stop func()) {
	given("hook", "the hook", f)
	if t != nil && t.scope != nil {
		t.scope.enter("hook")
		defer t.scope.leave()
	}
	if t == nil || t.scope == nil || t.node == nil {
		fail(ErrGrad, "hook", "%v is not on a tape; hooks go on tensors of a step that need a gradient "+
			"(Scope.In takes a parameter in)", t)
	}
	h := &hook{int(t.out), f}
	t.node.hooks = append(t.node.hooks, h)
	return func() { h.f = func(*Tensor) *Tensor { return nil } }
}

// backward is one pass over the tape: from the result back, each node maps the gradients of its outputs to gradients
// of its operands, and the gradients of one tensor are added in the order of the tape.
type backward struct {
	pass
	scope *Scope
	nodes []*node   // up to the one that made the result
	need  []bool    // nodes on a path to a gradient that is wanted, by their first gradient
	want  []bool    // by gradient
	grads []*Tensor // in flight, retained
}

// gradIndex is the index of the gradient of t, which has a node, among those of the tape.
func (t *Tensor) gradIndex() int { return t.node.grad + int(t.out) }

// step is the step of the result of a pass.
func (t *Tensor) step(op string) *Scope {
	if t == nil || t.scope == nil {
		fail(ErrGrad, op, "%v belongs to no step, so nothing was recorded", t)
	}
	return t.scope
}

func (o pass) start(op string, y *Tensor) *backward {
	s := y.scope
	s.In(y) // fails after the step
	if y.node == nil {
		fail(ErrGrad, op, "%v has no path to a parameter: it was made under NoGrad or in Eval, from detached tensors, "+
			"or from data alone", y)
	}
	switch {
	case o.Seed == nil && y.Len() != 1:
		fail(ErrGrad, op, "%v has %d elements; reduce it to one, as with Mean, or give autograd.GradOutput", y, y.Len())
	case o.Seed != nil && !sameShape(o.Seed, y):
		fail(ErrShape, op, "the gradient of the result has shape %v, the result %v", o.Seed.layout.Shape,
			y.layout.Shape)
	}
	o.Retain = o.Retain || o.Create
	n := y.gradIndex() + 1
	last, _ := slices.BinarySearchFunc(s.tape.nodes, y.node.grad, func(n *node, grad int) int { return n.grad - grad })
	p := &backward{pass: o, scope: s, nodes: s.tape.nodes[:last+1]}
	p.need, p.want, p.grads = make([]bool, n), make([]bool, n), make([]*Tensor, n)
	return p
}

// mark finds the nodes that the pass must visit.
func (p *backward) mark() {
	for _, n := range p.nodes { // operands come before their users
		p.need[n.grad] = slices.Contains(ofNode(p.want, n), true)
		for _, x := range n.In {
			if m := x.node; m != nil && p.need[m.grad] {
				p.need[n.grad] = true
			}
		}
	}
}

// run visits the nodes that are marked and hands each gradient that is wanted to found, with its tensor.
func (p *backward) run(y *Tensor, found func(x, g *Tensor)) {
	defer drop(p.grads)
	p.differentiate(p.Create, func() {
		seed := p.Seed
		if seed == nil {
			seed = p.scope.beside(y, func() *Tensor { return p.scope.Full(1, y.dtype, y.layout.Shape...) })
		}
		p.put(y, p.take(seed, y, y.dtype))
		for i := len(p.nodes) - 1; i >= 0; i-- {
			if n := p.nodes[i]; p.arrived(n) {
				p.step(n, found)
				if !p.Retain {
					n.free()
				}
			}
			if cp := p.nodes[i].checkpoint; cp != nil && cp.nodes[0] == p.nodes[i] {
				cp.sleep()
			}
		}
	})
}

// differentiate runs f with saved values readable, recording set as given and autocast off.
func (p *backward) differentiate(record bool, f func()) {
	s := p.scope
	defer func(makes kernels.MemoryCategory) { s.backward, s.makes = s.backward-1, makes }(s.makes)
	s.backward, s.makes = s.backward+1, kernels.Gradients
	m := s.top.mode
	s.With(f, Option{func(inner *mode) { *inner = m; inner.record, inner.autocast = record, Float32 }})
}

// ofNode is the elements of n in a list with one for each gradient. The list may end within n, behind the result.
func ofNode[T any](all []T, n *node) []T {
	return all[n.grad:min(len(all), n.grad+len(n.differentiable()))]
}

// arrived tells whether an output of n has a gradient.
func (p *backward) arrived(n *node) bool {
	for _, g := range ofNode(p.grads, n) {
		if g != nil {
			return true
		}
	}
	return false
}

// put makes g the gradient of x, and keeps it beyond the region that made it.
func (p *backward) put(x, g *Tensor) {
	i := x.gradIndex()
	g.blk.retain()
	if old := p.grads[i]; old != nil {
		old.blk.release("backward")
	}
	p.grads[i] = g
}

// drop releases gradients in flight.
func drop(grads []*Tensor) {
	for i, g := range grads {
		if g != nil {
			g.blk.release("backward")
			grads[i] = nil
		}
	}
}

// take makes g, which the caller gave as the gradient of y, a tensor of the step of type dt, on the tape only if the
// pass is recorded.
func (p *backward) take(g, y *Tensor, dt DType) *Tensor {
	if !sameShape(g, y) {
		fail(ErrShape, "backward", "a hook gives the gradient %v to %v", g, y)
	}
	g = p.scope.In(g).To(dt)
	if !p.Create {
		g = g.Detach()
	}
	return g
}

// step takes the gradients of the outputs of n back to its operands.
func (p *backward) step(n *node, found func(x, g *Tensor)) {
	defer drop(ofNode(p.grads, n))
	if !p.need[n.grad] {
		return
	}
	for _, h := range n.hooks {
		y := n.Out[h.out]
		if g := ofNode(p.grads, n)[h.out]; g != nil {
			if g.blk.late {
				p.scope.sums.run(p.scope)
			}
			if r := h.f(g); r != nil && r != g {
				p.put(y, p.take(r, y, g.dtype))
			}
		}
	}
	for i, g := range ofNode(p.grads, n) {
		if g != nil && p.want[n.grad+i] {
			found(n.Out[i], g)
		}
	}
	if n.Op == nil {
		return
	}
	if n.Op == &cast && !p.Create {
		if leaf := n.In[0].node; leaf.param != nil && leaf.hooks == nil {
			p.add(n.In[0], p.grads[n.grad]) // the copy to the gradients of the arena converts it
			return
		}
	}
	if n.asleep && len(n.saved) > 0 {
		p.wake(n)
	}
	spread := func() []*Tensor {
		for i, d := range n.backward(ofNode(p.grads, n), !p.Retain) {
			if x := n.In[i]; d != nil && x.node != nil && p.need[x.node.grad] {
				p.add(x, d)
			}
		}
		return nil
	}
	if p.Create {
		spread() // what the new nodes save must outlive this one
	} else {
		p.scope.Region(n.Op.Name+" backward", spread)
	}
}

// add adds d to the gradient of x.
func (p *backward) add(x, d *Tensor) {
	if old := p.grads[x.gradIndex()]; old != nil {
		d = old.To(x.sumType()).Add(d) // in the wider of their types
	}
	p.put(x, d)
}

// own hands a retained tensor to the innermost region, as if it had been made there. What still belongs to a region
// around it stays there.
func (p *backward) own(t *Tensor) {
	switch b := t.blk; {
	case b.shared:
	case b.closed == "":
		b.release("")
	default:
		b.closed = ""
		p.scope.top.owned = append(p.scope.top.owned, b)
	}
}

// backward runs the VJP of n on the gradients of its outputs, nil where none arrived: one gradient, or nil, for each
// operand. last says that free follows, so that a gradient may take the memory of what n saved.
func (n *node) backward(g []*Tensor, last bool) []*Tensor {
	if n.consumed {
		fail(ErrGrad, "backward", "the values that %s saved were freed by an earlier backward pass; "+
			"give that one autograd.Retain", n.Op.Name)
	}
	for _, v := range n.versions {
		if now := v.root.version.Load(); now != v.version {
			fail(ErrVersion, n.Op.Name, "%v is at version %d, backward needs version %d: it was assigned after the "+
				"forward saved it; assign after Backward", v.root.tensor, now, v.version)
		}
	}
	defer n.scope.setDevice(n.scope.dev)
	n.scope.setDevice(n.scope.deviceOf(n.Out))
	defer func(outer *node) { n.scope.derived = outer }(n.scope.derived)
	n.scope.derived, n.last, n.grads = n, last, g
	grads := n.vjp(g)
	n.grads, n.spent = nil, nil
	if len(grads) != len(n.In) {
		fail(ErrGrad, n.Op.Name, "the VJP gives %d gradients for %d operands", len(grads), len(n.In))
	}
	for i, d := range grads {
		if d == nil {
			continue
		}
		if d.alive(n.Op.Name); d.scope != n.scope {
			d = n.scope.In(d)
			grads[i] = d
		}
		x := n.In[i]
		if !sameShape(d, x) {
			fail(ErrGrad, n.Op.Name, "the gradient of %s has shape %v, the operand %v",
				n.argName(i), d.layout.Shape, x.layout.Shape)
		}
		if d.dtype != x.dtype && (x.node == nil || d.dtype != x.sumType()) {
			grads[i] = d.To(x.dtype)
		}
	}
	return grads
}

func (n *node) vjp(g []*Tensor) []*Tensor {
	if n.Op.VJPAll == nil {
		return n.Op.VJP(&n.ctx, g[0])
	}
	for len(g) < n.Op.Differentiable { // the outputs behind the result of the pass
		g = append(g[:len(g):len(g)], nil)
	}
	return n.Op.VJPAll(&n.ctx, g)
}

// sumType is the type in which gradients of t, which has a node, are added up. A view hands on what it gets, so it
// takes the type of its operand.
func (t *Tensor) sumType() DType {
	for t.node.Op != nil && t.node.Op.View != nil && t.node.In[0].node != nil {
		t = t.node.In[0]
	}
	if n := t.node; n.Op != nil && n.Op.Sum != nil && t.out == 0 {
		return n.Op.Sum(&n.ctx)
	}
	return t.dtype
}
