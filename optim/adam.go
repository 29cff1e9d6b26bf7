package optim

import (
	"github.com/weft-ml/weft/kernels/expr/double"
)

// Adam scales each element's step by its moments (Kingma and Ba 2015), with the weight decay added to the gradient:
//
//	g = g + λ p,  m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²
//	p = p - lr/(1-β1^t) m / (sqrt(v)/sqrt(1-β2^t) + ε)
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, [WeightDecay], 0, and [AMSGrad]. It panics with a
// [tensor.Error] for what is out of range.
func Adam(lr float64, options ...RuleOption) Rule {
	return adam("adam", "d = g + decay*p", "p", lr, settings{}, options)
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019):
//
//	m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²
//	p = p (1 - lr λ) - lr/(1-β1^t) m / (sqrt(v)/sqrt(1-β2^t) + ε)
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, [WeightDecay], 0.01, and [AMSGrad]. It panics with a
// [tensor.Error] for what is out of range.
func AdamW(lr float64, options ...RuleOption) Rule {
	return adam("adamw", "d = g", "p*(1-lr*decay)", lr, settings{decay: 0.01}, options)
}

// adam is [Adam] or [AdamW]: d is the gradient that the moments follow, kept what stays of the parameter.
func adam(name, d, kept string, lr float64, s settings, options []RuleOption) Rule {
	r := s.moments(name, lr, options, "AMSGrad")
	square, largest, result := "v1", "", ""
	if s.amsgrad {
		r.State = append(r.State, "vmax")
		square, largest, result = "vmax1", "vmax1 = max(vmax, v1)", "; vmax1"
	}
	r.Update = d + `
		m1 = beta1*m + rest1*d
		v1 = beta2*v + rest2*(d*d)
		` + largest + `
		` + kept + ` - lr/c1*(m1/(sqrt(` + square + `)/sqrt(c2) + eps)); m1; v1` + result
	return r.checked()
}

// NAdam is Adam with Nesterov's momentum, which grows to β1 (Dozat 2016):
//
//	g = g + λ p,  m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²,  μ_t = β1 (1 - 0.96^(tψ)/2)
//	p = p - lr ((1-μ_t)/(1-μ_1…μ_t) g + μ_t+1/(1-μ_1…μ_t+1) m) / (sqrt(v/(1-β2^t)) + ε)
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, [WeightDecay], 0, and [MomentumDecay] ψ, 0.004. It panics
// with a [tensor.Error] for what is out of range.
func NAdam(lr float64, options ...RuleOption) Rule {
	s := settings{momentumDecay: 4e-3}
	r := s.moments("nadam", lr, options, "MomentumDecay")
	r.Numbers = append(r.Numbers, Number{"shrink", double.Pow(0.96, s.momentumDecay)})
	r.limits = append(r.limits, atLeast0("MomentumDecay", s.momentumDecay))
	r.Counters = []Counter{r.Counters[1],
		{"k", 1, "k*shrink"}, // 0.96^(tψ)
		{"product", 1, "product*(beta1*(1 - 0.5*(k*shrink)))"}} // μ_1…μ_t
	r.Update = `
		d = g + decay*p
		m1 = beta1*m + rest1*d
		v1 = beta2*v + rest2*(d*d)
		mu = beta1*(1 - 0.5*k)
		next = beta1*(1 - 0.5*(k*shrink))
		root = sqrt(v1/c2) + eps
		p - lr*((1-mu)/(1-product)*(d/root) + next/(1-product*next)*(m1/root)); m1; v1`
	return r.checked()
}

// RAdam rectifies the variance of Adam's first steps (Liu et al. 2020):
//
//	g = g + λ p,  m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²
//	ρ = 2/(1-β2) - 1,  ρ_t = ρ - 2 t β2^t/(1-β2^t)
//	r = sqrt((ρ_t-4)(ρ_t-2)ρ / ((ρ-4)(ρ-2)ρ_t)) sqrt(1-β2^t)/(sqrt(v) + ε) for ρ_t > 5, else 1
//	p = p - lr m/(1-β1^t) r
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, and [WeightDecay], 0. It panics with a [tensor.Error] for
// what is out of range.
func RAdam(lr float64, options ...RuleOption) Rule {
	var s settings
	r := s.moments("radam", lr, options)
	// The difference in ρ_t cancels, so the factor is computed once in float64; 0 stands for ρ_t <= 5.
	r.Counters = append(r.Counters, Counter{"t", 0, "t + 1"}, Counter{"rectify", 0, `
		left = 1 - (c2*beta2 + rest2)
		most = 2/rest2 - 1
		now = most - 2*(t + 1)*left/(1 - left)
		where(5 < now, sqrt((now-4)*(now-2)*most/((most-4)*(most-2)*now)), 0)`})
	r.Update = `
		d = g + decay*p
		m1 = beta1*m + rest1*d
		v1 = beta2*v + rest2*(d*d)
		p - lr/c1*where(0 < rectify, m1*(rectify*sqrt(c2)/(sqrt(v1) + eps)), m1); m1; v1`
	return r.checked()
}

// Adamax is Adam with the largest gradient, fading, in the place of the root of the second moment (Kingma and Ba 2015):
//
//	g = g + λ p,  m = β1 m + (1-β1) g,  u = max(β2 u, |g| + ε),  p = p - lr/(1-β1^t) m/u
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, and [WeightDecay], 0. It panics with a [tensor.Error] for
// what is out of range.
func Adamax(lr float64, options ...RuleOption) Rule {
	var s settings
	r := s.moments("adamax", lr, options)
	r.State = []string{"m", "u"}
	r.Counters = r.Counters[:1]
	r.Update = `
		d = g + decay*p
		m1 = beta1*m + rest1*d
		u1 = max(beta2*u, abs(d) + eps)
		p - lr/c1*(m1/u1); m1; u1`
	return r.checked()
}

// moments is what the family of Adam shares: options, hyperparameters and their ranges, state, and 1-β^t as counters.
func (s *settings) moments(name string, lr float64, options []RuleOption, more ...string) Rule {
	s.beta1, s.beta2, s.eps = 0.9, 0.999, 1e-8
	s.apply(name, options, append([]string{"Betas", "Eps", "WeightDecay"}, more...)...)
	return Rule{
		Name: name, LR: lr, Numbers: append(s.betas(), Number{"eps", s.eps}, Number{"decay", s.decay}),
		State:    []string{"m", "v"},
		Counters: []Counter{{"c1", 0, "c1*beta1 + rest1"}, {"c2", 0, "c2*beta2 + rest2"}}, // 1-β^t
		limits: []limit{atLeast0("LR", lr), share("beta1", s.beta1), share("beta2", s.beta2), atLeast0("Eps", s.eps),
			atLeast0("WeightDecay", s.decay)},
	}
}
