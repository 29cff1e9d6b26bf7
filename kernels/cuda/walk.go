//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math/bits"
)

// Launches of the kernels that walk.cuh describes.

const (
	walkBytes = 16      // that a thread moves
	walkReach = 1 << 28 // elements: a walk spans fewer in every operand; 16 times as many have a number of 32 bits
)

// widen makes elements of the given size that lie side by side in all operands one element, of up to 16 bytes, as far as
// their places allow; addresses are those of the operands, combined by or. It returns the size of the new elements.
func (s *space) widen(addresses uint64, size int) int {
	last := s.rank - 1
	all := addresses | uint64(s.shape[last]*size)
	for k := range s.ins {
		if s.strides[k][last] != 1 {
			return size
		}
		for _, stride := range s.strides[k][:last] {
			all |= uint64(stride * size)
		}
	}
	unit := min(walkBytes, 1<<bits.TrailingZeros64(all))
	s.n /= unit / size
	s.shape[last] /= unit / size
	for k := range s.ins {
		for d := range last {
			s.strides[k][d] /= unit / size
		}
	}
	return unit
}

// far is the axis along which s reaches furthest if it spans too much for one walk, else -1.
func (s *space) far() int {
	axis, furthest, far := -1, -1, false
	for k := range s.ins {
		total := 0
		for d, stride := range s.strides[k][:s.rank] {
			reach := (s.shape[d] - 1) * max(stride, -stride)
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

// split makes s its first half along an axis and returns the second, whose first element lies at[k] behind that of s in
// operand k.
func (s *space) split(axis int) (rest space, at [2]int) {
	rest = *s
	s.shape[axis] /= 2
	rest.shape[axis] -= s.shape[axis]
	entry := s.n / (s.shape[axis] + rest.shape[axis])
	s.n, rest.n = entry*s.shape[axis], entry*rest.shape[axis]
	for k := range s.ins {
		at[k] = s.shape[axis] * s.strides[k][axis]
	}
	return rest, at
}

// threads is how many threads take the elements of s, of `unit` bytes: each several entries of the first axis, evenly apart.
func (s *space) threads(unit int) int { return s.n / s.shape[0] * s.groups(unit) }

// groups is how many entries of the first axis go by before the next one of a thread.
func (s *space) groups(unit int) int { return ceilDiv(s.shape[0], walkBytes/unit) }

// steps appends the structs Walk and Shape32.
func (c *call) steps(s *space, unit int) {
	p := c.space(uintptr(8+4*s.ins), 4)
	le := binary.LittleEndian
	le.PutUint32(p, uint32(s.n))
	le.PutUint32(p[4:], uint32(s.threads(unit)))
	for k := range s.ins {
		le.PutUint32(p[8+4*k:], uint32(s.groups(unit)*s.strides[k][0]))
	}
	s.shape32(c)
}
