// Package pool caches device memory: a training step asks for the same sizes again and again, and only the
// first time the device is asked.
//
// A [Pool] stands between tensors and a [Source], the memory half of a backend. [Pool.Alloc] hands
// out a [Block]; [Pool.Free] puts it in the cache, from where the next request of its size class
// takes it. What a request goes through:
//
//	cache ─► source, within the limit ─► reclaim hook ─► cache again
//	   ─► source after giving cached blocks back ─► source without rounding ─► out of memory
//
// Size classes: multiples of 512 bytes up to 4 KiB, then eight to each doubling, so a block is less
// than 512 bytes or 12.5 % larger than the request, whichever is more. A cached block up to four
// classes larger serves too, which wastes at most 62.5 % (2.5 KiB in the first 4 KiB) while it is
// in use. A request of zero bytes is legal and gets the smallest class.
//
// Accounting distinguishes, each containing the one before:
//
//	requested  bytes asked for by live blocks
//	allocated  bytes of live blocks, rounding included
//	active     the same plus kept blocks, which the Go collector owns (see [Pool.Keep])
//	reserved   everything held from the source; the limit is on this
//
// What is reserved and not active is cached.
//
// In processing order: class.go has the size classes, pool.go requests and returns, poison.go the memory
// debugging, oom.go the error, stats.go the counters.
package pool
