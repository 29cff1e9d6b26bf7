//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// Shapes and strides of launches, and the structs of layout.cuh. Shape64<1>, called Axes in row.cuh, is [kernels.Dims].

// space is the iteration space of a launch with the strides of its operands.
type space struct {
	kernels.Space
	n       int // elements
	ins     int
	strides [maxPointwise][kernels.MaxDims]int
	base    [maxPointwise]int    // offsets of the first element, if other launches visit those in front of it
	before  [kernels.MaxDims]int // coordinates in front of these that other launches visit
}

// collapse sets s to the elements of operands that all have the given shape.
func (s *space) collapse(in []kernels.Arg, shape []int) {
	s.n, s.ins = kernels.Count(shape), len(in)
	s.Collapse(shape, in)
	for k := range in {
		for d, axis := range s.Axis[:s.Rank] {
			s.strides[k][d] = in[k].Strides[axis]
		}
	}
}

// lines makes s the lines along an axis of a shape, for operands with these strides: steps are theirs within a line.
func (s *space) lines(shape []int, axis int, steps []int64, strides ...[]int) {
	var others [kernels.MaxDims]int
	rank := copy(others[:], shape)
	others[axis] = 1
	var operands [maxPointwise]kernels.Arg
	for k := range strides {
		operands[k].Strides, steps[k] = strides[k], int64(strides[k][axis])
	}
	s.collapse(operands[:len(strides)], others[:rank])
}

// contiguous tells whether operand k is contiguous in the order of the result.
func (s *space) contiguous(k int) bool {
	stride := 1
	for d := s.Rank - 1; d >= 0; d-- {
		if s.strides[k][d] != stride {
			return false
		}
		stride *= s.Shape[d]
	}
	return true
}

// fastest is the axis along which operand k has stride 1; -1 if there is none.
func (s *space) fastest(k int) int { return slices.Index(s.strides[k][:s.Rank], 1) }

// drop takes an axis out.
func (s *space) drop(axis int) {
	copy(s.Shape[axis:], s.Shape[axis+1:s.Rank])
	for k := range s.ins {
		copy(s.strides[k][axis:], s.strides[k][axis+1:s.Rank])
	}
	s.Rank--
}

// maxReach is the largest span of the offsets of one launch in every operand; 16 times as much fits into 32 bits. A
// variable so that tests can make it small.
var maxReach = 1 << 28

// longest is the axis with the largest span of offsets if s spans too much for one launch, else -1.
func (s *space) longest() int {
	axis, longest, far := -1, -1, false
	for k := range s.ins {
		total := 0
		for d, stride := range s.strides[k][:s.Rank] {
			reach := (s.Shape[d] - 1) * max(stride, -stride)
			if reach > longest {
				axis, longest = d, reach
			}
			total += reach
		}
		far = far || total >= maxReach
	}
	if !far {
		return -1
	}
	return axis
}

// split makes s its first half along an axis and returns the second.
func (s *space) split(axis int) space {
	rest := *s
	s.Shape[axis] /= 2
	rest.Shape[axis] -= s.Shape[axis]
	slice := s.n / (s.Shape[axis] + rest.Shape[axis])
	s.n, rest.n = slice*s.Shape[axis], slice*rest.Shape[axis]
	rest.before[axis] += s.Shape[axis]
	for k := range s.ins {
		rest.base[k] += s.Shape[axis] * s.strides[k][axis]
	}
	return rest
}

// divisor is the multiplier and the shift of the struct Divisor.
func divisor(value uint64) (multiplier, shift uint32) {
	shift = uint32(bits.Len64(value - 1))
	return uint32((uint64(1)<<32)*(1<<shift-value)/value + 1), shift
}

// shape32 appends the struct Shape32.
func (s *space) shape32(c *call) { s.putShape32(c.space(uintptr(s.shape32Bytes()), 4)) }

// shape32Bytes is the size of the struct Shape32.
func (s *space) shape32Bytes() int { return 4 + 12*kernels.MaxDims + 4*kernels.MaxDims*max(1, s.ins) }

// putShape32 sets p to the struct Shape32.
func (s *space) putShape32(p []byte) {
	clear(p)
	binary.LittleEndian.PutUint32(p, uint32(s.Rank))
	p = p[4:]
	for d := range s.Rank {
		multiplier, shift := divisor(uint64(s.Shape[d]))
		binary.LittleEndian.PutUint32(p[12*d:], uint32(s.Shape[d]))
		binary.LittleEndian.PutUint32(p[12*d+4:], multiplier)
		binary.LittleEndian.PutUint32(p[12*d+8:], shift)
	}
	p = p[12*kernels.MaxDims:]
	for k := range s.ins {
		for d := range s.Rank {
			binary.LittleEndian.PutUint32(p[4*(k*kernels.MaxDims+d):], uint32(s.strides[k][d]))
		}
	}
}

// shape64 appends the struct Shape64.
func (s *space) shape64(c *call) {
	p := c.space(uintptr(8+8*kernels.MaxDims*(1+max(1, s.ins))), 8)
	binary.LittleEndian.PutUint64(p, uint64(s.Rank))
	copy(p[8:], bytesOf(&s.Shape))
	copy(p[8+8*kernels.MaxDims:], bytesOf(&s.strides)) // of s.ins operands
}
