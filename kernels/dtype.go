package kernels

import "math"

// DType is the element type of a tensor. It is known at run time only: mixed precision changes it inside a step.
type DType uint8

// The element types. Float16 is IEEE binary16; BFloat16 is the upper half of a Float32.
const (
	Float32 DType = iota
	Float64
	Float16
	BFloat16
	Int64
	Int32
	Uint8
	Bool
	numDTypes
)

var dtypes = [numDTypes]struct {
	name string
	size int
}{
	Float32: {"float32", 4}, Float64: {"float64", 8}, Float16: {"float16", 2}, BFloat16: {"bfloat16", 2},
	Int64: {"int64", 8}, Int32: {"int32", 4}, Uint8: {"uint8", 1}, Bool: {"bool", 1},
}

// String is the type's name, such as "float32".
func (d DType) String() string {
	if d < numDTypes {
		return dtypes[d].name
	}
	return "invalid dtype"
}

// Target makes an element type one of the targets of a tensor's method To.
func (DType) Target() {}

// Size is the size of one element in bytes.
func (d DType) Size() int { return dtypes[d].size }

// IsFloat tells whether values of the type can carry a gradient.
func (d DType) IsFloat() bool { return d <= BFloat16 }

// IsHalf tells whether the type is Float16 or BFloat16.
func (d DType) IsHalf() bool { return d == Float16 || d == BFloat16 }

// IsInt tells whether the type is an integer; Bool is not.
func (d DType) IsInt() bool { return d >= Int64 && d <= Uint8 }

// DTypes lists all element types.
func DTypes() []DType {
	all := make([]DType, numDTypes)
	for i := range all {
		all[i] = DType(i)
	}
	return all
}

// BF16 is a stored bfloat16: the upper half of a float32.
type BF16 uint16

// Float32 is the exact value.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
