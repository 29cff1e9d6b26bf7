package expr

import (
	"math"
	"sync"
)

// A rule is the derivative of a function of the library where the chain rule over its body overflows, divides 0 by 0 or
// cancels: for each operand an expression of the operands and grad, the gradient of the result. It holds for every
// expression that contains the function's body, however it was written.
type rule struct {
	name  string
	grads []string
	body  *Node // the function of variables
}

// rules are made once, since they need the library.
var rules = sync.OnceValue(func() []rule {
	made := []rule{
		// As PyTorch has it: finite where the probability is 0 or 1.
		{name: "bce", grads: []string{"grad*(p - y)/max(p*(1 - p), 1e-12)",
			"grad*(max(log1p(-p), -100) - max(log(p), -100))"}},
		{name: "logit", grads: []string{"where(x < 0 || 1 < x, nan, grad/(x*(1 - x)))"}},
		{name: "xlogy", grads: []string{"where(x == 0 && y <= 0, 0, grad*log(y))",
			"grad*(x/where(x == 0 && y == 0, 1, y))"}},
		// Softmax of a and b; half of the gradient for each of two equal infinities.
		{name: "logaddexp", grads: []string{
			"grad*sigmoid(where(a == b && abs(a) == inf, 0, a - b))",
			"grad*sigmoid(where(a == b && abs(a) == inf, 0, b - a))"}},
		// With t = n/(n+2) and n = e(e+2), t' = 4e(e+1)/(n+2)^2.
		{name: "mish", grads: []string{`
			e = exp(where(20 < x, 20, x))
			n = e*(e + 2)
			d = where(20 < x, 0, 4*e*(e + 1)/((n + 2)*(n + 2)))
			grad*(n/(n + 2)) + where(d == 0, 0, grad*x)*d`}},
		{name: "erfinv", grads: []string{"r = erfinv(y); grad*(sqrt(pi)/2*exp(r*r))"}},
		{name: "lgamma", grads: []string{"grad*digamma(x)"}},
		// pi*(cos u - sin(u)/u)/u, near 0 by its series.
		{name: "sinc", grads: []string{`
			near = abs(x) < 0.25
			u = pi*where(near, 1, x)
			v = pi*where(near, x, 0)
			i = v*v
			q = 1/45360 - i*(1/3991680 - i*(1/518918400 - i*(1/93405312000 - i/22230464256000)))
			grad*(pi*where(near, -v*(1/3 - i*(1/30 - i*(1/840 - i*q))), (cos(u) - sin(u)/u)/u))`}},
	}
	for i := range made {
		r := &made[i]
		xs := make([]*Node, len(r.grads))
		for k := range xs {
			xs[k] = variable(k)
		}
		r.body = expand(r.name, xs)
	}
	return made
})

// variable is a node that stands for any other; no function has arguments of negative number.
func variable(k int) *Node { return argument(-1 - k) }

// ruleOf is the rule of n and the operands of its function; nil if there is none.
func ruleOf(n *Node) (*rule, []*Node) {
	all := rules()
	for i := range all {
		xs := make([]*Node, len(all[i].grads))
		if matches(all[i].body, n, xs) {
			return &all[i], xs
		}
	}
	return nil, nil
}

// matches tells whether n is the pattern with variable k replaced by one node, which becomes xs[k].
func matches(pattern, n *Node, xs []*Node) bool {
	if pattern.Op == Arg {
		k := -1 - pattern.K
		if xs[k] == nil {
			xs[k] = n
		}
		return xs[k] == n
	}
	if pattern.Op != n.Op || math.Float64bits(pattern.C) != math.Float64bits(n.C) {
		return false
	}
	for i, x := range pattern.Operands() {
		if !matches(x, n.X[i], xs) {
			return false
		}
	}
	return true
}

// adjoint is the gradient of operand j of xs for the gradient g of the result.
func (r *rule) adjoint(j int, xs []*Node, g *Node) *Node {
	p := newParser(r.grads[j])
	for i, name := range macro(r.name).Params {
		p.bind(0, name, xs[i])
	}
	p.bind(0, "grad", g)
	return p.program()[0]
}
