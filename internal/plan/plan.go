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
// with it (best fit, Pisarchyk and Lee 2020); of five orders, by size, duration and their product, forwards in time and
// backwards, where what grows shrinks, the one that takes least is kept.
func Pack(blocks []Block) (offsets []int, size int) {
	keys := []func(b Block) int{
		func(b Block) int { return b.rounded() },
		func(b Block) int { return b.rounded() * (b.Last - b.First + 1) },
		func(b Block) int { return b.Last - b.First },
		func(b Block) int { return -b.First },
		func(b Block) int { return b.Last },
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
	l := layout{blocks: blocks, offsets: make([]int, len(blocks)), seen: make([]int, len(blocks))}
	for _, b := range blocks {
		l.latest = max(l.latest, b.First)
	}
	l.period = max(256, l.latest/max(len(blocks), 1)) // most blocks are alive in few of so many moments
	l.placed = make([][]int, l.latest/l.period+1)
	for n, i := range order {
		l.offsets[i] = l.place(i, n+1)
		size = max(size, l.offsets[i]+blocks[i].rounded())
	}
	return l.offsets, size
}

// layout is blocks some of which have their offsets.
type layout struct {
	blocks  []Block
	offsets []int
	latest  int     // when the last block begins
	period  int     // moments
	placed  [][]int // of each period those with an offset that are alive in it
	seen    []int   // by the number of the look
	near    []int
}

// place is the offset of block i in the smallest gap that it fits into, or behind all that are alive with it. Each look
// has another number, from 1 on.
func (l *layout) place(i, look int) int {
	b := l.blocks[i]
	l.near = l.near[:0]
	for t := b.First / l.period; t <= min(b.Last, l.latest)/l.period; t++ {
		for _, j := range l.placed[t] {
			if x := l.blocks[j]; l.seen[j] != look && x.Last >= b.First && b.Last >= x.First {
				l.seen[j] = look
				l.near = append(l.near, j)
			}
		}
		l.placed[t] = append(l.placed[t], i)
	}
	slices.SortFunc(l.near, func(j, k int) int { return cmp.Compare(l.offsets[j], l.offsets[k]) })
	end, best, gap := 0, -1, 0 // of those so far
	for _, j := range l.near {
		if free := l.offsets[j] - end; free >= b.rounded() && (best < 0 || free < gap) {
			best, gap = end, free
		}
		end = max(end, l.offsets[j]+l.blocks[j].rounded())
	}
	if best < 0 {
		return end
	}
	return best
}
