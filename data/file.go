package data

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/weft-ml/weft/kernels/cpu"
)

// A ReadOption changes how files are read. The zero ReadOption changes nothing.
type ReadOption struct{ set func(*reading) }

// reading is what the options of a call say.
type reading struct {
	most     int64 // bytes of a file, unpacked
	pixels   int   // of a picture
	comma    rune  // of CSV; 0: ','
	noHeader bool
	noIndex  bool // beside the file
	tokens32 bool // tokens without a header have 4 bytes
}

// MaxSize allows files of up to n bytes, counted after unpacking, instead of 4 GiB. A file that is larger, or says
// that it is, is a [*FormatError].
func MaxSize(n int64) ReadOption { return ReadOption{func(r *reading) { r.most = n }} }

func readingOf(options []ReadOption) reading {
	r := reading{most: 4 << 30, pixels: maxPixels}
	for _, o := range options {
		if o.set != nil {
			o.set(&r)
		}
	}
	return r
}

// hashed is a fingerprint made of a longer one.
func hashed(s string) string { return fmt.Sprintf("%.40s %x", s, sha256.Sum256([]byte(s))) }

// tooLarge is the error of a file that is larger than allowed.
func (r *reading) tooLarge(name, found string) *FormatError {
	return &FormatError{File: name, Offset: -1, What: "size", Found: found,
		Want: fmt.Sprintf("at most %d bytes (MaxSize allows more)", r.most)}
}

// room is what tells whether there is memory for so many bytes, and roomFrom the least for which it is asked.
var room, roomFrom = engine.Room, 1 << 20

// grown is s with memory for n more elements, or an error of kind [tensor.ErrMemory].
func grown[T any](s []T, n int) ([]T, error) {
	if n <= cap(s)-len(s) {
		return s, nil
	}
	want := max(2*cap(s), len(s)+n)
	bytes := math.MaxInt
	if size := int(unsafe.Sizeof(*new(T))); want < math.MaxInt/size {
		bytes = want * size
	}
	if bytes > roomFrom { // else not worth the question
		if err := room(bytes); err != nil {
			return nil, err
		}
	}
	made := make([]T, 0, want)
	cpu.AdviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(made))), bytes))
	return append(made, s...), nil
}

// fingerprint tells a file apart from others of its name, and from what it was at other times.
func fingerprint(path string, info os.FileInfo) string {
	return fmt.Sprintf("%s %d %d", filepath.Base(path), info.Size(), info.ModTime().UnixNano())
}

// openRegular opens a file that is not empty. Pipes, devices and folders are a [*FormatError]: opening a pipe waits for
// somebody who writes, and a device may never end.
func openRegular(path string) (file *os.File, info os.FileInfo, err error) {
	info, err = os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &FormatError{File: path, Offset: -1, What: "kind of file", Found: info.Mode().Type().String(),
			Want: "a regular file"}
	}
	if info.Size() == 0 { // or a file of /proc, which may wait
		return nil, nil, &FormatError{File: path, Offset: -1, What: "size", Found: "0 bytes", Want: "at least 1"}
	}
	if file, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	return file, info, nil
}
