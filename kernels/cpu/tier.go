package cpu

import "github.com/weft-ml/weft/kernels/cpu/internal/vec"

// Tier is the instruction set in use: "AVX-512", "AVX2" or "portable".
func Tier() string { return vec.Current().String() }
