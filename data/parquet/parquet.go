// Package parquet reads the rows of Parquet files as structs, for pipelines of package data:
//
//	type Flower struct {
//		Petal   float32   `parquet:"petal length"`
//		Species string
//		Pixels  []float32 // a column of lists
//	}
//
//	flowers, err := parquet.Open[Flower]("flowers.parquet")
//	...
//	defer flowers.Close()
//	shuffled := data.ShuffleBlocks(data.From(flowers), flowers.RowGroup(), 1, seed)
//
// The rows of a file are in row groups, and within them the values of a column in pages, which are unpacked as a whole:
// a row anywhere costs half a millisecond, one whose pages are unpacked already a microsecond. Pages are kept,
// up to [CacheSize]. So read in blocks: with [data.ShuffleBlocks] and blocks as large as row groups
// ([Rows.RowGroup]), or smaller ones where a window of row groups takes more than the cache.
//
// It is a module of its own, so that programs without such files do not depend on github.com/parquet-go/parquet-go,
// which reads the metadata. Pages are decoded here: files are not trusted. Sizes are compared with the file before
// memory is taken, and what does not fit is a [*data.FormatError].
//
//   - parquet.go: files as sources of rows.
//   - fields.go: which columns become which fields.
//   - footer.go: metadata, checked.
//   - chunk.go: the pages of a column in a row group, found, unpacked and kept.
//   - values.go: what is in a page.
package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/weft-ml/weft/data"
)

// Rows is a [data.Source] of the rows of a Parquet file, as values of type T.
type Rows[T any] struct {
	*file
	fields []field
}

// file is an open file.
type file struct {
	name, fingerprint string
	r                 *os.File
	size              int64
	leaves            []leaf
	ends              []int // rows up to the end of each row group
	groups            []map[int]*chunk
	cache             cache
}

// An Option changes how files are read. The zero Option changes nothing.
type Option struct{ set func(*file) }

// CacheSize keeps up to n bytes of unpacked pages in memory instead of 64 MiB, and always the page that was read last.
func CacheSize(n int64) Option { return Option{func(f *file) { f.cache.limit = n }} }

// Open opens a regular Parquet file, with any compression and encoding of the format but LZO, the older LZ4 and
// BIT_PACKED. Its metadata are read at once, pages when they are asked for.
//
// T is a struct. An exported field takes the column of its name, upper case or lower, or that of its tag, as in
// `parquet:"petal length"`; `parquet:"-"` takes none. Columns inside others have names with dots: "image.bytes". Fields
// are strings, []byte, bools, integers and floats, of the kind that the column has; times and decimals are the integers
// that are stored. A pointer is nil where there is no value; else that is an error. A slice takes a column of lists, or
// several columns: those from one to another with `parquet:"pixel0..pixel783"`, or all that no other field takes with
// `parquet:"*"`. What follows a comma in a tag is for parquet-go. Columns that no field takes are not read, lists of
// lists are refused.
//
// A file that cannot be read so is a [*data.FormatError]: of its metadata and columns at once, of values from At, with
// the row. A page has at most 4,194,304 values, and may unpack to 96 MiB more than its size in the file.
func Open[T any](path string, options ...Option) (*Rows[T], error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe waits for somebody who writes
		return nil, &data.FormatError{File: path, Offset: -1, What: "kind of file", Found: info.Mode().Type().String(),
			Want: "a regular file"}
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &file{name: path, r: r, size: info.Size(), cache: cache{limit: 64 << 20}}
	f.fingerprint = fmt.Sprintf("%s %d %d", filepath.Base(path), f.size, info.ModTime().UnixNano())
	for _, o := range options {
		if o.set != nil {
			o.set(f)
		}
	}
	rows := &Rows[T]{file: f}
	if rows.fields, err = f.open(reflect.TypeFor[T]()); err != nil {
		r.Close()
		return nil, err
	}
	return rows, nil
}

// open reads the metadata, and finds the columns of values of a type.
func (f *file) open(t reflect.Type) ([]field, error) {
	meta, err := f.metadata()
	if err != nil {
		return nil, err
	}
	fields, err := f.bind(t)
	if err != nil {
		return nil, err
	}
	return fields, f.rowGroups(meta, fields)
}

// Len is the number of rows.
func (r *Rows[T]) Len() int {
	if r == nil || len(r.ends) == 0 {
		return 0
	}
	return r.ends[len(r.ends)-1]
}

// RowGroup is the number of rows of the largest row group, at least 1: a block for [data.ShuffleBlocks].
func (r *Rows[T]) RowGroup() int {
	most := 1
	if r != nil {
		for i, end := range r.ends {
			most = max(most, end-r.first(i))
		}
	}
	return most
}

// first is the first row of a row group.
func (f *file) first(group int) int {
	if group == 0 {
		return 0
	}
	return f.ends[group-1]
}

// At is row i. An i outside [0, Len) is an error.
func (r *Rows[T]) At(i int) (x T, err error) {
	if i < 0 || i >= r.Len() {
		return x, fmt.Errorf("data/parquet: there is no row %d, only [0, %d)", i, r.Len())
	}
	group, found := slices.BinarySearch(r.ends, i+1)
	_ = found // ends[group-1] <= i < ends[group]
	v := reflect.ValueOf(&x).Elem()
	for k := range r.fields {
		if err := r.fields[k].set(v, r.groups[group], i-r.first(group)); err != nil {
			if e, ok := errors.AsType[*data.FormatError](err); ok {
				e.What = fmt.Sprintf("row %d, %s", i, e.What)
			} else {
				err = fmt.Errorf("row %d: %w", i, err)
			}
			return *new(T), err
		}
	}
	return x, nil
}

// Fingerprint has the file's name, size and time of change.
func (r *Rows[T]) Fingerprint() string {
	if r == nil {
		return ""
	}
	return r.fingerprint
}

// Close closes the file. At must not be called afterwards.
func (r *Rows[T]) Close() error {
	if r == nil {
		return nil
	}
	return r.r.Close()
}

// bad is a format error.
func (f *file) bad(offset int64, what, found, want string, err error) *data.FormatError {
	return &data.FormatError{File: f.name, Offset: offset, What: what, Found: found, Want: want, Err: err}
}
