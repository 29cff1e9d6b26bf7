package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// What reference kernels have in common. Their operands and results are contiguous.

// eachIndex calls f with every index of a shape, in row-major order, and its place i in that order.
func eachIndex(shape []int, f func(i int, at []int)) {
	at := make([]int, len(shape))
	for i := range kernels.Count(shape) {
		f(i, at)
		for d := len(shape) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

// placeOf is the place of an index in row-major order. Axes of size 1 repeat.
func placeOf(shape, at []int) int {
	p := 0
	for d, size := range shape {
		p *= size
		if size > 1 {
			p += at[d]
		}
	}
	return p
}

// blank is the operand that a place of the result has if it is filled.
const blank = -1

// moveRef is the reference of operations that move elements: source says from which operand, and from which place in
// it, the element of the result at an index comes. Blank elements get the bytes of fill, nil for zero.
func moveRef(l *kernels.Launch, fill []byte, source func(at []int) (operand, place int)) {
	size := l.Out[0].DType.Size()
	if fill == nil {
		fill = make([]byte, size)
	}
	y := memoryOf(l.Out[0])
	eachIndex(l.Out[0].Shape, func(i int, at []int) {
		from := fill
		if operand, place := source(at); operand != blank {
			from = memoryOf(l.In[operand])[place*size:][:size]
		}
		copy(y[i*size:], from)
	})
}

// memoryOf is the memory of an operand of a reference from its first element on.
func memoryOf(a kernels.Arg) []byte {
	return a.Buf.(*cpu.Mem).Data()[a.Offset*a.DType.Size():]
}
