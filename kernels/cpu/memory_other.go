//go:build !linux

package cpu

import "math"

// physical is the machine's memory in bytes, 0 if it is not known.
func physical() uint64 { return 0 }

const (
	hugePage   = alignment
	hugeMemory = math.MaxInt // no memory is large
)

func adviseHuge([]byte) {}
