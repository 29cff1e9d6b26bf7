package optim

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// A limit is the range [lo, hi) of a field of a rule, besides -1 where that stands for 0.
type limit struct {
	field         string
	value, lo, hi float64
	off           bool // -1 stands for 0
}

// limited is a rule that knows the ranges of its fields.
type limited interface {
	Rule
	limits() []limit
}

// rate, beta and amount are the limits of learning rates, of shares that are kept, and of other factors.
func rate(v float64) limit { return limit{"LR", v, 0, math.Inf(1), false} }

func beta(field string, v float64, off bool) limit { return limit{field, v, 0, 1, off} }

func amount(field string, v float64, off bool) limit { return limit{field, v, 0, math.Inf(1), off} }

// check fails if a hyperparameter of a rule is out of range, also in the type that arenas compute in.
func check(rule Rule, arenas []*arena) {
	types := []tensor.DType{tensor.Float64}
	for _, a := range arenas {
		types = append(types, wide(a.DType()))
	}
	for _, dt := range types {
		if r, ok := rule.(limited); ok {
			for _, l := range r.limits() {
				if v := rounded(l.value, dt); !(l.lo <= v && v < l.hi) && !(l.off && l.value == -1) {
					or := ""
					if l.off {
						or = ", where -1 stands for 0"
					}
					tensor.Fail(tensor.ErrValue, rule.Name(), "%s is %v, which in %v is outside [%v, %v)%s", l.field,
						l.value, dt, l.lo, l.hi, or)
				}
			}
		}
		for _, n := range append(rule.Numbers(), Number{"lr", rule.LearningRate()}) {
			if v := rounded(n.Value, dt); v-v != 0 || v == 0 && n.Value != 0 {
				tensor.Fail(tensor.ErrValue, rule.Name(), "%s is %v, which in %v is %v", n.Name, n.Value, dt, v)
			}
		}
	}
	checkRate(rule, rule.LearningRate(), arenas)
}

// checkRate fails if a learning rate is none.
func checkRate(rule Rule, lr float64, arenas []*arena) {
	for _, a := range arenas {
		if dt := wide(a.DType()); !(lr >= 0) || math.IsInf(rounded(lr, dt), 1) {
			tensor.Fail(tensor.ErrValue, rule.Name(), "the learning rate is %v, which in %v is outside [0, +Inf)",
				lr, dt)
		}
	}
}

// rounded is v in type dt.
func rounded(v float64, dt tensor.DType) float64 {
	if dt == tensor.Float64 {
		return v
	}
	return float64(float32(v))
}
