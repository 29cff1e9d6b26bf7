package data

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
)

// trusted is how much memory a compressed file may claim in advance; beyond it memory grows with what is really
// unpacked.
const trusted = 64 << 20

// compression is a format of whole files that are compressed.
type compression struct {
	name, magic string
	ratio       int64 // the most bytes that one byte may become
	open        func(io.Reader) (io.Reader, error)
}

// zstdMagic is what files of Zstandard begin with, for which there is a module of its own.
const zstdMagic = "\x28\xb5\x2f\xfd"

var (
	compressionsLock sync.Mutex
	compressions     = []compression{{
		name: "gzip", magic: "\x1f\x8b\x08",
		ratio: 1032, // a back reference of 258 bytes takes two bits at least
		open:  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	}}
)

// RegisterCompression lets all readers of this package unpack files that begin with magic, as they do with gzip: open
// gets a file and returns a reader of what is compressed in it, of which [MaxSize] bytes are read at the most. Their
// errors that do not come from reading the file become a [*FormatError]. It is for functions init, such as that of
// data/zstd; of several with a magic the last one is used.
func RegisterCompression(name, magic string, open func(io.Reader) (io.Reader, error)) {
	engine.Given("register compression", "the function", open)
	compressionsLock.Lock()
	defer compressionsLock.Unlock()
	compressions = slices.Insert(slices.Clone(compressions), 0,
		compression{name: name, magic: magic, ratio: math.MaxInt64, open: open})
}

// compressionOf is how a file that begins so is compressed.
func compressionOf(r *bufio.Reader) (compression, bool) {
	compressionsLock.Lock()
	all := compressions
	compressionsLock.Unlock()
	for _, c := range all {
		if head, _ := r.Peek(len(c.magic)); c.magic != "" && string(head) == c.magic {
			return c, true
		}
	}
	return compression{}, false
}

// fileReader keeps the error of a file apart from that of what unpacks it.
type fileReader struct {
	io.Reader
	err error
}

func (f *fileReader) Read(p []byte) (n int, err error) {
	if n, err = f.Reader.Read(p); err != io.EOF {
		f.err = err
	}
	return n, err
}

// unpacked is the bytes of a file, unpacked if they are compressed, which is told by content, not name.
type unpacked struct {
	name   string
	r      *bufio.Reader
	limit  int64  // the most bytes that r can give
	exact  bool   // r gives limit bytes, unless reading fails
	how    string // name of the compression; "": none
	file   *fileReader
	packed int64 // size of the file if it is compressed
	offset int64 // of what is read next
	reading
}

// unpack is the bytes of a file of the given size.
func unpack(name string, file io.Reader, size int64, options reading) (*unpacked, error) {
	src := &unpacked{name: name, file: &fileReader{Reader: file}, limit: size, exact: true, reading: options}
	src.r = bufferOf(src.file)
	c, ok := compressionOf(src.r)
	if !ok {
		if head, _ := src.r.Peek(len(zstdMagic)); string(head) == zstdMagic {
			return nil, src.bad("compression", "Zstandard",
				"none or gzip (a program that imports github.com/weft-ml/weft/data/zstd reads it)")
		}
		return src, nil
	}
	src.how, src.packed, src.limit, src.exact = c.name, size, math.MaxInt64, false
	if size <= math.MaxInt64/c.ratio {
		src.limit = size * c.ratio
	}
	r, err := c.open(src.r)
	if err != nil {
		return nil, src.readError(c.name+" header", "too few bytes", "a "+c.name+" header", err)
	}
	src.r = bufferOf(r)
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
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		err = io.ErrUnexpectedEOF
	case src.how != "" && src.file.err == nil:
		found = "damaged " + src.how + " data"
	default:
		return fmt.Errorf("%s: %w", src.name, err)
	}
	return &FormatError{File: src.name, Offset: src.offset, What: what, Found: found, Want: want, Err: err}
}
