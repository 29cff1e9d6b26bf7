//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math/bits"

	"github.com/weft-ml/weft/kernels"
)

const copyBytes = 16 // that a thread moves

// A stridedCopy is a launch of the kernels of copy.cuh. Its first two operands are destination and source; the others
// are linear functions of the coordinates, and need not be memory.
type stridedCopy struct {
	space
	elementBytes int
	begin        [maxCopyOperands]uint64 // of the operands: address, or first value
	scale        [maxCopyOperands]int    // what a stride of 1 adds to that
}

const (
	maxCopyOperands = 4
	copied          = 2 // the operands that are memory with the elements
)

// set makes w the copy of elements of operands that all have the given shape, of which only strides matter.
func (w *stridedCopy) set(shape []int, elementBytes int, operands ...kernels.Arg) {
	w.collapse(operands, shape)
	if w.Rank == 0 { // one element
		w.Shape[0], w.Rank = 1, 1
	}
	w.elementBytes, w.scale = elementBytes, [maxCopyOperands]int{elementBytes, elementBytes, 1, 1}
}

// vectorise makes contiguous elements one element, of up to 16 bytes, as far as addresses, strides and other numbers
// of bytes (combined by or) are aligned. It returns how many became one.
func (w *stridedCopy) vectorise(others uint64) int {
	last := w.Rank - 1
	all := w.begin[0] | w.begin[1] | others | uint64(w.Shape[last]*w.elementBytes)
	for k := range w.ins {
		if k < copied != (w.strides[k][last] == 1) || k >= copied && w.strides[k][last] != 0 {
			return 1
		}
		for _, stride := range w.strides[k][:last] {
			if k < copied {
				all |= uint64(stride * w.elementBytes)
			}
		}
	}
	n := min(copyBytes, 1<<bits.TrailingZeros64(all)) / w.elementBytes
	w.n /= n
	w.Shape[last] /= n
	for k := range copied {
		for d := range last {
			w.strides[k][d] /= n
		}
		w.scale[k] *= n
	}
	w.elementBytes *= n
	return n
}

// entries is how many entries of the first axis all threads cover at once: the distance of the elements of one thread.
func (w *stridedCopy) entries() int { return ceilDiv(w.Shape[0], copyBytes/w.elementBytes) }

// threads is how many threads visit the elements.
func (w *stridedCopy) threads() int { return w.n / w.Shape[0] * w.entries() }

// stridedCopy launches a kernel of a family, several times if one launch cannot span all. Arguments are where operands
// begin and the structs StridedRange and Shape32; more, unless it is nil, appends what follows, and gets w.before.
func (c *call) stridedCopy(family string, w *stridedCopy, more func(before [kernels.MaxDims]int)) {
	if axis := w.longest(); axis >= 0 {
		c.stridedCopyHalves(family, w, axis, more)
		return
	}
	c.startEach(sized(family, w.elementBytes), w.threads())
	for k, begin := range w.begin[:w.ins] {
		arg(c, begin+uint64(w.base[k]*w.scale[k]))
	}
	w.stridedRange(c)
	w.shape32(c)
	if more != nil {
		more(w.before)
	}
}

// stridedRange appends the struct StridedRange.
func (w *stridedCopy) stridedRange(c *call) {
	p, le := c.space(uintptr(12+4*w.ins), 4), binary.LittleEndian
	le.PutUint32(p, uint32(w.n))
	le.PutUint32(p[4:], uint32(w.entries()))
	le.PutUint32(p[8:], uint32(w.threads()))
	for k := range w.ins {
		le.PutUint32(p[12+4*k:], uint32(w.entries()*w.strides[k][0]))
	}
}

// stridedCopyHalves launches both halves of a copy that is too far for one.
func (c *call) stridedCopyHalves(family string, w *stridedCopy, axis int,
	more func(before [kernels.MaxDims]int)) {
	first := *w
	second := first
	second.space = first.split(axis)
	c.stridedCopy(family, &first, more)
	c.stridedCopy(family, &second, more)
}
