package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fileOf is a file with a header and data, whatever they are.
func fileOf(header, data string) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

// open opens a file in memory.
func open(t *testing.T, file []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// write writes tensors whose data are given by name.
func write(tensors []Tensor, metadata map[string]string, data map[string]string) ([]byte, error) {
	var out bytes.Buffer
	err := Write(&out, tensors, metadata, func(w io.Writer, t Tensor) error {
		_, err := io.WriteString(w, data[t.Name])
		return err
	})
	return out.Bytes(), err
}

// TestGolden holds files byte for byte: what is written, and that it is read as what was written.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name     string
		tensors  []Tensor
		metadata map[string]string
		data     map[string]string
		header   string
		body     string
	}{
		{name: "empty", header: `{"__metadata__":{"format":"pt"}}`},
		{name: "scalar and empty tensor", tensors: []Tensor{
			{Name: "s", DType: F32}, {Name: "e", DType: U8, Shape: []int{3, 0}}},
			data: map[string]string{"s": "\x00\x00\x80?"},
			header: `{"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},` +
				`"e":{"dtype":"U8","shape":[3,0],"data_offsets":[4,4]}}      `, body: "\x00\x00\x80?"},
		{name: "largest types first, then names", tensors: []Tensor{{Name: "b", DType: F16, Shape: []int{2}},
			{Name: "c", DType: I64, Shape: []int{1}}, {Name: "a", DType: F16, Shape: []int{1, 1}},
			{Name: "A", DType: U16, Shape: []int{0}},
			{Name: "d", DType: F4, Shape: []int{2}}},
			data: map[string]string{"a": "aa", "b": "bbbb", "c": "cccccccc", "d": "d"},
			header: `{"__metadata__":{"format":"pt"},"c":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},` +
				`"a":{"dtype":"F16","shape":[1,1],"data_offsets":[8,10]},` +
				`"b":{"dtype":"F16","shape":[2],"data_offsets":[10,14]},` +
				`"A":{"dtype":"U16","shape":[0],"data_offsets":[14,14]},` +
				`"d":{"dtype":"F4","shape":[2],"data_offsets":[14,15]}}       `, body: "ccccccccaabbbbd"},
		{name: "aliases and other metadata", tensors: []Tensor{
			{Name: "wte", DType: U8, Shape: []int{1}, Aliases: []string{"head", "tied"}}},
			metadata: map[string]string{"format": "np", "a\"\\/\n\x01é\u2028": "<&>"},
			data:     map[string]string{"wte": "w"},
			header: `{"__metadata__":{"format":"np",` +
				`"a\"\\/\n\u0001é` + "\u2028" + `":"<&>","head":"wte","tied":"wte"},` +
				`"wte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}    `, body: "w"},
	} {
		file, err := write(c.tensors, c.metadata, c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(c.header)%8 != 0 {
			t.Errorf("%s: the golden header has %d bytes, no multiple of 8", c.name, len(c.header))
		}
		if want := fileOf(c.header, c.body); !bytes.Equal(file, want) {
			t.Errorf("%s: got\n%q, want\n%q", c.name, file, want)
		}
		f := open(t, file)
		for _, want := range c.tensors {
			check(t, f, want, c.data[want.Name])
		}
		again, err := write(slices.Collect(f.Tensors()), f.Metadata(), c.data)
		if err != nil || !bytes.Equal(again, file) {
			t.Errorf("%s: written again: %v, got\n%q, want\n%q", c.name, err, again, file)
		}
	}
}

// check compares a tensor of a file, by each of its names, with what it should be.
func check(t *testing.T, f interface{ Lookup(string) (Tensor, bool) }, want Tensor, data string) {
	t.Helper()
	for _, name := range append([]string{want.Name}, want.Aliases...) {
		got, ok := f.Lookup(name)
		if !ok {
			t.Errorf("there is no %q", name)
			continue
		}
		if got.Name != want.Name || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
			!slices.Equal(got.Aliases, want.Aliases) || got.Bytes() != int64(len(data)) {
			t.Errorf("%q: got %+v, want %+v", name, got, want)
		}
		bytes, err := io.ReadAll(got.Data())
		if err != nil || string(bytes) != data {
			t.Errorf("%q: data %q, error %v, want %q", name, bytes, err, data)
		}
	}
}

// TestTypes holds names and sizes of all types, and that each is written and read.
func TestTypes(t *testing.T) {
	sizes := map[string]int{"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8,
		"F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
		"I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
	if len(sizes) != len(dtypes)-1 {
		t.Errorf("%d types, want %d", len(dtypes)-1, len(sizes))
	}
	var tensors []Tensor
	data := map[string]string{}
	for name, bits := range sizes {
		d, ok := ParseDType(name)
		if !ok || d.String() != name || d.Bits() != bits {
			t.Errorf("%s: got %v, %v, %d bits, want %d", name, ok, d, d.Bits(), bits)
		}
		x := Tensor{Name: "x." + name, DType: d, Shape: []int{4, 1, 3}}
		tensors = append(tensors, x)
		data[x.Name] = strings.Repeat(name, 100)[:12*bits/8]
	}
	for i := 1; i < len(dtypes); i++ {
		if size := min(dtypes[i].bits, 8); i > 1 && dtypes[i].bits < dtypes[i-1].bits && size > 8 {
			t.Errorf("%v comes after a larger type", DType(i))
		}
	}
	file, err := write(tensors, nil, data)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, file)
	if f.Len() != len(sizes) {
		t.Errorf("%d tensors, want %d", f.Len(), len(sizes))
	}
	for _, x := range tensors {
		check(t, f, x, data[x.Name])
	}
	for _, d := range []DType{0, DType(len(dtypes)), 255} {
		if d.Bits() != 0 || !strings.HasPrefix(d.String(), "DType(") || (Tensor{DType: d}).Bytes() != -1 {
			t.Errorf("%v has %d bits", d, d.Bits())
		}
	}
	if _, ok := ParseDType(""); ok {
		t.Error(`the type "" exists`)
	}
}

// TestAccepted holds unusual headers that are right, as Python's library reads them, too.
func TestAccepted(t *testing.T) {
	for _, c := range []struct{ header, data, name string }{
		{`{}`, "", ""},
		{"{ \t\r\n} \t\r\n", "", ""},
		{`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "x", ""},
		{`{"a":{"data_offsets":[0,1],"shape":[],"dtype":"U8"}}`, "x", "a"},
		{`{"\u0061\ud83d\ude00\/":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "x", "a😀/"},
		{`{"a":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`, "", "a"},
		{`{"b":{"dtype":"U8","shape":[],"data_offsets":[1,2]},` +
			`"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "ab", "a"},
		{`{"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},` +
			`"b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "b", "b"},
		{`{"` + "\ufffd" + `":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "x", "\ufffd"},
	} {
		f := open(t, fileOf(c.header, c.data))
		if x, ok := f.Lookup(c.name); ok != (f.Len() > 0) || x.Name != c.name {
			t.Errorf("%s: tensor %q is %+v", c.header, c.name, x)
		}
		if _, ok := f.Lookup("nothing"); ok {
			t.Errorf("%s: there is a tensor that is not there", c.header)
		}
	}
}

// TestAliases holds which entries of the metadata are names.
func TestAliases(t *testing.T) {
	f := open(t, fileOf(`{"__metadata__":{"format":"pt","x":"pt","y":"gone","z":"pt","pt":"pt"},`+
		`"pt":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "x"))
	check(t, f, Tensor{Name: "pt", DType: U8, Aliases: []string{"x", "z"}}, "x")
	for _, name := range []string{"format", "y", "gone"} {
		if x, ok := f.Lookup(name); ok {
			t.Errorf("%s is a name of %q", name, x.Name)
		}
	}
	for x := range f.Tensors() {
		if x.Name != "pt" {
			t.Errorf("tensor %q", x.Name)
		}
		break
	}
}

// TestWriteErrors holds what is refused, and that nothing has been written then.
func TestWriteErrors(t *testing.T) {
	one := func(x Tensor) []Tensor { return []Tensor{x} }
	for _, c := range []struct {
		name     string
		tensors  []Tensor
		metadata map[string]string
		want     string
	}{
		{"two of a name", []Tensor{{Name: "a", DType: U8}, {Name: "a", DType: F32}}, nil, `two tensors "a"`},
		{"reserved name", one(Tensor{Name: "__metadata__", DType: U8}), nil, "may not be named"},
		{"no type", one(Tensor{Name: "a"}), nil, "type DType(0)"},
		{"negative size", one(Tensor{Name: "a", DType: U8, Shape: []int{-1}}), nil, "shape [-1]"},
		{"too many axes", one(Tensor{Name: "a", DType: U8, Shape: make([]int, 65)}), nil, "no tensor"},
		{"half a byte", one(Tensor{Name: "a", DType: F4, Shape: []int{3}}), nil, "no tensor"},
		{"product", one(Tensor{Name: "a", DType: U8, Shape: []int{1 << 40, 1 << 40}}), nil, "no tensor"},
		{"sum", []Tensor{{Name: "a", DType: U8, Shape: []int{1<<61 - 1}},
			{Name: "b", DType: U8, Shape: []int{1<<61 - 1}},
			{Name: "c", DType: U8, Shape: []int{1<<61 - 1}}, {Name: "d", DType: U8, Shape: []int{1<<61 - 1}},
			{Name: "e", DType: U8, Shape: []int{4}}}, nil, "no tensor"},
		{"name no UTF-8", one(Tensor{Name: "\xff", DType: U8}), nil, "no UTF-8"},
		{"metadata no UTF-8", nil, map[string]string{"a": "\xff"}, "no UTF-8"},
		{"alias of two", []Tensor{{Name: "a", DType: U8, Aliases: []string{"x"}},
			{Name: "b", DType: U8, Aliases: []string{"x"}}},
			nil, "something else"},
		{"alias that is stored", []Tensor{{Name: "a", DType: U8, Aliases: []string{"b"}}, {Name: "b", DType: U8}}, nil,
			"something else"},
		{"alias in the metadata", one(Tensor{Name: "a", DType: U8, Aliases: []string{"x"}}),
			map[string]string{"x": "y"}, "something else"},
		{"alias format", one(Tensor{Name: "pt", DType: U8, Aliases: []string{"format"}}), nil, "something else"},
	} {
		file, err := write(c.tensors, c.metadata, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(file) > 0 {
			t.Errorf("%s: %d bytes, error %v, want %q", c.name, len(file), err, c.want)
		}
	}
	two := []Tensor{{Name: "a", DType: U8, Shape: []int{2}}}
	for data, want := range map[string]string{"x": "1 of 2 bytes", "xyz": "1 bytes more"} {
		if _, err := write(two, nil, map[string]string{"a": data}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("data %q: error %v, want %q", data, err, want)
		}
	}
	many := map[string]string{}
	for i := range maxMetadata {
		many[fmt.Sprint(i)] = ""
	}
	if _, err := write(nil, many, nil); err == nil {
		t.Error("more metadata than are read: no error")
	}
	if _, err := write(nil, map[string]string{"a": strings.Repeat("a", maxHeader)}, nil); err == nil {
		t.Error("a header of more than 100 MB: no error")
	}
}

var errTest = errors.New("planned")

// failing is a file whose operations fail after some bytes.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if n := f.left; n < len(p) {
		f.left = 0
		return n, errTest
	}
	f.left -= len(p)
	return len(p), nil
}

// TestIOErrors lets writing and reading fail at each byte, and files become shorter after they were opened.
func TestIOErrors(t *testing.T) {
	tensors := []Tensor{{Name: "a", DType: U8, Shape: []int{100}}}
	data := map[string]string{"a": strings.Repeat("x", 100)}
	file, err := write(tensors, nil, data)
	if err != nil {
		t.Fatal(err)
	}
	copyAll := func(w io.Writer, x Tensor) error { _, err := x.WriteTo(w); return err }
	f := open(t, file)
	for n := range len(file) {
		if err := Write(&failing{n}, slices.Collect(f.Tensors()), nil, copyAll); !errors.Is(err, errTest) {
			t.Fatalf("writing fails at byte %d: error %v", n, err)
		}
		r := &cut{file, n, io.EOF}
		_, err := Open(r, int64(len(file)))
		if opened := n >= len(file)-100; opened != (err == nil) || !opened && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at byte %d: error %v", n, err)
		}
		if r.err = errTest; n < len(file)-100 {
			if _, err := Open(r, int64(len(file))); !errors.Is(err, errTest) {
				t.Fatalf("reading fails at byte %d: error %v", n, err)
			}
		}
	}
	r := &cut{file, len(file), io.EOF}
	f, err = Open(r, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	x, _ := f.Lookup("a")
	r.at = len(file) - 1
	if n, err := x.WriteTo(io.Discard); n != 99 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that has become shorter: %d bytes, error %v", n, err)
	}
	if n := (Tensor{Name: "a", DType: U8}).Data().Size(); n != 0 {
		t.Errorf("a tensor of no file has %d bytes", n)
	}
	err = Write(io.Discard, tensors, nil, func(io.Writer, Tensor) error { return errTest })
	if !errors.Is(err, errTest) {
		t.Errorf("data that fail: error %v", err)
	}
}

// cut is a file that ends at a place, or cannot be read from there.
type cut struct {
	file []byte
	at   int
	err  error
}

func (c *cut) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(c.at) {
		return 0, c.err
	}
	n := copy(p, c.file[off:c.at])
	if n < len(p) {
		return n, c.err
	}
	return n, nil
}

// random makes tensors of all types, shapes, names and sizes.
func random(rng *rand.Rand) (tensors []Tensor, data map[string]string) {
	data = map[string]string{}
	letters := []rune("ab.0_ \"\\/\n\x00\x7fé😀\u2028")
	for range rng.IntN(20) {
		x := Tensor{DType: DType(1 + rng.IntN(len(dtypes)-1)), Shape: []int{}}
		for range rng.IntN(12) {
			x.Name += string(letters[rng.IntN(len(letters))])
		}
		for range rng.IntN(4) {
			x.Shape = append(x.Shape, rng.IntN(6))
		}
		x.Shape = append(x.Shape, 4*rng.IntN(3))
		if _, twice := data[x.Name]; twice {
			continue
		}
		bytes := make([]byte, x.Bytes())
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		tensors, data[x.Name] = append(tensors, x), string(bytes)
	}
	return tensors, data
}

// TestRoundTrip writes random tensors, reads them, and writes what was read to the same bytes.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		tensors, data := random(rand.New(rand.NewPCG(seed, 1)))
		file, err := write(tensors, map[string]string{"seed": fmt.Sprint(seed)}, data)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		f := open(t, file)
		for _, x := range tensors {
			check(t, f, x, data[x.Name])
		}
		var again bytes.Buffer
		err = Write(&again, slices.Collect(f.Tensors()), f.Metadata(), func(w io.Writer, x Tensor) error {
			_, err := x.WriteTo(w)
			return err
		})
		if err != nil || !bytes.Equal(again.Bytes(), file) {
			t.Fatalf("seed %d: written again: %v, or other bytes", seed, err)
		}
		if got := f.Metadata(); !reflect.DeepEqual(got, map[string]string{"format": "pt", "seed": fmt.Sprint(seed)}) {
			t.Fatalf("seed %d: metadata %v", seed, got)
		}
	}
}
