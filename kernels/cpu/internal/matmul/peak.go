package matmul

import (
	"time"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// PeakFMA measures how many GFLOP/s one core does when nothing limits it but the vector multiply-add units of a tier
// that the machine supports (two operations for each element of a multiply-add). It takes the best of short runs over
// a few milliseconds; benchmarks call it next to what they measure, because clocks change. The portable tier, which
// emulates the multiply-add, has no such peak: the result is 0.
func PeakFMA(tier vec.Tier) float64 {
	loop, elements := peakLoop(tier)
	if loop == nil {
		return 0
	}
	const turns = 20_000
	best := time.Duration(1<<63 - 1)
	for range 20 {
		begin := time.Now()
		loop(turns, 0.5)
		best = min(best, time.Since(begin))
	}
	return 2 * float64(turns*elements) / float64(best.Nanoseconds())
}
