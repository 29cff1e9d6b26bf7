package data

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/tensor"
)

// write writes a file of the test, compressed if packed, and returns its path.
func write(t testing.TB, name, content string, packed bool) string {
	t.Helper()
	b := []byte(content)
	if packed {
		b = zip(b)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// all are all rows of a source.
func all[T any](t testing.TB, rows *Rows[T], err error) (xs []T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i := range rows.Len() {
		x, err := rows.At(i)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

type flower struct {
	Species string
	Petal   float32   `csv:"petal length"`
	Sepal   []float64 `csv:"s0..s1"`
	Count   int8
	Wild    bool
	Seen    time.Time
	Other   []string `csv:"*"`
	Ignored chan int `csv:"-"`
	_       int
}

const flowers = "\ufeffspecies,petal length,s0,s1,COUNT,Wild,seen,note,more\r\n" +
	"setosa, 1.5 ,-1,2e3,-128,true,2026-11-24T12:00:00Z,\"a, \"\"b\"\"\nc\",\r\n\r\n" +
	"\"\",nan,0,inf,127,0,2026-11-24T12:00:00Z,,x"

func TestCSV(t *testing.T) {
	seen := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	want := "[{setosa 1.5 [-1 2000] -128 true " + seen.String() + " [a, \"b\"\nc ] <nil> 0} " +
		"{ NaN [0 +Inf] 127 false " + seen.String() + " [ x] <nil> 0}]"
	for _, packed := range []bool{false, true} {
		rows, err := OpenCSV[flower](write(t, "flowers.csv", flowers, packed))
		if got := fmt.Sprint(all(t, rows, err)); got != want {
			t.Errorf("packed %v:\n%s, want\n%s", packed, got, want)
		}
	}
	type pair struct {
		A int    `csv:"2"`
		B string `csv:"1"`
	}
	tabs, err := OpenCSV[pair](write(t, "x.tsv", "x y\t1\nz\t2\n", false), Comma('\t'), NoHeader())
	if got := fmt.Sprint(all(t, tabs, err)); got != "[{1 x y} {2 z}]" {
		t.Error(got)
	}
	plain, err := OpenCSV[[]string](write(t, "x.csv", "a,b\n1,2\n3,4\n", false))
	if got := fmt.Sprint(all(t, plain, err)); got != "[[1 2] [3 4]]" {
		t.Error(got)
	}
	if none, err := OpenCSV[[]string](write(t, "x.csv", "a,b\n", false)); err != nil || none.Len() != 0 {
		t.Error(none, err)
	}
}

func TestJSONL(t *testing.T) {
	type line struct {
		Text string
		Tags []int
	}
	long := strings.Repeat("long ", 50_000) // more than a buffer
	file := "{\"text\":\"a\",\"tags\":[1,2]}\n\n  \n{\"text\":\"" + long + "\"}\r\n{\"Text\":\"c\"}"
	for _, packed := range []bool{false, true} {
		rows, err := OpenJSONL[line](write(t, "x.jsonl", file, packed))
		got := all(t, rows, err)
		if want := []line{{"a", []int{1, 2}}, {long, nil}, {"c", nil}}; !reflect.DeepEqual(got, want) {
			t.Errorf("packed %v: %.200v", packed, got)
		}
	}
}

// Rows are read by many goroutines at once, in any order, and are examples of a pipeline.
func TestRowsTogether(t *testing.T) {
	var file strings.Builder
	file.WriteString("n,text\n")
	for i := range 10_000 {
		fmt.Fprintf(&file, "%d,%s\n", i, strings.Repeat("x", i%300))
	}
	type row struct {
		N    int
		Text string
	}
	rows, err := OpenCSV[row](write(t, "x.csv", file.String(), false))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if used := len(rows.index.bytes) + 16*len(rows.index.first); used > 25*rows.Len()/10 {
		t.Errorf("the index of %d rows takes %d bytes", rows.Len(), used)
	}
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for k := range 5000 {
				i := (k*7919 + g) % rows.Len()
				if g%2 == 0 { // one after the other, with jumps
					i = (k + k/1000*77) % rows.Len()
				}
				if x, err := rows.At(i); err != nil || x.N != i || len(x.Text) != i%300 {
					t.Errorf("row %d: %v, %v", i, x.N, err)
					return
				}
			}
		})
	}
	wait.Wait()
	sum := func(xs []row) (n int, err error) {
		for _, x := range xs {
			n += x.N
		}
		return n, nil
	}
	it, err := Batches(Shuffle(From(rows), 1), 100, sum, Workers(2)).Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	total := 0
	for n, err := range it.All() {
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 9999*10_000/2 {
		t.Errorf("the rows add up to %d", total)
	}
}

func TestRowsErrors(t *testing.T) {
	type numbers struct{ A, B int }
	type pixels struct {
		X []uint8 `csv:"p0..p3"`
	}
	long := `"` + strings.Repeat("x", maxRow+1<<16)
	for name, c := range map[string]struct {
		file string
		open func(path string) error
		want string // of the error; "" that of a [*FormatError] is not asked for
	}{
		"value": {"a,b\n1,2\n3,x y\n", first[numbers](1),
			`byte 8: row 1, column "b": found "x y", want an integer of 64 bits: invalid syntax`},
		"range": {"a,b\n1,9223372036854775808\n", first[numbers](0), `byte 4: row 0, column "b": ` +
			`found "9223372036854775808", want an integer of 64 bits: value out of range`},
		"short": {"a,b\n1,2\n3\n", first[numbers](0), "byte 8: line 3: found 1 columns, want 2"},
		"long":  {"a,b\n1,2,3\n", first[numbers](0), "byte 4: line 2: found 3 columns, want 2"},
		"quote": {"a,b\n1,2\"\n", first[numbers](0),
			`byte 4: line 2, column 4: found bare " in non-quoted-field, want CSV by RFC 4180`},
		"open": {"a,b\n1,\"2\n", first[numbers](0),
			`byte 4: line 2, column 6: found extraneous or missing " in quoted-field, want CSV by RFC 4180`},
		"endless": {"a,b\n1," + long, first[numbers](0), "byte 4: row 0: found more than 16777216 bytes, want less"},
		"names": {"a,c\n1,2\n", first[numbers](0),
			`byte 0: header: found ["a" "c"], want a column "B" for the field B`},
		"several": {"p0,p1,p2\n1,2,3\n", first[pixels](0),
			`byte 0: header: found ["p0" "p1" "p2"], want columns from "p0" to "p3" for the field X`},
		"blank": {"\n\n", first[numbers](0), "byte 0: size: found no row, want a row with the names of the columns"},
		"json": {"{\"A\":1}\n{\"A\":\"x\"}\n", firstJSON[numbers](1),
			`byte 8: row 1, line: found "{\"A\":\"x\"}", want JSON for data.numbers: ` +
				`json: cannot unmarshal string into Go struct field numbers.A of type int`},
		"json line": {"{}\n" + long, firstJSON[numbers](0), "byte 3: row 1: found more than 16777216 bytes, want less"},
	} {
		path := write(t, "x", c.file, false)
		err := c.open(path)
		if f, ok := errors.AsType[*FormatError](err); !ok || f.Error() != path+": "+c.want {
			t.Errorf("%s: %v, want\n%s", name, err, c.want)
		}
	}
	for name, err := range map[string]error{
		"a row that is not there": first[numbers](7)(write(t, "x", "a,b\n1,2\n", false)),
		"no struct":               first[int](0)(write(t, "x", "a,b\n1,2\n", false)),
		"no field":                first[struct{}](0)(write(t, "x", "a,b\n1,2\n", false)),
		"a channel":               first[struct{ A chan int }](0)(write(t, "x", "a,b\n1,2\n", false)),
		"a slice without columns": first[struct{ A []int }](0)(write(t, "x", "a,b\n1,2\n", false)),
		"an embedded pointer":     first[struct{ *numbers }](0)(write(t, "x", "a,b\n1,2\n", false)),
		"a bad comma": func() error {
			_, err := OpenCSV[numbers](write(t, "x", "a,b\n", false), Comma('"'))
			return err
		}(),
		"a folder": first[numbers](0)(t.TempDir()),
		"too large": func() error {
			_, err := OpenCSV[numbers](write(t, "x", "a,b\n1,2\n", false), MaxSize(7))
			return err
		}(),
		"too large unpacked": func() error {
			_, err := OpenJSONL[numbers](write(t, "x", strings.Repeat("{}\n", 1000), true), MaxSize(2999))
			return err
		}(),
		"damaged": func() error {
			path := write(t, "x", flowers, true)
			b, _ := os.ReadFile(path)
			b[len(b)-5] ^= 1 // of the checksum
			os.WriteFile(path, b, 0o600)
			_, err := OpenCSV[flower](path)
			return err
		}(),
		"cut later": func() error {
			path := write(t, "x", "a,b\n1,2\n3,4\n", false)
			rows, err := OpenCSV[numbers](path)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			os.Truncate(path, 9)
			_, err = rows.At(1)
			return err
		}(),
		"changed later": func() error {
			path := write(t, "x", "a,b\n1,2\n3,4\n", false)
			rows, err := OpenCSV[numbers](path)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			os.WriteFile(path, []byte("a,b\n1,2\n3,\"\n"), 0o600)
			_, err = rows.At(1)
			return err
		}(),
	} {
		if err == nil || errors.Is(err, tensor.ErrMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// first opens a file and reads a row.
func first[T any](i int) func(path string) error {
	return func(path string) error {
		rows, err := OpenCSV[T](path)
		if err == nil {
			defer rows.Close()
			_, err = rows.At(i)
		}
		return err
	}
}

func firstJSON[T any](i int) func(path string) error {
	return func(path string) error {
		rows, err := OpenJSONL[T](path)
		if err == nil {
			defer rows.Close()
			_, err = rows.At(i)
		}
		return err
	}
}

// Rows without quotes are split as encoding/csv does.
func TestCSVPlain(t *testing.T) {
	parts := []string{"a", ",", "\n", "\r", "\r\n", "é", " ", "bc", ";", "\""}
	r := rand.New(rand.NewPCG(4, 0))
	plain := 0
	for range 20_000 {
		row := ""
		for range r.IntN(8) {
			row += parts[r.IntN(len(parts))]
		}
		for _, comma := range []rune{',', ';', 'é'} {
			got, ok := splitPlain(nil, row, string(comma))
			if !ok {
				continue
			}
			plain++
			c := newCSV(strings.NewReader(row), comma)
			if want, err := c.Read(); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%q by %q: %q, want %q, %v", row, comma, got, want, err)
			}
			if _, err := c.Read(); err != io.EOF {
				t.Fatalf("%q has more than one row: %v", row, err)
			}
		}
	}
	if plain < 10_000 {
		t.Errorf("%d plain rows", plain)
	}
}

// FuzzCSV compares with encoding/csv, which reads the whole file at once.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{flowers, "a\n\"1\n\n2\"\n\n\n3", "a,b\r\n1,2\r\n", "\"", "a;b\n;\n"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, file string, packed bool) {
		if file == "" || !packed && compressed(file) {
			t.Skip("empty, or compressed by itself")
		}
		c := csv.NewReader(strings.NewReader(strings.TrimPrefix(file, "\ufeff")))
		want, wantErr := c.ReadAll()
		rows, err := OpenCSV[[]string](write(t, "x", file, packed), NoHeader())
		if (err != nil) != (wantErr != nil || len(want) == 0) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if got := all(t, rows, nil); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// FuzzJSONL compares with a decoder of the whole file.
func FuzzJSONL(f *testing.F) {
	for _, s := range []string{"{}\n[1,2]\n", "1 \n\n \n\"x\"", "{", "\n"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, file string, packed bool) {
		if file == "" || !packed && compressed(file) {
			t.Skip("empty, or compressed by itself")
		}
		var want []any
		for line := range strings.Lines(strings.TrimPrefix(file, "\ufeff")) {
			var x any
			if err := json.Unmarshal([]byte(line), &x); err != nil && len(strings.Trim(line, jsonSpace)) > 0 {
				x = io.EOF
			} else if err != nil {
				continue
			}
			want = append(want, x)
		}
		rows, err := OpenJSONL[any](write(t, "x", file, packed))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if rows.Len() != len(want) {
			t.Fatalf("%d lines, want %d", rows.Len(), len(want))
		}
		for i, w := range want {
			if x, err := rows.At(i); (err != nil) != (w == io.EOF) || err == nil && !reflect.DeepEqual(x, w) {
				t.Fatalf("line %d: %v, %v, want %v", i, x, err, w)
			}
		}
	})
}

// TestSlices reads columns into slices of numbers: spaces are dropped, and the column that is no number is named.
func TestSlices(t *testing.T) {
	rows, err := OpenCSV[struct {
		X []float64 `csv:"a..b"`
		Y []float32 `csv:"c..d"`
	}](write(t, "x.csv", "a,b,c,d\n1, 2 ,0.1,4\n5,1e999,6,7\n1,2,3,x\n", false))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if x, err := rows.At(0); err != nil || fmt.Sprint(x) != "{[1 2] [0.1 4]}" {
		t.Errorf("%v, error %v", x, err)
	}
	_, err = rows.At(1)
	wantError(t, err, `row 1, column "b": found "1e999", want a number: value out of range`)
	_, err = rows.At(2)
	wantError(t, err, `row 2, column "d": found "x", want a number: invalid syntax`)
}
