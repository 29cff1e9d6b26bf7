package memtrace

import (
	"cmp"
	"slices"
)

// PyTorch is a small model of PyTorch's caching allocator, written from its published rules: sizes in multiples of 512
// bytes; a pool for up to 1 MiB in segments of 2 MiB, another one with segments of 20 MiB for up to 10 MiB and of a
// multiple of 2 MiB above; best fit; a block is cut if the rest is 512 bytes (small) or more than 1 MiB (large); free
// neighbours of a segment are joined; nothing moves. With expandable segments each pool is one range of addresses that
// grows by 2 and 20 MiB, and all rests are cut off.
type PyTorch struct {
	Expandable bool
	Reserved   int         // bytes
	free       [2][]*block // small and large, sorted by size and address
	tail       [2]*block   // the last block of an expandable range
	end        int         // of all addresses
}

type block struct {
	at, n         int
	pool          int
	used          bool
	before, after *block
}

// Alloc takes n bytes; the result gives them back.
func (t *PyTorch) Alloc(n int) (free func()) {
	n = roundUp(max(n, 1), 512)
	pool := 0
	if n > 1<<20 {
		pool = 1
	}
	i := slices.IndexFunc(t.free[pool], func(b *block) bool { return b.n >= n })
	var b *block
	if i >= 0 {
		b = t.free[pool][i]
		t.free[pool] = slices.Delete(t.free[pool], i, i+1)
	} else {
		b = t.grow(pool, n)
	}
	if rest := b.n - n; rest >= 512 && (pool == 0 || t.Expandable) || rest > 1<<20 {
		r := &block{at: b.at + n, n: rest, pool: pool, before: b, after: b.after}
		if b.after != nil {
			b.after.before = r
		}
		b.n, b.after = n, r
		if t.tail[pool] == b {
			t.tail[pool] = r
		}
		t.put(r)
	}
	b.used = true
	return func() { t.release(b) }
}

// grow is a block of at least n bytes of new memory.
func (t *PyTorch) grow(pool, n int) *block {
	size := 2 << 20
	switch {
	case pool == 1 && t.Expandable:
		size = 20 << 20
	case pool == 1 && n < 10<<20:
		size = 20 << 20
	case pool == 1:
		size = roundUp(n, 2<<20)
	}
	if !t.Expandable {
		t.Reserved += size
		t.end += size + 1 // not a neighbour of the others
		return &block{at: t.end - size, n: size, pool: pool}
	}
	b, last := &block{at: pool << 50, pool: pool}, t.tail[pool]
	if last != nil && !last.used {
		b = last
		t.free[pool] = slices.DeleteFunc(t.free[pool], func(x *block) bool { return x == b })
	} else if last != nil {
		b.at, b.before, last.after = last.at+last.n, last, b
	}
	more := roundUp(n-b.n, size)
	b.n += more
	t.Reserved += more
	t.tail[pool] = b
	return b
}

func (t *PyTorch) put(b *block) {
	b.used = false
	i, _ := slices.BinarySearchFunc(t.free[b.pool], b, func(x, y *block) int {
		return cmp.Or(cmp.Compare(x.n, y.n), cmp.Compare(x.at, y.at))
	})
	t.free[b.pool] = slices.Insert(t.free[b.pool], i, b)
}

func (t *PyTorch) release(b *block) {
	take := func(x *block) {
		t.free[b.pool] = slices.DeleteFunc(t.free[b.pool], func(y *block) bool { return x == y })
	}
	if x := b.before; x != nil && !x.used {
		take(x)
		x.n += b.n
		if x.after = b.after; x.after != nil {
			x.after.before = x
		}
		if t.tail[b.pool] == b {
			t.tail[b.pool] = x
		}
		b = x
	}
	if x := b.after; x != nil && !x.used {
		take(x)
		b.n += x.n
		if b.after = x.after; b.after != nil {
			b.after.before = b
		}
		if t.tail[b.pool] == x {
			t.tail[b.pool] = b
		}
	}
	t.put(b)
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
