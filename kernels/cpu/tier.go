package cpu

import (
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Tier is the instruction set in use, as WEFT_CPU names it: "avx512", "avx2", "neon" or "portable".
func Tier() string { return vec.Current().String() }

// PeakFLOPS measures in a few milliseconds how many operations per second the multiply-add units of one core do in the
// tier in use. Benchmarks call it beside what they measure, because clocks change. It is 0 on the portable tier.
func PeakFLOPS() float64 { return 1e9 * matmul.PeakFMA(vec.Current()) }
