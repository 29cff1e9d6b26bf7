//go:build !linux

package cpu

import "math"

const (
	hugePage   = alignment
	hugeMemory = math.MaxInt // no memory is large
)

func adviseHuge([]byte) {}
