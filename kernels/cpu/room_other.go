//go:build !linux

package cpu

// spaceLimit is the limit of the address space, of 0 bytes if there is none, and how much of it is mapped.
func spaceLimit() (l limit, mapped int) { return limit{}, 0 }

// groupLimit is the limit of the process's control group, 0 if there is none.
func groupLimit() int { return 0 }
