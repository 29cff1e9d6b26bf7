package cpu

import (
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// PeakFLOPS measures, within a few milliseconds, how many operations a second one core does when nothing limits it but
// the multiply-add units of the tier in use. Benchmarks call it beside what they measure, because clocks change. It is 0
// on the portable tier, which has no such units.
func PeakFLOPS() float64 { return 1e9 * matmul.PeakFMA(vec.Current()) }
