package optim

import (
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// A group of parameters has its own learning rate and weight decay.
type group struct {
	rate *tensor.Scalar
	rule Rule
}

// Group gives the parameters of a part of the model their own learning rate and weight decay: those of rule, which is
// the optimizer's in all else. [Clip] and the counters are those of all groups together. A parameter in two groups
// belongs to the later one. [Optimizer.GroupLR] has the rate.
//
//	opt := optim.New(optim.AdamW(1e-3), model, optim.Group(model.Head, optim.AdamW(1e-2, optim.WeightDecay(0))))
func Group(part any, rule Rule) Option {
	rule.check(tensor.Float64)
	return Option{func(o *Optimizer) {
		if same := slices.EqualFunc(rule.Numbers, o.rule.Numbers, func(a, b Number) bool {
			return a == b || a.Name == "decay" && b.Name == "decay"
		}); !same || rule.Name != o.rule.Name || rule.Update != o.rule.Update {
			engine.Fail(tensor.ErrValue, o.rule.Name, "the group's rule %s differs in more than the learning rate and "+
				"the weight decay; take another optimizer for these parameters", rule.Name)
		}
		params := engine.Parameters(part)
		if len(params) == 0 {
			engine.Fail(tensor.ErrValue, o.rule.Name, "the group has no parameters")
		}
		for _, p := range params {
			if !slices.Contains(o.params, p) {
				engine.Fail(tensor.ErrValue, o.rule.Name, "%v of the group is no parameter of the model", p)
			}
			o.groupOf[p] = len(o.groups)
		}
		o.groups = append(o.groups, &group{tensor.NewScalar(rule.LR), rule})
	}}
}

// GroupLR is the learning rate of the i-th [Group], counted from 0; set it between steps. It panics with a
// [tensor.Error] if there is none.
func (o *Optimizer) GroupLR(i int) *tensor.Scalar {
	o.given()
	if i < 0 || i >= len(o.groups)-1 {
		engine.Fail(tensor.ErrIndex, o.rule.Name, "there is no group %d; there are %d", i, len(o.groups)-1)
	}
	return o.groups[i+1].rate
}

// scalars are the values of lr and of the rule's numbers, of which "decay" is 0 if there is to be none.
func (g *group) scalars(decay bool) []float64 {
	values := []float64{g.rate.Value()}
	for _, n := range g.rule.Numbers {
		if n.Name == "decay" && !decay {
			n.Value = 0
		}
		values = append(values, n.Value)
	}
	return values
}
