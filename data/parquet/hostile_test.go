package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weft-ml/weft/data"
)

// readAll reads all rows of a file. Errors must be FormatErrors that name it.
func readAll[T any](t testing.TB, path string) (xs []T, err error) {
	t.Helper()
	rows, err := Open[T](path)
	for i := 0; err == nil && i < rows.Len() && i < 1000; i++ {
		var x T
		if x, err = rows.At(i); err == nil {
			xs = append(xs, x)
		}
	}
	if rows != nil {
		rows.Close()
	}
	if f, ok := errors.AsType[*data.FormatError](err); err != nil && (!ok || f.File != path) {
		t.Fatalf("%T %v", err, err)
	}
	return xs, err
}

// TestDamage cuts files, and changes bytes of them: errors, or other values, and nothing worse.
func TestDamage(t *testing.T) {
	for _, path := range files(t) {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, nil)
		failed := 0
		for i := 0; i < len(good); i += 797 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			if i%3 == 0 {
				bad[i] = 0xff
			}
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll[row](t, path); err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("%s: no byte that was changed is an error", path)
		}
		for n := 0; n < len(good); n += 4999 {
			if err := os.WriteFile(path, good[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll[row](t, path); err == nil {
				t.Errorf("cut to %d bytes: no error", n)
			}
		}
	}
}

// one is a row of one column.
type one[T any] struct {
	X T `parquet:"x"`
}

// readAny reads all rows of a file whose column x is of any type.
func readAny(t testing.TB, path string) (err error) {
	t.Helper()
	for _, read := range []func() error{
		func() error { _, err := readAll[one[int64]](t, path); return err },
		func() error { _, err := readAll[one[string]](t, path); return err },
		func() error { _, err := readAll[one[bool]](t, path); return err },
		func() error { _, err := readAll[one[[]int64]](t, path); return err },
		func() error { _, err := readAll[one[[]string]](t, path); return err },
	} {
		if err = read(); err == nil || !strings.Contains(err.Error(), "what a field X") {
			break
		}
	}
	return err
}

type (
	header = format.PageHeader
	change func(*format.SchemaElement, *header, *format.ColumnMetaData)
)

// made is a file of one column and one page, of which everything may be wrong.
func made(t testing.TB, change change, content []byte, also ...func(*format.FileMetaData)) string {
	t.Helper()
	element := format.SchemaElement{Name: "x", Type: thrift.New(format.Int64),
		RepetitionType: thrift.New(format.Required)}
	h := header{Type: format.DataPage, UncompressedPageSize: int32(len(content)),
		CompressedPageSize: int32(len(content)), DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 1,
			Encoding: format.Plain, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}
	meta := format.ColumnMetaData{Type: format.Int64, PathInSchema: []string{"x"}, NumValues: 1, DataPageOffset: 4}
	change(&element, &h, &meta)
	meta.Type = element.Type.V
	protocol := &thrift.CompactProtocol{}
	file := []byte(magic)
	b, err := thrift.Marshal(protocol, h)
	if err != nil {
		t.Fatal(err)
	}
	file = append(append(file, b...), content...)
	if meta.TotalCompressedSize == 0 {
		meta.TotalCompressedSize = int64(len(file) - 4)
	}
	rows := meta.NumValues
	if element.RepetitionType.V == format.Repeated {
		rows = 1
	}
	all := format.FileMetaData{Version: 1, NumRows: rows,
		Schema:    []format.SchemaElement{{Name: "root", NumChildren: thrift.New(int32(1))}, element},
		RowGroups: []format.RowGroup{{NumRows: rows, Columns: []format.ColumnChunk{{MetaData: meta}}}}}
	for _, change := range also {
		change(&all)
	}
	footer, err := thrift.Marshal(protocol, all)
	if err != nil {
		t.Fatal(err)
	}
	file = binary.LittleEndian.AppendUint32(append(file, footer...), uint32(len(footer)))
	return write(t, append(file, magic...))
}

// peak is the most memory that Go's heap has while f runs.
func peak(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&now)
			most.Store(max(most.Load(), now.HeapInuse))
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	return int64(most.Load()) - int64(before.HeapInuse)
}

// TestBombs reads small files that say that they are large: a FormatError each, and memory below 256 MiB.
func TestBombs(t *testing.T) {
	huge := binary.AppendUvarint(nil, math.MaxInt32)
	run := append(binary.AppendUvarint(nil, math.MaxUint32&^1), 1)
	zeros := make([]byte, 32<<20)
	encoding := func(e format.Encoding) change {
		return func(_ *format.SchemaElement, h *header, _ *format.ColumnMetaData) { h.DataPageHeader.V.Encoding = e }
	}
	values := func(n int32) change {
		return func(_ *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			h.DataPageHeader.V.NumValues, m.NumValues = n, int64(n)
		}
	}
	page := func(set func(*header)) change {
		return func(_ *format.SchemaElement, h *header, _ *format.ColumnMetaData) { set(h) }
	}
	column := func(set func(*format.ColumnMetaData)) change {
		return func(_ *format.SchemaElement, _ *header, m *format.ColumnMetaData) { set(m) }
	}
	compressed := func(codec format.CompressionCodec, size int32) string {
		content, err := pq.LookupCompressionCodec(codec).Encode(nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		return made(t, func(_ *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			m.Codec, h.UncompressedPageSize = codec, size
		}, content)
	}
	text := func(e *format.SchemaElement) { e.Type = thrift.New(format.ByteArray) }
	// 4 Mi byte arrays that begin as the first one does, of 1 MiB.
	prefixes := deltas(1<<20, func(k int) int64 { return min(int64(k), 1) << 20 })
	suffixes := deltas(1<<20, func(k int) int64 { return int64(1-min(k, 1)) << 20 })
	long := append(append(prefixes, suffixes...), make([]byte, 1<<20)...)
	for name, path := range map[string]string{
		"values":        made(t, values(math.MaxInt32), make([]byte, 8)),
		"many values":   made(t, values(maxValues), make([]byte, 8)),
		"page":          made(t, page(func(h *header) { h.CompressedPageSize = math.MaxInt32 }), huge),
		"unpacked page": made(t, page(func(h *header) { h.UncompressedPageSize = math.MaxInt32 }), huge),
		"chunk": made(t, column(func(m *format.ColumnMetaData) { m.TotalCompressedSize = math.MaxInt64 }),
			huge),
		"snappy": made(t, column(func(m *format.ColumnMetaData) { m.Codec = format.Snappy }),
			append(binary.AppendUvarint(nil, math.MaxUint32), 0, 0)),
		"delta": made(t, encoding(format.DeltaBinaryPacked),
			append(append([]byte{0x80, 1, 4}, huge...), 0, 0, 0, 0, 0, 0, 0)),
		"no dictionary": made(t, encoding(format.RLEDictionary), append([]byte{1}, run...)),
		"zstd":          compressed(format.Zstd, 8), "gzip": compressed(format.Gzip, 8),
		"brotli": compressed(format.Brotli, 8), "lz4": compressed(format.Lz4Raw, 8),
		"zstd, as said": compressed(format.Zstd, 200<<20),
		"prefixes": made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			text(e)
			h.DataPageHeader.V.Encoding, h.DataPageHeader.V.NumValues, m.NumValues = format.DeltaByteArray, 1<<20, 1<<20
		}, long),
	} {
		var err error
		n := peak(func() {
			err = readAny(t, path)
		})
		if err == nil || n > 256<<20 {
			t.Errorf("%s: %d bytes of memory, error %v", name, n, err)
		} else {
			t.Logf("%s: %d KiB, %v", name, n>>10, err)
		}
	}
	footers := map[string][]byte{
		"a list of 2^31 columns": append([]byte{0x19, 0xfc}, huge...),
		"a list of 2^31 groups":  append([]byte{0x49, 0xfc}, huge...),
		"a map":                  append([]byte{0x1b}, append(huge, 0xcc)...),
		"a long string":          append([]byte{0x68}, huge...),
		"lists in each other":    bytes.Repeat([]byte{0x19, 0x19}, 1000),
		"structs":                append(binary.AppendUvarint([]byte{0x29, 0xfc}, 1<<20), make([]byte, 1<<20)...),
	}
	for name, footer := range footers {
		file := append([]byte(magic), footer...)
		file = binary.LittleEndian.AppendUint32(file, uint32(len(footer)))
		path := write(t, append(file, magic...))
		var err error
		if n := peak(func() { _, err = readAll[one[int64]](t, path) }); err == nil || n > 256<<20 {
			t.Errorf("%s: %d bytes of memory, error %v", name, n, err)
		} else {
			t.Logf("%s: %d KiB, %v", name, n>>10, err)
		}
	}
}

// deltas packs n lengths, at most 2^20+1, in one block.
func deltas(n int, value func(int) int64) []byte {
	b := binary.AppendUvarint(nil, 1<<20)
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendVarint(b, value(0))
	b = append(binary.AppendVarint(b, 0), 64) // differences have 64 bits
	for k := 1; k < n; k++ {
		b = binary.LittleEndian.AppendUint64(b, uint64(value(k)-value(k-1)))
	}
	return append(b, make([]byte, 8)...)
}

// TestWrong reads files in which one thing is wrong.
func TestWrong(t *testing.T) {
	eight := make([]byte, 8)
	nothing := func(*format.SchemaElement, *header, *format.ColumnMetaData) {}
	if xs, err := readAll[one[int64]](t, made(t, nothing, eight)); err != nil || len(xs) != 1 || xs[0].X != 0 {
		t.Fatal(xs, err)
	}
	meta := func(change func(*format.FileMetaData)) string { return made(t, nothing, eight, change) }
	group := func(change func(*format.RowGroup)) string {
		return meta(func(m *format.FileMetaData) { change(&m.RowGroups[0]) })
	}
	page := func(change func(*header), content ...byte) string {
		return made(t, func(_ *format.SchemaElement, h *header, _ *format.ColumnMetaData) { change(h) }, content)
	}
	plain := func(e format.Encoding, content ...byte) string {
		return page(func(h *header) { h.DataPageHeader.V.Encoding = e }, content...)
	}
	v1 := func(repetition format.FieldRepetitionType, n int32, change func(*format.DataPageHeader),
		content ...byte) string {
		return made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			e.RepetitionType.V, h.DataPageHeader.V.NumValues, m.NumValues = repetition, n, int64(n)
			change(&h.DataPageHeader.V)
		}, content)
	}
	v2 := func(repetition format.FieldRepetitionType, change func(*format.DataPageHeaderV2), content ...byte) string {
		return made(t, func(e *format.SchemaElement, h *header, _ *format.ColumnMetaData) {
			e.RepetitionType.V, h.Type = repetition, format.DataPageV2
			h.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{NumValues: 1, NumRows: 1})
			change(&h.DataPageHeaderV2.V)
		}, content)
	}
	same := func(*format.DataPageHeader) {}
	kind := func(kind format.Type, encoding format.Encoding, n int32, content ...byte) string {
		return made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			e.Type, e.TypeLength = thrift.New(kind), thrift.New(int32(3))
			h.DataPageHeader.V.NumValues, h.DataPageHeader.V.Encoding, m.NumValues = n, encoding, int64(n)
		}, content)
	}
	wide := func(head ...byte) []byte { return append(head, make([]byte, 20)...) }
	for want, path := range map[string]string{
		"size: found 8 bytes":             write(t, eight),
		"magic: found":                    write(t, append(eight, eight...)),
		"size of the metadata: found 256": write(t, []byte("PAR1xxxx\x00\x01\x00\x00PAR1")),
		"schema: found nothing":           meta(func(m *format.FileMetaData) { m.Schema = m.Schema[:0:0] }),
		"1 elements too many":             meta(func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 0 }),
		"2 columns in a group":            meta(func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 2 }),
		`repetition 7 of "x"`:             meta(func(m *format.FileMetaData) { m.Schema[1].RepetitionType.V = 7 }),
		`type 9 of "x"`:                   meta(func(m *format.FileMetaData) { m.Schema[1].Type.V = 9 }),
		"more than 64 groups in each other": meta(func(m *format.FileMetaData) {
			m.Schema = append(slices.Repeat(m.Schema[:1], 70), m.Schema[1])
		}),
		"unexpected EOF": meta(func(m *format.FileMetaData) {
			m.Schema = append(m.Schema[:1:1], m.Schema[0], m.Schema[1])
			m.Schema[0].NumChildren.V = 2
		}),
		"rows: found 2, want 1":       meta(func(m *format.FileMetaData) { m.NumRows = 2 }),
		"row group 0: found -1 rows":  group(func(g *format.RowGroup) { g.NumRows = -1 }),
		"row group 0: found 0 column": group(func(g *format.RowGroup) { g.Columns = nil }),
		`in the file "other"`:         group(func(g *format.RowGroup) { g.Columns[0].FilePath = "other" }),
		"of type INT32":               group(func(g *format.RowGroup) { g.Columns[0].MetaData.Type = format.Int32 }),
		"from byte 2":                 group(func(g *format.RowGroup) { g.Columns[0].MetaData.DataPageOffset = 2 }),
		"0 values in 0 rows":          page(func(h *header) { h.Type = format.IndexPage }, eight...),
		"another checksum":            page(func(h *header) { h.CRC = 1 }, eight...),
		"a page of -1":                page(func(h *header) { h.DataPageHeader.V.NumValues = -1 }, eight...),
		"the encoding BIT_PACKED":     plain(format.BitPacked, eight...),
		"compression LZO": made(t, func(_ *format.SchemaElement, _ *header, m *format.ColumnMetaData) {
			m.Codec = format.LZO
		}, eight),
		"levels by BIT_PACKED": v1(format.Optional, 1, func(h *format.DataPageHeader) {
			h.DefinitionLevelEncoding = format.BitPacked
		}, eight...),
		"levels of 9 and 0": v2(format.Required, func(h *format.DataPageHeaderV2) {
			h.RepetitionLevelsByteLength = 9
		}, eight...),
		"want the beginning of a row": v1(format.Repeated, 1, same, wide(2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 2, 1)...),
		"blocks of 0 differences":     plain(format.DeltaBinaryPacked, eight...),
		"a prefix of 1 bytes, where there are 0": kind(format.ByteArray, format.DeltaByteArray, 1,
			0x80, 1, 4, 1, 2, 0x80, 1, 4, 1, 0),
		"5 bytes, want 3": kind(format.FixedLenByteArray, format.DeltaByteArray, 1,
			wide(0x80, 1, 4, 1, 0, 0x80, 1, 4, 1, 10)...),
		"INT96": kind(format.Int96, format.Plain, 1, wide()...),
	} {
		err := readAny(t, path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Each of these ends too early.
	for i, path := range []string{
		page(func(h *header) {}, 1, 2, 3),
		page(func(h *header) { h.DataPageHeader.V.Encoding = format.ByteStreamSplit }, 1, 2, 3),
		page(func(h *header) { h.DataPageHeader.V.Encoding = format.DeltaBinaryPacked }, 0x80, 1, 4),
		made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			h.DataPageHeader.V.Encoding, h.DataPageHeader.V.NumValues, m.NumValues = format.DeltaBinaryPacked, 9, 9
		}, []byte{0x80, 1, 4, 9, 0, 0, 8, 8, 8, 8, 1}),
		made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			h.DataPageHeader.V.Encoding, h.DataPageHeader.V.NumValues, m.NumValues = format.DeltaBinaryPacked, 9, 9
		}, []byte{0x80, 1, 4, 9, 0, 0}),
		v1(format.Optional, 1, same, 1, 2), v1(format.Optional, 1, same, 9, 0, 0, 0, 1),
		v1(format.Optional, 1, same, 0, 0, 0, 0),
		v1(format.Optional, 1, same, 1, 0, 0, 0, 2), v1(format.Optional, 9, same, 2, 0, 0, 0, 3, 1),
		kind(format.Boolean, format.Plain, 9, 1), kind(format.Boolean, format.RLE, 9, 1, 0, 0, 0, 3),
		kind(format.Boolean, format.RLE, 9, 1), kind(format.ByteArray, format.Plain, 2, 0, 0, 0, 0, 9, 0, 0, 0, 1),
		kind(format.ByteArray, format.DeltaLengthByteArray, 1, 0x80, 1, 4, 1, 10, 1, 2),
		kind(format.ByteArray, format.DeltaByteArray, 1, 0x80, 1, 4, 1, 0, 0x80, 1, 4, 1),
		kind(format.ByteArray, format.DeltaByteArray, 1, 0x80),
	} {
		if err := readAny(t, path); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("case %d: %v, want that it ends too early", i, err)
		}
	}
}

// TestListAcrossPages reads a list whose elements are in two pages, as older writers leave them.
func TestListAcrossPages(t *testing.T) {
	levels := func(l ...byte) []byte { // one group of eight numbers of one bit
		bits := byte(0)
		for i, x := range l {
			bits |= x << i
		}
		return []byte{2, 0, 0, 0, 3, bits}
	}
	text := func(words ...string) (b []byte) {
		for _, w := range words {
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(w))), w...)
		}
		return b
	}
	first := slices.Concat(levels(0, 1), levels(1, 1), text("a", "b"))
	second := slices.Concat(levels(1, 0, 0), levels(1, 1, 0), text("c", "d"))
	next, err := thrift.Marshal(&thrift.CompactProtocol{}, header{Type: format.DataPage,
		UncompressedPageSize: int32(len(second)), CompressedPageSize: int32(len(second)),
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 3, Encoding: format.Plain,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})})
	if err != nil {
		t.Fatal(err)
	}
	path := made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
		e.Type, e.RepetitionType.V = thrift.New(format.ByteArray), format.Repeated
		h.CompressedPageSize, h.UncompressedPageSize = int32(len(first)), int32(len(first))
		h.DataPageHeader.V.NumValues, m.NumValues = 2, 5
	}, slices.Concat(first, next, second), func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = 3, 3 })
	xs, err := readAll[one[[]string]](t, path)
	if err != nil || fmt.Sprint(xs) != "[{[a b c]} {[d]} {[]}]" {
		t.Errorf("%v, error %v", xs, err)
	}
	for _, n := range []int32{6, 4} {
		wrong := made(t, func(e *format.SchemaElement, h *header, m *format.ColumnMetaData) {
			e.Type, e.RepetitionType.V = thrift.New(format.ByteArray), format.Repeated
			h.CompressedPageSize, h.UncompressedPageSize = int32(len(first)), int32(len(first))
			h.DataPageHeader.V.NumValues, m.NumValues = 2, int64(n)
		}, slices.Concat(first, next, second))
		if _, err := readAll[one[[]string]](t, wrong); err == nil {
			t.Errorf("%d values: no error", n)
		}
	}
}

// TestDictionary reads pages with a dictionary in which something is wrong.
func TestDictionary(t *testing.T) {
	good := table(t, []sample{{C: "a"}, {C: "b"}, {C: "a"}})
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Open[struct{ C string }](good)
	if err != nil {
		t.Fatal(err)
	}
	c := rows.groups[0][rows.fields[0].columns[0].leaf]
	if x, err := rows.At(1); err != nil || x.C != "b" {
		t.Fatal(x, err)
	}
	_, from, to, err := c.header((*c.pages.Load())[0].from)
	if err != nil {
		t.Fatal(err)
	}
	_, dict, dictTo, err := c.header(c.dictAt)
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	for want, change := range map[string]func([]byte){
		"a value below 2 of the dictionary": func(b []byte) { b[to-1] = 0xff },
		"numbers of 77 bits":                func(b []byte) { b[from] = 77 },
		"numbers of values":                 func(b []byte) { b[from+1] = 0x80 },
		"2 values of type BYTE_ARRAY":       func(b []byte) { b[dict] = 0xff },
		"the header of a page":              func(b []byte) { b[c.dictAt] = 0xff },
	} {
		b := bytes.Clone(content)
		change(b)
		_, err := readAll[struct{ C string }](t, write(t, b))
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%v, want %q (%d bytes)", err, want, dictTo)
		}
	}
}

// TestErrorAgain asks twice for a row of a column whose first page is damaged behind a dictionary: the same error.
func TestErrorAgain(t *testing.T) {
	content, err := os.ReadFile(table(t, []sample{{C: "a"}, {C: "b"}}))
	if err != nil {
		t.Fatal(err)
	}
	good, err := Open[struct{ C string }](write(t, content))
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if _, err := good.At(0); err != nil {
		t.Fatal(err)
	}
	content[(*good.groups[0][good.fields[0].columns[0].leaf].pages.Load())[0].from] = 0xff
	rows, err := Open[struct{ C string }](write(t, content))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	_, first := rows.At(0)
	if _, again := rows.At(0); first == nil || fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%v, before %v", again, first)
	}
}

// FuzzParquet reads what may be a file, row by row and again in another order: the same rows or errors.
func FuzzParquet(f *testing.F) {
	for _, path := range files(f) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		path := write(t, file)
		rows, err := Open[row](path, CacheSize(100))
		if err != nil {
			if _, ok := errors.AsType[*data.FormatError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		defer rows.Close()
		again, err := Open[row](path)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		n := min(rows.Len(), 400)
		seen := make([]string, n)
		for i := range n {
			x, err := rows.At(i)
			if _, ok := errors.AsType[*data.FormatError](err); err != nil && !ok {
				t.Fatalf("%T %v", err, err)
			}
			seen[i] = fmt.Sprintf("%+v %v", shown(x), err)
		}
		for k := range n {
			i := (k*7 + 3) % n
			x, err := again.At(i)
			if got := fmt.Sprintf("%+v %v", shown(x), err); n%7 != 0 && got != seen[i] {
				t.Fatalf("row %d: %s, before %s", i, got, seen[i])
			}
		}
	})
}

// shown is a row without pointers.
func shown(r row) string {
	label, path := "none", "none"
	if r.Label != nil {
		label = fmt.Sprint(*r.Label)
	}
	if r.Path != nil {
		path = *r.Path
	}
	r.Label, r.Path = nil, nil
	return fmt.Sprintf("%+v %s %q", r, label, path)
}
