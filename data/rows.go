package data

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

const (
	maxRow  = 16 << 20                   // bytes of a row of a CSV or JSONL file
	longRow = "more than 16777216 bytes" // of a row, in words
)

// Rows is a [Source] of the rows of a CSV or JSONL file, as values of type T. Where each row begins is noted when the
// file is opened, in one to two bytes a row, and kept in a file beside it ([NoIndex]); rows are read when they are
// asked for. A file that is compressed with gzip is held unpacked in memory.
type Rows[T any] struct {
	format            string // "csv" or "jsonl"
	name, fingerprint string
	file              *os.File // nil: bytes
	bytes             []byte   // of a file that was compressed
	index             lengths
	known             bool                                              // the index came from a file
	decode            func(row []byte, x *T, last *csvRow) *FormatError // File and Offset are filled in
	windows           sync.Pool                                         // of *window
}

// Comma is the character between the columns of a CSV file, such as '\t'; without it ','.
func Comma(c rune) ReadOption { return ReadOption{func(r *reading) { r.comma = c }} }

// NoHeader says that the first row of a CSV file has no names: the columns are called "1", "2" and so on.
func NoHeader() ReadOption { return ReadOption{func(r *reading) { r.noHeader = true }} }

// OpenCSV opens a regular file of comma-separated values (RFC 4180), plain or compressed with gzip, whose first row has
// the names of the columns. All rows must have as many columns as the first; empty lines are skipped.
//
// T is []string, or a struct. An exported field takes the column of its name, upper case or lower, or that of its tag,
// as in `csv:"petal length"`; `csv:"-"` takes none. A field that is a slice takes several: those from one to another
// with `csv:"pixel0..pixel783"`, or all that no other field takes with `csv:"*"`. Fields, and elements of slices, are
// strings, bools, integers, floats or [encoding.TextUnmarshaler]s; around all but strings spaces are dropped. Columns
// that no field takes are skipped.
//
// A file that cannot be read so is a [*FormatError] that names the row and column: of its structure at once, of a value
// from At. A row has at most 16 MiB.
func OpenCSV[T any](path string, options ...ReadOption) (*Rows[T], error) {
	return openRows("csv", path, options, (*Rows[T]).scanCSV)
}

// OpenJSONL opens a regular file with one JSON value in each line, plain or compressed with gzip. Values are decoded
// into T as [json.Unmarshal] does; empty lines are skipped. A line that is not such a value is a [*FormatError] from
// At. A line has at most 16 MiB.
func OpenJSONL[T any](path string, options ...ReadOption) (*Rows[T], error) {
	return openRows("jsonl", path, options, func(rows *Rows[T], src *unpacked) error {
		rows.decode = func(row []byte, x *T, _ *csvRow) *FormatError {
			if err := json.Unmarshal(row, x); err != nil {
				return &FormatError{What: "line", Found: cut(bytes.Trim(row, jsonSpace)),
					Want: fmt.Sprintf("JSON for %T", *x), Err: err}
			}
			return nil
		}
		return rows.scanLines(src)
	})
}

// openRows opens a file; scan notes its rows and says how they are decoded.
func openRows[T any](format, path string, options []ReadOption,
	scan func(*Rows[T], *unpacked) error) (*Rows[T], error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	rows := &Rows[T]{format: format, name: path, fingerprint: fingerprint(path, info), file: file}
	rows.windows.New = func() any { return &window{} }
	if err := rows.open(file, info.Size(), readingOf(options), scan); err != nil {
		file.Close()
		return nil, err
	}
	if rows.file == nil {
		file.Close()
	}
	return rows, nil
}

func (r *Rows[T]) open(file *os.File, size int64, options reading, scan func(*Rows[T], *unpacked) error) error {
	src, err := unpack(r.name, file, size, options)
	if err != nil {
		return err
	}
	if !src.exact {
		if r.bytes, err = src.all(); err != nil {
			return err
		}
		r.file = nil
		n := int64(len(r.bytes))
		src = &unpacked{name: r.name, r: bufio.NewReader(bytes.NewReader(r.bytes)), limit: n, exact: true,
			reading: options}
	}
	if src.limit > src.most {
		return src.tooLarge(r.name, fmt.Sprintf("%d bytes", src.limit))
	}
	if head, _ := src.r.Peek(3); string(head) == "\ufeff" { // as Excel writes it
		src.r.Discard(3)
		src.offset = 3
	}
	begin := src.offset
	kind := fmt.Sprintf("%s %q %v", r.format, options.comma, options.noHeader)
	err = indexed(r.file, size, kind, options, func(note []byte) bool {
		r.known = r.index.parse(note, size)
		return r.known
	}, func() error {
		r.index = lengths{end: begin}
		return scan(r, src)
	}, r.index.note)
	if err == nil && r.known {
		err = scan(r, src)
	}
	return err
}

// Len is the number of rows, without a header; 0 if r is nil.
func (r *Rows[T]) Len() int {
	if r == nil {
		return 0
	}
	return r.index.n
}

// At is row i. An i outside [0, Len) is an error.
func (r *Rows[T]) At(i int) (x T, err error) {
	if i < 0 || i >= r.Len() {
		return x, fmt.Errorf("data: there is no row %d, only [0, %d)", i, r.Len())
	}
	w := r.windows.Get().(*window)
	defer r.windows.Put(w)
	from, to := r.index.row(i, &w.after)
	var row []byte
	if r.file == nil {
		row = r.bytes[from:to]
	} else if row, err = w.read(r.file, from, to, r.index.end); err == io.EOF {
		return x, &FormatError{File: r.name, Offset: from, What: fmt.Sprintf("row %d", i),
			Found: fmt.Sprintf("%d bytes", len(row)), Want: fmt.Sprintf("the %d that there were when it was opened",
				to-from), Err: io.ErrUnexpectedEOF}
	} else if err != nil {
		return x, fmt.Errorf("%s: row %d: %w", r.name, i, err)
	}
	if bad := r.decode(row, &x, &w.csv); bad != nil {
		bad.File, bad.Offset, bad.What = r.name, from, fmt.Sprintf("row %d, %s", i, bad.What)
		return x, bad
	}
	return x, nil
}

// window is a part of a file that was read at once, for a goroutine that may read rows in order.
type window struct {
	from  int64 // of bytes
	next  int64 // where the row that was read last ends
	data  []byte
	after found
	csv   csvRow
}

// ahead is how much is read when rows are asked for one after the other.
const ahead = 64 << 10

// read is the bytes of a row, valid until the next call. If the file, which ended at end, is shorter by now, what there
// is of the row, and [io.EOF].
func (w *window) read(file io.ReaderAt, from, to, end int64) ([]byte, error) {
	if from < w.from || to > w.from+int64(len(w.data)) {
		n := int(to - from)
		if from == w.next {
			n = max(n, int(min(end-from, ahead)))
		}
		if cap(w.data) < n {
			w.data = make([]byte, n)
		}
		got, err := file.ReadAt(w.data[:n], from)
		if w.from, w.data = from, w.data[:got]; int64(got) < to-from {
			return w.data, err
		}
	}
	w.next = to
	return w.data[from-w.from : to-w.from], nil
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
	if r == nil || r.file == nil {
		return nil
	}
	return r.file.Close()
}

const jsonSpace = " \t\r\n"

// scanLines notes where lines begin. Empty ones belong to the line after them, or to the last.
func (r *Rows[T]) scanLines(src *unpacked) error {
	if r.known {
		return nil
	}
	begun, text := int64(0), false // the bytes of the row so far; there is more than space
	for {
		piece, err := src.r.ReadSlice('\n')
		src.offset += int64(len(piece))
		begun += int64(len(piece))
		text = text || len(bytes.Trim(piece, jsonSpace)) > 0
		if begun > maxRow && text {
			return src.at(r.index.end).bad(fmt.Sprintf("row %d", r.index.n), longRow, "less")
		}
		if text && (err == nil || err == io.EOF) {
			if err := r.index.add(begun); err != nil {
				return fmt.Errorf("%s: %w", src.name, err)
			}
			begun, text = 0, false
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && err != bufio.ErrBufferFull:
			return src.readError("data", fmt.Sprintf("%d bytes", src.offset), "the end of the data", err)
		}
	}
}

// scanCSV reads all rows once: how many columns they have, and where they begin.
func (r *Rows[T]) scanCSV(src *unpacked) error {
	comma := cmp.Or(src.comma, ',')
	capped := &cappedReader{r: src.r}
	c := newCSV(capped, comma)
	var header []string
	for from, base := int64(0), src.offset; ; {
		record, err := c.Read()
		to := c.InputOffset()
		src.at(base + from)
		var syntax *csv.ParseError
		switch {
		case err == io.EOF && header == nil:
			return src.bad("size", "no row", "a row with the names of the columns")
		case err == io.EOF:
			return nil
		case errors.Is(err, errLongRow):
			return src.bad(fmt.Sprintf("row %d", r.index.n), longRow, "less")
		case errors.As(err, &syntax):
			return src.bad(fmt.Sprintf("line %d, column %d", syntax.Line, syntax.Column), syntax.Err.Error(),
				"CSV by RFC 4180")
		case err != nil:
			return fmt.Errorf("data: OpenCSV: %s: %w", src.name, err)
		case header != nil && len(record) != len(header):
			line, _ := c.FieldPos(0)
			return src.bad(fmt.Sprintf("line %d", line), fmt.Sprintf("%d columns", len(record)),
				fmt.Sprint(len(header)))
		}
		isHeader := header == nil && !src.noHeader
		if header == nil {
			if header = slices.Clone(record); src.noHeader {
				for i := range header {
					header[i] = fmt.Sprint(i + 1)
				}
			}
			columns, err := newColumns(reflect.TypeFor[T](), header)
			if err != nil {
				if f, ok := errors.AsType[*FormatError](err); ok {
					f.File, f.Offset = src.name, src.offset
				}
				return err
			}
			if r.decode = decodeCSV[T](columns, comma); r.known {
				return nil
			}
		}
		if isHeader {
			r.index.end = base + to
		} else if err := r.index.add(to - from); err != nil {
			return fmt.Errorf("%s: %w", src.name, err)
		}
		from, capped.n = to, 0
	}
}

// errLongRow is the error of a row that is too long.
var errLongRow = errors.New("the row is too long")

// cappedReader fails when n, which is reset after each row, has grown too much: a quote that nobody closes would make a
// row of all that follows.
type cappedReader struct {
	r io.Reader
	n int
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.n > maxRow {
		return 0, errLongRow
	}
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// newCSV reads records of any number of columns, each valid until the next.
func newCSV(r io.Reader, comma rune) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma, c.FieldsPerRecord, c.ReuseRecord = comma, -1, true
	return c
}

// csvRow is the columns of a row, with memory for those of the next one.
type csvRow struct {
	columns []string
	bytes   bytes.Reader
	csv     *csv.Reader
}

// decodeCSV decodes a row.
func decodeCSV[T any](columns columns, comma rune) func(row []byte, x *T, last *csvRow) *FormatError {
	separator := string(comma)
	return func(row []byte, x *T, last *csvRow) *FormatError {
		text := unsafe.String(unsafe.SliceData(row), len(row)) // until row changes: what lasts is copied
		if len(columns.fields) == 0 {
			text = string(row)
		}
		record, plain := splitPlain(last.columns[:0], text, separator)
		var err error
		if last.columns = record; !plain {
			if last.csv == nil {
				last.csv = newCSV(&last.bytes, comma)
			}
			last.bytes.Reset(row)
			record, err = last.csv.Read()
		}
		if err != nil || len(record) != len(columns.names) {
			last.csv = nil // it is in an unknown state
			return &FormatError{What: "CSV", Found: cut(row),
				Want: "the row that there was when the file was opened", Err: err}
		}
		return columns.set(reflect.ValueOf(x).Elem(), record)
	}
}

// splitPlain appends the columns of a row to record. It is false if there is a quote in it, or more than one line apart
// from empty ones before it: these are for package csv, with whose columns the others agree.
func splitPlain(record []string, row string, separator string) (_ []string, plain bool) {
	for len(row) > 0 && (row[0] == '\n' || len(row) > 1 && row[0] == '\r' && row[1] == '\n') {
		_, row, _ = strings.Cut(row, "\n")
	}
	row = strings.TrimSuffix(strings.TrimSuffix(row, "\n"), "\r")
	if len(row) == 0 || strings.IndexByte(row, '"') >= 0 || strings.IndexByte(row, '\n') >= 0 {
		return record, false
	}
	for {
		at := -1
		if len(separator) == 1 {
			at = strings.IndexByte(row, separator[0])
		} else {
			at = strings.Index(row, separator)
		}
		if at < 0 {
			return append(record, row), true
		}
		record = append(record, row[:at])
		row = row[at+len(separator):]
	}
}

// cut is text for an error.
func cut(b []byte) string { return fmt.Sprintf("%.60q", b) }

// lengths has the lengths of rows that follow each other, as varints.
type lengths struct {
	n     int
	first []int64 // offsets of rows 0, lengthsStep, 2*lengthsStep, ...
	at    []int   // where their lengths begin
	bytes []byte
	end   int64 // of the last row; before it, where the first one begins
}

const lengthsStep = 64

// add adds a row; the error is of kind [tensor.ErrMemory].
func (l *lengths) add(length int64) (err error) {
	if l.n%lengthsStep == 0 {
		if l.first, err = grown(l.first, 1); err != nil {
			return err
		}
		if l.at, err = grown(l.at, 1); err != nil {
			return err
		}
		l.first, l.at = append(l.first, l.end), append(l.at, len(l.bytes))
	}
	if l.bytes, err = grown(l.bytes, binary.MaxVarintLen64); err != nil {
		return err
	}
	l.bytes = binary.AppendUvarint(l.bytes, uint64(length))
	l.n, l.end = l.n+1, l.end+length
	return nil
}

// found is where the length of a row is that follows one which was looked for.
type found struct {
	row  int
	from int64 // where it begins
	at   int
}

// row is where row i begins and ends. It is found at once if it follows the last one of after.
func (l *lengths) row(i int, after *found) (from, to int64) {
	if i != after.row || i%lengthsStep == 0 {
		k := i / lengthsStep
		*after = found{k * lengthsStep, l.first[k], l.at[k]}
	}
	for ; after.row <= i; after.row++ {
		n, size := binary.Uvarint(l.bytes[after.at:])
		from = after.from
		after.from, after.at = from+int64(n), after.at+size
	}
	return from, after.from
}
