package autograd

import (
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// VJP is y = f(xs) and, for each of xs, the product vᵀ J of a vector with the Jacobian J of y by it: the gradient of
// y if that of y is v, a tensor of y's shape; zero where y does not depend on it, nil for integers. xs are operands
// of the step s, which records, or host data; they become leaves, so that no gradient flows beyond them. With
// [CreateGraph] results can be differentiated again.
func VJP(s *tensor.Scope, f func(xs []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor, v *tensor.Tensor,
	opts ...Option) (y *tensor.Tensor, products []*tensor.Tensor) {
	leaves, y := call("vjp", s, f, xs)
	return y, gradientsOf(y, leaves, append(slices.Clone(opts), GradOutput(v))...)
}

// JVP is y = f(xs) and the product J v of its Jacobian with vs, one tensor for each of xs and of its shape: how y
// changes as xs move along vs. It is the derivative of the vector-Jacobian product uᵀ J v by u, so it costs two
// backward passes. xs are as in [VJP].
func JVP(s *tensor.Scope, f func(xs []*tensor.Tensor) *tensor.Tensor, xs, vs []*tensor.Tensor,
	opts ...Option) (y, product *tensor.Tensor) {
	const op = "jvp"
	leaves, y := call(op, s, f, xs)
	if len(vs) != len(xs) {
		engine.Fail(tensor.ErrValue, op, "%d vectors for %d operands", len(vs), len(xs))
	}
	u := Watch(s, zeros(y))
	var sum *tensor.Tensor
	for i, g := range gradientsOf(y, leaves, GradOutput(u), CreateGraph()) {
		if g == nil {
			continue
		}
		engine.Given(op, "the vectors", vs[i])
		if !slices.Equal(vs[i].Shape(), g.Shape()) {
			engine.Fail(tensor.ErrShape, op, "vector %d is %v, operand %d %v", i, vs[i], i, xs[i])
		}
		if term := g.Mul(vs[i]).Sum(); sum == nil {
			sum = term
		} else {
			sum = sum.Add(term)
		}
	}
	if sum == nil || !sum.NeedsGrad() {
		return y, zeros(y)
	}
	return y, gradientsOf(sum, []*tensor.Tensor{u}, opts...)[0]
}

// Jacobian is, for each of xs, the derivatives of all elements of f(xs) by all of its elements: [shape of f(xs)...,
// shape of x...], zero where f does not depend on it, nil for integers. It takes a backward pass for each element of
// f(xs). xs are as in [VJP].
func Jacobian(s *tensor.Scope, f func(xs []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor,
	opts ...Option) []*tensor.Tensor {
	leaves, y := call("jacobian", s, f, xs)
	return jacobian(s, y, leaves, opts)
}

// Hessian is the second derivatives of f(x), which has one element: [shape of x..., shape of x...]. It takes a
// backward pass for each element of x. x is as in [VJP].
func Hessian(s *tensor.Scope, f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor,
	opts ...Option) *tensor.Tensor {
	const op = "hessian"
	engine.Given(op, "the function", f)
	leaves, y := call(op, s, func(xs []*tensor.Tensor) *tensor.Tensor { return f(xs[0]) }, []*tensor.Tensor{x})
	if y.Len() != 1 {
		engine.Fail(tensor.ErrShape, op, "f(x) is %v; it must have one element", y)
	}
	if !leaves[0].DType().IsFloat() {
		engine.Fail(tensor.ErrDType, op, "%v must hold floating numbers; x.To(tensor.Float32) converts", x)
	}
	g := gradientsOf(y, leaves, CreateGraph())[0]
	return jacobian(s, g, leaves, opts)[0]
}

// Vmap is the function that applies f to each entry of its operands along their leading axis, whose size they share,
// and stacks the results: f is written for one example and serves a batch. It runs f once for each entry, so
// operations that take a batch themselves are faster.
func Vmap(f func(xs []*tensor.Tensor) *tensor.Tensor) func(xs ...*tensor.Tensor) *tensor.Tensor {
	const op = "vmap"
	engine.Given(op, "the function", f)
	return func(xs ...*tensor.Tensor) *tensor.Tensor {
		if len(xs) == 0 {
			engine.Fail(tensor.ErrValue, op, "there are no operands")
		}
		for _, x := range xs {
			engine.Given(op, "the operands", x)
			if x.Rank() == 0 || x.Dim(0) != xs[0].Dim(0) || x.Dim(0) == 0 {
				engine.Fail(tensor.ErrShape, op, "operand %v must have a leading axis with as many entries as %v, "+
					"at least one", x, xs[0])
			}
		}
		ys := make([]*tensor.Tensor, xs[0].Dim(0))
		for i := range ys {
			entries := make([]*tensor.Tensor, len(xs))
			for k, x := range xs {
				entries[k] = x.Select(0, i)
			}
			ys[i] = f(entries)
		}
		return tensor.Stack(0, ys...)
	}
}

// call is f of xs, of which those of floating types are leaves.
func call(op string, s *tensor.Scope, f func(xs []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor) (
	leaves []*tensor.Tensor, y *tensor.Tensor) {
	engine.Given(op, "the function", f)
	if !engine.Recording(s) {
		engine.Fail(tensor.ErrGrad, op, "nothing is recorded in Eval and under NoGrad")
	}
	for _, x := range xs {
		engine.Given(op, "the operands", x)
		if x.DType().IsFloat() {
			x = Watch(s, x)
		} else {
			x = s.In(x)
		}
		leaves = append(leaves, x)
	}
	y = f(slices.Clone(leaves))
	engine.Given(op, "the result of the function", y)
	return leaves, y
}

// gradientsOf are the gradients of y by leaves: zero where y does not depend on one, nil for integers.
func gradientsOf(y *tensor.Tensor, leaves []*tensor.Tensor, opts ...Option) []*tensor.Tensor {
	grads := make([]*tensor.Tensor, len(leaves))
	var floating []*tensor.Tensor
	for _, x := range leaves {
		if x.DType().IsFloat() {
			floating = append(floating, x)
		}
	}
	var found []*tensor.Tensor
	if y.NeedsGrad() && len(floating) > 0 {
		found = Grad(y, floating, append(opts, AllowUnused())...)
	}
	k := 0
	for i, x := range leaves {
		if !x.DType().IsFloat() {
			continue
		}
		if found != nil {
			grads[i] = found[k]
		}
		if k++; grads[i] == nil {
			grads[i] = zeros(x)
		}
	}
	return grads
}

// zeros are of x's type, step and device, and of its shape if none is given.
func zeros(x *tensor.Tensor, shape ...int) *tensor.Tensor {
	if shape == nil {
		shape = x.Shape()
	}
	return engine.NewFull(x, 0, x.DType(), shape...)
}

// jacobian stacks the gradients of the elements of y.
func jacobian(s *tensor.Scope, y *tensor.Tensor, leaves []*tensor.Tensor, opts []Option) []*tensor.Tensor {
	rows := make([][]*tensor.Tensor, len(leaves))
	unit := engine.Beside(y, func() *tensor.Tensor { return s.In(tensor.Eye(y.DType(), y.Len())) })
	for i := range y.Len() {
		at := unit.Select(0, i).Reshape(y.Shape()...)
		for k, g := range gradientsOf(y, leaves, append(slices.Clone(opts), GradOutput(at), Retain())...) {
			rows[k] = append(rows[k], g)
		}
	}
	all := make([]*tensor.Tensor, len(leaves))
	for k, x := range leaves {
		shape := append(y.Shape(), x.Shape()...)
		switch {
		case !x.DType().IsFloat():
		case y.Len() == 0:
			all[k] = zeros(x, shape...)
		default:
			all[k] = tensor.Stack(0, rows[k]...).Reshape(shape...)
		}
	}
	return all
}
