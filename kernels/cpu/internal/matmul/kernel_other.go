//go:build !amd64 && !arm64

package matmul

import "github.com/weft-ml/weft/kernels/cpu/internal/vec"

// current returns the assembly of the tier in use: there is none for this architecture.
func current() *assembly { return nil }

// peakLoop returns nil: there is no assembly for this architecture.
func peakLoop(vec.Tier) (loop func(n int, x float32), elements int) { return nil, 0 }
