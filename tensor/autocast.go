package tensor

import "fmt"

// CastClass says what autocast does with the operands of an operation that are float32, float16 or bfloat16. It changes
// neither integers and bools nor any operand of an operation with a float64 one.
type CastClass uint8

// The classes. Operations of backward passes are not cast: they run in the types of their forward.
const (
	CastKeep   CastClass = iota // nothing: the operation takes what it is given, pointwise ones promote
	CastLower                   // to the region's type: products of matrices, which tensor cores compute
	CastFull                    // to float32: what overflows, or loses its sum, in half precision
	CastWidest                  // to the widest operand's type: what takes operands of one type
	CastBanned                  // refused: no cast makes it safe
	CastParts                   // as its two operations do: where one of them casts, its method calls both instead
)

// String is what the documentation calls the class.
func (c CastClass) String() string {
	names := [...]string{"keep", "lower", "full", "widest", "banned", "parts"}
	if int(c) >= len(names) {
		return fmt.Sprintf("CastClass(%d)", c)
	}
	return names[c]
}

// Autocast is amp.Autocast, which documents it.
func Autocast(dt DType) Option {
	checkAutocast(dt)
	return func(m *Mode) { m.Autocast = dt }
}

func checkAutocast(dt DType) {
	if !dt.IsHalf() && dt != Float32 {
		Fail(ErrDType, "autocast", "%v is no type to lower operations to; take tensor.Float16 or tensor.BFloat16, "+
			"or tensor.Float32 for none", dt)
	}
}

// lowered names the copy of a parameter in another type.
type lowered struct {
	root    *param
	version uint64
	dtype   DType
}

// autocast gives operands the types that op runs in under the step's mode; those that change are written to buf.
func (s *Scope) autocast(op *Op, in, buf []*Tensor) []*Tensor {
	if op.Cast == CastKeep || op.Cast == CastParts {
		return in
	}
	to := s.top.mode.Autocast
	widest := Bool
	for _, t := range in {
		t.given(op.Name)
		switch {
		case t.dtype == Float64:
			return in
		case t.dtype.IsFloat() && !widest.IsFloat():
			widest = t.dtype
		case t.dtype.IsFloat() && widest != t.dtype:
			widest = Float32
		}
	}
	switch op.Cast {
	case CastBanned:
		Fail(ErrDType, op.Name, "refused under autocast to %v: its gradient overflows in half precision; %s",
			to, op.Instead)
	case CastFull:
		to = Float32
	case CastWidest:
		to = widest
	}
	out := append(buf, in...)
	for i, t := range out {
		if t.dtype.IsFloat() && t.dtype != to {
			out[i] = s.castTo(t, to)
		}
	}
	return out
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
	if c := s.casts[key]; c != nil {
		return c
	}
	defer func(mode Mode) { s.top.mode = mode }(s.top.mode)
	s.top.mode.Record = true
	c, _ := s.record(&cast, []*Tensor{t}, []int{dt.Code()}, nil, nil, true)
	s.top.owned = s.top.owned[:len(s.top.owned)-1] // where the cast has just put it
	s.outermost.owned = append(s.outermost.owned, c.blk)
	if s.casts == nil {
		s.casts = map[lowered]*Tensor{}
	}
	s.casts[key] = c
	return c
}
