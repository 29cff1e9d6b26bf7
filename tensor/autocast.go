package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
)

// autocastTo lowers operations to dt; Float32 for none.
func autocastTo(dt DType) Option {
	if !dt.IsHalf() && dt != Float32 {
		fail(ErrDType, "autocast", "%v is no type to lower operations to; take tensor.Float16 or tensor.BFloat16, "+
			"or tensor.Float32 for none", dt)
	}
	return Option{func(m *mode) { m.autocast = dt }}
}

// lowered names the copy of a parameter in another type.
type lowered struct {
	root    *param
	version uint64
	dtype   DType
}

// autocast gives the operands xs the types that op runs in under the step's mode.
func (s *Scope) autocast(op *Op, xs []*Tensor) {
	if op.Cast == seam.CastKeep || op.Cast == seam.CastParts {
		return
	}
	to := s.top.mode.autocast
	widest := Bool
	for _, t := range xs {
		t.given(op.Name)
		switch {
		case t.dtype == Float64:
			return
		case t.dtype.IsFloat() && !widest.IsFloat():
			widest = t.dtype
		case t.dtype.IsFloat() && widest != t.dtype:
			widest = Float32
		}
	}
	switch op.Cast {
	case seam.CastBanned:
		fail(ErrDType, op.Name, "refused under autocast to %v: its gradient overflows in half precision; %s",
			to, op.Instead)
	case seam.CastFull:
		to = Float32
	case seam.CastWidest:
		to = widest
	}
	for i, t := range xs {
		if t.dtype.IsFloat() && t.dtype != to {
			xs[i] = s.castTo(t, to)
		}
	}
}

// castTo is t in another type. A parameter is cast once in a step, for all that use it, and with recording on: else a
// use under NoGrad would leave the later ones without a gradient.
func (s *Scope) castTo(t *Tensor, dt DType) *Tensor {
	if l := t.lazy; l != nil && l.In[0].root != nil && t.needs { // a view of a parameter is the view of its copy
		y, _ := s.record(l.Op, []*Tensor{s.castTo(l.In[0], dt)}, l.Ints, l.Floats, nil, true)
		return y
	}
	whole := t.needs && t.root != nil && (t == t.root.tensor || t.node != nil && t.node.param != nil)
	if !whole {
		y, _ := s.record(&cast, []*Tensor{t}, []int{dt.Code()}, nil, nil, true)
		return y
	}
	key := lowered{t.root, t.root.version.Load(), dt}
	if s.together == nil {
		s.castTogether(t.root, dt)
	}
	if c := s.casts[key]; c != nil {
		return c
	}
	defer func(mode mode, makes kernels.MemoryCategory) { s.top.mode, s.makes = mode, makes }(s.top.mode, s.makes)
	s.top.mode.record, s.top.mode.checkpoint, s.makes = true, nil, kernels.Workspace
	c, _ := s.record(&cast, []*Tensor{t}, []int{dt.Code()}, nil, nil, true)
	s.top.owned = s.top.owned[:len(s.top.owned)-1] // where the cast has just put it
	s.outermost.owned = append(s.outermost.owned, c.blk)
	if s.casts == nil {
		s.casts = map[lowered]*Tensor{}
	}
	s.casts[key] = c
	return c
}

// lowering is the casts of an arena to a type.
type lowering struct {
	arena *arena
	dtype DType
}

// castTogether notes that a parameter is cast. When a step first does that to one of an arena, those that the step
// before has cast are cast by one launch, where each launch takes time.
func (s *Scope) castTogether(p *param, dt DType) {
	a := p.arena
	if a == nil || a.dev == nil || !a.dev.batches() || s.top.mode.observe != nil {
		return
	}
	key := lowering{a, dt}
	if s.lowered[key] == nil {
		if s.lowered == nil {
			s.lowered = map[lowering][]bool{}
		}
		s.lowered[key] = make([]bool, len(a.params))
		a.mu.Lock()
		known := a.lowered[dt]
		a.mu.Unlock()
		b := &batch{op: &copies}
		defer b.drop()
		s.together = b
		defer func() { s.together = nil }()
		for i, before := range known {
			if t := a.params[i]; before && t.needs && t.root.arena == a && t.root != p && !t.root.pending.Load() {
				s.castTo(t, dt)
			}
		}
		s.castTo(p.tensor, dt)
		b.run(s)
	}
	s.lowered[key][p.index] = true
}

// remember keeps what the step has cast for the next one.
func (s *Scope) remember() {
	for key, cast := range s.lowered {
		key.arena.mu.Lock()
		if key.arena.lowered == nil {
			key.arena.lowered = map[DType][]bool{}
		}
		key.arena.lowered[key.dtype] = cast
		key.arena.mu.Unlock()
	}
}
