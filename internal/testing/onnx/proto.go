package onnx

import (
	"encoding/binary"
	"errors"
	"math"
)

// A field is one field of a message in the wire format of protocol buffers
// (https://protobuf.dev/programming-guides/encoding): a number, or bytes.
type field struct {
	id     int
	number uint64 // a varint, or the bits of a float
	bytes  []byte // a string, a message, or packed numbers
}

var errWire = errors.New("onnx: the file is not a message of protocol buffers")

// fields reads a message.
func fields(b []byte) (all []field, err error) {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errWire
		}
		b = b[n:]
		f := field{id: int(key >> 3)}
		size := 0
		switch key & 7 {
		case 0:
			if f.number, size = binary.Uvarint(b); size <= 0 {
				return nil, errWire
			}
		case 1:
			if size = 8; len(b) < size {
				return nil, errWire
			}
			f.number = binary.LittleEndian.Uint64(b)
		case 5:
			if size = 4; len(b) < size {
				return nil, errWire
			}
			f.number = uint64(binary.LittleEndian.Uint32(b))
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return nil, errWire
			}
			size = n + int(length)
			f.bytes = b[n:size]
		default:
			return nil, errWire
		}
		b = b[size:]
		all = append(all, f)
	}
	return all, nil
}

// ints are the numbers of a field that is one, or packed.
func (f field) ints() (v []int64, err error) {
	if f.bytes == nil {
		return []int64{int64(f.number)}, nil
	}
	for b := f.bytes; len(b) > 0; {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errWire
		}
		v, b = append(v, int64(x)), b[n:]
	}
	return v, nil
}

// floats are the float32 numbers of a field that is one, or packed.
func (f field) floats() (v []float64) {
	if f.bytes == nil {
		return []float64{float64(math.Float32frombits(uint32(f.number)))}
	}
	for b := f.bytes; len(b) >= 4; b = b[4:] {
		v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
	return v
}

// doubles are the float64 numbers of a field that is one, or packed.
func (f field) doubles() (v []float64) {
	if f.bytes == nil {
		return []float64{math.Float64frombits(f.number)}
	}
	for b := f.bytes; len(b) >= 8; b = b[8:] {
		v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return v
}
