package tensor

import (
	"slices"
	"sync"
)

// tape is the record of one step in order of execution; a backward pass visits it in reverse.
type tape struct {
	nodes []*node
	grads int     // outputs of all nodes that carry a gradient
	slabs []*slab // the memory of nodes
	used  int     // nodes of the last slab

	checkpoints []*checkpoint
}

// slab is memory for nodes, most of what a recorded operation needs on the Go heap. Later steps use it again.
type slab [32]node

var slabs = sync.Pool{New: func() any { return new(slab) }}

// node is one recorded operation, or a leaf: a parameter or a watched tensor (Op is nil).
type node struct {
	ctx
	grad  int // index of the first output's gradient among those of the tape
	hooks []*hook

	param    *Tensor // what a leaf stands for
	made     string  // where, if Anomaly watched
	layer    *layer
	saved    []*block
	versions []savedVersion
	consumed bool
	last     bool      // the backward pass under way is the last one through it
	grads    []*Tensor // in flight, of its outputs, while its VJP runs
	spent    *Tensor   // the one that the op call under way is the last to read

	checkpoint *checkpoint // that it is in
	asleep     bool        // it does not own what it saved: its checkpoint makes that

	savedBuf   [4]*block // backs saved, versions: one allocation a node
	versionBuf [2]savedVersion
}

// savedVersion remembers which version of a parameter or state was saved.
type savedVersion struct {
	root    *param
	version uint64
}

// hook is called with the gradient of an output; the result replaces it.
type hook struct {
	out int
	f   func(g *Tensor) *Tensor
}

// differentiable is the outputs of n that carry a gradient.
func (n *node) differentiable() []*Tensor {
	if n.Op == nil {
		return n.Out
	}
	return n.Out[:n.Op.differentiable()]
}

// node returns a node that is not on the tape yet.
func (tp *tape) node() *node {
	if len(tp.slabs) == 0 || tp.used == len(slab{}) {
		tp.slabs, tp.used = append(tp.slabs, slabs.Get().(*slab)), 0
	}
	n := &tp.slabs[len(tp.slabs)-1][tp.used]
	tp.used++
	n.saved, n.versions = n.savedBuf[:0], n.versionBuf[:0]
	return n
}

// add appends n, whose differentiable outputs get gradients from now on.
func (tp *tape) add(n *node) {
	n.grad = tp.grads
	for i, y := range n.differentiable() {
		y.node, y.out, y.needs = n, uint8(i), true
		tp.grads++
	}
	tp.nodes = append(tp.nodes, n)
}

// record appends n and keeps alive what its VJP reads.
func (tp *tape) record(n *node) {
	tp.add(n)
	if cp := n.scope.top.mode.checkpoint; cp != nil {
		cp.put(n)
	}
	var set saves
	for i, x := range n.In {
		if x.needs {
			set |= n.Op.saves(i)
		}
	}
	for i, x := range n.In {
		if set.in(i) {
			n.save(x)
		}
	}
	for i, y := range n.Out {
		if set.out(i) {
			n.save(y)
		}
	}
}

// leaf appends a node without operation for t.
func (tp *tape) leaf(t *Tensor) *node {
	n := tp.node()
	n.scope = t.scope
	n.Out = append(n.outBuf[:0], t)
	tp.add(n)
	return n
}

// leaf is the node of a parameter in this step, made at first use.
func (s *Scope) leaf(op string, t *Tensor) *node {
	n := s.leaves[t.root]
	if n == nil {
		if s.leaves == nil {
			s.leaves = map[*param]*node{}
		}
		v := s.local(op, t).alias(s)
		n = s.tape.leaf(v)
		n.param = t.root.tensor
		s.leaves[t.root] = n
	}
	return n
}

func (n *node) save(t *Tensor) {
	if n.asleep {
		n.checkpoint.saves(t.blk)
	} else {
		t.blk.retain()
	}
	n.saved = append(n.saved, t.blk)
	if t.root != nil {
		n.versions = append(n.versions, savedVersion{t.root, t.root.version.Load()})
	}
}

// free lets go of what n saved; a backward pass calls it when it has consumed n. A node that saved nothing, such as
// the cast of a parameter that the chunks of a batch share, can be used again.
func (n *node) free() {
	n.consumed = n.consumed || len(n.saved) > 0
	n.letGo()
	n.saved, n.versions = nil, nil
}

// letGo ends the ownership of what n saved.
func (n *node) letGo() {
	if n.asleep {
		return
	}
	for _, b := range n.saved {
		b.release("backward")
	}
}

// handOver gives y, the result of op on x, the memory of x to write over, if nobody will read x again: n, whose last
// backward pass this is, saved x or has it as a gradient in flight, and there is no other owner. It returns false where
// that is not so, or y is of another type or size.
func (n *node) handOver(op string, x, y *Tensor) bool {
	b := x.blk
	if !n.last || b.shared || b.grads || b.refs != 1 {
		return false
	}
	if x.dtype != y.dtype || x.Len() != y.Len() || !x.layout.Contiguous() || b.mem.Size() != y.Len()*y.dtype.Size() {
		return false
	}
	if i := slices.Index(n.saved, b); i >= 0 {
		n.saved, n.consumed = slices.Delete(n.saved, i, i+1), true
	} else if i := slices.Index(n.grads, x); i >= 0 {
		n.grads[i] = nil
	} else {
		return false
	}
	*y.blk = block{buf: b.buf, mem: b.mem, dev: b.dev, refs: 1, op: op}
	b.mem, b.refs = nil, 0 // the op call still reads b.buf
	return true
}

// release frees all nodes at the end of the step. Their tensors forget them, since later steps use their memory.
func (tp *tape) release() {
	for _, n := range tp.nodes {
		n.free()
		for _, y := range n.Out {
			y.node = nil
		}
	}
	for _, cp := range tp.checkpoints {
		cp.drop()
	}
	for _, nodes := range tp.slabs {
		*nodes = slab{}
		slabs.Put(nodes)
	}
	*tp = tape{}
}

// recordCustom enters an operation that was computed by other means: y came from in, and op.VJP, which may read
// the saved tensors, takes gradients back. The result is y on the tape; it is y itself if no operand needs
// a gradient or the step does not record. Custom operations use it.
func (s *Scope) recordCustom(op *Op, in []*Tensor, y *Tensor, saved []*Tensor) *Tensor {
	s.given("record")
	given("record", "the operation", op)
	if !op.hasVJP() {
		fail(ErrGrad, op.Name, "the operation has no VJP")
	}
	if op.Expr != nil && len(in) != len(op.Expr.Args) {
		fail(ErrValue, op.Name, "takes %d tensors, got %d", len(op.Expr.Args), len(in))
	}
	s.enter(op.Name)
	defer s.leave()
	n := s.tape.node()
	n.layer = s.layer()
	n.set(op, s, in, nil, nil)
	needs := false
	for i, t := range in {
		n.In[i] = s.in(t)
		needs = needs || n.In[i].needs
	}
	if !needs || !s.top.mode.record || !y.DType().IsFloat() {
		return y
	}
	y = s.in(y).alias(s)
	n.Out = append(n.Out, y)
	for _, t := range saved {
		if t.alive(op.Name); t.scope != nil && t.scope != s {
			t.foreign(op.Name)
		}
	}
	s.tape.record(n)
	for _, t := range saved {
		n.save(t)
	}
	return y
}
