package data

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// deflateMaxRatio is the largest expansion that the deflate format can express: a back reference
	// of 258 bytes takes two bits at least.
	deflateMaxRatio = 1032
	// trusted is how much memory a compressed file may claim in advance; beyond it memory grows with
	// what is really unpacked.
	trusted = 64 << 20
)

// unpacked is the bytes of a file, unpacked if they are gzip data, which is told by content, not name.
type unpacked struct {
	name   string
	r      *bufio.Reader
	limit  int64 // the most bytes that r can give
	exact  bool  // r gives limit bytes, unless reading fails
	packed int64 // size of the file if it is compressed
	offset int64 // of what is read next
	reading
}

// unpack is the bytes of a file of the given size.
func unpack(name string, file io.Reader, size int64, r reading) (*unpacked, error) {
	src := &unpacked{name: name, r: bufferOf(file), limit: size, exact: true, reading: r}
	if head, _ := src.r.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		unzipped, err := gzip.NewReader(src.r)
		if err != nil {
			return nil, src.readError("gzip header", "too few bytes", "a gzip header", err)
		}
		if size > math.MaxInt64/deflateMaxRatio {
			return nil, src.bad("size", fmt.Sprintf("%d bytes of gzip data", size), "less")
		}
		src.packed, src.limit, src.exact = size, size*deflateMaxRatio, false
		src.r = bufio.NewReaderSize(unzipped, 1<<16)
	}
	return src, nil
}

// bufferOf reads a file in larger pieces.
func bufferOf(file io.Reader) *bufio.Reader { return bufio.NewReaderSize(file, 1<<16) }

// all reads all bytes, at most as many as the options allow.
func (src *unpacked) all() ([]byte, error) {
	if src.exact && src.limit > src.most {
		return nil, src.tooLarge(src.name, fmt.Sprintf("%d bytes", src.limit))
	}
	var out []byte
	next := src.limit + 1 // to see that nothing follows
	if !src.exact {
		next = min(4*src.packed, trusted)
	}
	for ; ; next = int64(len(out)) {
		var err error
		if out, err = grown(out, int(next)); err != nil {
			return nil, fmt.Errorf("%s: %w", src.name, err)
		}
		for len(out) < cap(out) {
			var n int
			n, err = src.r.Read(out[len(out):cap(out)])
			out, src.offset = out[:len(out)+n], src.offset+int64(n)
			switch {
			case int64(len(out)) > src.most:
				return nil, src.tooLarge(src.name, fmt.Sprintf("more than %d bytes", src.most))
			case err == io.EOF:
				return out, nil
			case err != nil:
				return nil, src.readError("data", fmt.Sprintf("%d bytes", len(out)), "the end of the data", err)
			}
		}
	}
}

// fill reads all of buf and returns how much there was.
func (src *unpacked) fill(buf []byte) (int, error) {
	n, err := io.ReadFull(src.r, buf)
	src.offset += int64(n)
	return n, err
}

// at is src in front of an offset, for an error there.
func (src *unpacked) at(offset int64) *unpacked {
	src.offset = offset
	return src
}

// bad is a format error without a cause.
func (src *unpacked) bad(what, found, want string) *FormatError {
	return &FormatError{File: src.name, Offset: src.offset, What: what, Found: found, Want: want}
}

// readError turns a failed read into a format error if the file's content is the reason.
func (src *unpacked) readError(what, found, want string, err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		err = io.ErrUnexpectedEOF
	case errors.As(err, &corrupt), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		found = "damaged gzip data"
	default:
		return fmt.Errorf("%s: %w", src.name, err)
	}
	return &FormatError{File: src.name, Offset: src.offset, What: what, Found: found, Want: want, Err: err}
}
