package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/x448/float16"
)

// DType is the element type of a tensor, one of the values below. Types are compared by ==. The methods are String,
// Size (bytes of an element), IsFloat, IsHalf (float16 and bfloat16), IsInt (integers but not bools), and Code, its
// number in attributes of operations. The zero DType is Float32.
type DType = kernels.DType

// The element types.
var (
	Float32  = kernels.Float32
	Float64  = kernels.Float64
	Float16  = kernels.Float16
	BFloat16 = kernels.BFloat16
	Int64    = kernels.Int64
	Int32    = kernels.Int32
	Uint8    = kernels.Uint8
	Bool     = kernels.Bool
)

// BF16 is a bfloat16 in memory: the upper half of a float32.
type BF16 = kernels.BF16

// Elem is the set of Go types whose slices are copied to and from tensors. int is Int64.
type Elem interface {
	float32 | float64 | float16.Float16 | BF16 | int | int64 | int32 | uint8 | bool
}

func dtypeOf[T Elem]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case float16.Float16:
		return Float16
	case BF16:
		return BFloat16
	case int, int64: // of 64 bits on all platforms that Weft compiles for
		return Int64
	case int32:
		return Int32
	case uint8:
		return Uint8
	}
	return Bool
}

// category orders bool, integers and floats. The highest one among the operands decides.
func category(d DType) int {
	switch {
	case d == Bool:
		return 0
	case d.IsInt():
		return 1
	}
	return 2
}

// widest is the smallest type of the higher category that holds both.
func widest(a, b DType) DType {
	switch ca, cb := category(a), category(b); {
	case a == b || ca > cb:
		return a
	case cb > ca:
		return b
	case a == Float64 || b == Float64:
		return Float64
	case ca == 2: // float32 with a half, or the two halves together
		return Float32
	case a == Int64 || b == Int64:
		return Int64
	}
	return Int32
}

// promote is the type in which an operation computes. A tensor of rank 0 counts as a scalar: it decides only if its
// category is higher than that of every tensor with axes.
func promote(in []*Tensor) DType {
	dt, rank0, axes := Bool, Bool, false
	for _, t := range in {
		if len(t.layout.Shape) == 0 {
			rank0 = widest(rank0, t.dtype)
		} else {
			dt, axes = widest(dt, t.dtype), true
		}
	}
	if !axes || category(rank0) > category(dt) {
		return rank0
	}
	return dt
}
