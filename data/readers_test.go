package data

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestNPY reads what NumPy wrote, in both orders, compressed, and out of an archive.
func TestNPY(t *testing.T) {
	open := map[string]func() (*Array[float32], error){
		"rows":    func() (*Array[float32], error) { return OpenNPY[float32]("testdata/rows.npy") },
		"fortran": func() (*Array[float32], error) { return OpenNPY[float32]("testdata/fortran.npy") },
		"packed":  func() (*Array[float32], error) { return OpenNPY[float32]("testdata/rows.npy.gz") },
		"archive": func() (*Array[float32], error) { return OpenNPZ[float32]("testdata/arrays.npz", "x") },
	}
	for name, open := range open {
		a, err := open()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		row, err := a.At(2)
		if want := []float32{12, 13, 14, 15, 16, 17}; err != nil || !reflect.DeepEqual(row, want) || a.Len() != 4 ||
			fmt.Sprint(a.Shape()) != "[2 3]" || a.Size() != 6 {
			t.Errorf("%s: %v of %d rows of %v, error %v", name, row, a.Len(), a.Shape(), err)
		}
		_, err = a.At(4)
		wantError(t, err, "data: there is no row 4, only [0, 4)")
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	y, err := OpenNPZ[int64]("testdata/arrays.npz", "y")
	if err != nil {
		t.Fatal(err)
	}
	if row, err := y.At(3); err != nil || fmt.Sprint(row) != "[30]" || !strings.HasPrefix(y.Fingerprint(),
		"arrays.npz ") {
		t.Error(row, err, y.Fingerprint())
	}
	_, err = OpenNPZ[int64]("testdata/arrays.npz", "z")
	wantError(t, err, `testdata/arrays.npz: arrays: found ["scalar" "x" "y"], want one named "z"`)
	_, err = OpenNPZ[float64]("testdata/arrays.npz", "scalar")
	wantError(t, err, "shape: found no axis, want one or more")
	_, err = OpenNPY[float64]("testdata/rows.npy")
	wantError(t, err, "testdata/rows.npy: elements: found F32, want F64 for float64")
	file, err := os.ReadFile("testdata/rows.npy")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenNPY[float32](write(t, "cut.npy", string(file[:200]), false))
	wantError(t, err, "cut.npy: data: found 72 bytes, want")
	if _, ok := errors.AsType[*FormatError](err); !ok {
		t.Errorf("%T", err)
	}
	path := write(t, "later.npy", string(file), false)
	a, err := OpenNPY[float32](path)
	if err := errors.Join(err, os.Truncate(path, 200)); err != nil {
		t.Fatal(err)
	}
	_, err = a.At(3)
	wantError(t, err, "later.npy: row 3: found 0 bytes, want 24 bytes: unexpected EOF")
}

func TestTokens(t *testing.T) {
	in := func(name string) string { return filepath.Join("testdata", name) }
	tokens, err := OpenTokens([]string{in("gpt2.bin"), in("plain.bin"), in("llama3.bin")}, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	if tokens.Len() != 9 {
		t.Errorf("%d windows", tokens.Len())
	}
	for i, first := range []int64{0, 16_000, 32_000, 0, 16_000, 32_000, 100_000, 116_000, 132_000} {
		window, err := tokens.At(i)
		if err != nil || len(window) != 9 || window[0] != first || window[8] != first+16_000 {
			t.Errorf("window %d: %v, error %v", i, window, err)
		}
	}
	it, err := Batches(Shuffle(From(tokens), 1), 4, TokenBatch, Workers(2)).Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for b, err := range it.All() {
		if err != nil {
			t.Fatal(err)
		}
		n := b.X.Shape()[0]
		x, y := values[int64](t, b.X, n, 8), values[int64](t, b.Y, n, 8)
		for k := range x {
			if y[k] != x[k]+2000 {
				t.Fatal(x, y)
			}
		}
	}
	wide, err := OpenTokens([]string{in("plain.bin")}, 7, Tokens32())
	if err != nil {
		t.Fatal(err)
	}
	if w, err := wide.At(1); err != nil || w[0] != 28_000+30_000<<16 {
		t.Error(w, err)
	}
	_, err = OpenTokens([]string{in("plain.bin")}, 30)
	wantError(t, err, "plain.bin: size: found 30 tokens, want at least 31, one window")
	_, err = OpenTokens([]string{write(t, "odd.bin", "abc", false)}, 1)
	wantError(t, err, "odd.bin: byte 2: size: found 3 bytes, want whole tokens of 2 bytes")
	file, err := os.ReadFile(in("gpt2.bin"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenTokens([]string{write(t, "cut.bin", string(file[:len(file)-2]), false)}, 1)
	wantError(t, err, "cut.bin: byte 8: size: found 58 bytes after the header, want 60 for 30 tokens")
	file[4] = 2
	_, err = OpenTokens([]string{write(t, "later.bin", string(file), false)}, 1)
	wantError(t, err, "later.bin: byte 4: version: found 2, want 1 of GPT-2's tokens")
	_, err = TokenBatch([][]int64{{1, 2}, {1}})
	wantError(t, err, "window 1 of the batch has 1 tokens, the first one 2")
	_, err = OpenTokens(nil, 1)
	wantError(t, err, "no files")
	_, err = OpenTokens([]string{in("plain.bin")}, 0)
	wantError(t, err, "a context of 0 tokens")
}

// TestTar reads what webdataset wrote.
func TestTar(t *testing.T) {
	for _, path := range []string{"testdata/shard.tar", "testdata/shard.tar.gz"} {
		shard, err := OpenTar(path)
		if err != nil {
			t.Fatal(err)
		}
		if shard.Len() != 5 {
			t.Fatalf("%d samples", shard.Len())
		}
		for i := range 5 {
			s, err := shard.At(i)
			want := TarSample{fmt.Sprintf("train/%03d", i), map[string][]byte{
				"cls": []byte(fmt.Sprint(i)), "txt": []byte(strings.Repeat("text ", i)),
				"seg.png": bytes.Repeat([]byte{byte(i)}, i*100), "json": []byte(fmt.Sprintf(`{"i":%d}`, i))}}
			if i == 3 {
				want.Key = "train/" + strings.Repeat("long", 40)
			}
			s.Files["json"] = bytes.ReplaceAll(s.Files["json"], []byte(" "), nil)
			if err != nil || fmt.Sprint(s) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v, error %v", path, s, want, err)
			}
		}
		_, err = shard.At(5)
		wantError(t, err, "data: there is no sample 5, only [0, 5)")
		if err := shard.Close(); err != nil {
			t.Error(err)
		}
	}
}

// tarOf is a tar file of files with their names as content.
func tarOf(t testing.TB, names ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(name))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Size, name = tar.TypeDir, 0, ""
		}
		err := w.WriteHeader(h)
		if _, err2 := w.Write([]byte(name)); errors.Join(err, err2) != nil {
			t.Fatal(err, err2)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTarFaults(t *testing.T) {
	shard, err := OpenTar(write(t, "x.tar", tarOf(t, "d.x/", "d.x/a.jpg", "d.x/.no", "d.x/no", "d.x/__m.json",
		"d.x/a.CLS",
		"b.", "b.jpg"), false))
	if err != nil {
		t.Fatal(err)
	}
	a, err := shard.At(0)
	b, err2 := shard.At(1)
	if errors.Join(err, err2) != nil || shard.Len() != 2 || a.Key != "d.x/a" || len(a.Files) != 2 ||
		string(a.Files["cls"]) != "d.x/a.CLS" || len(b.Files) != 2 || string(b.Files[""]) != "b." {
		t.Error(a, b, err, err2)
	}
	whole := tarOf(t, "a.jpg", "b.jpg")
	damaged := []byte(whole)
	damaged[1030] ^= 1
	for name, c := range map[string]struct{ file, want string }{
		"twice": {tarOf(t, "a.jpg", "a.JPG"), `byte 1536: sample: found "a.jpg" twice, want each name once`},
		"split": {tarOf(t, "a.jpg", "b.jpg", "a.cls"),
			`byte 2560: sample: found files of "a" at two places, want all`},
		"cut":     {whole[:515], `byte 512: size: found 3 bytes, want 5 of the file "a.jpg": unexpected EOF`},
		"head":    {whole[:1100], "byte 1024: header: found damage, want that of a file in a tar file: unexpected EOF"},
		"end":     {whole[:2048], "byte 2048: end: found the end of the file, want a block of zeros"},
		"damaged": {string(damaged), "byte 1024: header: found damage"},
		"none":    {strings.Repeat("no tar file", 200), "byte 0: header: found damage"},
	} {
		_, err := OpenTar(write(t, name, c.file, false))
		wantError(t, err, name+": ", c.want)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s: %T", name, err)
		}
	}
	path := write(t, "later.tar", whole, false)
	later, err := OpenTar(path)
	if err := errors.Join(err, os.Truncate(path, 514)); err != nil {
		t.Fatal(err)
	}
	_, err = later.At(0)
	wantError(t, err, `later.tar: byte 512: "a.jpg": found 2 bytes, want 5 bytes: unexpected EOF`)
}

func TestTFRecord(t *testing.T) {
	file, err := os.ReadFile("testdata/examples.tfrecord")
	if err != nil {
		t.Fatal(err)
	}
	for _, packed := range []bool{false, true} {
		records, err := OpenTFRecord(write(t, "x.tfrecord", string(file), packed))
		if err != nil || records.Len() != 4 {
			t.Fatal(records.Len(), err)
		}
		for i := range 4 {
			record, err := records.At(i)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseTFExample(record)
			want := map[string]TFFeature{
				"label": {Ints: []int64{int64(i - 2)}}, "sizes": {Floats: []float32{0, 0.5, 1}[:i:i]},
				"ids": {Ints: []int64{-1, 1 << 62, int64(i)}}, "image": {Bytes: [][]byte{bytes.Repeat([]byte{byte(i)},
					i*60)}},
				"words": {Bytes: [][]byte{{'a'}, {}, {0xff}}},
			}
			if i == 0 {
				want["sizes"] = TFFeature{}
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, want %v, error %v", got, want, err)
			}
		}
	}
	changed := func(at int, b byte) string {
		f := bytes.Clone(file)
		f[at] ^= b
		return string(f)
	}
	long := binary.LittleEndian.AppendUint64(nil, math.MaxInt64)
	long = binary.LittleEndian.AppendUint32(long, masked(long))
	for name, c := range map[string]struct{ file, want string }{
		"length": {changed(0, 1), "byte 0: length of record 0: found checksum "},
		"cut":    {string(file[:len(file)-1]), "length of record 3: found "},
		"head":   {string(file[:7]), "byte 0: header of record 0: found 7 bytes, want 12 bytes: unexpected EOF"},
		"long": {string(long) + "xxxxxxxx",
			"byte 0: length of record 0: found 9223372036854775807 bytes, want at most 4, up"},
	} {
		_, err := OpenTFRecord(write(t, name, c.file, false))
		wantError(t, err, name+": ", c.want)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s: %T", name, err)
		}
	}
	records, err := OpenTFRecord(write(t, "data", changed(20, 4), false))
	if err != nil {
		t.Fatal(err)
	}
	_, err = records.At(0)
	wantError(t, err, "data: byte 0: record 0: found checksum ")
	if _, err := records.At(1); err != nil {
		t.Error(err)
	}
}

// Lists that are not packed, as old writers have them, and what is no example.
func TestParseTFExample(t *testing.T) {
	message := func(fields ...[]byte) []byte { return bytes.Join(fields, nil) }
	part := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	example := func(list []byte) []byte {
		return part(1, part(1, message(part(1, []byte("x")), part(2, list))))
	}
	floats := part(2, message(protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type),
		math.Float32bits(1.5)), protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 7)))
	ints := part(3, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 5))
	for list, want := range map[string]string{string(floats): "map[x:{[] [1.5] []}]",
		string(ints): "map[x:{[] [] [5]}]"} {
		if got, err := ParseTFExample(example([]byte(list))); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, want %s, error %v", got, want, err)
		}
	}
	for want, record := range map[string][]byte{
		"byte 0: message: found damage or another message, want a tf.Example: unexpected EOF": {0x0a, 9, 1},
		"field 1 has wire type 0": protowire.AppendVarint(protowire.AppendTag(nil, 1,
			protowire.VarintType), 5),
		"byte 11: message": example(part(2, part(1, []byte("abc")))),
		"list 3 has elements of wire type 5": example(part(3, protowire.AppendFixed32(protowire.AppendTag(nil,
			1, 5), 1))),
		"list 1 has elements of wire type 0": example(part(1, protowire.AppendVarint(protowire.AppendTag(nil, 1,
			0), 1))),
		"invalid field number":    {0, 0},
		"variable length integer": example(part(3, part(1, bytes.Repeat([]byte{0xff}, 11)))),
	} {
		_, err := ParseTFExample(record)
		wantError(t, err, want)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%T", err)
		}
	}
}

// fuzzFile writes each input to a file and reads all of it; memory stays within twice the file and 64 MiB.
func fuzzFile(f *testing.F, seeds []string, read func(path string) (examples int, err error)) {
	for _, seed := range seeds {
		file, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(file[:len(file)/2])
	}
	path := filepath.Join(f.TempDir(), "x")
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := read(path)
		runtime.ReadMemStats(&after)
		if _, ok := errors.AsType[*FormatError](err); err != nil && !ok {
			t.Errorf("%T: %v", err, err)
		}
		if n > len(file) && !bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
			t.Errorf("%d examples in %d bytes", n, len(file))
		}
		if used := after.HeapSys - before.HeapSys; after.HeapSys > before.HeapSys && used > uint64(2*len(file)+64<<20) {
			t.Errorf("%d bytes take %d", len(file), used)
		}
	})
}

// readAll reads all examples of a source.
func readAll[T any](s Source[T]) (int, error) {
	for i := range s.Len() {
		if _, err := s.At(i); err != nil {
			return i, err
		}
	}
	return s.Len(), nil
}

func FuzzTar(f *testing.F) {
	fuzzFile(f, []string{"testdata/shard.tar", "testdata/shard.tar.gz"}, func(path string) (int, error) {
		shard, err := OpenTar(path, MaxSize(1<<20))
		if err != nil {
			return 0, err
		}
		defer shard.Close()
		return readAll(shard)
	})
}

func FuzzTFRecord(f *testing.F) {
	fuzzFile(f, []string{"testdata/examples.tfrecord"}, func(path string) (int, error) {
		records, err := OpenTFRecord(path, MaxSize(1<<20))
		if err != nil {
			return 0, err
		}
		defer records.Close()
		return readAll(records)
	})
}

func FuzzTFExample(f *testing.F) {
	records, err := OpenTFRecord("testdata/examples.tfrecord")
	if err != nil {
		f.Fatal(err)
	}
	for i := range records.Len() {
		record, err := records.At(i)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		features, err := ParseTFExample(record)
		if _, ok := errors.AsType[*FormatError](err); err != nil && !ok {
			t.Errorf("%T: %v", err, err)
		}
		for _, x := range features {
			if len(x.Bytes)+len(x.Floats)+len(x.Ints) > len(record) {
				t.Errorf("%d bytes have %v", len(record), x)
			}
		}
	})
}

func FuzzNPYRows(f *testing.F) {
	fuzzFile(f, []string{"testdata/rows.npy", "testdata/fortran.npy"}, func(path string) (int, error) {
		a, err := OpenNPY[float32](path, MaxSize(1<<20))
		if err != nil {
			return 0, err
		}
		defer a.Close()
		if a.Size() == 0 { // any number of rows without elements
			return 0, nil
		}
		return readAll(a)
	})
}

func FuzzTokens(f *testing.F) {
	fuzzFile(f, []string{"testdata/gpt2.bin", "testdata/llama3.bin", "testdata/plain.bin"}, func(path string) (int,
		error) {
		tokens, err := OpenTokens([]string{path}, 4, MaxSize(1<<20))
		if err != nil {
			return 0, err
		}
		defer tokens.Close()
		return readAll(tokens)
	})
}
