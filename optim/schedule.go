package optim

import "math"

// Schedule gives the learning rate of a step, counted from 0.
type Schedule func(step int) float64

// WarmupCosine rises on a line to peak over warmup steps, then falls along half a cosine to floor at step
// total and stays there (Loshchilov and Hutter 2017).
func WarmupCosine(peak, floor float64, warmup, total int) Schedule {
	return func(step int) float64 {
		switch {
		case step < warmup:
			return peak * float64(step+1) / float64(warmup)
		case step >= total:
			return floor
		}
		t := float64(step-warmup) / float64(max(1, total-warmup))
		return floor + 0.5*(1+math.Cos(math.Pi*t))*(peak-floor)
	}
}

// WarmupLinear rises on a line to peak over warmup steps, then falls on a line to floor at step total.
func WarmupLinear(peak, floor float64, warmup, total int) Schedule {
	return func(step int) float64 {
		switch {
		case step < warmup:
			return peak * float64(step+1) / float64(warmup)
		case step >= total:
			return floor
		}
		return peak + (floor-peak)*float64(step-warmup)/float64(max(1, total-warmup))
	}
}

// Constant is the same rate at every step.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }
