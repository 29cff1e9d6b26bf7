package tensor

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// A step changes nothing that outlives it before its function has returned nil. Until then its gradients are its own,
// and the operations that write parameters and state wait in a list, with their operands kept alive. The commit first
// does all that can fail, for all arenas, and then runs the list: results go to memory that exists, so nothing of that
// fails as long as the device works.

// A write is an operation that waits for the commit.
type write struct {
	*ctx
	dev  *Device
	site string // of the caller
}

// hold makes the operation wait for the commit.
func (s *Scope) hold(c *ctx) {
	if c.Op.draws > 0 {
		c.random = s.draw(c.Op.draws, c.Out[0].Len())
	}
	if s.writes == nil {
		s.writes = make([]write, 0, 8)
	}
	s.writes = append(s.writes, write{c, s.dev, caller.Site()})
	for _, x := range c.In {
		x.blk.retain()
	}
}

// afterCommit is engine.OnCommit.
func (s *Scope) afterCommit(f func()) {
	s.given("on_commit")
	given("on_commit", "the function", f)
	s.enter("on_commit")
	defer s.leave()
	s.onCommit = append(s.onCommit, f)
}

// abort is engine.Abort.
func (s *Scope) abort(err error) {
	s.given("abort")
	if err != nil {
		s.fault.CompareAndSwap(nil, &err)
	}
}

// commit makes the gradients of the step those of the arenas, and writes parameters and state.
func (s *Scope) commit() {
	s.prepare()
	// Steps that commit to the same arenas lock them in one order.
	slices.SortFunc(s.order, func(a, b *arena) int { return cmp.Compare(a.id, b.id) })
	for _, a := range s.order {
		a.mu.Lock()
	}
	defer func() {
		for _, a := range s.order {
			a.mu.Unlock()
		}
	}()
	for _, a := range s.order {
		a.check(s.grads[a])
	}
	s.write()
	for _, a := range s.order {
		a.commit(s.grads[a])
		if s.took {
			a.warnLeft()
		}
	}
}

// prepare does all that can fail of the writes.
func (s *Scope) prepare() {
	for _, w := range s.writes {
		p, ok := w.dev.shared.backend.(kernels.Preparer)
		if !ok {
			continue
		}
		s.strides = fill(&s.launch, w.ctx, s.strides)
		err := p.Prepare(&s.launch)
		if errors.Is(err, kernels.ErrScratch) && w.dev.shared.pool.Trim() > 0 {
			err = p.Prepare(&s.launch)
		}
		if e, ok := err.(*Error); ok && e.Site == "" {
			e.Site = w.site
		}
		if err != nil {
			failed(&s.launch, err)
		}
	}
}

// write runs the writes, in order. If the device fails between two of them, nobody can say what is written: the arenas
// refuse to be used.
func (s *Scope) write() {
	done := 0
	defer func() {
		if 0 < done && done < len(s.writes) {
			for _, w := range s.writes {
				for _, y := range w.Out {
					y.root.arena.torn.Store(true)
				}
			}
		}
	}()
	s.launch.Prepared = true
	for _, w := range s.writes {
		s.dev = w.dev
		s.run(w.ctx)
		done++
	}
}

// reads tells whether an operand is in b.
func (w write) reads(b *block) bool {
	return slices.ContainsFunc(w.In, func(x *Tensor) bool { return x.blk == b })
}

// dropWrites ends the waiting for the commit.
func (s *Scope) dropWrites() {
	for _, w := range s.writes {
		for _, x := range w.In {
			if !x.blk.shared {
				x.blk.release("its step")
			}
		}
	}
	for _, a := range s.pending {
		a.values.root.pending.Store(false)
		for _, p := range a.params {
			p.root.pending.Store(false)
		}
	}
	s.writes, s.pending, s.onCommit = nil, nil, nil
}

// written notes that the step will write elements [lo, hi) of t, parameters or state, and bumps their versions.
func (s *Scope) written(t *Tensor, lo, hi int) {
	if t.root == nil {
		fail(ErrStep, "update", "%v is host data; only parameters, state and gradients are updated", t)
	}
	a := t.root.arena
	if a.dev == nil && !s.dev.inHostMemory() {
		fail(ErrStep, "update", "parameter %v is host data, the step runs on %s; nn.Init places a model on a device",
			a.params[0], s.dev.Name())
	}
	s.touch(a, writing)
	if !a.values.root.pending.Swap(true) {
		if s.pending == nil {
			s.pending = make([]*arena, 0, 8)
		}
		s.pending = append(s.pending, a)
	}
	base := t.layout.Offset - a.values.layout.Offset
	for _, p := range a.params {
		if p.root.lo < base+hi && base+lo < p.root.hi {
			p.root.version.Add(1)
			p.root.pending.Store(true)
		}
	}
}

// fresh fails if t is a parameter or state that a step has updated and not yet committed.
func (t *Tensor) fresh(op string) {
	if t.root != nil && t.root.pending.Load() {
		t.stale(op)
	}
}

//go:noinline
func (t *Tensor) stale(op string) {
	fail(ErrVersion, op, "%v was updated in this step, which writes it when its function has returned: until then it "+
		"has its old value; read it before the update, or take two steps", t)
}

// committed is engine.Committed.
func (s *Scope) committed(t *Tensor) *Tensor {
	const op = "committed"
	s.given(op)
	s.enter(op)
	defer s.leave()
	t.alive(op)
	a, _, _ := t.arena()
	s.touch(a, reading)
	v := s.local(op, t).alias(s)
	v.root = nil // its memory keeps these values until the commit
	return v
}

// unappliedGrads fails if elements [lo, hi) of g, gradients of the step, belong to a parameter that the step has
// updated: the update still reads them.
func (s *Scope) unappliedGrads(op string, g *Tensor, lo, hi int) {
	if !g.blk.grads || !slices.ContainsFunc(s.writes, func(w write) bool { return w.reads(g.blk) }) {
		return
	}
	lo, hi = g.layout.Offset+lo, g.layout.Offset+hi
	for _, a := range s.order {
		for _, p := range a.params {
			if s.grads[a].flat.blk == g.blk && p.root.lo < hi && lo < p.root.hi && p.root.pending.Load() {
				fail(ErrVersion, op, "the gradient of %v is written after the step has updated that parameter; "+
					"call Backward before the update, or take two steps", p)
			}
		}
	}
}

// check fails if gradients of a step cannot be committed. a.mu is held.
func (a *arena) check(g *stepGrads) {
	if g.base != a.version && (a.grads != nil || slices.Contains(g.present, true)) {
		fail(ErrBusy, "step", "the gradients of %v changed while this step added to them: another step did so too "+
			"(use autograd.Grad in parallel steps and add the results in order), or ClearGrads was called in the step "+
			"(call it before Backward)", a.params[0])
	}
}

// commit makes g, what no optimizer has taken of the gradients of a step, those of the arena. a.mu is held.
func (a *arena) commit(g *stepGrads) {
	if slices.Contains(g.present, true) {
		a.replace(g.flat.blk, g.present)
	} else if a.grads != nil {
		a.replace(nil, nil)
	}
}

// warnLeft logs, once, the parameters whose gradients have been left ten times by steps in which an optimizer took
// those of others: they add up, and cost time for nothing. a.mu is held.
func (a *arena) warnLeft() {
	if a.grads == nil || a.warned {
		return
	}
	var names []string
	for i, p := range a.params {
		if !a.present[i] || p.root.taken.Load() {
			continue
		}
		if p.root.left++; p.root.left >= 10 {
			names = append(names, p.Name())
		}
	}
	if a.warned = names != nil; a.warned {
		slog.Warn("weft: gradients add up that no optimizer takes; nn.Freeze stops them", "parameters", names)
	}
}

// arenas counts the arenas made.
var arenas atomic.Uint64
