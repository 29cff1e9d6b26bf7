package pool

import "math/bits"

// The classes are the multiples of 512 up to 2^12 and then, between each 2^e and 2^(e+1), the eight
// sizes 2^e*(1 + k/8), k = 1..8. Eight times 512 is 2^12, so one formula covers both.
const (
	firstShift = 12 // 4 KiB
	maxShift   = 48 // more than any device has
	numClasses = 8 * (maxShift - firstShift + 1)
	maxBytes   = 1 << maxShift
	granule    = 1 << (firstShift - 3)

	// A request takes a cached block from its own class or, if that has none, from one of the next four. With batch
	// sizes that vary from 100 to 128 this halves what is reserved; a longer reach gains little more.
	reach = 5
)

// classOf returns the class of a request of n bytes, 0 <= n <= maxBytes, and the size of its blocks.
func classOf(n int) (class, size int) {
	n = max(n, 1)
	shift := max(bits.Len(uint(n-1))-1, firstShift) // above 2^12: 2^shift < n <= 2^(shift+1)
	unit := 1 << (shift - 3)
	units := (n + unit - 1) / unit // 1..8 in the first 4 KiB, 9..16 above
	return 8*(shift-firstShift) + units - 1, units * unit
}
