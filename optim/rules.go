package optim

import (
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// Rule is the mathematics of an optimizer for one element: an expression of package expr. [SGD], [AdamW] and [Lion]
// make rules; others are literals.
//
// The operands of Update are p (parameter), g (gradient, scaled and clipped), the names in State, and those of
// Counters; its scalars are lr and the names of Numbers. Its results are the new p and then the new State.
type Rule struct {
	Name     string // in errors and checkpoints, such as "adamw"
	LR       float64
	Numbers  []Number  // hyperparameters; one called "decay" is the weight decay
	State    []string  // per element, zero at first
	Counters []Counter // per optimizer
	Update   string

	limits []limit
}

// Number is a named hyperparameter.
type Number struct {
	Name  string
	Value float64
}

// Counter is a scalar that follows its own expression from its first value on, once per step, in float64: counters
// replace powers of the step count. Next is of the counters' old values and the rule's scalars, by name.
type Counter struct {
	Name  string
	First float64
	Next  string
}

// RuleOption sets a hyperparameter of a rule. What is not set has PyTorch's default.
type RuleOption struct {
	name string
	set  func(*settings)
}

type settings struct {
	beta1, beta2, eps, decay, momentum float64
	nesterov                           bool
}

// WeightDecay is the factor λ of weight decay, for all rules.
func WeightDecay(λ float64) RuleOption {
	return RuleOption{"WeightDecay", func(s *settings) { s.decay = λ }}
}

// Betas are the shares of the two moments that each step keeps, in [0, 1), for [AdamW] and [Lion].
func Betas(β1, β2 float64) RuleOption {
	return RuleOption{"Betas", func(s *settings) { s.beta1, s.beta2 = β1, β2 }}
}

// Eps is what [AdamW] adds to the root of the second moment.
func Eps(ε float64) RuleOption { return RuleOption{"Eps", func(s *settings) { s.eps = ε }} }

// Momentum is the share of the momentum buffer that each step of [SGD] keeps, in [0, 1).
func Momentum(μ float64) RuleOption {
	return RuleOption{"Momentum", func(s *settings) { s.momentum = μ }}
}

// Nesterov makes [SGD] look ahead along its momentum.
func Nesterov() RuleOption { return RuleOption{"Nesterov", func(s *settings) { s.nesterov = true }} }

// apply sets what options a rule takes.
func (s *settings) apply(rule string, options []RuleOption, takes ...string) {
	for _, o := range options {
		if !slices.Contains(takes, o.name) {
			engine.Fail(tensor.ErrValue, rule, "has no option %q; its options are %s", o.name,
				strings.Join(takes, ", "))
		}
		o.set(s)
	}
}

// SGD is stochastic gradient descent with momentum (Sutskever et al. 2013):
//
//	g = g + λ p,  b = μ b + g,  p = p - lr b        (or g + μ b in the place of b with Nesterov)
//
// Options are [Momentum], 0 by default, [Nesterov] and [WeightDecay], 0 by default. It panics with a [tensor.Error] for
// what is out of range.
func SGD(lr float64, options ...RuleOption) Rule {
	var s settings
	s.apply("sgd", options, "Momentum", "Nesterov", "WeightDecay")
	if s.nesterov && s.momentum == 0 {
		engine.Fail(tensor.ErrValue, "sgd", "Nesterov is set and Momentum is 0; it needs a momentum")
	}
	r := Rule{
		Name: "sgd", LR: lr, Numbers: []Number{{"momentum", s.momentum}, {"decay", s.decay}},
		Update: "p - lr*(g + decay*p)",
		limits: []limit{atLeast0("LR", lr), share("Momentum", s.momentum), atLeast0("WeightDecay", s.decay)},
	}
	if s.momentum != 0 {
		r.State = []string{"b"}
		r.Update = "b1 = momentum*b + (g + decay*p); p - lr*b1; b1"
	}
	if s.nesterov {
		r.Update = "d = g + decay*p; b1 = momentum*b + d; p - lr*(d + momentum*b1); b1"
	}
	return r.checked()
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019):
//
//	m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²
//	p = p (1 - lr λ) - lr/(1-β1^t) m / (sqrt(v)/sqrt(1-β2^t) + ε)
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-8, and [WeightDecay], 0.01. It panics with a [tensor.Error]
// for what is out of range.
func AdamW(lr float64, options ...RuleOption) Rule {
	s := settings{beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01}
	s.apply("adamw", options, "Betas", "Eps", "WeightDecay")
	return Rule{
		Name: "adamw", LR: lr, Numbers: append(s.betas(), Number{"eps", s.eps}, Number{"decay", s.decay}),
		State:    []string{"m", "v"},
		Counters: []Counter{{"c1", 0, "c1*beta1 + rest1"}, {"c2", 0, "c2*beta2 + rest2"}}, // 1-β^t
		Update: `
			m1 = beta1*m + rest1*g
			v1 = beta2*v + rest2*(g*g)
			p*(1-lr*decay) - lr/c1*(m1/(sqrt(v1)/sqrt(c2) + eps)); m1; v1`,
		limits: []limit{atLeast0("LR", lr), share("beta1", s.beta1), share("beta2", s.beta2), atLeast0("Eps", s.eps),
			atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// Lion keeps the sign of an interpolated momentum (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"):
//
//	c = β1 m + (1-β1) g,  p = p (1 - lr λ) - lr sign(c),  m = β2 m + (1-β2) g
//
// Options are [Betas], by default those of the paper, 0.9 and 0.99, and [WeightDecay], 0. It panics with a
// [tensor.Error] for what is out of range.
func Lion(lr float64, options ...RuleOption) Rule {
	s := settings{beta1: 0.9, beta2: 0.99}
	s.apply("lion", options, "Betas", "WeightDecay")
	return Rule{
		Name: "lion", LR: lr, Numbers: append(s.betas(), Number{"decay", s.decay}),
		State:  []string{"m"},
		Update: "p*(1-lr*decay) - lr*sign(beta1*m + rest1*g); beta2*m + rest2*g",
		limits: []limit{atLeast0("LR", lr), share("beta1", s.beta1), share("beta2", s.beta2),
			atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// betas are the decay rates of two moments, and what is left of 1.
func (s *settings) betas() []Number {
	return []Number{{"beta1", s.beta1}, {"rest1", 1 - s.beta1}, {"beta2", s.beta2}, {"rest2", 1 - s.beta2}}
}

func init() {
	fuse("adamw", AdamW(0))
	fuse("sgd", SGD(0))
	fuse("sgd_momentum", SGD(0, Momentum(0.9)))
	fuse("lion", Lion(0))
}

// fuse asks for a CPU kernel of the update of a rule, which else is several passes over each chunk of an arena. What
// follows the state among its operands is one element for all.
func fuse(name string, rule Rule) {
	f := Operation(rule).Expr
	f.Fuse(name, f.Args[2+len(rule.State):]...)
}
