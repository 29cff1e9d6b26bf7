package main

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// A number is one of a tensor's; a complex element has two.
type number struct {
	value float64 // rounded, if it is an integer of more than 53 bits
	order int64   // of floating types: neighbours differ by one, both zeros are 0
}

// A numberType says how the numbers of an element type are read.
type numberType struct {
	size    int // in bytes
	isFloat bool
	read    func(b []byte) number
}

// numberTypes has all types but those of less than a byte and floating ones of 8 bits.
var numberTypes = map[safetensors.DType]numberType{
	safetensors.BOOL: {1, false, func(b []byte) number { return integer(b[0]) }},
	safetensors.U8:   {1, false, func(b []byte) number { return integer(b[0]) }},
	safetensors.I8:   {1, false, func(b []byte) number { return integer(int8(b[0])) }},
	safetensors.I16:  {2, false, func(b []byte) number { return integer(int16(le.Uint16(b))) }},
	safetensors.U16:  {2, false, func(b []byte) number { return integer(le.Uint16(b)) }},
	safetensors.I32:  {4, false, func(b []byte) number { return integer(int32(le.Uint32(b))) }},
	safetensors.U32:  {4, false, func(b []byte) number { return integer(le.Uint32(b)) }},
	safetensors.I64:  {8, false, func(b []byte) number { return integer(int64(le.Uint64(b))) }},
	safetensors.U64:  {8, false, func(b []byte) number { return integer(le.Uint64(b)) }},
	safetensors.F16: {2, true, func(b []byte) number {
		return number{float64(float16.Frombits(le.Uint16(b)).Float32()), order(uint64(le.Uint16(b)), 16)}
	}},
	safetensors.BF16: {2, true, func(b []byte) number {
		return number{float64(math.Float32frombits(uint32(le.Uint16(b)) << 16)), order(uint64(le.Uint16(b)), 16)}
	}},
	safetensors.F32: {4, true, float32At},
	safetensors.C64: {4, true, float32At},
	safetensors.F64: {8, true, func(b []byte) number {
		return number{math.Float64frombits(le.Uint64(b)), order(le.Uint64(b), 64)}
	}},
}

var le = binary.LittleEndian

func integer[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](v T) number {
	return number{value: float64(v)}
}

func float32At(b []byte) number {
	return number{float64(math.Float32frombits(le.Uint32(b))), order(uint64(le.Uint32(b)), 32)}
}

// order counts floating numbers from zero: sign and magnitude of some bits as one number.
func order(b uint64, bits int) int64 {
	sign := uint64(1) << (bits - 1)
	if b&sign != 0 {
		return -int64(b &^ sign)
	}
	return int64(b)
}

// indexOf is the index of number n in a tensor, of which each element has some numbers.
func indexOf(t safetensors.Tensor, n int64, each int64) []int64 {
	n /= each
	index := make([]int64, len(t.Shape))
	for i := len(index) - 1; i >= 0; i-- {
		index[i] = n % int64(t.Shape[i])
		n /= int64(t.Shape[i])
	}
	return index
}
