package kernels

import (
	"math/bits"
	"slices"
)

// MaxDims is the largest rank of a tensor.
const MaxDims = 8

// MaxLen is the largest number of elements of a tensor, sizes of 0 counted as 1: more than any memory holds, and so few
// that the numbers of their bytes, their strides and offsets do not overflow.
const MaxLen = 1 << maxLenBits

const maxLenBits = 48

// Fits tells whether a tensor can have a shape: at most [MaxDims] axes, none of negative size, [MaxLen] elements.
func Fits(shape []int) bool {
	width := 0 // bits of the product, or one more for each axis
	for _, d := range shape {
		width += bits.Len(uint(d))
	}
	return width <= maxLenBits && len(shape) <= MaxDims || fits(shape)
}

// fits is Fits without the estimate.
func fits(shape []int) bool {
	n := uint64(1)
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(max(d, 1)))
		if d < 0 || high != 0 || low > MaxLen {
			return false
		}
		n = low
	}
	return len(shape) <= MaxDims
}

// Layout says where the elements of a tensor are in its buffer: element (i0, i1, ...) is at
// Offset + i0*Strides[0] + i1*Strides[1] + ..., counted in elements. A stride of 0 repeats.
type Layout struct {
	Shape, Strides []int
	Offset         int
}

// Len is the number of elements, the product of the shape; 1 for rank 0.
func (l Layout) Len() int { return Count(l.Shape) }

// Count is the product of a shape.
func Count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Contiguous tells whether the elements are in row-major order without padding.
func (l Layout) Contiguous() bool {
	n := 1
	for i := len(l.Shape) - 1; i >= 0; i-- {
		if l.Shape[i] != 1 && l.Strides[i] != n {
			return l.Len() == 0
		}
		n *= l.Shape[i]
	}
	return true
}

// Equal tells whether two layouts have the same shape, strides and offset.
func (l Layout) Equal(m Layout) bool {
	return l.Offset == m.Offset && slices.Equal(l.Shape, m.Shape) && slices.Equal(l.Strides, m.Strides)
}

// RowMajor fills strides with those of a contiguous tensor of the given shape and returns them.
func RowMajor(strides, shape []int) []int {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	return strides[:len(shape)]
}
