package zipfile

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// An Entry is a file inside.
type Entry struct {
	Name string            // with slashes
	Data *io.SectionReader // nil if it is compressed or encrypted
}

// maxDirectory is the most bytes that are read of the directory at the end of a file: some 50,000 entries.
const maxDirectory = 4 << 20

// Open lists the files in a zip file of a format, which its errors name, sorted by name. What is no zip file, has names
// that come twice, entries outside the file or entries that overlap is a [*safetensors.FormatError].
func Open(r io.ReaderAt, size int64, format string) ([]Entry, error) {
	bad := func(offset int64, what, found, want string) ([]Entry, error) {
		return nil, &safetensors.FormatError{Format: format, Offset: offset, What: what, Found: found, Want: want}
	}
	directory := &limited{r: r, left: maxDirectory}
	z, err := zip.NewReader(directory, size)
	switch {
	case directory.left < 0:
		return bad(-1, "zip directory", "more bytes", fmt.Sprintf("at most %d", maxDirectory))
	case directory.err != nil:
		return nil, fmt.Errorf("%s: %w", format, directory.err)
	case errors.Is(err, zip.ErrFormat):
		return bad(-1, "file", "no directory of a zip file at its end", "a zip file, all of it")
	case err != nil:
		return bad(-1, "file", err.Error(), "a zip file")
	}
	type place struct {
		begin, end int64
		name       string
	}
	entries, places := make([]Entry, 0, len(z.File)), make([]place, 0, len(z.File))
	for _, f := range z.File {
		directory.left = maxDirectory
		begin, err := f.DataOffset()
		switch {
		case directory.err != nil:
			return nil, fmt.Errorf("%s: %w", format, directory.err)
		case err != nil:
			return bad(-1, fmt.Sprintf("entry %.80q", f.Name), err.Error(), "a header")
		case f.CompressedSize64 > uint64(max(0, size-begin)):
			return bad(min(begin, size), fmt.Sprintf("size of %.80q", f.Name),
				fmt.Sprintf("%d bytes", f.CompressedSize64),
				fmt.Sprintf("at most the %d that follow", max(0, size-begin)))
		}
		e := Entry{Name: f.Name}
		if length := int64(f.CompressedSize64); f.Method == zip.Store && f.Flags&1 == 0 {
			if f.UncompressedSize64 != f.CompressedSize64 {
				return bad(begin, fmt.Sprintf("size of %.80q", f.Name), fmt.Sprintf("%d bytes", f.UncompressedSize64),
					fmt.Sprintf("%d, as it is stored in", length))
			}
			e.Data = io.NewSectionReader(r, begin, length)
		}
		entries = append(entries, e)
		places = append(places, place{begin, begin + int64(f.CompressedSize64), f.Name})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	for i := range max(0, len(entries)-1) {
		if name := entries[i].Name; name == entries[i+1].Name {
			return bad(-1, "zip directory", fmt.Sprintf("%.80q for a second time", name), "each name once")
		}
		if p := places[i+1]; p.begin < places[i].end {
			return bad(p.begin, fmt.Sprintf("entry %.80q", p.name), "overlaps with another", "a place of its own")
		}
	}
	return entries, nil
}

// limited reads a certain number of bytes, and remembers an error that is not the end of the file.
type limited struct {
	r    io.ReaderAt
	left int64 // negative after more was asked for
	err  error
}

func (l *limited) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, zip.ErrFormat
	}
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errors.New("too many bytes")
	}
	n, err := l.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}
