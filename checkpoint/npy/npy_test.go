package npy

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// wanted is an array as NumPy has it, row-major; scripts/goldens/files.py wrote it.
type wanted struct {
	DType string
	Shape []int
	Data  []byte
}

func wantedArrays(t *testing.T) map[string]wanted {
	text, err := os.ReadFile("testdata/want.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]wanted
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// check compares a tensor with NumPy's.
func check(t *testing.T, x safetensors.Tensor, w wanted) {
	t.Helper()
	data, err := io.ReadAll(x.Data())
	if err != nil || x.DType.String() != w.DType || !slices.Equal(x.Shape, w.Shape) || !bytes.Equal(data, w.Data) {
		t.Errorf("%s: %v%v %x, error %v, want %s%v %x", x.Name, x.DType, x.Shape, data, err, w.DType, w.Shape, w.Data)
	}
}

// TestNumPy reads what NumPy has written: all types, both orders, headers of three versions.
func TestNumPy(t *testing.T) {
	want := wantedArrays(t)
	for _, name := range []string{"float32", "fortran", "scalar", "empty", "vector", "version2", "version3"} {
		file, err := os.ReadFile(filepath.Join("testdata", name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		x, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		x.Name = name
		check(t, x, want[name])
	}
	file, err := os.ReadFile("testdata/arrays.npz")
	if err != nil {
		t.Fatal(err)
	}
	all, err := OpenZip(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	unsigned, left := 0, maps.Clone(want)
	for _, x := range all {
		if x.DType == safetensors.U16 || x.DType == safetensors.U32 || x.DType == safetensors.U64 {
			unsigned++ // PyTorch, which wrote what is wanted, does not have them all
			w := want[strings.TrimPrefix(x.Name, "u")]
			w.DType = x.DType.String()
			check(t, x, w)
			continue
		}
		check(t, x, want[x.Name])
		delete(left, x.Name)
	}
	for name := range left {
		if !strings.HasPrefix(name, "version") {
			t.Errorf("%s is missing", name)
		}
	}
	if unsigned != 3 {
		t.Errorf("%d unsigned arrays", unsigned)
	}
}

// TestWrite holds that the bytes are those that NumPy writes, and that an archive comes back.
func TestWrite(t *testing.T) {
	want := wantedArrays(t)
	data := func(w io.Writer, x safetensors.Tensor) error {
		_, err := w.Write(want[x.Name].Data)
		return err
	}
	var all []safetensors.Tensor
	for name, w := range want {
		d, _ := safetensors.ParseDType(w.DType)
		all = append(all, safetensors.Tensor{Name: name, DType: d, Shape: w.Shape})
	}
	for _, x := range all {
		file, err := os.ReadFile(filepath.Join("testdata", x.Name+".npy"))
		if err != nil || x.Name == "fortran" || strings.HasPrefix(x.Name, "version") {
			continue
		}
		var out bytes.Buffer
		if err := Write(&out, x, data); err != nil || !bytes.Equal(out.Bytes(), file) {
			t.Errorf("%s: error %v\n%q, want\n%q", x.Name, err, out.Bytes(), file)
		}
	}
	var out bytes.Buffer
	if err := WriteZip(&out, all, data); err != nil {
		t.Fatal(err)
	}
	again, err := OpenZip(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(again) != len(all) {
		t.Fatalf("%d of %d arrays, error %v", len(again), len(all), err)
	}
	for _, x := range again {
		check(t, x, want[x.Name])
	}
}

// TestWriteRefuses holds what is refused before anything is written, and data of another length.
func TestWriteRefuses(t *testing.T) {
	x := safetensors.Tensor{Name: "x", DType: safetensors.F32, Shape: []int{2}}
	none := func(io.Writer, safetensors.Tensor) error { return nil }
	long := func(w io.Writer, _ safetensors.Tensor) error { _, err := w.Write(make([]byte, 9)); return err }
	half, negative := x, x
	archive := func(data func(io.Writer, safetensors.Tensor) error, all ...safetensors.Tensor) func(io.Writer) error {
		return func(w io.Writer) error { return WriteZip(w, all, data) }
	}
	half.DType, negative.Shape = safetensors.BF16, []int{-1}
	for found, write := range map[string]func(w io.Writer) error{
		"no array of type BF16":               func(w io.Writer) error { return Write(w, half, none) },
		"no array of type F32 and shape [-1]": archive(none, negative),
		"two tensors":                         archive(none, x, x),
		"0 bytes were written, want 8":        func(w io.Writer) error { return Write(w, x, none) },
		"9 bytes were written, want 8":        archive(long, x),
	} {
		var out bytes.Buffer
		if err := write(&out); err == nil || !strings.Contains(err.Error(), found) {
			t.Errorf("error %v, want %s", err, found)
		}
		if !strings.Contains(found, "written") && out.Len() > 0 {
			t.Errorf("%s: %d bytes were written", found, out.Len())
		}
	}
	broken := errors.New("broken")
	for n := range 300 {
		err := WriteZip(&failing{left: n, err: broken}, []safetensors.Tensor{x},
			func(w io.Writer, _ safetensors.Tensor) error { _, err := w.Write(make([]byte, 8)); return err })
		if n < 250 && !errors.Is(err, broken) {
			t.Errorf("a writer that fails after %d bytes: error %v", n, err)
		}
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// array is a file of version 1 with a header and data of some size.
func array(header string, data int) []byte {
	return slices.Concat([]byte(magic), []byte{1, 0, byte(len(header)), byte(len(header) >> 8)}, []byte(header),
		make([]byte, data))
}

// evil says what is found in files that are wrong in one way each.
func evil(t testing.TB) map[string]struct {
	file  []byte
	found string
} {
	of := func(name string) []byte {
		file, err := os.ReadFile(filepath.Join("testdata", name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	shape := func(text string, data int) []byte {
		return array("{'descr': '|u1', 'fortran_order': False, 'shape': "+text+", }\n", data)
	}
	return map[string]struct {
		file  []byte
		found string
	}{
		"big-endian": {of("big-endian"), "big-endian"}, "records": {of("record"), "[('a'"},
		"objects": {of("object"), "'|O'"}, "empty": {nil, "0 bytes"},
		"eight bytes":     {[]byte(magic + "\x01\x00"), "8 bytes"},
		"another file":    {bytes.Repeat([]byte("a"), 100), "100 bytes"},
		"version 4":       {[]byte(magic + "\x04\x00aaaaaaaaa"), "4"},
		"header past end": {[]byte(magic + "\x01\x00\xff\x00aa"), "255 bytes"},
		"a long header":   {array(strings.Repeat(" ", 20000), 0), "20000 bytes"},
		"header of 4 GiB": {[]byte(magic + "\x02\x00\xff\xff\xff\xffaaaa"), "4294967295 bytes"},
		"no header":       {array("", 2), `""`}, "a list": {array("[]", 0), `"[]"`},
		"no end":          {array("{'descr': '|u1'", 0), "{'descr': '|u1'"},
		"no colon":        {array("{'descr' '|u1'}", 0), `'descr' '|u1'`},
		"no comma":        {array("{'descr': '|u1' 'shape': ()}", 0), `'|u1' 'shape'`},
		"double quotes":   {array(`{"descr": '|u1'}`, 0), "descr"},
		"an open text":    {array("{'descr", 0), "descr"},
		"an escape":       {array(`{'des\x63r': '|u1'}`, 0), "des"},
		"more keys":       {array("{'a': 1}", 0), "'a': 1"},
		"not all keys":    {array("{'descr': '|u1'}", 0), "{'descr': '|u1'}"},
		"no keys":         {array("{}\n", 0), `"{}\n"`},
		"a key twice":     {array("{'descr': '|u1', 'descr': '|u1'}", 0), "descr for a second time"},
		"a call":          {array("{'descr': '|u1', 'fortran_order': exit(), 'shape': ()}", 1), "exit()"},
		"more after":      {array("{'descr': '|u1', 'fortran_order': False, 'shape': ()} x", 1), "} x"},
		"an unknown type": {array("{'descr': '<f3'}", 0), "'<f3'"},
		"a number":        {array("{'descr': 4}", 0), "'descr': 4"},
		"negative":        {shape("(-1,)", 0), "(-1,)"}, "a fraction": {shape("(1.5,)", 1), "(1.5,)"},
		"octal": {shape("(010,)", 8), "(010,)"}, "2^63": {shape("(9223372036854775808,)", 0), "(9223372036854775808,)"},
		"a long integer": {shape("(2L,)", 2), "(2L,)"}, "nested": {shape("((1,),)", 1), "((1,),)"},
		"product overflow": {shape("(4294967296, 4294967296)", 0), "0 bytes"},
		"many axes":        {shape("("+strings.Repeat("1,", 65)+")", 1), "(1,1,1,1"},
		"too many axes":    {shape("("+strings.Repeat("1,", 4500)+")", 1), "(1,1,1,1"},
		"no elements":      {shape("(4611686018427387904, 4611686018427387904, 0)", 1), "1 bytes"},
		"data missing":     {shape("(3,)", 2), "2 bytes"}, "data left over": {shape("(3,)", 4), "4 bytes"},
	}
}

// TestEvil opens files that are wrong in one way each.
func TestEvil(t *testing.T) {
	for name, c := range evil(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(c.file), int64(len(c.file)))
		runtime.ReadMemStats(&after)
		var format *safetensors.FormatError
		if !errors.As(err, &format) || !strings.Contains(format.Found, c.found) {
			t.Errorf("%s: error %v, want one that found %s", name, err, c.found)
		} else if len(err.Error()) > 300 || format.Offset > int64(len(c.file)) {
			t.Errorf("%s: offset %d, message %q", name, format.Offset, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
			t.Errorf("%s: %d bytes of memory", name, taken)
		}
	}
}

// TestNegativeSize opens a file of a negative size.
func TestNegativeSize(t *testing.T) {
	var format *safetensors.FormatError
	if _, err := Open(bytes.NewReader(nil), -1); !errors.As(err, &format) {
		t.Errorf("error %v", err)
	}
}

// TestNoElements opens an array without elements whose strides overflow.
func TestNoElements(t *testing.T) {
	file := array("{'descr': '<f4', 'fortran_order': True, 'shape': (4611686018427387904, 2, 2, 0), }", 0)
	var format *safetensors.FormatError
	if _, err := Open(bytes.NewReader(file), int64(len(file))); !errors.As(err, &format) {
		t.Errorf("error %v", err)
	}
}

// TestEvilZip opens archives that are wrong.
func TestEvilZip(t *testing.T) {
	compressed, err := os.ReadFile("testdata/compressed.npz")
	if err != nil {
		t.Fatal(err)
	}
	archive := func(name string, file []byte) []byte {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(file)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for what, c := range map[string]struct {
		file []byte
		says string
	}{
		"compressed": {compressed, `npy: "x.npy": data: found compressed`},
		"no array":   {archive("x.txt", nil), `"x.txt": name: found no array`},
		"evil":       {archive("x.npy", evil(t)["big-endian"].file), `"x.npy": descr: found "'>f4': big-endian"`},
		"no zip":     {[]byte("0123456789"), "npz: file: found no directory of a zip file at its end"},
	} {
		_, err := OpenZip(bytes.NewReader(c.file), int64(len(c.file)))
		var format *safetensors.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %s", what, err, c.says)
		}
	}
}

// TestFailingReader holds that errors of reading are passed on, and that the end of a file is one.
func TestFailingReader(t *testing.T) {
	file := evil(t)["data missing"].file
	for cut := range 80 {
		_, err := Open(bytes.NewReader(file[:cut]), int64(len(file)))
		var format *safetensors.FormatError
		if !errors.As(err, &format) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	broken := errors.New("broken")
	for fail := range 2 {
		calls := 0
		_, err := Open(readerAt(func(p []byte, off int64) (int, error) {
			if calls++; calls > fail {
				return 0, broken
			}
			return bytes.NewReader(file).ReadAt(p, off)
		}), int64(len(file)))
		if !errors.Is(err, broken) {
			t.Errorf("call %d fails: %v", fail+1, err)
		}
	}
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// FuzzOpen opens whatever comes. What is accepted is written again and must say the same.
func FuzzOpen(f *testing.F) {
	for _, c := range evil(f) {
		f.Add(c.file)
	}
	for _, order := range []string{"True", "False"} {
		f.Add(array(fmt.Sprintf("{'descr': '<i2', 'fortran_order': %s, 'shape': (2, 3), }", order), 12))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		x, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var format *safetensors.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var out bytes.Buffer
		if err := Write(&out, x, func(w io.Writer, x safetensors.Tensor) error {
			_, err := x.WriteTo(w)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		y, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || y.DType != x.DType || !slices.Equal(y.Shape, x.Shape) {
			t.Fatalf("written again: %v%v, error %v, want %v%v", y.DType, y.Shape, err, x.DType, x.Shape)
		}
		a, errA := io.ReadAll(x.Data())
		b, errB := io.ReadAll(y.Data())
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("other data: %x, %x, %v, %v", a, b, errA, errB)
		}
	})
}
