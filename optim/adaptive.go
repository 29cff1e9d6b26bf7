package optim

import "github.com/weft-ml/weft/tensor"

// RMSprop divides by the root of the mean of squares (Hinton 2012):
//
//	g = g + λ p,  v = α v + (1-α) g²,  u = g/(sqrt(v) + ε),  p = p - lr u
//
// With [Centered] sqrt(v - a²) takes the place of sqrt(v), where a = α a + (1-α) g. With [Momentum] μ, b = μ b + u and
// p = p - lr b. Options are these, [Alpha], 0.99 by default, [Eps], 1e-8, and [WeightDecay], 0. It panics with a
// [tensor.Error] for what is out of range.
func RMSprop(lr float64, options ...RuleOption) Rule {
	s := settings{alpha: 0.99, eps: 1e-8}
	s.apply("rmsprop", options, "Alpha", "Eps", "WeightDecay", "Momentum", "Centered")
	r := Rule{
		Name: "rmsprop", LR: lr, State: []string{"v"},
		Numbers: []Number{{"alpha", s.alpha}, {"rest", 1 - s.alpha}, {"eps", s.eps}, {"decay", s.decay},
			{"momentum", s.momentum}},
		limits: []limit{atLeast0("LR", lr), share("Alpha", s.alpha), atLeast0("Eps", s.eps),
			atLeast0("WeightDecay", s.decay), share("Momentum", s.momentum)},
	}
	mean, square, update, result := "", "v1", "p - lr*u; v1", ""
	if s.centered { // rounding may put the square of the mean above the mean of squares
		r.State = append(r.State, "a")
		mean, square, result = "a1 = alpha*a + rest*d", "max(v1 - a1*a1, 0)", "; a1"
	}
	if s.momentum != 0 {
		r.State = append(r.State, "b")
		update, result = "b1 = momentum*b + u\np - lr*b1; v1", result+"; b1"
	}
	r.Update = `
		d = g + decay*p
		v1 = alpha*v + rest*(d*d)
		` + mean + `
		u = d/(sqrt(` + square + `) + eps)
		` + update + result
	return r.checked()
}

// Adagrad divides by the root of the sum of squares (Duchi, Hazan and Singer 2011):
//
//	g = g + λ p,  v = v + g²,  p = p - lr/(1 + d (t-1)) g/(sqrt(v) + ε)
//
// Options are [LRDecay] d, 0 by default, [InitialAccumulator], the first v, 0, [Eps], 1e-10, and [WeightDecay], 0. The
// state is v less its first value. It panics with a [tensor.Error] for what is out of range.
func Adagrad(lr float64, options ...RuleOption) Rule {
	s := settings{eps: 1e-10}
	s.apply("adagrad", options, "LRDecay", "InitialAccumulator", "Eps", "WeightDecay")
	return Rule{
		Name: "adagrad", LR: lr, State: []string{"v"}, Counters: []Counter{{"t", 0, "t + 1"}},
		Numbers: []Number{{"eps", s.eps}, {"decay", s.decay}, {"lr_decay", s.rateDecay}, {"initial", s.initial}},
		Update: `
			d = g + decay*p
			v1 = v + d*d
			p - lr/(1 + (t-1)*lr_decay)*(d/(sqrt(initial + v1) + eps)); v1`,
		limits: []limit{atLeast0("LR", lr), atLeast0("LRDecay", s.rateDecay), atLeast0("Eps", s.eps),
			atLeast0("InitialAccumulator", s.initial), atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// Adadelta makes steps of the size of those before (Zeiler 2012):
//
//	g = g + λ p,  v = ρ v + (1-ρ) g²,  u = sqrt(a + ε)/sqrt(v + ε) g,  a = ρ a + (1-ρ) u²,  p = p - lr u
//
// The usual rate is 1. Options are [Rho], 0.9 by default, [Eps], 1e-6, and [WeightDecay], 0. It panics with a
// [tensor.Error] for what is out of range.
func Adadelta(lr float64, options ...RuleOption) Rule {
	s := settings{rho: 0.9, eps: 1e-6}
	s.apply("adadelta", options, "Rho", "Eps", "WeightDecay")
	return Rule{
		Name: "adadelta", LR: lr, State: []string{"v", "a"},
		Numbers: []Number{{"rho", s.rho}, {"rest", 1 - s.rho}, {"eps", s.eps}, {"decay", s.decay}},
		Update: `
			d = g + decay*p
			v1 = rho*v + rest*(d*d)
			u = sqrt(a + eps)/sqrt(v1 + eps)*d
			p - lr*u; v1; rho*a + rest*(u*u)`,
		limits: []limit{atLeast0("LR", lr), share("Rho", s.rho), atLeast0("Eps", s.eps),
			atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// Rprop uses the signs of gradients alone, of whole data sets (Riedmiller and Braun 1993): the step of an element grows
// where its gradient has the sign of the step before, and shrinks where it has changed; then the element stays where it
// is. The first steps have the size lr. Options are [Etas], 0.5 and 1.2 by default, and [StepSizes], 1e-6 and 50. It
// panics with a [tensor.Error] for what is out of range.
func Rprop(lr float64, options ...RuleOption) Rule {
	s := settings{shrink: 0.5, grow: 1.2, least: 1e-6, most: 50}
	s.apply("rprop", options, "Etas", "StepSizes")
	switch {
	case !(0 < s.shrink && s.shrink < 1 && 1 < s.grow):
		engine.Fail(tensor.ErrValue, "rprop", "Etas are %v and %v, want 0 < shrink < 1 < grow", s.shrink, s.grow)
	case !(0 < s.least && s.least <= s.most):
		engine.Fail(tensor.ErrValue, "rprop", "StepSizes are %v and %v, want 0 < least <= most", s.least, s.most)
	}
	return Rule{ // a step of 0 is one that was never taken
		Name: "rprop", LR: lr, State: []string{"before", "size"},
		Numbers: []Number{{"shrink", s.shrink}, {"grow", s.grow}, {"least", s.least}, {"most", s.most}},
		Update: `
			same = g*before
			factor = where(0 < same, grow, where(same < 0, shrink, 1))
			size1 = clamp(where(size == 0, lr, size)*factor, least, most)
			g1 = where(same < 0, 0, g)
			p - sign(g1)*size1; g1; size1`,
		limits: []limit{atLeast0("LR", lr), atLeast0("Etas", s.grow), atLeast0("StepSizes", s.most)},
	}.checked()
}
