//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math/bits"

	"github.com/weft-ml/weft/kernels"
)

// Launches of the kernels that walk.cuh describes.

const walkBytes = 16 // that a thread moves

// walkReach is how many elements a walk spans at most in every operand; 16 times as many have a number of 32 bits. A variable so
// that tests can make it small.
var walkReach = 1 << 28

// A walk is a launch of such a kernel. Its first two operands are where elements go and where they come from; the others
// give numbers, and may be no memory.
type walk struct {
	space
	unit   int                  // bytes of an element
	begin  [maxWalk]uint64      // of the operands: addresses, or numbers
	size   [maxWalk]int         // what one step adds to that
	before [kernels.MaxDims]int // entries of each axis that other walks take, in front of these
}

const (
	maxWalk = 4 // operands
	moved   = 2 // those that hold the elements
)

// over sets w to the elements of operands that all have the given shape, of which only strides are looked at.
func (w *walk) over(shape []int, unit int, operands ...kernels.Arg) {
	w.collapse(operands, shape)
	if w.rank == 0 { // one element
		w.shape[0], w.rank = 1, 1
	}
	w.unit, w.size = unit, [maxWalk]int{unit, unit, 1, 1}
}

// widen makes elements that lie side by side one element, of up to 16 bytes, as far as their places and other numbers of
// bytes allow, combined by or. It returns how many became one.
func (w *walk) widen(others uint64) int {
	last := w.rank - 1
	all := w.begin[0] | w.begin[1] | others | uint64(w.shape[last]*w.unit)
	for k := range w.ins {
		if k < moved != (w.strides[k][last] == 1) || k >= moved && w.strides[k][last] != 0 {
			return 1
		}
		for _, stride := range w.strides[k][:last] {
			if k < moved {
				all |= uint64(stride * w.unit)
			}
		}
	}
	n := min(walkBytes, 1<<bits.TrailingZeros64(all)) / w.unit
	w.n /= n
	w.shape[last] /= n
	for k := range moved {
		for d := range last {
			w.strides[k][d] /= n
		}
		w.size[k] *= n
	}
	w.unit *= n
	return n
}

// far is the axis along which w reaches furthest if it spans too much for one launch, else -1.
func (w *walk) far() int {
	axis, furthest, far := -1, -1, false
	for k := range w.ins {
		total := 0
		for d, stride := range w.strides[k][:w.rank] {
			reach := (w.shape[d] - 1) * max(stride, -stride)
			if reach > furthest {
				axis, furthest = d, reach
			}
			total += reach
		}
		far = far || total >= walkReach
	}
	if !far {
		return -1
	}
	return axis
}

// split makes w its first half along an axis and returns the second.
func (w *walk) split(axis int) walk {
	rest := *w
	w.shape[axis] /= 2
	rest.shape[axis] -= w.shape[axis]
	entry := w.n / (w.shape[axis] + rest.shape[axis])
	w.n, rest.n = entry*w.shape[axis], entry*rest.shape[axis]
	rest.before[axis] += w.shape[axis]
	for k := range w.ins {
		rest.begin[k] += uint64(w.shape[axis] * w.strides[k][axis] * w.size[k])
	}
	return rest
}

// groups is how many entries of the first axis go by before the next one of a thread.
func (w *walk) groups() int { return ceilDiv(w.shape[0], walkBytes/w.unit) }

// threads is how many threads take the elements: each several entries of the first axis, evenly apart.
func (w *walk) threads() int { return w.n / w.shape[0] * w.groups() }

// walk launches a kernel of a family, several times if one does not reach all. Arguments are where operands begin and the
// structs Walk and Shape32; `more` appends what follows, unless it is nil, and gets w.before.
func (c *call) walk(family string, w *walk, more func(before [kernels.MaxDims]int)) error {
	if axis := w.far(); axis >= 0 {
		return c.walkHalves(family, w, axis, more)
	}
	if err := c.each(sized(family, w.unit), w.threads()); err != nil {
		return err
	}
	for _, begin := range w.begin[:w.ins] {
		arg(c, begin)
	}
	p := c.space(uintptr(12+4*w.ins), 4)
	le := binary.LittleEndian
	le.PutUint32(p, uint32(w.n))
	le.PutUint32(p[4:], uint32(w.groups()))
	le.PutUint32(p[8:], uint32(w.threads()))
	for k := range w.ins {
		le.PutUint32(p[12+4*k:], uint32(w.groups()*w.strides[k][0]))
	}
	w.shape32(c)
	if more != nil {
		more(w.before)
	}
	return nil
}

// walkHalves launches both halves of a walk that is too far for one.
func (c *call) walkHalves(family string, w *walk, axis int, more func(before [kernels.MaxDims]int)) error {
	first := *w
	second := first.split(axis)
	if err := c.walk(family, &first, more); err != nil {
		return err
	}
	return c.walk(family, &second, more)
}
