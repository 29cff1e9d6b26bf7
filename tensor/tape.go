package tensor

import "slices"

// Tape is the record of one step in order of execution; package autograd walks it backwards.
type Tape struct {
	Nodes []*Node
}

// Node is one recorded operation, or a leaf: a parameter or a watched tensor (Op is nil). Only its
// first output carries a gradient.
type Node struct {
	Ctx
	ID    int                     // position on the tape
	Hooks []func(*Tensor) *Tensor // called with the gradient of the output; the result replaces it

	param    *Tensor // what a leaf stands for
	made     string  // where, if Anomaly watched
	saved    []*block
	versions []savedVersion
	consumed bool
	last     bool // the backward pass under way is the last one through it

	savedBuf   [4]*block // backs saved, versions: one allocation a node
	versionBuf [2]savedVersion
}

// savedVersion remembers which version of a parameter or state was saved.
type savedVersion struct {
	root    *param
	version uint64
}

// Node is the tape entry that made t; nil if no gradient can reach t.
func (t *Tensor) Node() *Node { return t.node }

// Param is the parameter a leaf stands for; nil for other nodes.
func (n *Node) Param() *Tensor { return n.param }

func newNode() *Node {
	n := &Node{}
	n.saved, n.versions = n.savedBuf[:0], n.versionBuf[:0]
	return n
}

// record appends n, whose first output gets a gradient from now on, and keeps alive what its VJP reads.
func (tp *Tape) record(n *Node) {
	n.ID = len(tp.Nodes)
	y := n.Out[0]
	y.node, y.needs = n, true
	var set Saves
	for i, x := range n.In {
		if x.needs {
			set |= n.Op.saves(i)
		}
	}
	for i, x := range n.In {
		if set&SaveIn(i) != 0 {
			n.save(x)
		}
	}
	for i, y := range n.Out {
		if set&SaveOut(i) != 0 {
			n.save(y)
		}
	}
	tp.Nodes = append(tp.Nodes, n)
}

// leaf appends a node without operation for t.
func (tp *Tape) leaf(t *Tensor) *Node {
	n := &Node{ID: len(tp.Nodes)}
	n.scope = t.scope
	n.Out = append(n.outBuf[:0], t)
	tp.Nodes = append(tp.Nodes, n)
	return n
}

// leaf is the node of a parameter in this step, made at first use.
func (s *Scope) leaf(op string, t *Tensor) *Node {
	n := s.leaves[t.root]
	if n == nil {
		if s.leaves == nil {
			s.leaves = map[*param]*Node{}
		}
		v := s.local(op, t).alias(s)
		n = s.tape.leaf(v)
		n.param = t.root.tensor
		v.node, v.needs = n, true
		s.leaves[t.root] = n
	}
	return n
}

func (n *Node) save(t *Tensor) {
	t.blk.retain()
	n.saved = append(n.saved, t.blk)
	if t.root != nil {
		n.versions = append(n.versions, savedVersion{t.root, t.root.version.Load()})
	}
}

// Free lets go of what n saved; a backward pass calls it when it has consumed n. What saved nothing, such as the cast of a
// parameter that the parts of a batch share, may be gone through again.
func (n *Node) Free() {
	n.consumed = n.consumed || len(n.saved) > 0
	for _, b := range n.saved {
		b.release("backward")
	}
	n.saved, n.versions = nil, nil
}

// handOver gives y, the result of op on x, the memory of x to write over, if nobody will read x again: n, whose last
// backward pass this is, is its only owner. It returns false where that is not so, or y is of another type or size.
func (n *Node) handOver(op string, x, y *Tensor) bool {
	b := x.blk
	i := slices.Index(n.saved, b)
	if !n.last || i < 0 || b.shared || b.refs != 1 {
		return false
	}
	if x.dtype != y.dtype || x.Len() != y.Len() || !x.layout.Contiguous() || b.mem.Size() != y.Len()*y.dtype.Size() {
		return false
	}
	n.saved, n.consumed = slices.Delete(n.saved, i, i+1), true
	*y.blk = block{buf: b.buf, mem: b.mem, dev: b.dev, refs: 1, op: op}
	b.mem, b.refs = nil, 0 // the launch still reads b.buf
	return true
}

// release frees all nodes at the end of the step. It also empties them: a block that is kept shares an allocation with
// its first tensor, which through its node would hold on to all tensors before it.
func (tp *Tape) release() {
	for _, n := range tp.Nodes {
		n.Free()
		*n = Node{ID: n.ID, consumed: n.consumed}
	}
	tp.Nodes = nil
}

// Backward runs the VJP of n on the gradient g of its output: one gradient, or nil, for each operand. last says that Free
// follows, so that a gradient may take the memory of what n saved.
func (n *Node) Backward(g *Tensor, last bool) []*Tensor {
	if n.consumed {
		Fail(ErrGrad, "backward", "the values that %s saved were freed by an earlier backward pass; give that one autograd.Retain", n.Op.Name)
	}
	for _, v := range n.versions {
		if now := v.root.version.Load(); now != v.version {
			Fail(ErrVersion, n.Op.Name, "%v is at version %d, backward needs version %d: it was assigned after the forward saved it; assign after Backward", v.root.tensor, now, v.version)
		}
	}
	defer n.scope.moveTo(n.scope.dev)
	n.scope.moveTo(n.scope.placeOf(n.Out))
	defer func(outer *Node) { n.scope.derived = outer }(n.scope.derived)
	n.scope.derived, n.last = n, last
	grads := n.Op.VJP(&n.Ctx, g)
	for i, d := range grads {
		if d == nil {
			continue
		}
		x := n.In[i]
		if !sameShape(d, x) {
			Fail(ErrGrad, n.Op.Name, "the gradient of %s has shape %v, the operand %v", n.argName(i), d.layout.Shape, x.layout.Shape)
		}
		if d.dtype != x.dtype && (x.node == nil || d.dtype != x.node.SumType()) {
			grads[i] = d.To(x.dtype)
		}
	}
	return grads
}

// SumType is the type in which gradients of the output of n are added up. A view hands on what it gets, so it takes the type
// of its operand.
func (n *Node) SumType() DType {
	for n.Op != nil && n.Op.View != nil && n.In[0].node != nil {
		n = n.In[0].node
	}
	if n.Op == nil || n.Op.Sum == nil {
		return n.Out[0].dtype
	}
	return n.Op.Sum(&n.Ctx)
}

// Record enters an operation that was computed by other means: y came from in, and op.VJP, which may read
// the saved tensors, takes gradients back. The result is y on the tape; it is y itself if no operand needs
// a gradient or the step does not record. Custom operations use it.
func (s *Scope) Record(op *Op, in []*Tensor, y *Tensor, saved []*Tensor) *Tensor {
	s.open(op.Name)
	n := newNode()
	n.set(op, s, in, nil, nil)
	needs := false
	for i, t := range in {
		n.In[i] = s.In(t)
		needs = needs || n.In[i].needs
	}
	if !needs || !s.top.mode.Record {
		return y
	}
	y = s.In(y).alias(s)
	n.Out = append(n.Out, y)
	for _, t := range saved {
		t.alive(op.Name)
	}
	for _, t := range saved {
		n.save(t)
	}
	s.tape.record(n)
	return y
}

// Differentiate runs f with saved values readable, recording set as given and autocast off, as backward passes do.
func (s *Scope) Differentiate(record bool, f func()) {
	s.backward++
	defer func() { s.backward-- }()
	m := s.top.mode
	s.With(f, func(mode *Mode) { *mode = m; mode.Record, mode.Autocast = record, Float32 })
}

// Retain keeps t alive beyond the region that made it, until Release.
func (tp *Tape) Retain(t *Tensor) { t.blk.retain() }

// Release undoes Retain.
func (tp *Tape) Release(t *Tensor) { t.blk.release("backward") }

// Own hands a retained tensor to the innermost region, as if it had been made there. What still belongs to a region
// around it stays there.
func (s *Scope) Own(t *Tensor) {
	switch b := t.blk; {
	case b.shared:
	case b.closed == "":
		b.release("")
	default:
		b.closed = ""
		s.top.owned = append(s.top.owned, b)
	}
}
