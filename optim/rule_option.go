package optim

import (
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// RuleOption sets a hyperparameter of a rule. What is not set has PyTorch's default.
type RuleOption struct {
	name string
	set  func(*settings)
}

type settings struct {
	beta1, beta2, eps, decay, momentum, alpha, rho float64
	momentumDecay, rateDecay, initial              float64
	shrink, grow, least, most                      float64
	betaDecay, scaleEps, updateClip                float64
	nesterov, amsgrad, centered                    bool
}

// WeightDecay is the factor λ of weight decay, for all rules.
func WeightDecay(λ float64) RuleOption {
	return RuleOption{"WeightDecay", func(s *settings) { s.decay = λ }}
}

// Betas are the shares of the two moments that each step keeps, in [0, 1), for [Lion] and the family of [Adam].
func Betas(β1, β2 float64) RuleOption {
	return RuleOption{"Betas", func(s *settings) { s.beta1, s.beta2 = β1, β2 }}
}

// Eps is what rules with a second moment add to its root, so that they do not divide by zero.
func Eps(ε float64) RuleOption { return RuleOption{"Eps", func(s *settings) { s.eps = ε }} }

// Momentum is the share of the momentum buffer that each step of [SGD] and [RMSprop] keeps, in [0, 1).
func Momentum(μ float64) RuleOption {
	return RuleOption{"Momentum", func(s *settings) { s.momentum = μ }}
}

// Nesterov makes [SGD] look ahead along its momentum.
func Nesterov() RuleOption { return RuleOption{"Nesterov", func(s *settings) { s.nesterov = true }} }

// AMSGrad makes [Adam] and [AdamW] divide by the largest second moment so far (Reddi et al. 2018).
func AMSGrad() RuleOption { return RuleOption{"AMSGrad", func(s *settings) { s.amsgrad = true }} }

// MomentumDecay is the ψ with which [NAdam] lets its momentum grow to β1.
func MomentumDecay(ψ float64) RuleOption {
	return RuleOption{"MomentumDecay", func(s *settings) { s.momentumDecay = ψ }}
}

// Alpha is the share of the mean of squares that each step of [RMSprop] keeps, in [0, 1).
func Alpha(α float64) RuleOption { return RuleOption{"Alpha", func(s *settings) { s.alpha = α }} }

// Centered makes [RMSprop] divide by the deviation of the gradient instead of its root mean square.
func Centered() RuleOption { return RuleOption{"Centered", func(s *settings) { s.centered = true }} }

// Rho is the share of the means of squares that each step of [Adadelta] keeps, in [0, 1).
func Rho(ρ float64) RuleOption { return RuleOption{"Rho", func(s *settings) { s.rho = ρ }} }

// LRDecay divides the learning rate of [Adagrad] by 1 + d t after t steps.
func LRDecay(d float64) RuleOption {
	return RuleOption{"LRDecay", func(s *settings) { s.rateDecay = d }}
}

// InitialAccumulator is what the sums of squares of [Adagrad] begin with.
func InitialAccumulator(v float64) RuleOption {
	return RuleOption{"InitialAccumulator", func(s *settings) { s.initial = v }}
}

// Etas are the factors by which [Rprop] changes the size of a step: where the sign of the gradient has changed, in
// (0, 1), and where it has not, above 1.
func Etas(shrink, grow float64) RuleOption {
	return RuleOption{"Etas", func(s *settings) { s.shrink, s.grow = shrink, grow }}
}

// StepSizes are the least and the largest step of [Rprop].
func StepSizes(least, most float64) RuleOption {
	return RuleOption{"StepSizes", func(s *settings) { s.least, s.most = least, most }}
}

// Beta2Decay is the δ, not above 0, with which the share t^δ falls by which the moments of [Adafactor] follow a
// gradient.
func Beta2Decay(δ float64) RuleOption {
	return RuleOption{"Beta2Decay", func(s *settings) { s.betaDecay = δ }}
}

// ScaleEps is the least size of a parameter that steps of [Adafactor] are relative to.
func ScaleEps(ε float64) RuleOption {
	return RuleOption{"ScaleEps", func(s *settings) { s.scaleEps = ε }}
}

// UpdateClip is the root mean square that an update of [Adafactor] has at most, before the learning rate.
func UpdateClip(d float64) RuleOption {
	return RuleOption{"UpdateClip", func(s *settings) { s.updateClip = d }}
}

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

// betas are the decay rates of two moments, and what is left of 1.
func (s *settings) betas() []Number {
	return []Number{{"beta1", s.beta1}, {"rest1", 1 - s.beta1}, {"beta2", s.beta2}, {"rest2", 1 - s.beta2}}
}
