package optim

import (
	"math"
	"sort"

	"github.com/weft-ml/weft/kernels/expr/double"
	"github.com/weft-ml/weft/tensor"
)

// The schedules of torch.optim.lr_scheduler, with its names and values, as functions of the step alone. All panic with
// a [tensor.Error] for what is no rate, and for numbers of steps that are not positive.

// StepLR multiplies the rate by gamma after each size steps.
func StepLR(rate float64, size int, gamma float64) Schedule {
	wantRates("step_lr", rate, gamma)
	wantSteps("step_lr", "size", size)
	return func(step int) float64 { return rate * double.Pow(gamma, float64(max(step, 0)/size)) }
}

// MultiStepLR multiplies the rate by gamma at each of the milestones, steps in ascending order.
func MultiStepLR(rate float64, milestones []int, gamma float64) Schedule {
	wantRates("multi_step_lr", rate, gamma)
	at := ascending("multi_step_lr", milestones)
	return func(step int) float64 { return rate * double.Pow(gamma, float64(sort.SearchInts(at, step+1))) }
}

// ExponentialLR multiplies the rate by gamma in each step.
func ExponentialLR(rate, gamma float64) Schedule { return StepLR(rate, 1, gamma) }

// ConstantLR is the rate times factor for total steps, and then the rate.
func ConstantLR(rate, factor float64, total int) Schedule {
	wantRates("constant_lr", rate, factor)
	wantSteps("constant_lr", "total", total)
	return func(step int) float64 {
		if step < total {
			return rate * factor
		}
		return rate
	}
}

// LinearLR goes on a line from rate*start to rate*end over total steps.
func LinearLR(rate, start, end float64, total int) Schedule {
	wantRates("linear_lr", rate, start, end)
	wantSteps("linear_lr", "total", total)
	return func(step int) float64 {
		return rate * (start + (end-start)*float64(min(max(step, 0), total))/float64(total))
	}
}

// PolynomialLR falls as rate (1 - step/total)^power, and is 0 from then on.
func PolynomialLR(rate float64, total int, power float64) Schedule {
	wantRates("polynomial_lr", rate, power)
	wantSteps("polynomial_lr", "total", total)
	return func(step int) float64 {
		return rate * double.Pow(1-float64(min(max(step, 0), total))/float64(total), power)
	}
}

// CosineAnnealingLR swings on a cosine from rate to floor over half steps, and back (Loshchilov and Hutter 2017).
// [WarmupCosine] rises before and stays at the floor.
func CosineAnnealingLR(rate, floor float64, half int) Schedule {
	wantRates("cosine_annealing_lr", rate, floor)
	wantSteps("cosine_annealing_lr", "half", half)
	return func(step int) float64 { return between(rate, floor, float64(max(step, 0))/float64(half)) }
}

// CosineAnnealingWarmRestarts falls along half a cosine from rate to floor over first steps and begins again, each time
// for mult times as many steps (Loshchilov and Hutter 2017).
func CosineAnnealingWarmRestarts(rate, floor float64, first, mult int) Schedule {
	wantRates("cosine_annealing_warm_restarts", rate, floor)
	wantSteps("cosine_annealing_warm_restarts", "first", first)
	wantSteps("cosine_annealing_warm_restarts", "mult", mult)
	return func(step int) float64 {
		step = max(step, 0)
		length := first
		if mult == 1 {
			step %= length
		}
		for step >= length {
			step -= length
			if length *= mult; length/mult < first { // longer than any run
				length = math.MaxInt
			}
		}
		return between(rate, floor, float64(step)/float64(length))
	}
}

// CycleOption changes [OneCycleLR] or [CyclicLR]. The zero CycleOption changes nothing.
type CycleOption struct{ set func(*cycle) }

// cycle is what the options say.
type cycle struct {
	rise, first, last float64
	line, three       bool
	height            func(cycle, step float64) float64 // the share of the amplitude; nil: 1
}

// cycleOf reads options.
func cycleOf(options []CycleOption) cycle {
	c := cycle{rise: 0.3, first: 25, last: 1e4}
	for _, o := range options {
		if o.set != nil {
			o.set(&c)
		}
	}
	return c
}

// PctStart is the share of the steps in which [OneCycleLR] rises, in (0, 1); 0.3 if it is not given.
func PctStart(share float64) CycleOption {
	if !(0 < share && share < 1) {
		engine.Fail(tensor.ErrValue, "one_cycle_lr", "PctStart is %v, outside (0, 1)", share)
	}
	return CycleOption{func(c *cycle) { c.rise = share }}
}

// DivFactors of [OneCycleLR]: it begins at peak/first and ends at peak/first/last; 25 and 10,000 if they are not given.
func DivFactors(first, last float64) CycleOption {
	for _, v := range []float64{first, last} {
		if !(v > 0 && v <= math.MaxFloat64) {
			engine.Fail(tensor.ErrValue, "one_cycle_lr", "DivFactors are %v and %v; they must be positive and finite",
				first, last)
		}
	}
	return CycleOption{func(c *cycle) { c.first, c.last = first, last }}
}

// AnnealLinear makes [OneCycleLR] go on lines instead of cosines.
func AnnealLinear() CycleOption { return CycleOption{func(c *cycle) { c.line = true }} }

// ThreePhase makes [OneCycleLR] fall as long as it has risen, and then to its end.
func ThreePhase() CycleOption { return CycleOption{func(c *cycle) { c.three = true }} }

// Triangular2 halves the amplitude of [CyclicLR] after each cycle.
func Triangular2() CycleOption {
	return CycleOption{func(c *cycle) {
		c.height = func(cycle, _ float64) float64 { return double.Pow(0.5, cycle) }
	}}
}

// ExpRange multiplies the amplitude of [CyclicLR] by gamma in each step.
func ExpRange(gamma float64) CycleOption {
	wantRates("cyclic_lr", gamma)
	return CycleOption{func(c *cycle) {
		c.height = func(_, step float64) float64 { return double.Pow(gamma, step) }
	}}
}

// OneCycleLR rises to peak and falls far below its start over total steps (Smith and Topin 2019), then stays there.
// Options are [PctStart], [DivFactors], [AnnealLinear] and [ThreePhase]. The momentum does not change.
func OneCycleLR(peak float64, total int, options ...CycleOption) Schedule {
	wantRates("one_cycle_lr", peak)
	wantSteps("one_cycle_lr", "total", total)
	c := cycleOf(options)
	start := peak / c.first
	end := start / c.last
	type phase struct{ last, from, to float64 } // the step at which it ends
	rise := c.rise*float64(total) - 1
	phases := []phase{{rise, start, peak}, {float64(total - 1), peak, end}}
	if c.three {
		phases = []phase{{rise, start, peak}, {2 * rise, peak, start}, {float64(total - 1), start, end}}
	}
	return func(step int) float64 {
		x, begin := float64(min(max(step, 0), total-1)), 0.0
		for i, p := range phases {
			if x > p.last && i < len(phases)-1 {
				begin = p.last
				continue
			}
			x = (x - begin) / (p.last - begin)
			if p.last == begin { // a phase without steps
				x = 1
			}
			if c.line {
				return p.from + (p.to-p.from)*x
			}
			return between(p.from, p.to, x)
		}
		return end
	}
}

// CyclicLR rises on a line from low to high over up steps, falls back over down steps, and so on (Smith 2017). Options
// are [Triangular2] and [ExpRange].
func CyclicLR(low, high float64, up, down int, options ...CycleOption) Schedule {
	wantRates("cyclic_lr", low, high)
	wantSteps("cyclic_lr", "up", up)
	wantSteps("cyclic_lr", "down", down)
	c := cycleOf(options)
	return func(step int) float64 {
		n, at := max(step, 0)/(up+down), max(step, 0)%(up+down)
		x := float64(at) / float64(up)
		if at > up {
			x = float64(up+down-at) / float64(down)
		}
		if c.height != nil {
			x *= c.height(float64(n), float64(max(step, 0)))
		}
		return low + (high-low)*x
	}
}

// SequentialLR follows schedules one after the other: the next one begins, with its step 0, at each of the milestones,
// steps in ascending order, of which there is one fewer.
func SequentialLR(schedules []Schedule, milestones []int) Schedule {
	at := ascending("sequential_lr", milestones)
	wantSchedules("sequential_lr", schedules)
	if len(schedules) != len(milestones)+1 {
		engine.Fail(tensor.ErrValue, "sequential_lr", "%d schedules need %d milestones, got %d", len(schedules),
			len(schedules)-1, len(milestones))
	}
	return func(step int) float64 {
		i := sort.SearchInts(at, step+1)
		if i > 0 {
			step -= at[i-1]
		}
		return schedules[i](step)
	}
}

// ChainedScheduler multiplies rate by what all factors say, which are schedules of rate 1.
func ChainedScheduler(rate float64, factors ...Schedule) Schedule {
	wantRates("chained_scheduler", rate)
	wantSchedules("chained_scheduler", factors)
	return func(step int) float64 {
		v := rate
		for _, f := range factors {
			v *= f(step)
		}
		return v
	}
}

// ReduceLROnPlateau multiplies a rate by Factor when a value has stopped falling. Its fields are the settings, of which
// PyTorch's defaults are Factor 0.1, Patience 10 and MinDelta 1e-4, and what it has seen, so that a checkpoint can save
// all of it as JSON.
type ReduceLROnPlateau struct {
	Rate     float64 // the rate now, at first the initial one
	Factor   float64 // in [0, 1)
	Patience int     // values in a row that may be no better
	MinDelta float64 // how much lower than the best one a better value is, at least: a share of it
	Absolute bool    // MinDelta is no share
	Max      bool    // values should rise: better is higher
	Cooldown int     // values after a fall that do not count as bad
	MinRate  float64 // the rate does not fall below; falls of less than 1e-8 are left out

	Any  bool    // whether there was a value that is finite
	Best float64 // the best one
	Bad  int     // values since then
	Cool int     // values that are still not counted
}

// Step takes the next value, such as a validation loss, and returns the rate from now on. Values that are not finite
// are never better. It panics with a [tensor.Error] if a field is out of range.
func (p *ReduceLROnPlateau) Step(value float64) float64 {
	engine.Given("reduce_lr_on_plateau", "the receiver", p)
	wantRates("reduce_lr_on_plateau", p.Rate, p.MinRate, p.MinDelta)
	if !(0 <= p.Factor && p.Factor < 1) || p.Patience < 0 || p.Cooldown < 0 {
		engine.Fail(tensor.ErrValue, "reduce_lr_on_plateau", "Factor is %v, Patience %d, Cooldown %d; want [0, 1), "+
			"and no negative number", p.Factor, p.Patience, p.Cooldown)
	}
	if p.better(value) {
		p.Any, p.Best, p.Bad = true, value, 0
	} else {
		p.Bad++
	}
	if p.Cool > 0 {
		p.Cool--
		p.Bad = 0
	}
	if p.Bad > p.Patience {
		if next := max(p.Rate*p.Factor, p.MinRate); p.Rate-next > 1e-8 {
			p.Rate = next
		}
		p.Cool, p.Bad = p.Cooldown, 0
	}
	return p.Rate
}

// better tells whether a value is better than the best one by MinDelta.
func (p *ReduceLROnPlateau) better(value float64) bool {
	delta := p.MinDelta
	if !p.Absolute {
		delta *= p.Best
	}
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return false
	case !p.Any:
		return true
	case p.Max:
		return value > p.Best+delta
	}
	return value < p.Best-delta
}

// wantRates fails unless all values are finite and not negative.
func wantRates(op string, values ...float64) {
	for _, v := range values {
		wantRate(op, "an argument", v)
	}
}

// wantSteps fails unless n is positive.
func wantSteps(op, name string, n int) {
	if n < 1 {
		engine.Fail(tensor.ErrValue, op, "%s is %d; it must be positive", name, n)
	}
}

// wantSchedules fails if there is no schedule, or one is nil.
func wantSchedules(op string, all []Schedule) {
	if len(all) == 0 {
		engine.Fail(tensor.ErrValue, op, "there is no schedule")
	}
	for _, s := range all {
		engine.Given(op, "a schedule", s)
	}
}

// ascending is a copy of the milestones; it fails unless they ascend.
func ascending(op string, milestones []int) []int {
	for i, m := range milestones {
		if m < 0 || i > 0 && m < milestones[i-1] {
			engine.Fail(tensor.ErrValue, op, "the milestones %v do not ascend from 0", milestones)
		}
	}
	return append([]int(nil), milestones...)
}
