package safetensors

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
)

// MaxRank is the most axes of a tensor, which is also the limit of PyTorch and NumPy.
const MaxRank = 64

// A Tensor is what a file says of a tensor, or is to say of it.
type Tensor struct {
	Name    string
	DType   DType
	Shape   []int    // sizes, outermost first; none for a scalar; row-major
	Aliases []string // further names of the same tensor, sorted

	data    io.ReaderAt // nil if the tensor was not read from a file
	at      int64       // where the data begin there
	strides []int       // of a view, in elements; nil if the data are row-major
}

// Bytes is the size of the tensor's data; -1 if the shape or the type is not one that the format can hold.
func (t Tensor) Bytes() int64 {
	var n size
	for _, d := range t.Shape {
		if d < 0 || len(t.Shape) > MaxRank {
			return -1
		}
		n.axis(uint64(d))
	}
	if b, problem := n.bytes(t.DType); problem == "" {
		return b
	}
	return -1
}

// Data reads the tensor's data from its file: little-endian, row-major. Any number of readers may read at once. It is
// empty for a tensor that was not read from a file. A file that has been cut since it was opened ends early: use
// [io.ReadFull], or [Tensor.WriteTo].
//
// Each reader of a view whose data are not row-major ([Tensor.View]) holds the part of the storage that the view
// covers.
func (t Tensor) Data() *io.SectionReader {
	switch {
	case t.data == nil:
		return io.NewSectionReader(strings.NewReader(""), 0, 0)
	case t.strides != nil:
		return io.NewSectionReader(&strided{view: t}, 0, t.Bytes())
	}
	return io.NewSectionReader(t.data, t.at, t.Bytes())
}

// copyBuffer is the size of the pieces in which data are copied.
const copyBuffer = 1 << 20

// WriteTo copies all of the tensor's data to w, in pieces. It is what a copy of a file gives to [Write].
func (t Tensor) WriteTo(w io.Writer) (int64, error) {
	data := t.Data()
	n, err := io.CopyBuffer(w, data, make([]byte, min(copyBuffer, max(1, data.Size()))))
	if err == nil && n < t.Bytes() {
		err = fmt.Errorf("safetensors: %s: %d of %d bytes: %w", quote(t.Name), n, t.Bytes(), io.ErrUnexpectedEOF)
	}
	return n, err
}

// size is a number of elements that is multiplied up axis by axis. Its zero value is that of a scalar.
type size struct {
	less     uint64 // elements less one
	overflow bool   // 2^64 elements or more
}

func (n *size) axis(d uint64) {
	hi, lo := bits.Mul64(n.less+1, d)
	n.overflow = n.overflow || hi != 0
	n.less = lo - 1
}

// bytes is the size of that many elements; problem says why there is none.
func (n *size) bytes(d DType) (bytes int64, problem string) {
	hi, lo := bits.Mul64(n.less+1, uint64(d.Bits()))
	switch {
	case !d.known():
		return 0, "an unknown type"
	case n.overflow || hi != 0 || lo/8 > math.MaxInt64:
		return 0, "2^64 bits or more"
	case lo%8 != 0:
		return 0, fmt.Sprintf("%d bits, which are no whole number of bytes", lo)
	}
	return int64(lo / 8), ""
}
