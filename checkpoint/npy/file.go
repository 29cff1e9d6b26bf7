package npy

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weft-ml/weft/checkpoint/internal/zipfile"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

const (
	magic = "\x93NUMPY"
	// maxHeader is the longest header that is read. NumPy's are 118 bytes, and it reads 10,000.
	maxHeader = 10_000
)

// fault is the error of a file.
func fault(what, found, want string) error {
	return &safetensors.FormatError{Format: "npy", Offset: -1, What: what, Found: found, Want: want}
}

// Open reads the header of an array of the given size in bytes, all in all. The tensor has no name; its data are
// row-major. What the package does not read, and data that are missing or left over, are a
// [*safetensors.FormatError].
func Open(r io.ReaderAt, size int64) (t safetensors.Tensor, err error) {
	begin := make([]byte, max(0, min(size, 12)))
	if err := readFull(r, begin, 0); err != nil {
		return t, err
	}
	if len(begin) < 12 || string(begin[:6]) != magic {
		return t, fault("file", fmt.Sprintf("%d bytes that begin with %.6q", size, begin),
			fmt.Sprintf("an array, which begins with %q", magic))
	}
	data, length := int64(12), int64(binary.LittleEndian.Uint32(begin[8:]))
	switch begin[6] {
	case 1:
		data, length = 10, length&0xffff
	case 2, 3:
	default:
		return t, fault("version", fmt.Sprint(begin[6]), "1, 2 or 3")
	}
	if most := min(maxHeader, size-data); length > most {
		return t, fault("header size", fmt.Sprintf("%d bytes", length), fmt.Sprintf("at most %d here", most))
	}
	text := make([]byte, length)
	if err := readFull(r, text, data); err != nil {
		return t, err
	}
	t, columnMajor, err := parseHeader(string(text))
	if err != nil {
		return t, err
	}
	data += length
	if have := size - data; t.Bytes() != have {
		return t, fault("data", fmt.Sprintf("%d bytes", have), fmt.Sprintf("those of %v of shape %v", t.DType, t.Shape))
	}
	var strides []int
	if columnMajor {
		step := 1
		for _, n := range t.Shape {
			strides = append(strides, step)
			step *= max(1, n)
		}
	}
	if t, err = t.View(io.NewSectionReader(r, data, t.Bytes()), 0, strides); err != nil {
		return t, fault("shape", err.Error(), "that of the data")
	}
	return t, nil
}

// readFull reads all of p. A file that ends earlier than was said is [io.ErrUnexpectedEOF].
func readFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("npy: %w", err)
}

// OpenZip lists the arrays in an .npz file of the given size in bytes, sorted by name, which is that of the file inside
// without ".npy".
func OpenZip(r io.ReaderAt, size int64) ([]safetensors.Tensor, error) {
	entries, err := zipfile.Open(r, size, "npz")
	if err != nil {
		return nil, err
	}
	var all []safetensors.Tensor
	for _, e := range entries {
		name, isArray := strings.CutSuffix(e.Name, ".npy")
		in := func(err error) error {
			var format *safetensors.FormatError
			if errors.As(err, &format) {
				format.What = fmt.Sprintf("%.80q: %s", e.Name, format.What)
			}
			return err
		}
		switch {
		case !isArray:
			return nil, in(fault("name", "no array", "NAME.npy"))
		case e.Data == nil:
			return nil, in(fault("data", "compressed or encrypted",
				"what numpy.savez writes; savez_compressed compresses"))
		}
		t, err := Open(e.Data, e.Data.Size())
		if err != nil {
			return nil, in(err)
		}
		t.Name = name
		all = append(all, t)
	}
	return all, nil
}

// Write writes an array, with a header of version 1, whose data the function writes in row-major order, as in
// [safetensors.Write]. It is an error if NumPy does not have the type, such as BF16, or the data are not as long as the
// tensor.
func Write(w io.Writer, t safetensors.Tensor, data func(w io.Writer, t safetensors.Tensor) error) error {
	header, err := encodeHeader(t)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	counted := &counter{w: w}
	if err := data(counted, t); err != nil {
		return err
	}
	if counted.n != t.Bytes() {
		return fmt.Errorf("npy: %.80q: %d bytes were written, want %d", t.Name, counted.n, t.Bytes())
	}
	return nil
}

// counter counts the bytes that are written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// WriteZip writes an .npz file, not compressed, in the given order. Aliases are left out. The rest is as in [Write];
// names that are given twice are an error, found with those of types before anything is written.
func WriteZip(w io.Writer, tensors []safetensors.Tensor,
	data func(w io.Writer, t safetensors.Tensor) error) error {
	for i, t := range tensors {
		if _, err := encodeHeader(t); err != nil {
			return err
		}
		if slices.ContainsFunc(tensors[:i], func(u safetensors.Tensor) bool { return u.Name == t.Name }) {
			return fmt.Errorf("npy: there are two tensors %.80q", t.Name)
		}
	}
	z := zip.NewWriter(w)
	for _, t := range tensors {
		entry, err := z.CreateHeader(&zip.FileHeader{Name: t.Name + ".npy", Method: zip.Store})
		if err == nil {
			err = Write(entry, t, data)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}
