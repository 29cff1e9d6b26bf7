// Package pool caches device memory: a training step asks for the same sizes again and again, and only the
// first time the device is asked.
//
// A [Pool] stands between tensors and a [Source], the memory half of a backend. [Pool.Alloc] hands out a [Block];
// [Pool.Free] takes it back. Memory of the source comes in segments, which are cut into blocks; neighbours that are
// free are joined again. Sizes are rounded up to 512 bytes. There are two kinds of blocks:
//
//	from 64 KiB on  best fit among the free blocks of all segments; a freed block is joined at once
//	below           a list for each size, the last freed first. Behind the lists the same best fit, in segments of
//	                their own, so that small blocks do not lie between large ones. Blocks in the lists are not joined
//	                before memory is short
//
// What a request goes through:
//
//	lists and free blocks ─► blocks whose streams have finished, lists joined ─► the source, within the limit
//	   ─► again, after free segments were given back ─► again, after a collection of Go's ─► out of memory
//
// A source with virtual memory ([kernels.Reserver]), which GPUs and the CPU under Linux have, has one segment for each
// kind: a range of addresses to which memory is mapped where it is needed, so that all that is free can be joined.
// Without, a segment is an allocation. They grow by a 256th of what is reserved at least, in multiples of 2 MiB, or of
// a 256th of a smaller limit.
//
// A block belongs to a stream and serves only that one, since the work that used it before is queued there. Who uses it
// on another stream says so ([Pool.UsedOn]): then it is free when that work has finished.
//
// [kernels.MemorySizes] says what is counted; a limit is on what is reserved.
//
// In processing order: pool.go requests and returns, heap.go best fit, segment.go memory of the source, stream.go
// blocks that several streams use, poison.go the memory debugging, oom.go the error, stats.go the counters, profile.go
// who holds what, leak.go kept blocks that pile up.
package pool
