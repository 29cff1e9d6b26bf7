package cpu

// Wrap makes device memory of existing host memory, without copying.
func Wrap(b []byte) *Mem { return &Mem{b} }
