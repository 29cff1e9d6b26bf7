package optim

import "math"

// Schedule gives the learning rate of a step, counted from 0.
type Schedule func(step int) float64

// WarmupCosine rises on a line to peak over warmup steps, then falls along half a cosine to floor at step
// total and stays there (Loshchilov and Hutter 2017).
func WarmupCosine(peak, floor float64, warmup, total int) Schedule {
	return warm(peak, floor, warmup, total, func(done, all float64) float64 {
		return floor + 0.5*(1+math.Cos(math.Pi*(done/all)))*(peak-floor)
	})
}

// WarmupLinear rises on a line to peak over warmup steps, then falls on a line to floor at step total.
func WarmupLinear(peak, floor float64, warmup, total int) Schedule {
	return warm(peak, floor, warmup, total, func(done, all float64) float64 { return peak + (floor-peak)*done/all })
}

// warm rises on a line, then falls, done of all steps, and stays at floor.
func warm(peak, floor float64, warmup, total int, fall func(done, all float64) float64) Schedule {
	return func(step int) float64 {
		switch {
		case step < warmup:
			return peak * float64(step+1) / float64(warmup)
		case step >= total:
			return floor
		}
		return fall(float64(step-warmup), float64(max(1, total-warmup)))
	}
}

// Constant is the same rate at every step.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }
