package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// Gradient checkpointing (Chen et al. 2016): the nodes of a part of a step save nothing. A backward pass that comes to
// them repeats the op calls that made what they saved, and goes on as if it had been there all the time. Op calls are
// data, so they are repeated as they were, with the random numbers and the types of the first time; the program's
// function is not called again, and what no node has saved is not made again.

// checkpoint is such a part.
type checkpoint struct {
	up    *checkpoint // the one around it
	inner []*checkpoint
	open  bool   // its function is running
	path  string // of the regions around it
	nodes []*node
	calls []*ctx         // that made memory, in order, those of inner ones too
	made  map[*block]int // by which call; outside: by none of them
	needs []*block       // operands from outside, without those that are offloaded
	held  bool           // it owns what it needs
	away  *offload       // nil: nothing is offloaded
}

const outside = -1

// checkpoint is engine.Checkpoint.
func (s *Scope) checkpoint(f func() []*Tensor, last []*Tensor) []*Tensor {
	s.given("checkpoint")
	given("checkpoint", "the function", f)
	if !s.recording() {
		return s.Region("", f, last...)
	}
	cp := s.openCheckpoint()
	defer func() { cp.open = false }()
	out := s.Region("", func() []*Tensor {
		s.enter("checkpoint")
		s.top.mode.checkpoint = cp
		s.leave()
		return f()
	}, last...)
	cp.away.sent(s)
	return out
}

func (s *Scope) openCheckpoint() *checkpoint {
	s.enter("checkpoint")
	defer s.leave()
	cp := &checkpoint{up: s.top.mode.checkpoint, open: true, path: s.path(), made: map[*block]int{}}
	if cp.up != nil {
		cp.up.inner = append(cp.up.inner, cp)
	}
	cp.held = cp.up == nil
	if cp.held && s.top.mode.offload && s.home.shared.pinned != nil {
		cp.away = &offload{scope: s}
	}
	s.tape.checkpoints = append(s.tape.checkpoints, cp)
	return cp
}

// add notes an op call.
func (cp *checkpoint) add(c *ctx) {
	for ; cp != nil; cp = cp.up {
		for _, x := range c.In {
			cp.need(x.blk)
		}
		for _, y := range c.Out {
			cp.made[y.blk] = len(cp.calls)
		}
		cp.calls = append(cp.calls, c)
	}
}

// need notes a block that is used inside. The outermost checkpoint owns what comes from outside; the others leave that
// to the one around them, which makes it again.
func (cp *checkpoint) need(b *block) {
	if _, known := cp.made[b]; known || b.shared {
		return
	}
	cp.made[b] = outside
	if cp.away.send(b) {
		return
	}
	cp.needs = append(cp.needs, b)
	if cp.held {
		b.retain()
	}
}

// put appends n, which is on the tape, to the nodes of cp.
func (cp *checkpoint) put(n *node) {
	n.checkpoint, n.asleep = cp, true
	cp.nodes = append(cp.nodes, n)
}

// saves notes what a node saves without owning it: nothing if a call inside makes it.
func (cp *checkpoint) saves(b *block) {
	for ; cp != nil; cp = cp.up {
		cp.need(b)
	}
}

// wake makes what the nodes of n's checkpoint have saved, up to n and as far as the pass needs them. n is the first
// that it comes to.
func (p *backward) wake(n *node) {
	cp := n.checkpoint
	p.fetch(n)
	var nodes []*node
	var inner []*checkpoint
	var want []*block
	for _, m := range cp.nodes {
		if p.sleeps(m, n) {
			nodes, want = append(nodes, m), append(want, m.saved...)
		}
	}
	for _, in := range cp.inner {
		if !in.held && p.sleepsIn(in, n) {
			inner, want = append(inner, in), append(want, in.needs...)
		}
	}
	p.scope.Region(cp.path, func() []*Tensor {
		cp.revive(p.scope, want)
		return nil
	})
	for _, m := range nodes {
		m.asleep = false
	}
	for _, in := range inner {
		in.held = true
	}
	if cp.up != nil {
		cp.drop()
	}
}

// sleeps tells whether the pass, which is at n, will come to m and find nothing there.
func (p *backward) sleeps(m, n *node) bool { return m.asleep && m.grad <= n.grad && p.need[m.grad] }

// sleepsIn is sleeps of a node of cp or of one inside it.
func (p *backward) sleepsIn(cp *checkpoint, n *node) bool {
	for _, m := range cp.nodes {
		if p.sleeps(m, n) {
			return true
		}
	}
	for _, in := range cp.inner {
		if p.sleepsIn(in, n) {
			return true
		}
	}
	return false
}

// revive makes the blocks in want alive, by the calls that this takes. The caller gets one more reference to each.
func (cp *checkpoint) revive(s *Scope, want []*block) {
	cp.away.arrive()
	var mine []*block // owned for as long as calls need them
	defer func() {
		for _, b := range mine {
			b.release("backward")
		}
	}()
	due, uses, dead := cp.due(want)
	if dead != nil {
		cp.up.revive(s, dead)
		mine = dead
	}
	drop := func(b *block) {
		if i := slices.Index(mine, b); i >= 0 && uses[b] == 0 {
			mine = slices.Delete(mine, i, i+1)
			b.release("backward")
		}
	}
	for _, c := range due {
		made := s.repeat(c, &mine)
		for _, x := range c.In {
			uses[x.blk]--
			drop(x.blk)
		}
		for _, b := range made { // some may have no use
			drop(b)
		}
	}
	for _, b := range want {
		b.retain()
	}
}

// due is the calls that make the blocks in want, how often each block is used, by these calls and by want, and those
// from outside that are dead.
func (cp *checkpoint) due(want []*block) (calls []*ctx, uses map[*block]int, dead []*block) {
	marked := make([]bool, len(cp.calls))
	uses = map[*block]int{}
	use := func(b *block) {
		if uses[b]++; b.alive() {
			return
		}
		if call := cp.made[b]; call != outside {
			marked[call] = true
		} else if uses[b] == 1 {
			dead = append(dead, b)
		}
	}
	for _, b := range want {
		use(b)
	}
	for i, c := range slices.Backward(cp.calls) {
		if marked[i] {
			for _, x := range c.In {
				use(x.blk)
			}
			calls = append(calls, c)
		}
	}
	slices.Reverse(calls)
	return calls, uses, dead
}

// repeat runs an op call again and adds what it makes to mine. Results that are dead get memory; those that are alive
// stay as they are.
func (s *Scope) repeat(c *ctx, mine *[]*block) (made []*block) {
	s.enter(c.Op.Name)
	defer s.leave()
	defer s.setDevice(s.dev)
	s.setDevice(c.Out[0].blk.dev)
	again := *c
	again.Out = nil
	for _, y := range c.Out {
		if y.blk.alive() {
			twin := *y
			twin.blk = &block{}
			y = &twin
		}
		closed := y.blk.closed
		s.give(c.Op.Name, y, kernels.Activations)
		y.blk.closed = closed
		*mine, made, again.Out = append(*mine, y.blk), append(made, y.blk), append(again.Out, y)
	}
	defer func(outer *kernels.Random) { s.replay = outer }(s.replay)
	s.replay = &c.random
	s.run(&again)
	return made
}

// sleep lets go of what the nodes of cp have saved, after a pass that leaves it for another one.
func (cp *checkpoint) sleep() {
	for _, n := range cp.nodes {
		if !n.asleep {
			n.letGo()
			n.asleep = true
		}
	}
	for ; cp != nil && cp.done(); cp = cp.up {
		cp.drop()
		cp.calls, cp.made, cp.needs = nil, nil, nil
	}
}

// done tells whether no pass can come to nodes of cp, or of one inside it, that have saved something.
func (cp *checkpoint) done() bool {
	return !cp.open && !slices.ContainsFunc(cp.nodes, func(n *node) bool { return len(n.saved) > 0 }) &&
		!slices.ContainsFunc(cp.inner, func(in *checkpoint) bool { return !in.done() })
}

// drop ends the ownership of what cp needs.
func (cp *checkpoint) drop() {
	if cp.held {
		for _, b := range cp.needs {
			b.release("backward")
		}
	}
	cp.held = false
	cp.away.drop()
}

// wantOutside fails for tensors that a checkpoint around the operation would make again: what is written over them
// would be lost.
func (s *Scope) wantOutside(op *Op, ts []*Tensor) {
	for cp := s.top.mode.checkpoint; cp != nil; cp = cp.up {
		for _, t := range ts {
			if call, known := cp.made[t.blk]; known && call != outside {
				fail(ErrGrad, op.Name, "%v was made inside a checkpoint, where it cannot be written over", t)
			}
		}
	}
}
