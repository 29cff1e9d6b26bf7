package tensor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// Tensor is a typed n-dimensional view of device memory. It is a light handle: views share memory, and no method
// changes it but [Tensor.Assign], for parameters and state.
//
// A tensor belongs to the step that made it. Parameters, state and host data belong to none: they join the step of the
// tensors they are used with.
type Tensor struct {
	blk    *block
	layout kernels.Layout
	dims   [8]int // backs shape and strides up to rank 4: one allocation a tensor
	dtype  DType
	needs  bool   // a gradient may flow to it
	out    uint8  // which output of its node it is
	node   *node  // producer on the tape, or leaf; nil if no gradient can reach it
	scope  *Scope // nil: parameter, state or host data
	root   *param // the parameter or state it is, or is a view of
	lazy   *ctx   // a view of a parameter that no step has recorded yet
}

// newTensor makes a header with its own copy of shape and row-major strides.
func newTensor(blk *block, dt DType, shape []int, s *Scope) *Tensor {
	t := &Tensor{}
	t.init(blk, dt, shape, s)
	return t
}

func (t *Tensor) init(blk *block, dt DType, shape []int, s *Scope) {
	t.blk, t.dtype, t.scope = blk, dt, s
	t.setShape(shape)
	kernels.RowMajor(t.layout.Strides, shape)
}

// setShape copies shape and makes strides of the same length, inside the header where they fit.
func (t *Tensor) setShape(shape []int) {
	n := len(shape)
	if 2*n <= len(t.dims) {
		t.layout.Shape, t.layout.Strides = t.dims[:n:n], t.dims[n:2*n:2*n]
	} else {
		both := make([]int, 2*n)
		t.layout.Shape, t.layout.Strides = both[:n:n], both[n:]
	}
	copy(t.layout.Shape, shape)
}

// alias is a second handle of the same elements, off the tape, in step s.
func (t *Tensor) alias(s *Scope) *Tensor {
	v := &Tensor{blk: t.blk, dtype: t.dtype, scope: s, root: t.root}
	v.setShape(t.layout.Shape)
	copy(v.layout.Strides, t.layout.Strides)
	v.layout.Offset = t.layout.Offset
	return v
}

// Shape is the size of each axis. The slice is a copy.
func (t *Tensor) Shape() []int { return slices.Clone(t.given("shape").layout.Shape) }

// Rank is the number of axes.
func (t *Tensor) Rank() int { return len(t.given("rank").layout.Shape) }

// Dim is the size of an axis; negative axes count from the end.
func (t *Tensor) Dim(axis int) int { return t.layout.Shape[t.axis("dim", axis)] }

// Len is the number of elements.
func (t *Tensor) Len() int { return t.given("len").layout.Len() }

// DType is the element type.
func (t *Tensor) DType() DType { return t.given("dtype").dtype }

// Scope is the step that t belongs to; nil for parameters, state and host data.
func (t *Tensor) Scope() *Scope { return t.given("scope").scope }

// NeedsGrad tells whether a gradient may flow to t: it is a parameter, was made from one while recording, or was
// watched.
func (t *Tensor) NeedsGrad() bool { return t.given("needs_grad").needs }

// IsContiguous tells whether the elements are in row-major order, without padding between them.
func (t *Tensor) IsContiguous() bool { return t.given("is_contiguous").layout.Contiguous() }

// Origin is the parameter or state that t is, or is a view of; nil for other tensors.
func (t *Tensor) Origin() *Tensor {
	t.given("origin")
	if t.root == nil {
		return nil
	}
	return t.root.tensor
}

// Name is the state-dict name of a parameter or state, and "" for other tensors.
func (t *Tensor) Name() string {
	t.given("name")
	if t.root == nil {
		return ""
	}
	return t.root.name
}

// String is the name, if any, the element type and the shape: "head.weight float32[10 256]".
func (t *Tensor) String() string {
	if t == nil {
		return "nil tensor"
	}
	var b strings.Builder
	if n := t.Name(); n != "" {
		b.WriteString(n + " ")
	}
	fmt.Fprintf(&b, "%v%v", t.dtype, t.layout.Shape)
	return b.String()
}

// axis makes a possibly negative axis an index of the shape.
func (t *Tensor) axis(op string, axis int) int {
	t.given(op)
	n := len(t.layout.Shape)
	if axis < -n || axis >= n {
		fail(ErrShape, op, "axis %d is outside [%d, %d): %v has %d axes", axis, -n, n, t, n)
	}
	if axis < 0 {
		axis += n
	}
	return axis
}

// usable is alive for callers that have not entered the step.
func (t *Tensor) usable(op string) {
	t.given(op)
	if s := t.scope; s != nil && !s.over() {
		s.enter(op)
		defer s.leave()
	}
	t.alive(op)
}

// alive fails for tensors that may not be used any more. The caller has entered their step.
func (t *Tensor) alive(op string) {
	t.given(op)
	switch {
	case t.blk == nil:
		if t.root == nil {
			fail(ErrStep, op, "an operand is the zero Tensor, which has no elements")
		}
		fail(ErrStep, op, "parameter %v has no values yet: call nn.Init(dev, model) first", t)
	case t.blk.closed == batchEnded:
		fail(ErrStep, op, "%v is of an earlier batch, whose memory the next ones have since the loop asked for them: "+
			"Keep it, or what is needed of it, before", t)
	case t.blk.refs == 0 || t.blk.closed != "" && !t.scope.inBackward():
		fail(ErrStep, op, "%v, made by %s, was released when %s ended; return it from there, or Keep it",
			t, t.blk.op, t.blk.closed)
	}
}

// sameShape tells whether two tensors have equal shapes.
func sameShape(a, b *Tensor) bool { return slices.Equal(a.layout.Shape, b.layout.Shape) }
