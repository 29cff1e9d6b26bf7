//go:build !linux && !darwin && !windows && !wasm

package cpu

// physical is the machine's memory in bytes, 0 if it is not known.
func physical() uint64 { return 0 }
