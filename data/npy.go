package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// Number is an element of an array of NumPy.
type Number interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Array is a [Source] of the rows of an array of NumPy: example i are the elements of x[i], row-major. They are read
// when they are asked for.
type Array[T Number] struct {
	file  *opened
	array safetensors.Tensor
	data  io.ReaderAt // row-major
}

// elementTypes are the names of elements in files.
var elementTypes = map[string]safetensors.DType{
	"bool": safetensors.BOOL, "int8": safetensors.I8, "int16": safetensors.I16, "int32": safetensors.I32,
	"int64": safetensors.I64, "uint8": safetensors.U8, "uint16": safetensors.U16, "uint32": safetensors.U32,
	"uint64": safetensors.U64, "float32": safetensors.F32, "float64": safetensors.F64,
}

// OpenNPY opens a regular file that numpy.save has written, plain or compressed with gzip. Its elements must be of
// type T and little-endian, and it must have one axis or more. A column-major array (Fortran order) is held in memory.
// A file that is not what it says is a [*FormatError].
func OpenNPY[T Number](path string, options ...ReadOption) (*Array[T], error) {
	return openArray[T](path, options, func(file *opened) (safetensors.Tensor, error) {
		return npy.Open(file.r, file.size)
	})
}

// OpenNPZ is [OpenNPY] of the array of a name in a file that numpy.savez has written. The arrays of savez_compressed
// are refused.
func OpenNPZ[T Number](path, name string, options ...ReadOption) (*Array[T], error) {
	return openArray[T](path, options, func(file *opened) (x safetensors.Tensor, err error) {
		arrays, err := npy.OpenZip(file.r, file.size)
		if err != nil {
			return x, err
		}
		var names []string
		for _, a := range arrays {
			if a.Name == name {
				return a, nil
			}
			names = append(names, a.Name)
		}
		return x, file.bad(-1, "arrays", fmt.Sprintf("%.300q", names), fmt.Sprintf("one named %.60q", name))
	})
}

func openArray[T Number](path string, options []ReadOption,
	array func(*opened) (safetensors.Tensor, error)) (*Array[T], error) {
	file, err := openAt(path, options)
	if err != nil {
		return nil, err
	}
	file.mapIn()
	a := &Array[T]{file: file}
	if a.array, err = array(file); err == nil {
		name := fmt.Sprintf("%T", *new(T))
		switch t := a.array; {
		case t.DType != elementTypes[name]:
			err = file.bad(-1, "elements", fmt.Sprint(t.DType), fmt.Sprintf("%v for %s", elementTypes[name], name))
		case len(t.Shape) == 0:
			err = file.bad(-1, "shape", "no axis", "one or more, of which the first one counts the examples")
		}
	}
	if f, ok := errors.AsType[*safetensors.FormatError](err); ok {
		err = &FormatError{File: path, Offset: f.Offset, What: f.What, Found: f.Found, Want: f.Want, Err: f.Err}
	} else if _, ours := errors.AsType[*FormatError](err); err != nil && !ours {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	a.data = a.array.Data()
	return a, nil
}

// Len is the number of rows, the size of the first axis.
func (a *Array[T]) Len() int {
	if a == nil || a.file == nil {
		return 0
	}
	return a.array.Shape[0]
}

// Shape is the shape of a row, that of the array without its first axis.
func (a *Array[T]) Shape() []int {
	if a == nil || a.file == nil {
		return nil
	}
	return slices.Clone(a.array.Shape[1:])
}

// Size is the number of elements of a row.
func (a *Array[T]) Size() int {
	n := 1
	for _, d := range a.Shape() {
		n *= d
	}
	return n
}

// At is row i. An i outside [0, Len) is an error.
func (a *Array[T]) At(i int) ([]T, error) {
	if err := wantExample("row", i, a.Len()); err != nil {
		return nil, err
	}
	n, size := a.Size(), int(unsafe.Sizeof(*new(T)))
	row, err := grown[T](nil, n)
	if err != nil {
		return nil, fmt.Errorf("%s: row %d: %w", a.file.name, i, err)
	}
	row = row[:n]
	buf := make([]byte, n*size)
	if got, err := a.data.ReadAt(buf, int64(i)*int64(len(buf))); got < len(buf) {
		return nil, a.file.short(fmt.Sprintf("row %d", i), got, len(buf), err)
	}
	if _, err := binary.Decode(buf, binary.LittleEndian, row); err != nil {
		return nil, err
	}
	return row, nil
}

// Close closes the file. At must not be called afterwards.
func (a *Array[T]) Close() error {
	if a == nil {
		return nil
	}
	return a.file.Close()
}

// Fingerprint has the file's name, size and time of change, and the array's name.
func (a *Array[T]) Fingerprint() string {
	if a == nil {
		return ""
	}
	return a.file.Fingerprint() + " " + a.array.Name
}
