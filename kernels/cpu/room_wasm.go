package cpu

// physical is all that 32 bits address.
func physical() uint64 { return 1 << 32 }
