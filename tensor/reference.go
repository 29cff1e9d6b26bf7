package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// This file has what references share. Their operands and results are contiguous.

// eachIndex calls f with the indices of every element of a shape, in row-major order, and the element's offset.
func eachIndex(shape []int, f func(offset int, index []int)) {
	index := make([]int, len(shape))
	for offset := range kernels.Count(shape) {
		f(offset, index)
		for d := len(shape) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// offsetOf is the offset of the element with the given indices. Axes of size 1 repeat.
func offsetOf(shape, index []int) int {
	offset := 0
	for d, size := range shape {
		offset *= size
		if size > 1 {
			offset += index[d]
		}
	}
	return offset
}

// filled, in place of an operand, says that an element is no copy.
const filled = -1

// copyRef is the reference of operations that copy elements: source gives, for the indices of an element of the result,
// the operand and the offset in it that the element comes from. Filled elements get the bytes of fill, nil for zero.
func copyRef(l *kernels.Launch, fill []byte, source func(index []int) (operand, offset int)) {
	size := l.Out[0].DType.Size()
	if fill == nil {
		fill = make([]byte, size)
	}
	y := memoryOf(l.Out[0])
	eachIndex(l.Out[0].Shape, func(i int, index []int) {
		from := fill
		if operand, offset := source(index); operand != filled {
			from = memoryOf(l.In[operand])[offset*size:][:size]
		}
		copy(y[i*size:], from)
	})
}

// memoryOf is the memory of an operand of a reference from its first element on.
func memoryOf(a kernels.Arg) []byte {
	return a.Buf.(*cpu.Mem).Data()[a.Offset*a.DType.Size():]
}
