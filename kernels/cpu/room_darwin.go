package cpu

import "golang.org/x/sys/unix"

// physical is the machine's memory in bytes, 0 if it is not known.
func physical() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
