package src

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/weft-ml/weft/kernels"
)

// The functions of this file write parameters of kernels as the C++ structs of the headers lie in memory.

// maxDims is kMaxDims of index.cuh.
const maxDims = kernels.MaxDims

// Collapse returns the shape and the strides of operands of that shape with as few dimensions as place the same
// elements in the same order: dimensions of size 1 go, and neighbours merge where all operands go on evenly.
// The result has at least one dimension.
func Collapse(shape []int, strides ...[]int) ([]int, [][]int) {
	var sizes []int
	steps := make([][]int, len(strides))
	for d, size := range shape {
		if size == 1 {
			continue
		}
		last := len(sizes) - 1
		merge := last >= 0
		for k := range strides {
			merge = merge && steps[k][last] == strides[k][d]*size
		}
		if merge {
			sizes[last] *= size
			for k := range strides {
				steps[k][last] = strides[k][d]
			}
			continue
		}
		sizes = append(sizes, size)
		for k := range strides {
			steps[k] = append(steps[k], strides[k][d])
		}
	}
	if len(sizes) == 0 {
		sizes = []int{1}
		for k := range steps {
			steps[k] = []int{0}
		}
	}
	return sizes, steps
}

// Fits32 tells whether a shape and its strides can be a Shape32: no index reaches 2^31.
func Fits32(shape []int, strides ...[]int) bool {
	if kernels.Count(shape) > math.MaxInt32 {
		return false
	}
	for _, s := range strides {
		reach := 0
		for d, size := range shape {
			reach += max(0, size-1) * s[d]
		}
		if reach > math.MaxInt32 {
			return false
		}
	}
	return true
}

// divisor is the multiplier and the shift of Divisor in index.cuh.
func divisor(value uint32) (multiplier, shift uint32) {
	shift = uint32(bits.Len32(value - 1))
	return uint32((uint64(1)<<32)*(uint64(1)<<shift-uint64(value))/uint64(value)) + 1, shift
}

// AppendShape32 appends a Shape32 of the operands' number.
func AppendShape32(b []byte, shape []int, strides ...[]int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(shape)))
	for d := range maxDims {
		value := uint32(1)
		if d < len(shape) {
			value = uint32(max(1, shape[d]))
		}
		multiplier, shift := divisor(value)
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, value), multiplier), shift)
	}
	for _, s := range strides {
		for d := range maxDims {
			b = le.AppendUint32(b, uint32(entry(s, d)))
		}
	}
	return b
}

// AppendShape64 appends a Shape64 of the operands' number. What is appended to must be a multiple of 8 long.
func AppendShape64(b []byte, shape []int, strides ...[]int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(shape)))
	for d := range maxDims {
		b = le.AppendUint64(b, uint64(max(1, entry(shape, d))))
	}
	for _, s := range strides {
		for d := range maxDims {
			b = le.AppendUint64(b, uint64(entry(s, d)))
		}
	}
	return b
}

func entry(s []int, d int) int {
	if d < len(s) {
		return s[d]
	}
	return 0
}

// AppendOperands appends the Operands of p: the addresses of its operands and results, its place in the random
// streams, which operands are one element (bit k for operand k), and its scalars. What is appended to must be a
// multiple of 8 long.
func (p *Pointwise) AppendOperands(b []byte, in, out []uintptr, random kernels.Random, uniform uint32, scalars []float64) []byte {
	le := binary.LittleEndian
	for k := range max(1, len(p.In)) {
		address := uintptr(0)
		if k < len(in) {
			address = in[k]
		}
		b = le.AppendUint64(b, uint64(address))
	}
	for k := range p.Out {
		b = le.AppendUint64(b, uint64(out[k]))
	}
	b = le.AppendUint64(le.AppendUint64(b, random.Key), random.Counter)
	number := p.Number()
	b = le.AppendUint32(b, uniform)
	for len(b)%number.Size() != 0 {
		b = append(b, 0)
	}
	for k := range max(1, len(p.Func.Params)) {
		x := 0.0
		if k < len(scalars) {
			x = scalars[k]
		}
		b = AppendNumber(b, number, x)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// AppendNumber appends x as a number that pointwise kernels compute with.
func AppendNumber(b []byte, number kernels.DType, x float64) []byte {
	switch le := binary.LittleEndian; number {
	case kernels.Float64:
		return le.AppendUint64(b, math.Float64bits(x))
	case kernels.Int64:
		return le.AppendUint64(b, uint64(int64(x)))
	default:
		return le.AppendUint32(b, math.Float32bits(float32(x)))
	}
}
