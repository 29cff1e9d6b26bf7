package plan

import (
	"cmp"
	"slices"
)

// Align is what offsets are multiples of, in bytes.
const Align = 512

// Block is memory of Size bytes that is used from moment First to moment Last, both included.
type Block struct{ Size, First, Last int }

// rounded is the size with what alignment adds.
func (b Block) rounded() int { return (b.Size + Align - 1) / Align * Align }

// Live is the largest number of bytes that are alive at one moment, rounded as Pack does: no layout takes less.
func Live(blocks []Block) (most int) {
	type event struct{ at, bytes int }
	var events []event
	for _, b := range blocks {
		events = append(events, event{b.First, b.rounded()}, event{b.Last + 1, -b.rounded()})
	}
	slices.SortFunc(events, func(x, y event) int { // at one moment what ends before what begins
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.bytes, y.bytes))
	})
	now := 0
	for _, e := range events {
		now += e.bytes
		most = max(most, now)
	}
	return most
}

// Pack gives each block an offset, so that blocks that are alive at the same moment do not overlap, and returns the
// size of the whole. Blocks are placed one after the other, each into the smallest gap between those that are alive
// with it (best fit, Pisarchyk and Lee 2020); of four orders, by size, duration and their product, the one that takes
// least is kept.
func Pack(blocks []Block) (offsets []int, size int) {
	keys := []func(b Block) int{
		func(b Block) int { return b.rounded() },
		func(b Block) int { return b.rounded() * (b.Last - b.First + 1) },
		func(b Block) int { return b.Last - b.First },
		func(b Block) int { return -b.First },
	}
	for _, key := range keys {
		if o, n := pack(blocks, key); offsets == nil || n < size {
			offsets, size = o, n
		}
	}
	return offsets, size
}

// pack places blocks with large keys first.
func pack(blocks []Block, key func(b Block) int) (offsets []int, size int) {
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := blocks[i], blocks[j]
		return cmp.Or(cmp.Compare(key(y), key(x)), cmp.Compare(y.rounded(), x.rounded()),
			cmp.Compare(y.Last-y.First, x.Last-x.First))
	})
	offsets = make([]int, len(blocks))
	var placed []int // in order of their offsets
	for _, i := range order {
		b := blocks[i]
		offsets[i] = place(b, blocks, offsets, placed)
		size = max(size, offsets[i]+b.rounded())
		at, _ := slices.BinarySearchFunc(placed, offsets[i], func(j, offset int) int {
			return cmp.Compare(offsets[j], offset)
		})
		placed = slices.Insert(placed, at, i)
	}
	return offsets, size
}

// place is the offset of b in the smallest gap that it fits into, or behind all that are alive with it.
func place(b Block, blocks []Block, offsets, placed []int) int {
	end, best, gap := 0, -1, 0 // of those so far
	for _, j := range placed {
		other := blocks[j]
		if other.Last < b.First || b.Last < other.First {
			continue
		}
		if free := offsets[j] - end; free >= b.rounded() && (best < 0 || free < gap) {
			best, gap = end, free
		}
		end = max(end, offsets[j]+other.rounded())
	}
	if best < 0 {
		return end
	}
	return best
}
