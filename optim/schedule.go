package optim

import (
	"math"

	"github.com/weft-ml/weft/kernels/expr/double"
	"github.com/weft-ml/weft/tensor"
)

// Schedule gives the learning rate of a step, counted from 0.
type Schedule func(step int) float64

// WarmupCosine rises on a line to peak over warmup steps, then falls along half a cosine to floor at step
// total and stays there (Loshchilov and Hutter 2017). Like the other schedules it panics with a [tensor.Error] for what
// is no rate, for a floor above the peak and for a warmup longer than all steps.
func WarmupCosine(peak, floor float64, warmup, total int) Schedule {
	return warm("warmup_cosine", peak, floor, warmup, total, func(done, all float64) float64 {
		return between(peak, floor, done/all)
	})
}

// WarmupLinear rises on a line to peak over warmup steps, then falls on a line to floor at step total.
func WarmupLinear(peak, floor float64, warmup, total int) Schedule {
	return warm("warmup_linear", peak, floor, warmup, total, func(done, all float64) float64 {
		return peak + (floor-peak)*done/all
	})
}

// warm rises on a line, then falls, done of all steps, and stays at floor.
func warm(op string, peak, floor float64, warmup, total int, fall func(done, all float64) float64) Schedule {
	wantRate(op, "peak", peak)
	wantRate(op, "floor", floor)
	switch {
	case floor > peak:
		engine.Fail(tensor.ErrValue, op, "floor is %v, above the peak %v", floor, peak)
	case warmup < 0 || warmup > total:
		engine.Fail(tensor.ErrValue, op, "warmup is %d, outside [0, %d], the steps in all", warmup, total)
	}
	return func(step int) float64 {
		switch {
		case step < warmup:
			return peak * float64(max(step, 0)+1) / float64(warmup)
		case step >= total:
			return floor
		}
		return fall(float64(step-warmup), float64(max(1, total-warmup)))
	}
}

// Constant is the same rate at every step.
func Constant(rate float64) Schedule {
	wantRate("constant", "rate", rate)
	return func(int) float64 { return rate }
}

// wantRate fails if v is no learning rate.
func wantRate(op, name string, v float64) {
	if !(v >= 0 && v <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, op, "%s is %v, outside [0, +Inf)", name, v)
	}
}

// between is the point of half a cosine from a to b at share x of the way.
func between(a, b, x float64) float64 { return b + 0.5*(1+double.Cos(math.Pi*x))*(a-b) }
