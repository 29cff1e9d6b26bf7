package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
)

// maxHeader is the largest header that the format allows.
const maxHeader = 100_000_000

// A File is an open file: names, types and shapes of its tensors. Data stay where they are until they are read. Any
// number of goroutines may use it at once.
type File struct {
	r        io.ReaderAt
	data     int64  // where the data begin
	header   string // the text; names are parts of it
	metadata map[string]string
	entries  []entry             // in the order of their data
	byName   []uint32            // entries in the order of their names
	aliases  map[string][]string // by the name under which a tensor is stored
}

// An entry is what the header says of a tensor. It is small, and shapes stay text, since a hostile header of 100 MB has
// two million entries.
type entry struct {
	name       string
	begin, end int64  // in the data
	shape      uint32 // where the shape is in the header
	dtype      DType
}

// Open reads the header of a file of the given size. A file that the format does not allow is a [*FormatError]: a
// header of more than 100 MB or past the end, text that is no UTF-8 or JSON, names that come twice, unknown types, data
// that overlap, leave holes, or have another size than their shape and type say, and bytes that are missing or left
// over. Memory is at most twice the size of the header.
func Open(r io.ReaderAt, size int64) (*File, error) {
	bad := func(offset int64, what, found, want string) (*File, error) {
		return nil, &FormatError{Offset: offset, What: what, Found: found, Want: want}
	}
	if size < 8 {
		return bad(-1, "file size", fmt.Sprintf("%d bytes", size), "8 or more")
	}
	var prefix [8]byte
	if err := readFull(r, prefix[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader {
		return bad(0, "header size", fmt.Sprintf("%d bytes", n), fmt.Sprintf("at most %d", maxHeader))
	}
	if n > uint64(size-8) {
		return bad(0, "header size", fmt.Sprintf("%d bytes", n), fmt.Sprintf("at most the %d that follow", size-8))
	}
	var header strings.Builder
	header.Grow(int(n))
	switch got, err := io.Copy(&header, io.NewSectionReader(r, 8, int64(n))); {
	case err != nil:
		return nil, fmt.Errorf("safetensors: %w", err)
	case got < int64(n):
		return nil, shortError(8 + got)
	}
	f := &File{r: r, data: 8 + int64(n), header: header.String()}
	if err := f.parse(); err != nil {
		return nil, err
	}
	if err := f.layout(size); err != nil {
		return nil, err
	}
	if err := f.index(); err != nil {
		return nil, err
	}
	return f, nil
}

// readFull reads all of p. A file that ends earlier than was said is a [*FormatError].
func readFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return shortError(offset + int64(n))
	}
	return fmt.Errorf("safetensors: %w", err)
}

// shortError is the error of a file that ends at an offset, and should not.
func shortError(offset int64) error {
	return &FormatError{Offset: offset, What: "file", Found: "its end", Want: "the size that it had when it was opened",
		Err: io.ErrUnexpectedEOF}
}

// layout puts the entries into the order of their data, and makes sure that these are all that follows the header.
func (f *File) layout(size int64) error {
	slices.SortFunc(f.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(a.name, b.name))
	})
	end := int64(0)
	for _, e := range f.entries {
		if e.begin != end {
			fault := "a hole before it"
			if e.begin < end {
				fault = "it overlaps with the tensor before it"
			}
			return &FormatError{Offset: 8 + int64(e.shape), What: "data_offsets of " + quote(e.name),
				Found: fmt.Sprintf("[%d, %d]: %s", e.begin, e.end, fault), Want: fmt.Sprintf("a begin of %d", end)}
		}
		end = e.end
	}
	if have := size - f.data; have != end {
		e := &FormatError{Offset: f.data + min(have, end), What: "data", Found: fmt.Sprintf("%d bytes", have),
			Want: fmt.Sprintf("%d, as the tensors say", end)}
		if have < end {
			e.Err = io.ErrUnexpectedEOF
		}
		return e
	}
	return nil
}

// index makes the order of names, in which equal ones are neighbours, and finds out which names are aliases.
func (f *File) index() error {
	f.byName = make([]uint32, len(f.entries))
	for i := range f.byName {
		f.byName[i] = uint32(i)
	}
	slices.SortFunc(f.byName, func(a, b uint32) int {
		return cmp.Or(strings.Compare(f.entries[a].name, f.entries[b].name), cmp.Compare(a, b))
	})
	for k := 1; k < len(f.byName); k++ {
		if e := f.entries[f.byName[k]]; e.name == f.entries[f.byName[k-1]].name {
			return &FormatError{Offset: 8 + int64(e.shape), What: "name of a tensor",
				Found: quote(e.name) + " for a second time", Want: "each name once"}
		}
	}
	f.aliases = map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(f.metadata)) {
		if target := f.metadata[key]; key != formatKey && f.find(key) < 0 && f.find(target) >= 0 {
			f.aliases[target] = append(f.aliases[target], key)
		}
	}
	return nil
}

// find is the entry with a name, or -1.
func (f *File) find(name string) int {
	k, ok := slices.BinarySearchFunc(f.byName, name, func(i uint32, name string) int {
		return strings.Compare(f.entries[i].name, name)
	})
	if !ok {
		return -1
	}
	return int(f.byName[k])
}

// Len is the number of tensors.
func (f *File) Len() int { return len(f.entries) }

// Tensors yields the tensors in the order of their data.
func (f *File) Tensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i := range f.entries {
			if !yield(f.tensor(i)) {
				return
			}
		}
	}
}

// Lookup returns the tensor with a name, which may be one of its aliases; false if there is none.
func (f *File) Lookup(name string) (Tensor, bool) {
	i := f.find(name)
	if target, ok := f.metadata[name]; i < 0 && ok && name != formatKey {
		i = f.find(target)
	}
	if i < 0 {
		return Tensor{}, false
	}
	return f.tensor(i), true
}

// tensor is entry i for users.
func (f *File) tensor(i int) Tensor {
	e := f.entries[i]
	t := Tensor{Name: e.name, DType: e.dtype, Shape: []int{}, Aliases: slices.Clone(f.aliases[e.name]),
		data: f.r, at: f.data + e.begin}
	s := scanner{text: f.header, at: int(e.shape)}
	s.list('[', ']', "shape", func() { t.Shape = append(t.Shape, int(s.integer("size"))) })
	return t
}

// Metadata returns a copy of the file's texts by key, the names of aliases among them. Files for PyTorch have "pt" as
// "format".
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }
