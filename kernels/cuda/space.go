//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// A space is the elements of a launch in the fewest dimensions through which every operand steps evenly.
type space struct {
	n       int // elements
	rank    int
	shape   [kernels.MaxDims]int
	ins     int
	strides [maxPointwise][kernels.MaxDims]int
}

// collapse sets s to the elements of operands that all have the given shape.
func (s *space) collapse(in []kernels.Arg, shape []int) {
	s.n, s.ins = kernels.Count(shape), len(in)
	for d, size := range shape {
		if size == 1 {
			continue
		}
		merge := s.rank > 0
		for k := range in {
			merge = merge && s.strides[k][s.rank-1] == in[k].Strides[d]*size
		}
		if merge {
			s.shape[s.rank-1] *= size
		} else {
			s.shape[s.rank] = size
			s.rank++
		}
		for k := range in {
			s.strides[k][s.rank-1] = in[k].Strides[d]
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

// flat tells whether the elements of operand k lie side by side in the order of the result.
func (s *space) flat(k int) bool {
	step := 1
	for d := s.rank - 1; d >= 0; d-- {
		if s.strides[k][d] != step {
			return false
		}
		step *= s.shape[d]
	}
	return true
}

// adjacent is the axis along which the elements of operand k lie side by side; -1 if there is none.
func (s *space) adjacent(k int) int { return slices.Index(s.strides[k][:s.rank], 1) }

// drop takes an axis out.
func (s *space) drop(axis int) {
	copy(s.shape[axis:], s.shape[axis+1:s.rank])
	for k := range s.ins {
		copy(s.strides[k][axis:], s.strides[k][axis+1:s.rank])
	}
	s.rank--
}

// small tells whether 32 bits count the elements and place them in all operands.
func (s *space) small() bool {
	if s.n >= 1<<31 {
		return false
	}
	for k := range s.ins {
		reach := 0
		for d := range s.rank {
			if s.strides[k][d] < 0 {
				return false
			}
			reach += (s.shape[d] - 1) * s.strides[k][d]
		}
		if reach >= 1<<31 {
			return false
		}
	}
	return true
}

// shape32 appends the struct Shape32 of index.cuh.
func (s *space) shape32(c *call) {
	p := c.space(uintptr(4+12*kernels.MaxDims+4*kernels.MaxDims*max(1, s.ins)), 4)
	clear(p)
	binary.LittleEndian.PutUint32(p, uint32(s.rank))
	p = p[4:]
	for d := range s.rank {
		size := uint64(s.shape[d])
		shift := bits.Len64(size - 1)
		binary.LittleEndian.PutUint32(p[12*d:], uint32(size))
		binary.LittleEndian.PutUint32(p[12*d+4:], uint32((uint64(1)<<32)*(1<<shift-size)/size+1))
		binary.LittleEndian.PutUint32(p[12*d+8:], uint32(shift))
	}
	p = p[12*kernels.MaxDims:]
	for k := range s.ins {
		for d := range s.rank {
			binary.LittleEndian.PutUint32(p[4*(k*kernels.MaxDims+d):], uint32(s.strides[k][d]))
		}
	}
}

// shape64 appends the struct Shape64 of index.cuh.
func (s *space) shape64(c *call) {
	p := c.space(uintptr(8+8*kernels.MaxDims+8*kernels.MaxDims*max(1, s.ins)), 8)
	clear(p)
	binary.LittleEndian.PutUint64(p, uint64(s.rank))
	for d := range s.rank {
		binary.LittleEndian.PutUint64(p[8+8*d:], uint64(s.shape[d]))
	}
	p = p[8+8*kernels.MaxDims:]
	for k := range s.ins {
		for d := range s.rank {
			binary.LittleEndian.PutUint64(p[8*(k*kernels.MaxDims+d):], uint64(s.strides[k][d]))
		}
	}
}

// dimensions are nested loops with their steps through memory.
type dimensions struct {
	rank           int
	shape, strides [kernels.MaxDims]int
}

// push adds an innermost loop, or lengthens the innermost if it goes on evenly.
func (d *dimensions) push(size, stride int) {
	switch last := d.rank - 1; {
	case size == 1:
	case d.rank > 0 && d.strides[last] == stride*size:
		d.shape[last] *= size
		d.strides[last] = stride
	default:
		d.shape[d.rank], d.strides[d.rank] = size, stride
		d.rank++
	}
}

// pushAll adds the axes of a layout.
func (d *dimensions) pushAll(shape, strides []int) {
	for i, size := range shape {
		d.push(size, strides[i])
	}
}

// shape64 is the struct Shape64<1> of index.cuh.
type shape64 struct {
	rank   uint64
	size   [kernels.MaxDims]uint64
	stride [kernels.MaxDims]uint64
}

// axes appends dimensions as a Shape64<1>.
func (c *call) axes(d *dimensions) {
	s := d.shape64()
	structure(c, &s)
}

func (d *dimensions) shape64() shape64 {
	s := shape64{rank: uint64(d.rank)}
	for i := range d.rank {
		s.size[i], s.stride[i] = uint64(d.shape[i]), uint64(d.strides[i])
	}
	return s
}
