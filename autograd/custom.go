package autograd

import (
	"github.com/weft-ml/weft/tensor"
)

// Ctx carries what a custom operation keeps from its forward function for its backward function.
type Ctx struct {
	Scope *tensor.Scope
	saved []*tensor.Tensor
}

// Save keeps tensors for the backward function, which finds them under Saved(0), Saved(1), ...
func (c *Ctx) Save(ts ...*tensor.Tensor) {
	engine.Given("context", "the context", c)
	c.saved = append(c.saved, ts...)
}

// Saved is the i-th saved tensor.
func (c *Ctx) Saved(i int) *tensor.Tensor {
	engine.Given("context", "the context", c)
	if i < 0 || i >= len(c.saved) {
		engine.Fail(tensor.ErrIndex, "saved", "there is no saved tensor %d, %d were saved", i, len(c.saved))
	}
	return c.saved[i]
}

// Custom applies an operation with a hand-written gradient. forward computes the result from xs without being recorded;
// backward maps the gradient of the result to one gradient for each of xs, nil where there is none. With CreateGraph
// what backward does is recorded, so second derivatives are those of backward. At least one of xs must belong to a
// step; forward receives all of them as tensors of that step. Where autocast is on, it is on in both functions.
func Custom(name string, forward func(c *Ctx, xs ...*tensor.Tensor) *tensor.Tensor,
	backward func(c *Ctx, g *tensor.Tensor) []*tensor.Tensor, xs ...*tensor.Tensor) *tensor.Tensor {
	c := &Ctx{Scope: stepOf(xs)}
	if c.Scope == nil {
		engine.Fail(tensor.ErrStep, name, "no operand belongs to a step; take one in with s.In")
	}
	engine.Given(name, "forward", forward)
	in := make([]*tensor.Tensor, len(xs))
	for i, x := range xs {
		in[i] = c.Scope.In(x)
	}
	lower := engine.Autocasting(c.Scope)
	var y *tensor.Tensor
	c.Scope.Region(name, func() []*tensor.Tensor {
		c.Scope.With(func() { y = forward(c, in...) }, tensor.NoGrad())
		engine.Given(name, "the result of forward", y)
		return append([]*tensor.Tensor{y}, c.saved...)
	})
	return engine.Record(c.Scope, name, in, y, c.saved, func(g *tensor.Tensor) (grads []*tensor.Tensor) {
		engine.Given(name, "backward", backward)
		c.Scope.With(func() { grads = backward(c, g) }, engine.Autocast(lower))
		return grads
	})
}

// CustomIn is Custom for an operation that is to run in type dt under autocast: floating operands, float64 apart, are
// cast to dt, and autocast is off in both functions. Elsewhere it is Custom.
func CustomIn(dt tensor.DType, name string, forward func(c *Ctx, xs ...*tensor.Tensor) *tensor.Tensor,
	backward func(c *Ctx, g *tensor.Tensor) []*tensor.Tensor, xs ...*tensor.Tensor) (y *tensor.Tensor) {
	s := stepOf(xs)
	if s == nil || engine.Autocasting(s) == tensor.Float32 {
		return Custom(name, forward, backward, xs...)
	}
	in := make([]*tensor.Tensor, len(xs))
	for i, x := range xs {
		if in[i] = s.In(x); x.DType().IsFloat() && x.DType() != tensor.Float64 {
			in[i] = in[i].To(dt)
		}
	}
	s.With(func() { y = Custom(name, forward, backward, in...) }, engine.Autocast(tensor.Float32))
	return y
}

// stepOf is the step that operands belong to; nil if none does.
func stepOf(xs []*tensor.Tensor) (s *tensor.Scope) {
	for _, x := range xs {
		if x != nil && x.Scope() != nil {
			s = x.Scope()
		}
	}
	return s
}
