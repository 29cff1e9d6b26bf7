package autograd

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Option changes how a backward pass runs. The zero Option changes nothing.
type Option struct{ set func(*pass) }

type pass = seam.Pass[*tensor.Tensor]

// Retain keeps saved values, so that another backward pass may go through the same operations.
func Retain() Option { return Option{func(p *pass) { p.Retain = true }} }

// CreateGraph records the backward pass itself, so that its results can be differentiated. It implies Retain.
func CreateGraph() Option { return Option{func(p *pass) { p.Create = true }} }

// Finite makes Backward fail with [tensor.ErrValue] if the result, such as a loss, has a NaN or an infinity, so that
// the step changes nothing. It waits for the device.
func Finite() Option { return Option{func(p *pass) { p.Finite = true }} }

// AllowUnused makes Grad return nil for tensors that the result does not depend on, instead of failing.
func AllowUnused() Option { return Option{func(p *pass) { p.Unused = true }} }

// GradOutput gives the gradient of the result itself, of its shape. It is 1 by default, which only a result with one
// element allows.
func GradOutput(g *tensor.Tensor) Option { return Option{func(p *pass) { p.Seed = g }} }

// Only restricts Backward to the given parameters.
func Only(params ...*tensor.Tensor) Option {
	return Option{func(p *pass) {
		p.Only = map[*tensor.Tensor]bool{}
		for _, t := range params {
			p.Only[t] = true
		}
	}}
}

// Backward adds the gradient of loss with respect to every parameter it depends on to that parameter.
// The parameters see it when the step succeeds, or an optimizer takes it inside the step. It fails if loss
// has more than one element and no GradOutput, was not recorded, or depends on nothing that needs a gradient.
func Backward(loss *tensor.Tensor, opts ...Option) { engine.Backward(loss, with(opts)) }

// Grad returns the gradient of y with respect to each of xs, which were watched with [Watch], are
// parameters, or were computed from such. Each has the shape and element type of its x. No parameter's gradient
// changes. It fails with [tensor.ErrGrad] if y has more than one element and there is no [GradOutput], if an x needs no
// gradient, or if y does not depend on an x, whose gradient is nil with [AllowUnused].
func Grad(y *tensor.Tensor, xs []*tensor.Tensor, opts ...Option) []*tensor.Tensor {
	return engine.Grad(y, xs, with(opts))
}

func with(opts []Option) (p pass) {
	for _, o := range opts {
		if o.set != nil {
			o.set(&p)
		}
	}
	return p
}

// Watch makes t a leaf of the tape, so that [Grad] can be asked for its gradient. No gradient flows through it to what
// t was made from, except that a whole parameter stays itself. It takes host data into the step, as [tensor.Scope.In]
// does.
func Watch(s *tensor.Scope, t *tensor.Tensor) *tensor.Tensor { return engine.Watch(s, t) }

// Unused lists the names of parameters that have no gradient in this step: Backward did not reach them.
func Unused(s *tensor.Scope, params []*tensor.Tensor) []string {
	var names []string
	for _, w := range params {
		if !engine.HasGrad(s, w) {
			names = append(names, w.Name())
		}
	}
	return names
}

// Hook calls f with the gradient of t when a backward pass has it in full, before it goes on. If f returns a tensor,
// that takes the gradient's place. Hooks run in the order they were added; stop removes this one. The gradient of a
// cast to half precision, or of a view of it, that is used more than once is the sum in float32.
func Hook(t *tensor.Tensor, f func(g *tensor.Tensor) *tensor.Tensor) (stop func()) {
	return engine.Hook(t, f)
}
