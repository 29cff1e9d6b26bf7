package safetensors

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// View returns t with data that lie in a storage of elements of its type, such as those of other formats: element
// (i, j, ...) is number offset + i*strides[0] + j*strides[1] + ... there. The strides nil are those of row-major data.
// It is an error if t has no size ([Tensor.Bytes]) or elements of less than a byte, if a number is negative, and if an
// element is outside the storage.
func (t Tensor) View(storage *io.SectionReader, offset int, strides []int) (Tensor, error) {
	size := int64(t.DType.Bits() / 8)
	rowMajor, step := make([]int, len(t.Shape)), 1
	switch {
	case t.Bytes() < 0 || t.DType.Bits()%8 != 0:
		return t, fmt.Errorf("no tensor of type %v and shape %v", t.DType, t.Shape)
	case strides != nil && len(strides) != len(t.Shape):
		return t, fmt.Errorf("%d strides for %d axes", len(strides), len(t.Shape))
	case offset < 0:
		return t, fmt.Errorf("the offset %d", offset)
	}
	last, isRowMajor := uint64(offset), true // the number of the last element
	for i := len(t.Shape) - 1; i >= 0; i-- {
		rowMajor[i] = step
		step *= max(1, t.Shape[i]) // no overflow if no size is 0; else it is not used
		if strides == nil || t.Shape[i] < 2 {
			continue
		}
		if strides[i] < 0 {
			return t, fmt.Errorf("the stride %d", strides[i])
		}
		hi, far := bits.Mul64(uint64(t.Shape[i]-1), uint64(strides[i]))
		sum, carry := bits.Add64(last, far, 0)
		if hi != 0 || carry != 0 {
			return t, errors.New("strides up to 2^64 elements")
		}
		last = sum
		isRowMajor = isRowMajor && strides[i] == rowMajor[i]
	}
	n := t.Bytes() / size
	if isRowMajor {
		last = uint64(offset) + uint64(max(0, n-1))
	}
	if have := uint64(storage.Size() / size); n > 0 && last >= have {
		return t, fmt.Errorf("element %d of a storage of %d", last, have)
	}
	t.data, t.at, t.strides = storage, int64(offset)*size, nil
	if !isRowMajor && n > 0 {
		t.strides = strides
		t.data = io.NewSectionReader(storage, t.at, (int64(last)+1)*size-t.at)
		t.at = 0
	}
	return t, nil
}

// strided reads the elements of a view in row-major order. The first call reads all of the storage between the first
// element and the last, since those of a row may be anywhere in it.
type strided struct {
	view    Tensor
	once    sync.Once
	storage []byte
	err     error
}

// ReadAt implements [io.ReaderAt].
func (s *strided) ReadAt(p []byte, off int64) (n int, err error) {
	s.once.Do(func() {
		s.storage = make([]byte, s.view.data.(*io.SectionReader).Size())
		s.err = readFull(s.view.data, s.storage, 0)
	})
	if s.err != nil {
		return 0, s.err
	}
	shape, strides := s.view.Shape, s.view.strides
	size := int64(s.view.DType.Bits() / 8)
	index, at := make([]int, len(shape)), int64(0)
	left := off / size
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = int(left % int64(shape[i]))
		left /= int64(shape[i])
		at += int64(index[i]) * int64(strides[i])
	}
	begin := off % size // in the first element
	for left == 0 && n < len(p) {
		n += copy(p[n:], s.storage[at*size+begin:(at+1)*size])
		begin = 0
		left = 1 // unless there is an element after this one
		for i := len(shape) - 1; i >= 0; i-- {
			at += int64(strides[i])
			if index[i]++; index[i] < shape[i] {
				left = 0
				break
			}
			at -= int64(strides[i]) * int64(shape[i])
			index[i] = 0
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
