package kernels

import "math"

// DType is the element type of a tensor. It is known at run time only: mixed precision changes it inside a step. It is
// no number, so that a size does not compile where a type is meant; the zero value is Float32.
type DType struct{ code uint8 }

// The element types. Float16 is IEEE binary16; BFloat16 is the upper half of a Float32.
var (
	Float32  = DType{0}
	Float64  = DType{1}
	Float16  = DType{2}
	BFloat16 = DType{3}
	Int64    = DType{4}
	Int32    = DType{5}
	Uint8    = DType{6}
	Bool     = DType{7}
)

// dtypes are the types by code.
var dtypes = [...]struct {
	name string
	size int
}{
	{"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int64", 8}, {"int32", 4}, {"uint8", 1},
	{"bool", 1},
}

// String is the type's name, such as "float32".
func (d DType) String() string { return dtypes[d.code].name }

// Code is the number of the type, below the number of types, that stands for it among integers: in the parameters of
// op calls and in device code.
func (d DType) Code() int { return int(d.code) }

// Target makes an element type one of the targets of a tensor's method To.
func (DType) Target() {}

// DTypeOf is the type with a code.
func DTypeOf(code int) DType {
	if code < 0 || code >= len(dtypes) {
		panic(Errorf(ErrDType, "dtype", "no element type has code %d", code))
	}
	return DType{uint8(code)}
}

// Size is the size of one element in bytes.
func (d DType) Size() int { return dtypes[d.code].size }

// IsFloat tells whether values of the type can carry a gradient.
func (d DType) IsFloat() bool { return d.code <= 3 }

// IsHalf tells whether the type is Float16 or BFloat16.
func (d DType) IsHalf() bool { return d.code == 2 || d.code == 3 }

// IsInt tells whether the type is an integer; Bool is not.
func (d DType) IsInt() bool { return d.code >= 4 && d.code <= 6 }

// DTypes lists all element types, by code.
func DTypes() []DType {
	all := make([]DType, len(dtypes))
	for i := range all {
		all[i] = DType{uint8(i)}
	}
	return all
}

// BF16 is a stored bfloat16: the upper half of a float32.
type BF16 uint16

// Float32 is the exact value.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
