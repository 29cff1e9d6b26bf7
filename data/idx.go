package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/weft-ml/weft/tensor"
)

// IDX is the content of a file in the IDX format of the MNIST data sets: one array of numbers.
type IDX struct {
	Shape []int // 1 to 8 axes, each at least 1
	Data  any   // []uint8, []int8, []int16, []int32, []float32 or []float64 in row-major order
}

// The IDX format, all numbers big-endian:
//
//	byte 0, 1   zero
//	byte 2      element type, see idxTypes
//	byte 3      number of axes
//	4 bytes     size of each axis, unsigned
//	...         elements, row-major, up to the end of the file
const (
	idxMaxRank = 8
	idxChunk   = 1 << 15 // elements converted at a time
)

// idxTypes has name, size and reader of the elements by type byte.
var idxTypes = map[byte]struct {
	name string
	size int
	read func(src *unpacked, count int) (any, error)
}{
	0x08: {"uint8", 1, idxElements[uint8]}, 0x09: {"int8", 1, idxElements[int8]},
	0x0b: {"int16", 2, idxElements[int16]}, 0x0c: {"int32", 4, idxElements[int32]},
	0x0d: {"float32", 4, idxElements[float32]}, 0x0e: {"float64", 8, idxElements[float64]},
}

// ReadIDX reads a regular file in the IDX format, plain or compressed with gzip (told by its content, not its name).
//
// A file that is not exactly what its header says is a [*FormatError]: a wrong magic number, element
// type or rank, an axis of size 0, sizes whose product is more than the file can hold (found before
// memory is allocated), a file that ends too early or goes on too long, and damaged compression.
func ReadIDX(path string, options ...ReadOption) (*IDX, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readIDX(path, file, info.Size(), readingOf(options))
}

// DecodeIDX is [ReadIDX] of a file in memory; name stands for the file in errors.
func DecodeIDX(name string, file []byte, options ...ReadOption) (*IDX, error) {
	return readIDX(name, bytes.NewReader(file), int64(len(file)), readingOf(options))
}

// readIDX reads a file of the given size.
func readIDX(name string, file io.Reader, size int64, r reading) (*IDX, error) {
	src, err := unpack(name, file, size, r)
	if err != nil {
		return nil, err
	}
	return idxSource{src}.read()
}

// idxSource is the bytes of a file in the IDX format.
type idxSource struct{ *unpacked }

// read reads the header, checks it against what the source can hold, and reads the elements.
func (src idxSource) read() (*IDX, error) {
	var magic [4]byte
	if n, err := src.fill(magic[:]); err != nil {
		return nil, src.readError("magic", fmt.Sprintf("%d bytes", n), "4 bytes", err)
	}
	kind, known := idxTypes[magic[2]]
	rank := int(magic[3])
	switch {
	case magic[0] != 0 || magic[1] != 0 || !known:
		return nil, src.at(0).bad("magic", fmt.Sprintf("% x", magic[:]),
			"00 00, then an element type of 08, 09, 0b, 0c, 0d or 0e")
	case rank < 1 || rank > idxMaxRank:
		return nil, src.at(3).bad("rank", fmt.Sprint(rank), fmt.Sprintf("1 to %d axes", idxMaxRank))
	}
	sizes := make([]byte, 4*rank)
	if n, err := src.fill(sizes); err != nil {
		return nil, src.readError("header", fmt.Sprintf("%d bytes", 4+n),
			fmt.Sprintf("%d bytes for %d axes", 4+4*rank, rank), err)
	}
	shape := make([]uint32, rank)
	for i := range shape {
		if shape[i] = binary.BigEndian.Uint32(sizes[4*i:]); shape[i] == 0 {
			return nil, src.at(int64(4+4*i)).bad("shape", fmt.Sprintf("size 0 on axis %d", i), "every axis at least 1")
		}
	}
	header := uint64(4 + 4*rank)
	total, fits := idxBytes(shape, uint64(kind.size), header)
	if err := src.checkSize(total, fits, fmt.Sprintf("%s of %s", times(shape), kind.name)); err != nil {
		return nil, err
	}
	x := &IDX{Shape: make([]int, rank)}
	for i, d := range shape {
		x.Shape[i] = int(d)
	}
	var err error
	if x.Data, err = kind.read(src.unpacked, int(total-header)/kind.size); err != nil {
		return nil, err
	}
	if err := src.end(total); err != nil {
		return nil, err
	}
	return x, nil
}

// idxBytes is the size of a file with the given shape; fits is false when it is 2^63 or more.
func idxBytes(shape []uint32, elem, header uint64) (total uint64, fits bool) {
	total = elem
	for _, d := range shape {
		hi, lo := bits.Mul64(total, uint64(d))
		if hi != 0 || lo >= 1<<62 {
			return 0, false
		}
		total = lo
	}
	return total + header, true
}

// checkSize compares the size that the header declares with the size that there is, or can be.
func (src idxSource) checkSize(total uint64, fits bool, what string) error {
	declared := fmt.Sprintf("%d bytes, declared as %s", total, what)
	if !fits {
		declared = "more than 2^62 bytes, declared as " + what
	}
	tooLarge := !fits || total > uint64(src.limit) || total > math.MaxInt
	switch {
	case src.exact && (tooLarge || total < uint64(src.limit)):
		end := src.limit
		if !tooLarge {
			end = int64(total)
		}
		e := src.at(end).bad("size", fmt.Sprintf("%d bytes", src.limit), declared)
		if tooLarge {
			e.Err = io.ErrUnexpectedEOF
		}
		return e
	case tooLarge:
		return src.bad("size", fmt.Sprintf("%d bytes of %s data, which unpack to %d bytes at most",
			src.packed, src.how, src.limit), declared)
	case total > uint64(src.most):
		return src.tooLarge(src.name, declared)
	}
	return nil
}

// idxElements reads count elements of type T, as a []T.
func idxElements[T any](src *unpacked, count int) (any, error) {
	size := int(unsafe.Sizeof(*new(T)))
	capacity := count
	if !src.exact {
		capacity = min(count, trusted/size)
	}
	out, err := grown[T](nil, capacity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.name, err)
	}
	buf := make([]byte, min(count, idxChunk)*size)
	for len(out) < count {
		n := min(count-len(out), idxChunk)
		if got, err := src.fill(buf[:n*size]); err != nil {
			found := fmt.Sprintf("%d bytes of elements", len(out)*size+got)
			return nil, src.readError("size", found, fmt.Sprintf("%d", count*size), err)
		}
		if out, err = grown(out, n); err != nil {
			return nil, fmt.Errorf("%s: %w", src.name, err)
		}
		out = out[:len(out)+n]
		if _, err := binary.Decode(buf, binary.BigEndian, out[len(out)-n:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// end makes sure that nothing follows, which also lets gzip compare its checksum.
func (src idxSource) end(total uint64) error {
	var extra [1]byte
	n, err := src.fill(extra[:])
	switch {
	case n > 0:
		found := fmt.Sprintf("more than %d bytes", total)
		return src.at(int64(total)).bad("size", found, fmt.Sprintf("%d, as declared", total))
	case err != io.EOF:
		return src.readError("end", "damage or foreign bytes after the elements", "the end of the file", err)
	}
	return nil
}

// times writes a shape as "60000 x 28 x 28".
func times(shape []uint32) string {
	var b strings.Builder
	for i, d := range shape {
		if i > 0 {
			b.WriteString(" x ")
		}
		fmt.Fprint(&b, d)
	}
	return b.String()
}

// Tensor is the array as a host tensor of the same shape that shares its memory. Elements of int8 and
// int16 become int32, in new memory.
func (x *IDX) Tensor() *tensor.Tensor {
	engine.Given("idx", "the array", x)
	switch v := x.Data.(type) {
	case []uint8:
		return tensor.FromSlice(v, x.Shape...)
	case []int8:
		return tensor.FromSlice(widen(v), x.Shape...)
	case []int16:
		return tensor.FromSlice(widen(v), x.Shape...)
	case []int32:
		return tensor.FromSlice(v, x.Shape...)
	case []float32:
		return tensor.FromSlice(v, x.Shape...)
	case []float64:
		return tensor.FromSlice(v, x.Shape...)
	}
	engine.Fail(tensor.ErrDType, "idx", "there is no tensor of %T", x.Data)
	return nil
}

// widen converts small integers to int32.
func widen[T int8 | int16](v []T) []int32 {
	out := make([]int32, len(v))
	for i, e := range v {
		out[i] = int32(e)
	}
	return out
}
