package optim

import "github.com/weft-ml/weft/tensor"

// Rule is the mathematics of an optimizer for one element: an expression of package expr.
//
// The operands of Update are p (parameter), g (gradient, scaled and clipped), the names in State, and those
// of Counters; its scalars are lr and the names of Numbers. Its results are the new p and then the new
// State. Counters are scalars that follow their own expression from their first values on, once per
// step, in float64: they replace powers of the step count.
type Rule interface {
	Name() string
	LearningRate() float64
	Numbers() []Number   // hyperparameters; one called "decay" is the weight decay
	State() []string     // per element, zero at first
	Counters() []Counter // per optimizer
	Update() string
}

// Number is a named hyperparameter.
type Number struct {
	Name  string
	Value float64
}

// Counter is a scalar that changes from step to step: Next is an expression of its old value, by name.
type Counter struct {
	Name  string
	First float64
	Next  string // of the counters' old values and the rule's scalars
}

func init() {
	fuse("adamw", AdamW{})
	fuse("sgd", SGD{})
	fuse("sgd_momentum", SGD{Momentum: 0.9})
	fuse("lion", Lion{})
}

// fuse asks for a CPU kernel of the update of a rule, which else is several passes over each chunk of an arena. What
// follows the state among its operands is one element for all.
func fuse(name string, rule Rule) {
	f := Operation(rule).Expr
	f.Fuse(name, f.Args[2+len(rule.State()):]...)
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019):
//
//	m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²
//	p = p (1 - lr λ) - lr/(1-β1^t) m / (sqrt(v)/sqrt(1-β2^t) + ε)
//
// Fields that are zero take PyTorch's defaults: LR 1e-3, Beta1 0.9, Beta2 0.999, Eps 1e-8, WeightDecay 0.01.
// There -1 stands for zero, so WeightDecay: -1 switches decay off.
type AdamW struct{ LR, Beta1, Beta2, Eps, WeightDecay float64 }

// Name is "adamw".
func (AdamW) Name() string { return "adamw" }

func (a AdamW) limits() []limit {
	return []limit{rate(a.LR), beta("Beta1", a.Beta1, true), beta("Beta2", a.Beta2, true), amount("Eps", a.Eps, true),
		amount("WeightDecay", a.WeightDecay, true)}
}

// LearningRate is LR.
func (a AdamW) LearningRate() float64 { return or(a.LR, 1e-3) }

// Numbers are the hyperparameters.
func (a AdamW) Numbers() []Number {
	return append(betas(or(a.Beta1, 0.9), or(a.Beta2, 0.999)),
		Number{"eps", or(a.Eps, 1e-8)}, Number{"decay", or(a.WeightDecay, 0.01)})
}

// State are the moments.
func (AdamW) State() []string { return []string{"m", "v"} }

// Counters are the bias corrections 1-β^t.
func (AdamW) Counters() []Counter {
	return []Counter{{"c1", 0, "c1*beta1 + rest1"}, {"c2", 0, "c2*beta2 + rest2"}}
}

// Update is the rule.
func (AdamW) Update() string {
	return `
		m1 = beta1*m + rest1*g
		v1 = beta2*v + rest2*(g*g)
		p*(1-lr*decay) - lr/c1*(m1/(sqrt(v1)/sqrt(c2) + eps)); m1; v1`
}

// SGD is stochastic gradient descent with momentum (Sutskever et al. 2013):
//
//	g = g + λ p,  b = μ b + g,  p = p - lr b        (or g + μ b in the place of b with Nesterov)
//
// LR is 1e-3 if zero.
type SGD struct {
	LR, Momentum, WeightDecay float64
	Nesterov                  bool
}

// Name is "sgd".
func (SGD) Name() string { return "sgd" }

func (s SGD) limits() []limit {
	if s.Nesterov && s.Momentum == 0 {
		tensor.Fail(tensor.ErrValue, s.Name(), "Nesterov is set and Momentum is 0; it needs a momentum")
	}
	return []limit{rate(s.LR), beta("Momentum", s.Momentum, false), amount("WeightDecay", s.WeightDecay, false)}
}

// LearningRate is LR.
func (s SGD) LearningRate() float64 { return or(s.LR, 1e-3) }

// Numbers are the hyperparameters.
func (s SGD) Numbers() []Number {
	return []Number{{"momentum", max(0, s.Momentum)}, {"decay", max(0, s.WeightDecay)}}
}

// State is the momentum buffer.
func (s SGD) State() []string {
	if s.Momentum > 0 {
		return []string{"b"}
	}
	return nil
}

// Counters are none.
func (SGD) Counters() []Counter { return nil }

// Update is the rule.
func (s SGD) Update() string {
	switch {
	case s.Momentum <= 0:
		return "p - lr*(g + decay*p)"
	case s.Nesterov:
		return "d = g + decay*p; b1 = momentum*b + d; p - lr*(d + momentum*b1); b1"
	}
	return "b1 = momentum*b + (g + decay*p); p - lr*b1; b1"
}

// Lion keeps the sign of an interpolated momentum (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"):
//
//	c = β1 m + (1-β1) g,  p = p (1 - lr λ) - lr sign(c),  m = β2 m + (1-β2) g
//
// Fields that are zero take the paper's defaults: LR 1e-4, Beta1 0.9, Beta2 0.99; WeightDecay is 0. A beta of -1 stands
// for zero.
type Lion struct{ LR, Beta1, Beta2, WeightDecay float64 }

// Name is "lion".
func (Lion) Name() string { return "lion" }

func (l Lion) limits() []limit {
	return []limit{rate(l.LR), beta("Beta1", l.Beta1, true), beta("Beta2", l.Beta2, true),
		amount("WeightDecay", l.WeightDecay, false)}
}

// LearningRate is LR.
func (l Lion) LearningRate() float64 { return or(l.LR, 1e-4) }

// Numbers are the hyperparameters.
func (l Lion) Numbers() []Number {
	return append(betas(or(l.Beta1, 0.9), or(l.Beta2, 0.99)), Number{"decay", max(0, l.WeightDecay)})
}

// State is the momentum.
func (Lion) State() []string { return []string{"m"} }

// Counters are none.
func (Lion) Counters() []Counter { return nil }

// Update is the rule.
func (Lion) Update() string {
	return "p*(1-lr*decay) - lr*sign(beta1*m + rest1*g); beta2*m + rest2*g"
}

// betas are the decay rates of two moments, and what is left of 1.
func betas(b1, b2 float64) []Number {
	return []Number{{"beta1", b1}, {"rest1", 1 - b1}, {"beta2", b2}, {"rest2", 1 - b2}}
}

func or(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return max(0, v)
}
