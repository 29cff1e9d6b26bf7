package optim

import "github.com/weft-ml/weft/tensor"

// Rule is the mathematics of an optimizer: for one element an expression of package expr, Update, or for one whole
// parameter a function, Whole. [SGD], [AdamW], [LAMB] and others make rules; more are literals.
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

	// Whole takes the place of Update where an update needs norms or products of whole tensors. It returns the new
	// parameter and the new state, and may use all operations of tensors.
	Whole func(w Whole) (p *tensor.Tensor, state []*tensor.Tensor)
	// Shape is that of a state of a parameter of the given shape; nil: the parameter has no such state. Without Shape
	// all states have the shape of their parameter. It is for rules with Whole alone.
	Shape func(state string, of []int) []int

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
