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

// uniform is the set of operands that are one element.
func (s *space) uniform(in []kernels.Arg) (set uint64) {
	for k := range in {
		if s.strides[k] == [kernels.MaxDims]int{} {
			set |= 1 << k
		}
	}
	return set
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

// fits32 tells whether the number of elements and all offsets fit into 31 bits.
func (s *space) fits32() bool {
	if s.n >= 1<<31 {
		return false
	}
	for k := range s.ins {
		reach := 0
		for d := range s.Rank {
			if s.strides[k][d] < 0 {
				return false
			}
			reach += (s.Shape[d] - 1) * s.strides[k][d]
		}
		if reach >= 1<<31 {
			return false
		}
	}
	return true
}

// divisor is the multiplier and the shift of the struct Divisor.
func divisor(value uint64) (multiplier, shift uint32) {
	shift = uint32(bits.Len64(value - 1))
	return uint32((uint64(1)<<32)*(1<<shift-value)/value + 1), shift
}

// shape32 appends the struct Shape32.
func (s *space) shape32(c *call) {
	p := c.space(uintptr(4+12*kernels.MaxDims+4*kernels.MaxDims*max(1, s.ins)), 4)
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
