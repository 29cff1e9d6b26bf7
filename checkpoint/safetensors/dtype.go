package safetensors

import (
	"fmt"
)

// DType is the type of a tensor's elements. Its zero value is none.
type DType uint8

// The types of the format. Files hold tensors of later types first: the order is that of the sizes, so that each tensor
// is aligned to its elements if the data are.
const (
	_           DType = iota
	BOOL              // a byte, 0 or 1
	F4                // E2M1, two in a byte
	F6_E2M3           // four in three bytes
	F6_E3M2           // four in three bytes
	U8                // unsigned
	I8                // signed
	F8_E5M2           // with infinities
	F8_E4M3           // without infinities (PyTorch: float8_e4m3fn)
	F8_E8M0           // powers of two, for scales
	F8_E4M3FNUZ       // no infinities, no -0
	F8_E5M2FNUZ       // no infinities, no -0
	I16               // signed
	U16               // unsigned
	F16               // IEEE 754
	BF16              // the upper half of F32
	I32               // signed
	U32               // unsigned
	F32               // IEEE 754
	C64               // complex, two F32
	F64               // IEEE 754
	I64               // signed
	U64               // unsigned
)

var dtypes = [...]struct {
	name string
	bits int
}{
	BOOL: {"BOOL", 8}, F4: {"F4", 4}, F6_E2M3: {"F6_E2M3", 6}, F6_E3M2: {"F6_E3M2", 6},
	U8: {"U8", 8}, I8: {"I8", 8}, F8_E5M2: {"F8_E5M2", 8}, F8_E4M3: {"F8_E4M3", 8}, F8_E8M0: {"F8_E8M0", 8},
	F8_E4M3FNUZ: {"F8_E4M3FNUZ", 8}, F8_E5M2FNUZ: {"F8_E5M2FNUZ", 8},
	I16: {"I16", 16}, U16: {"U16", 16}, F16: {"F16", 16}, BF16: {"BF16", 16},
	I32: {"I32", 32}, U32: {"U32", 32}, F32: {"F32", 32},
	C64: {"C64", 64}, F64: {"F64", 64}, I64: {"I64", 64}, U64: {"U64", 64},
}

// ParseDType returns the type that headers call by a name, such as "F32"; false if there is none.
func ParseDType(name string) (DType, bool) {
	for d := range dtypes {
		if d > 0 && dtypes[d].name == name {
			return DType(d), true
		}
	}
	return 0, false
}

// known tells a type of the format from zero and other numbers.
func (d DType) known() bool { return d > 0 && int(d) < len(dtypes) }

// String is the name of the type in headers, such as "F32".
func (d DType) String() string {
	if !d.known() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Bits is the size of an element: 4 to 64 bits, 0 for what is no type of the format.
func (d DType) Bits() int {
	if !d.known() {
		return 0
	}
	return dtypes[d].bits
}
