package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/weft-ml/weft/data"
)

// row is what scripts/goldens/arrow.py writes.
type row struct {
	ID     int
	Small  int8
	Count  uint32
	Weight float32
	Height float64
	Flag   bool
	Name   string
	Label  *int32
	Vector []float32
	Words  []string
	Image  []byte  `parquet:"image.bytes"`
	Path   *string `parquet:"image.path"`
	Code   []byte
	Time   int64
}

// want is row i.
func want(i int) row {
	r := row{ID: 3*i - 50, Small: int8(i%100 - 50), Count: uint32(1<<32 - 1 - i), Weight: float32(i) / 2,
		Height: float64(i) / 3, Flag: i%3 == 0, Name: fmt.Sprintf("row %d", i%7),
		Image: bytes.Repeat([]byte{byte(i)}, i%9), Code: []byte{byte(i), byte(i >> 8), 0, 0},
		Time: 1_000_000 * int64(i)}
	if label := int32(i); i%4 != 0 {
		r.Label = &label
	}
	for k := range i % 5 {
		r.Vector = append(r.Vector, float32(k)/4)
	}
	for k := range i % 4 {
		if i%6 != 0 {
			r.Words = append(r.Words, fmt.Sprintf("w%d", k))
		}
	}
	return r
}

// same compares rows; slices of no elements may be nil.
func same(a, b row) bool {
	for _, r := range []*row{&a, &b} {
		if len(r.Image) == 0 {
			r.Image = nil
		}
		if len(r.Vector) == 0 {
			r.Vector = nil
		}
		if len(r.Words) == 0 {
			r.Words = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// files are those that pyarrow wrote.
func files(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	return paths
}

// TestArrow reads files of pyarrow in every compression and encoding, in order and in another one, with caches of
// different sizes, from several goroutines.
func TestArrow(t *testing.T) {
	for _, path := range files(t) {
		for _, size := range []int64{0, 10_000, 1 << 30} {
			rows, err := Open[row](path, CacheSize(size))
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			if rows.Len() != 300 || rows.RowGroup() != 128 {
				t.Fatalf("%s: %d rows, row groups of %d", path, rows.Len(), rows.RowGroup())
			}
			check := func(i int) {
				if got, err := rows.At(i); err != nil || !same(got, want(i)) {
					t.Errorf("%s: row %d: %+v, want %+v, error %v", path, i, got, want(i), err)
				}
			}
			for i := range rows.Len() {
				check(i)
			}
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					for range 100 {
						check(rand.IntN(rows.Len()))
					}
				})
			}
			group.Wait()
			if used := rows.cache.used; used > size && len(rows.cache.pages) > 1 || size > 1<<20 && used == 0 {
				t.Errorf("%s: the cache has %d bytes in %d pages, limit %d", path, used, len(rows.cache.pages), size)
			}
		}
	}
}

// sample has the types that parquet-go writes.
type sample struct {
	A int64     `parquet:"a"`
	B int32     `parquet:"b,delta"`
	C string    `parquet:"c,dict"`
	D []byte    `parquet:"d,delta"`
	E float32   `parquet:"e,split"`
	F *float64  `parquet:"f,optional"`
	G []int32   `parquet:"g"`
	H []string  `parquet:"h,list"`
	I uint64    `parquet:"i"`
	J bool      `parquet:"j"`
	K [16]byte  `parquet:"k"`
	L []float32 `parquet:"l,list"`
}

// mine is how we read it.
type mine struct {
	A int64
	B int32
	C string
	D []byte
	E float32
	F *float64
	G []int32
	H []string
	I uint64
	J bool
	K []byte
	L []float32
}

// TestParquetGo reads random rows that parquet-go has written, with pages and row groups of many sizes.
func TestParquetGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	codecs := []compress.Codec{&pq.Uncompressed, &pq.Snappy, &pq.Zstd, &pq.Gzip, &pq.Brotli, &pq.Lz4Raw}
	for round := range 24 {
		var all []sample
		for range random.IntN(400) {
			s := sample{A: int64(random.Uint64()) >> random.IntN(64), B: int32(random.Uint32()) >> random.IntN(32),
				C: strings.Repeat("ab", random.IntN(4)), D: bytes.Repeat([]byte{1}, random.IntN(30)),
				E: random.Float32(),
				I: random.Uint64(), J: random.IntN(2) == 0, K: [16]byte{byte(random.Uint32())}}
			if random.IntN(3) > 0 {
				x := random.Float64()
				s.F = &x
			}
			for range random.IntN(3) {
				s.G, s.H = append(s.G, random.Int32()), append(s.H, fmt.Sprint(random.IntN(5)))
				s.L = append(s.L, random.Float32())
			}
			all = append(all, s)
		}
		var out bytes.Buffer
		w := pq.NewGenericWriter[sample](&out, pq.PageBufferSize(1+random.IntN(2000)),
			pq.MaxRowsPerRowGroup(int64(1+random.IntN(200))), pq.DataPageVersion(1+round%2),
			pq.Compression(codecs[round%len(codecs)]))
		if _, err := w.Write(all); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		rows, err := Open[mine](write(t, out.Bytes()), CacheSize(int64(random.IntN(10_000))))
		if err != nil {
			t.Fatal(err)
		}
		if rows.Len() != len(all) {
			t.Fatalf("%d rows, want %d", rows.Len(), len(all))
		}
		for _, i := range random.Perm(len(all)) {
			s := all[i]
			got, err := rows.At(i)
			if err != nil {
				t.Fatalf("round %d, row %d: %v", round, i, err)
			}
			text := func(x ...any) string {
				if f, ok := x[5].(*float64); ok && f != nil {
					x[5] = *f
				}
				return fmt.Sprint(x...)
			}
			if g, w := text(got.A, got.B, got.C, got.D, got.E, got.F, got.G, got.H, got.I, got.J, got.K, got.L),
				text(s.A, s.B, s.C, s.D, s.E, s.F, s.G, s.H, s.I, s.J, s.K, s.L); g != w {
				t.Fatalf("round %d, row %d: %s, want %s", round, i, g, w)
			}
		}
		rows.Close()
	}
}

// TestHoles reads lists in which values are missing, and numbers of every type in lists.
func TestHoles(t *testing.T) {
	type lists struct {
		A []float64 `parquet:"a,list"`
		B []int64   `parquet:"b,list"`
		C []int32   `parquet:"c,list"`
		D []int16   `parquet:"c,list"`
	}
	type written struct {
		A []float64 `parquet:"a,list"`
		B []int64   `parquet:"b,list"`
		C []int32   `parquet:"c,list"`
	}
	rows, err := Open[lists](table(t, []written{{}, {A: []float64{1}, B: []int64{2}, C: []int32{3, 4}}}))
	if err != nil {
		t.Fatal(err)
	}
	if x, err := rows.At(1); err != nil || fmt.Sprint(x) != "{[1] [2] [3 4] [3 4]}" {
		t.Errorf("%v, error %v", x, err)
	}
	rows.Close()
	holes, err := Open[struct{ Holes []int32 }]("testdata/zstd.parquet")
	if err != nil {
		t.Fatal(err)
	}
	defer holes.Close()
	if x, err := holes.At(2); err != nil || fmt.Sprint(x) != "{[2 2]}" {
		t.Errorf("%v, error %v", x, err)
	}
	_, err = holes.At(3)
	if f, ok := errors.AsType[*data.FormatError](err); !ok || f.What != `row 3, column "holes.list.element"` ||
		f.Found != "a list in which values are missing" {
		t.Error(err)
	}
	closed, err := Open[row]("testdata/zstd.parquet")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if _, err := closed.At(1); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "row 1: testdata/zstd") {
		t.Error(err)
	}
}

// write writes a file of its own.
func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// table writes rows of type T.
func table[T any](t testing.TB, rows []T, options ...pq.WriterOption) string {
	t.Helper()
	var out bytes.Buffer
	w := pq.NewGenericWriter[T](&out, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, out.Bytes())
}

// TestFields finds columns by name, tag and range, and refuses what does not fit.
func TestFields(t *testing.T) {
	type numbers struct {
		P0    float32 `parquet:"p0"`
		P1    float32 `parquet:"p1"`
		P2    float32 `parquet:"p2"`
		Label int32   `parquet:"label"`
		Big   uint64  `parquet:"big"`
		Empty *int32  `parquet:"empty,optional"`
	}
	path := table(t, []numbers{{1, 2, 3, 4, 1 << 63, nil}, {5, 6, 7, -300, 5, nil}})
	type inner struct{ Label int }
	rows, err := Open[struct {
		inner
		Pixels []float64 `parquet:"p0..p2"`
		P      float64   `parquet:"p1"`
		None   int       `parquet:"-"`
		hidden int
		Empty  *int8
		Rest   []uint64 `parquet:"*"`
	}](path)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if x, err := rows.At(0); err != nil || fmt.Sprint(x) != "{{4} [1 2 3] 2 0 0 <nil> [9223372036854775808]}" {
		t.Errorf("%v, error %v", x, err)
	}
	for what, c := range map[string]struct{ at0, at1, open string }{
		"int8":    try[struct{ Label int8 }](path),
		"uint":    try[struct{ Label uint }](path),
		"int64":   try[struct{ Big int64 }](path),
		"null":    try[struct{ Empty int }](path),
		"missing": try[struct{ Other int }](path),
		"case": try[struct {
			X int `parquet:"LABEL"`
		}](path),
		"range": try[struct {
			X []float32 `parquet:"p2..p0"`
		}](path),
		"kind":     try[struct{ P0 string }](path),
		"slice":    try[struct{ P0 []float32 }](path),
		"complex":  try[struct{ P0 complex64 }](path),
		"embedded": try[struct{ *numbers }](path),
		"nothing":  try[struct{ x int }](path),
		"no":       try[int](path),
	} {
		want := map[string]struct{ at0, at1, open string }{
			"int8":  {"", `row 1, column "label": found -300, want an integer of 8 bits`, ""},
			"uint":  {"", `row 1, column "label": found -300, want an integer of 64 bits that is not negative`, ""},
			"int64": {`row 0, column "big": found -9223372036854775808, want an integer of 64 bits`, "", ""},
			"null": {`row 0, column "empty": found no value, want an integer of 64 bits, or a field that is a pointer`,
				`row 1, column "empty": found no value`, ""},
			"missing":  {open: `["p0" "p1" "p2" "label" "big" "empty"], want a column "Other" for the field Other`},
			"case":     {open: `want a column "LABEL" for the field X`},
			"range":    {open: `want columns from "p2" to "p0" for the field X`},
			"kind":     {open: `column "p0": found FLOAT, want what a field P0 string can hold`},
			"slice":    {at0: "", open: `column "p0": found FLOAT, want what a field P0 []float32 can hold`},
			"complex":  {open: `column "p0": found FLOAT, want what a field P0 complex64 can hold`},
			"embedded": {open: "embeds a pointer"}, "nothing": {open: "has no field that takes a column"},
			"no": {open: "rows become structs, not int"},
		}[what]
		for _, p := range [][2]string{{c.open, want.open}, {c.at0, want.at0}, {c.at1, want.at1}} {
			if !strings.Contains(p[0], p[1]) || (p[0] == "") != (p[1] == "") {
				t.Errorf("%s: %q, want %q", what, p[0], p[1])
			}
		}
	}
	if _, err := rows.At(2); err == nil || !strings.Contains(err.Error(), "no row 2, only [0, 2)") {
		t.Error(err)
	}
	var none *Rows[row]
	if none.Len() != 0 || none.Close() != nil || none.Fingerprint() != "" || none.RowGroup() != 1 {
		t.Error("nil is not empty")
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	if _, err := rows.At(1); !errors.Is(err, os.ErrClosed) && err != nil {
		t.Error(err)
	}
	if _, err := Open[row](t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Error(err)
	}
	if _, err := Open[row]("testdata/none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// try opens a file and reads two rows: the errors.
func try[T any](path string) (c struct{ at0, at1, open string }) {
	rows, err := Open[T](path)
	if err != nil {
		c.open = err.Error()
		return c
	}
	defer rows.Close()
	for i, to := range []*string{&c.at0, &c.at1} {
		if _, err := rows.At(i); err != nil {
			*to = err.Error()
		}
	}
	return c
}

// TestPipeline shuffles blocks over row groups with workers: every row once, and a state that another file refuses.
func TestPipeline(t *testing.T) {
	rows, err := Open[row]("testdata/zstd.parquet")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	p := data.ShuffleBlocks(data.From(rows), rows.RowGroup(), 1, 42)
	batches := data.Batches(p, 16, func(x []row) ([]row, error) { return slices.Clone(x), nil }, data.Workers(2))
	it, err := batches.Start(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var ids []int
	for b, err := range it.All() {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b {
			ids = append(ids, r.ID)
		}
	}
	sorted := slices.Sorted(slices.Values(ids))
	if len(ids) != 300 || slices.Equal(ids, sorted) || sorted[0] != -50 || sorted[299] != 3*299-50 ||
		len(slices.Compact(sorted)) != 300 {
		t.Errorf("ids %v", ids)
	}
	if !strings.Contains(string(it.State()), "zstd.parquet") && rows.Fingerprint() == "" {
		t.Error(string(it.State()))
	}
}

func Example() {
	type Flower struct {
		ID     int
		Name   string
		Vector []float32
	}
	flowers, err := Open[Flower]("testdata/snappy.parquet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer flowers.Close()
	flower, err := flowers.At(4)
	fmt.Println(flowers.Len(), flower, err)
	// Output: 300 {-38 row 4 [0 0.25 0.5 0.75]} <nil>
}
