package optim

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// A limit is the range [0, below) of a hyperparameter.
type limit struct {
	name         string
	value, below float64
}

func atLeast0(name string, v float64) limit { return limit{name, v, math.Inf(1)} }

// share is the limit of a share that is kept.
func share(name string, v float64) limit { return limit{name, v, 1} }

// checked is r, if its hyperparameters are in range.
func (r Rule) checked() Rule {
	r.check(tensor.Float64)
	return r
}

// check fails if there is no rule or a hyperparameter is out of range when rounded to dt.
func (r Rule) check(dt tensor.DType) {
	if r.Name == "" || r.Update == "" && r.Whole == nil {
		engine.Fail(tensor.ErrValue, "optim", "a rule has no %s; optim.AdamW(1e-3) makes a complete one",
			map[bool]string{true: "name", false: "update"}[r.Name == ""])
	}
	for _, l := range r.limits {
		if v := rounded(l.value, dt); !(0 <= v && v < l.below) {
			engine.Fail(tensor.ErrValue, r.Name, "%s is %v, which in %v is outside [0, %v)", l.name, l.value,
				dt, l.below)
		}
	}
	for _, n := range append(r.Numbers, Number{"lr", r.LR}) {
		if v := rounded(n.Value, dt); v-v != 0 || v == 0 && n.Value != 0 {
			engine.Fail(tensor.ErrValue, r.Name, "%s is %v, which in %v is %v", n.Name, n.Value, dt, v)
		}
	}
	r.checkRate(r.LR, dt)
}

// checkRate fails if a learning rate is none.
func (r Rule) checkRate(lr float64, dt tensor.DType) {
	if !(lr >= 0) || math.IsInf(rounded(lr, dt), 1) {
		engine.Fail(tensor.ErrValue, r.Name, "the learning rate is %v, which in %v is outside [0, +Inf)", lr, dt)
	}
}

// rounded is v in type dt.
func rounded(v float64, dt tensor.DType) float64 {
	if dt == tensor.Float64 {
		return v
	}
	return float64(float32(v))
}
