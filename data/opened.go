package data

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// opened is a regular file that is read at any place. One that is compressed with gzip is held unpacked in memory.
type opened struct {
	name, fingerprint string
	r                 io.ReaderAt
	size              int64 // in bytes, unpacked
	file              *os.File
	mapped            *mapped // nil: it is not mapped
}

// openAt opens a file.
func openAt(path string, options []ReadOption) (o *opened, err error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || o.r != file {
			file.Close()
		}
	}()
	o = &opened{name: path, fingerprint: fingerprint(path, info), r: file, size: info.Size(), file: file}
	src, err := unpack(path, file, o.size, readingOf(options))
	if err != nil {
		return nil, err
	}
	if src.exact { // nothing is held
		return o, nil
	}
	content, err := src.all()
	if err != nil {
		return nil, err
	}
	o.r, o.size, o.file = bytes.NewReader(content), int64(len(content)), nil
	return o, nil
}

// bad is a format error without a cause.
func (o *opened) bad(offset int64, what, found, want string) *FormatError {
	return &FormatError{File: o.name, Offset: offset, What: what, Found: found, Want: want}
}

// read fills buf with the bytes from an offset on. What is missing is a [*FormatError], in which they are called what.
func (o *opened) read(buf []byte, offset int64, what string) error {
	n, err := o.r.ReadAt(buf, offset)
	if n == len(buf) {
		return nil
	}
	err = o.short(what, n, len(buf), err)
	if e, ok := err.(*FormatError); ok {
		e.Offset = offset
	}
	return err
}

// short is the error of n bytes where there should be more.
func (o *opened) short(what string, n, want int, err error) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: %s: %w", o.name, what, err)
	}
	return &FormatError{File: o.name, Offset: -1, What: what, Found: fmt.Sprintf("%d bytes", n),
		Want: fmt.Sprintf("%d bytes", want), Err: io.ErrUnexpectedEOF}
}

// Close closes the file. At must not be called afterwards.
func (o *opened) Close() error {
	if o == nil || o.file == nil {
		return nil
	}
	if o.mapped != nil {
		o.mapped.closed.Store(true)
	}
	return o.file.Close()
}

// Fingerprint has the file's name, size and time of change.
func (o *opened) Fingerprint() string {
	if o == nil {
		return ""
	}
	return o.fingerprint
}

// wantExample is an error unless i is one of n examples of a kind.
func wantExample(kind string, i, n int) error {
	if i < 0 || i >= n {
		return fmt.Errorf("data: there is no %s %d, only [0, %d)", kind, i, n)
	}
	return nil
}
