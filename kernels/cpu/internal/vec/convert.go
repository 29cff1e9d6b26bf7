package vec

import (
	"math"
	"unsafe"

	"github.com/x448/float16"
)

// Float16 is x rounded to the nearest IEEE half-precision number, ties to even. A NaN
// keeps its upper bits and becomes quiet.
func Float16(x float32) uint16 { return float16.Fromfloat32(x).Bits() }

// BFloat16 is x rounded to the nearest bfloat16, the upper half of a float32: adding just less than half of the last
// place, and the bit that makes a tie even, carries where it should. A NaN keeps its upper bits and becomes quiet.
func BFloat16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 1<<6
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// FromFloat16 converts half-precision numbers, exactly; a NaN becomes quiet.
func FromFloat16(dst []float32, src []uint16) {
	if sameLength("FromFloat16", len(dst), len(src)); current != Portable {
		convert(fromFloat16, dst, src)
		return
	}
	for i, h := range src {
		dst[i] = float16.Frombits(h).Float32()
	}
}

// ToFloat16 sets dst to [Float16] of src.
func ToFloat16(dst []uint16, src []float32) {
	if sameLength("ToFloat16", len(dst), len(src)); current != Portable {
		convert(toFloat16, dst, src)
		return
	}
	for i, x := range src {
		dst[i] = Float16(x)
	}
}

// FromBFloat16 converts bfloat16 numbers, which keep all bits.
func FromBFloat16(dst []float32, src []uint16) {
	if sameLength("FromBFloat16", len(dst), len(src)); current != Portable {
		convert(fromBFloat16, dst, src)
		return
	}
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// ToBFloat16 sets dst to [BFloat16] of src.
func ToBFloat16(dst []uint16, src []float32) {
	if sameLength("ToBFloat16", len(dst), len(src)); current != Portable {
		convert(toBFloat16, dst, src)
		return
	}
	for i, x := range src {
		dst[i] = BFloat16(x)
	}
}

// FromUint8 converts bytes, exactly.
func FromUint8(dst []float32, src []uint8) {
	if sameLength("FromUint8", len(dst), len(src)); current != Portable {
		convert(fromUint8, dst, src)
		return
	}
	for i, x := range src {
		dst[i] = float32(x)
	}
}

// A conversion is one that has vector kernels.
type conversion int

const (
	fromFloat16 conversion = iota
	toFloat16
	fromBFloat16
	toBFloat16
	fromUint8
)

// convert converts whole pieces in place, and the rest in buffers.
func convert[D, S float32 | uint16 | uint8](c conversion, dst []D, src []S) {
	n := len(dst) &^ (pieceSize - 1)
	if n > 0 {
		c.run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
	}
	if n < len(dst) {
		var in [pieceSize]S
		var out [pieceSize]D
		copy(in[:], src[n:])
		c.run(unsafe.Pointer(&out), unsafe.Pointer(&in), pieceSize)
		copy(dst[n:], out[:])
	}
}
