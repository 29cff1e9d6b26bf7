package vec

import (
	"fmt"
	"unsafe"
)

// Fused is the kernel of a whole pointwise operation: one pass over memory, with
// the bits that its instructions give one by one.
type Fused struct {
	Variant string // the operation, as expr.Func.Variant writes it
	id      int
	Outs    int // results
	Ins     int // operands that are vectors
	Scalars int // parameters, then operands of one element
}

// maxOperands is the largest number of vectors of a kernel.
const maxOperands = 9

// Pointwise returns the kernel of the operation that expr.Func.Variant names, or nil
// if there is none; then its instructions serve.
func Pointwise(variant string) *Fused { return registry[variant] }

// Run computes outs from ins and scalars. All vectors have the same length; an
// output may be the same slice as an operand, but may not overlap one otherwise.
func (f *Fused) Run(outs, ins [][]float32, scalars []float32) {
	if len(outs) != f.Outs || len(ins) != f.Ins || len(scalars) != f.Scalars {
		panic(fmt.Sprintf("vec: %s: %d outputs, %d operands and %d scalars, want %d, %d and %d", f.Variant,
			len(outs), len(ins), len(scalars), f.Outs, f.Ins, f.Scalars))
	}
	n := len(outs[0])
	var p [maxOperands]*float32
	for i, x := range outs {
		sameLength(f.Variant, n, len(x))
		p[i] = unsafe.SliceData(x)
	}
	for i, x := range ins {
		sameLength(f.Variant, n, len(x))
		p[f.Outs+i] = unsafe.SliceData(x)
	}
	switch current {
	case Portable:
		runPortable(f.id, outs, ins, scalars)
	case AVX2:
		runAVX2(f.id, &p[0], unsafe.SliceData(scalars), n)
	case AVX512:
		runAVX512(f.id, &p[0], unsafe.SliceData(scalars), n)
	}
}
