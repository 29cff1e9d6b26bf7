package pool

import "math/bits"

const (
	granule    = 512     // sizes of blocks are multiples
	smallSize  = 1 << 16 // blocks below it are small
	mediumSize = 1 << 19 // and those below it come from the end of a free block, so that large ones lie together
	maxBytes   = 1 << 48 // more than any device has
)

// roundUp is the least multiple of unit that is not less than n.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// Free blocks are in bins by size: there are eight to each doubling. A bin is sorted by size, then address.
const numBins = 8 * 40

// binOf is the bin of a block of size bytes.
func binOf(size int) int {
	units := size / granule
	shift := max(bits.Len(uint(units))-4, 0) // so that 8 <= units>>shift < 16, or shift is 0
	return 8*shift + units>>shift
}

// heap is the free blocks of one stream, small or large ones.
type heap struct {
	bins  [numBins]*Block
	inUse [numBins / 64]uint64 // bins that are not empty
	last  *Block               // freed last and not joined yet: most often the next request is of its size
}

// take removes the smallest free block of at least size bytes and cuts it to size; nil if there is none.
func (h *heap) take(p *Pool, size int) *Block {
	if b := h.last; b != nil && b.cap == size {
		h.last = nil
		return b
	}
	h.settle(p)
	bin := binOf(size)
	b := h.bins[bin]
	for b != nil && b.cap < size {
		b = b.next
	}
	if b == nil {
		if bin = h.nextBin(bin + 1); bin == numBins {
			return nil
		}
		b = h.bins[bin]
	}
	h.remove(b)
	if b.cap == size {
		return b
	}
	if size < mediumSize && size >= smallSize {
		rest := b
		b = p.split(b, b.cap-size)
		h.insert(rest)
		return b
	}
	h.insert(p.split(b, size))
	return b
}

// nextBin is the first bin from bin on that is not empty; numBins if there is none.
func (h *heap) nextBin(bin int) int {
	for word := bin / 64; word < len(h.inUse); word++ {
		set := h.inUse[word]
		if word == bin/64 {
			set &= ^uint64(0) << (bin % 64)
		}
		if set != 0 {
			return 64*word + bits.TrailingZeros64(set)
		}
	}
	return numBins
}

// put takes back b.
func (h *heap) put(p *Pool, b *Block) {
	h.settle(p)
	b.state, h.last = listed, b
}

// settle joins the block that was freed last with free neighbours.
func (h *heap) settle(p *Pool) {
	b := h.last
	if b == nil {
		return
	}
	h.last = nil
	if x := b.before; x != nil && x.state == free {
		h.remove(x)
		b = p.join(x, b)
	}
	if x := b.after; x != nil && x.state == free {
		h.remove(x)
		b = p.join(b, x)
	}
	h.insert(b)
}

// insert puts b in its bin.
func (h *heap) insert(b *Block) {
	b.state = free
	bin := binOf(b.cap)
	var last *Block
	x := h.bins[bin]
	for x != nil && x.less(b) {
		last, x = x, x.next
	}
	b.prev, b.next = last, x
	if x != nil {
		x.prev = b
	}
	if last != nil {
		last.next = b
		return
	}
	h.bins[bin] = b
	h.inUse[bin/64] |= 1 << (bin % 64)
}

func (b *Block) less(c *Block) bool {
	switch {
	case b.cap != c.cap:
		return b.cap < c.cap
	case b.seg != c.seg:
		return b.seg.id < c.seg.id
	}
	return b.at < c.at
}

// remove takes b out of its bin.
func (h *heap) remove(b *Block) {
	if b.next != nil {
		b.next.prev = b.prev
	}
	if b.prev != nil {
		b.prev.next = b.next
	} else if bin := binOf(b.cap); b.next != nil {
		h.bins[bin] = b.next
	} else {
		h.bins[bin] = nil
		h.inUse[bin/64] &^= 1 << (bin % 64)
	}
	b.prev, b.next = nil, nil
}

// split cuts b to size bytes and returns the rest as a block that is in no list.
func (p *Pool) split(b *Block, size int) *Block {
	r := p.blank()
	r.seg, r.at, r.cap, r.poisoned, r.state = b.seg, b.at+size, b.cap-size, b.poisoned, b.state
	r.before, r.after = b, b.after
	if b.after != nil {
		b.after.before = r
	}
	b.after, b.cap, b.viewed = r, size, false
	return r
}

// join makes a and b behind it one block, a.
func (p *Pool) join(a, b *Block) *Block {
	a.cap += b.cap
	a.poisoned = a.poisoned && b.poisoned
	a.viewed = false
	if a.after = b.after; a.after != nil {
		a.after.before = a
	}
	p.drop(b)
	return a
}

// blank is a block without memory.
func (p *Pool) blank() *Block {
	b := p.spare
	if b == nil {
		return &Block{pool: p}
	}
	p.spare = b.next
	b.next = nil
	return b
}

// drop keeps a block without memory for later; its view of memory is used again, unless the memory is gone.
func (p *Pool) drop(b *Block) {
	b.seg, b.before, b.after, b.prev, b.viewed = nil, nil, nil, nil, false
	b.state = free
	b.next, p.spare = p.spare, b
}
