package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// leaf is a column that has values.
type leaf struct {
	path     string // in the schema
	name     string // the path without what only says that there is a list or a map
	kind     format.Type
	size     int // of a value of FixedLenByteArray, in bytes
	unsigned bool
	maxDef   int // definition level of a value
	maxRep   int // repetition level of a value that is not the first one of its row
	listDef  int // definition level from which there is an element of the list
}

const (
	magic    = "PAR1"
	maxDepth = 64
)

// metadata reads the footer, and the columns that its schema has.
func (f *file) metadata() (*format.FileMetaData, error) {
	if f.size < 12 {
		return nil, f.bad(-1, "size", fmt.Sprintf("%d bytes", f.size), "at least 12", io.ErrUnexpectedEOF)
	}
	head, tail := make([]byte, 4), make([]byte, 8)
	if err := f.read(head, 0, "magic"); err != nil {
		return nil, err
	}
	if err := f.read(tail, f.size-8, "end"); err != nil {
		return nil, err
	}
	if string(head) != magic || string(tail[4:]) != magic {
		return nil, f.bad(0, "magic", fmt.Sprintf("%q, at the end %q", head, tail[4:]), magic+" at both", nil)
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if n > f.size-12 {
		return nil, f.bad(f.size-8, "size of the metadata", fmt.Sprint(n), fmt.Sprintf("at most %d", f.size-12), nil)
	}
	at := f.size - 8 - n
	footer := make([]byte, n)
	if err := f.read(footer, at, "metadata"); err != nil {
		return nil, err
	}
	meta := &format.FileMetaData{}
	budget := 64<<20 + f.size/2
	if used, err := decode(footer, meta, &budget); err != nil || used != len(footer) {
		return nil, f.bad(at, "metadata", "damage", "those of a Parquet file that is not encrypted", err)
	}
	if len(meta.Schema) == 0 {
		return nil, f.bad(at, "schema", "nothing", "columns", nil)
	}
	rest, err := f.columns(meta.Schema[1:], int(meta.Schema[0].NumChildren.V), level{}, 0)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d elements too many", len(rest))
	}
	if err != nil {
		return nil, f.bad(at, "schema", "damage", "a tree of columns", err)
	}
	return meta, nil
}

// read fills buf with what is at an offset.
func (f *file) read(buf []byte, offset int64, what string) error {
	n, err := f.r.ReadAt(buf, offset)
	switch {
	case n == len(buf):
		return nil
	case err == io.EOF:
		return f.bad(offset, what, fmt.Sprintf("%d bytes", n), fmt.Sprintf("%d bytes", len(buf)), io.ErrUnexpectedEOF)
	default:
		return fmt.Errorf("%s: %s: %w", f.name, what, err)
	}
}

// level is where in the schema a column is.
type level struct {
	path, name          string
	def, rep, listDef   int
	list, isMap, inList bool // the parent is a list or a map; its parent is a list with one element
}

// columns adds the leaves of so many children of a group, which elements begin with, and returns the elements behind.
func (f *file) columns(elements []format.SchemaElement, children int, in level,
	depth int) ([]format.SchemaElement, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d groups in each other", maxDepth)
	}
	if children < 0 || children > len(elements) {
		return nil, fmt.Errorf("%d columns in a group, where %d elements are left", children, len(elements))
	}
	for range children {
		if len(elements) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		e := &elements[0]
		elements = elements[1:]
		at := in
		at.path, at.name = join(in.path, e.Name), join(in.name, e.Name)
		if in.inList || (in.list || in.isMap) && e.RepetitionType.V == format.Repeated {
			at.name = in.name
		}
		switch {
		case !e.RepetitionType.Valid || e.RepetitionType.V == format.Required:
		case e.RepetitionType.V == format.Optional:
			at.def++
		case e.RepetitionType.V == format.Repeated:
			at.def++
			at.rep++
			at.listDef = at.def
		default:
			return nil, fmt.Errorf("repetition %d of %q", e.RepetitionType.V, at.path)
		}
		n := int(e.NumChildren.V)
		if !e.NumChildren.Valid || n == 0 && e.Type.Valid {
			l := leaf{path: at.path, name: at.name, kind: e.Type.V, size: int(e.TypeLength.V), unsigned: unsigned(e),
				maxDef: at.def, maxRep: at.rep, listDef: at.listDef}
			if !e.Type.Valid || l.kind < format.Boolean || l.kind > format.FixedLenByteArray ||
				l.kind == format.FixedLenByteArray && l.size < 1 {
				return nil, fmt.Errorf("type %d of %q, size %d", l.kind, at.path, l.size)
			}
			f.leaves = append(f.leaves, l)
			continue
		}
		at.inList = in.list && e.RepetitionType.V == format.Repeated && n == 1
		_, list := e.LogicalType.Value.(*format.ListType)
		_, isMap := e.LogicalType.Value.(*format.MapType)
		at.list = list || e.ConvertedType.Valid && e.ConvertedType.V == deprecated.List
		at.isMap = isMap || e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Map
		var err error
		if elements, err = f.columns(elements, n, at, depth+1); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unsigned tells whether the integers of a column are not negative.
func unsigned(e *format.SchemaElement) bool {
	if i, ok := e.LogicalType.Value.(*format.IntType); ok {
		return !i.IsSigned
	}
	return e.ConvertedType.Valid && e.ConvertedType.V >= deprecated.Uint8 && e.ConvertedType.V <= deprecated.Uint64
}

// rowGroups notes where the columns of fields are.
func (f *file) rowGroups(meta *format.FileMetaData, fields []field) error {
	rows := 0
	for g := range meta.RowGroups {
		group := &meta.RowGroups[g]
		damaged := func(found, want string) error {
			return f.bad(-1, fmt.Sprintf("row group %d", g), found, want, nil)
		}
		if group.NumRows < 0 || group.NumRows > 1<<40-int64(rows) {
			return damaged(fmt.Sprintf("%d rows", group.NumRows), "from 0, at most 2^40 in the file")
		}
		if len(group.Columns) != len(f.leaves) {
			return damaged(fmt.Sprintf("%d columns", len(group.Columns)), fmt.Sprint(len(f.leaves)))
		}
		chunks := map[int]*chunk{}
		for _, field := range fields {
			for _, c := range field.columns {
				if chunks[c.leaf] != nil {
					continue
				}
				m, l := &group.Columns[c.leaf].MetaData, &f.leaves[c.leaf]
				from := m.DataPageOffset
				if d := m.DictionaryPageOffset; d > 0 && d < from {
					from = d
				}
				if other := group.Columns[c.leaf].FilePath; other != "" {
					return damaged(fmt.Sprintf("column %.60q in the file %.60q", l.path, other), "in this file")
				}
				if m.Type != l.kind || from < 4 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > f.size-from ||
					m.NumValues < 0 || l.maxRep == 0 && m.NumValues != group.NumRows {
					return damaged(fmt.Sprintf("column %.60q of type %v, %d values in %d bytes from byte %d", l.path,
						m.Type, m.NumValues, m.TotalCompressedSize, from),
						fmt.Sprintf("type %v, what fits the file", l.kind))
				}
				chunks[c.leaf] = &chunk{file: f, leaf: l, codec: m.Codec, from: from, to: from + m.TotalCompressedSize,
					values: m.NumValues, rows: int(group.NumRows)}
			}
		}
		rows += int(group.NumRows)
		f.ends, f.groups = append(f.ends, rows), append(f.groups, chunks)
	}
	if meta.NumRows != int64(rows) {
		return f.bad(-1, "rows", fmt.Sprint(meta.NumRows), fmt.Sprintf("%d, as in the row groups", rows), nil)
	}
	return nil
}

// decode reads a struct of metadata from the beginning of b, and tells how many bytes it took. What it may take in
// memory is counted off the budget, in bytes.
func decode(b []byte, to any, budget *int64) (n int, err error) {
	if n, err = walk(b, compactStruct, 0, budget); err != nil {
		return n, err
	}
	defer damaged(&err)
	return n, thrift.Unmarshal(&thrift.CompactProtocol{}, b[:n], to)
}

// damaged makes an error of a panic, such as that of an index out of range: what is in the file was not looked at for
// all that could be wrong.
func damaged(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("the decoder failed: %v", v)
	}
}

const compactStruct = 12

// walker goes over a value in Thrift's compact protocol, for its length. It takes no memory, unlike decoders, which
// believe the lengths of lists: such a one may have what its elements take, at most 1 KiB a struct and 32 bytes for
// others.
type walker struct {
	b      []byte
	at     int
	budget *int64
}

// walk is the length of a value.
func walk(b []byte, kind byte, depth int, budget *int64) (int, error) {
	w := &walker{b: b, budget: budget}
	err := w.value(kind, depth)
	return w.at, err
}

// skip goes over n bytes.
func (w *walker) skip(n uint64) error {
	if n > uint64(len(w.b)-w.at) {
		return io.ErrUnexpectedEOF
	}
	w.at += int(n)
	return nil
}

func (w *walker) byte() (byte, error) {
	if err := w.skip(1); err != nil {
		return 0, err
	}
	return w.b[w.at-1], nil
}

func (w *walker) varint() (uint64, error) {
	v, n := binary.Uvarint(w.b[w.at:])
	switch {
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	case n < 0:
		return 0, errors.New("a number of more than 64 bits")
	}
	w.at += n
	return v, nil
}

// value goes over a value of a kind.
func (w *walker) value(kind byte, depth int) (err error) {
	n, head := uint64(0), byte(0)
	if depth > maxDepth {
		return fmt.Errorf("more than %d values in each other", maxDepth)
	}
	switch kind {
	case 1, 2: // bools, whose value is their kind
	case 3: // int8
		return w.skip(1)
	case 4, 5, 6: // int16, int32, int64
		_, err = w.varint()
	case 7: // float64
		return w.skip(8)
	case 8: // bytes
		if n, err = w.varint(); err == nil {
			err = w.skip(n)
		}
	case 9, 10: // list, set
		if head, err = w.byte(); err != nil {
			return err
		}
		if n = uint64(head >> 4); n == 15 {
			n, err = w.varint()
		}
		if err == nil {
			err = w.elements(n, depth, head&15)
		}
	case 11: // map
		if n, err = w.varint(); err != nil || n == 0 {
			return err
		}
		if head, err = w.byte(); err == nil {
			err = w.elements(n, depth, head>>4, head&15)
		}
	case compactStruct:
		for err == nil {
			if head, err = w.byte(); err != nil || head == 0 {
				return err
			}
			if head>>4 == 0 { // the field's number follows
				_, err = w.varint()
			}
			if err == nil {
				err = w.value(head&15, depth+1)
			}
		}
	default:
		err = fmt.Errorf("a value of kind %d", kind)
	}
	return err
}

// elements goes over n elements of a list, or pairs of a map.
func (w *walker) elements(n uint64, depth int, kinds ...byte) error {
	if n > uint64(len(w.b)-w.at) { // each has at least one byte
		return io.ErrUnexpectedEOF
	}
	for _, kind := range kinds {
		size := int64(32)
		if kind == compactStruct {
			size = 1024
		}
		if *w.budget -= int64(n) * size; *w.budget < 0 {
			return fmt.Errorf("%d elements of a list are too many for a file of this size", n)
		}
	}
	for range n {
		for _, kind := range kinds {
			if kind == 1 || kind == 2 {
				kind = 3 // bools are bytes
			}
			if err := w.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
