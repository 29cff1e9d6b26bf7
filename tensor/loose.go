package tensor

import (
	"weak"

	"github.com/weft-ml/weft/internal/pool"
)

// A region owns what is made in it until it ends. Where a program makes thousands of tensors in one region that does
// not record, such as an Eval with a long loop, it owns the older ones loosely: memory of those that the program has
// dropped goes back to the pool as Go's collector finds out, and of the rest at the end of the region, as ever.

// looseFrom is how many blocks a region owns before it owns them loosely. To own one so takes 0.2 us.
const looseFrom = 1024

// loose is a block that its region owns loosely.
type loose struct {
	block weak.Pointer[block]
	mem   *pool.Block // nil: somebody else owns it now
	dev   *Device
}

// own makes r the owner of b.
func (r *region) own(b *block) {
	if len(r.owned) >= looseFrom && !r.mode.record {
		r.loosen()
	}
	r.owned = append(r.owned, b)
}

// loosen makes r own all of its blocks loosely. If the collector has run since the last time it first gives back what
// is not referred to.
func (r *region) loosen() {
	if now := pool.Cycles(); now != r.cycle { // not more often: a look while the collector marks keeps a block alive
		kept := r.loose[:0]
		for _, l := range r.loose {
			if l.block.Value() != nil {
				kept = append(kept, l)
			} else {
				l.free()
			}
		}
		clear(r.loose[len(kept):])
		r.loose = kept
		r.cycle = now
	}
	for i, b := range r.owned {
		if r.owned[i] = nil; !b.shared && b.mem != nil {
			b.dev.shared.pool.Unname(b.mem)
			b.loose = &loose{weak.Make(b), b.mem, b.dev}
			r.loose = append(r.loose, b.loose)
		}
	}
	r.owned = r.owned[:0]
}

// free gives back the memory of a block that nobody refers to.
func (l *loose) free() {
	if l.mem != nil {
		l.dev.shared.pool.Free(l.mem)
		l.mem = nil
	}
}

// tighten makes r own in the usual way what it owned loosely and the program refers to.
func (r *region) tighten() {
	for i, l := range r.loose {
		r.loose[i] = nil
		if b := l.block.Value(); b == nil {
			l.free()
		} else if l.mem != nil {
			b.loose = nil
			r.owned = append(r.owned, b)
		}
	}
	r.loose = r.loose[:0]
}

// takeOver ends loose ownership of b by its region, since somebody else owns it now.
func (b *block) takeOver() {
	if b.loose != nil {
		b.loose.mem, b.loose = nil, nil
	}
}
