package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// idxFile is an IDX file with any header and any elements.
func idxFile(kind byte, dims []uint32, elements []byte) []byte {
	out := []byte{0, 0, kind, byte(len(dims))}
	for _, d := range dims {
		out = binary.BigEndian.AppendUint32(out, d)
	}
	return append(out, elements...)
}

// zip compresses with gzip.
func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func TestIDXTypes(t *testing.T) {
	be := func(v any) []byte {
		var b bytes.Buffer
		binary.Write(&b, binary.BigEndian, v)
		return b.Bytes()
	}
	for _, c := range []struct {
		kind byte
		want any
	}{
		{0x08, []uint8{0, 1, 127, 128, 254, 255}},
		{0x09, []int8{0, 1, 127, -128, -2, -1}},
		{0x0b, []int16{0, 1, math.MaxInt16, math.MinInt16, 258, -1}},
		{0x0c, []int32{0, 1, math.MaxInt32, math.MinInt32, 0x01020304, -1}},
		{0x0d, []float32{0, 1.5, float32(math.Inf(-1)), math.MaxFloat32, math.SmallestNonzeroFloat32, -2}},
		{0x0e, []float64{0, 1.5, math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64, -2}},
	} {
		file := idxFile(c.kind, []uint32{2, 3}, be(c.want))
		for _, f := range [][]byte{file, zip(file)} {
			x, err := DecodeIDX("x", f)
			if err != nil {
				t.Fatalf("%T: %v", c.want, err)
			}
			if !reflect.DeepEqual(x.Data, c.want) || !slices.Equal(x.Shape, []int{2, 3}) {
				t.Errorf("%T: got %v %v, want %v", c.want, x.Shape, x.Data, c.want)
			}
			if got := x.Tensor().Shape(); !slices.Equal(got, x.Shape) {
				t.Errorf("%T: tensor of shape %v", c.want, got)
			}
		}
	}
	small, err := DecodeIDX("x", idxFile(0x09, []uint32{2}, []byte{0x80, 7}))
	if err != nil {
		t.Fatal(err)
	}
	if got := values[int32](t, small.Tensor(), 2); !slices.Equal(got, []int32{-128, 7}) {
		t.Errorf("int8 as a tensor is %v", got)
	}
}

func TestIDXLargerThanAChunk(t *testing.T) {
	n := 2*idxChunk + 5
	elements := make([]byte, 2*n)
	for i := range n {
		binary.BigEndian.PutUint16(elements[2*i:], uint16(i*7))
	}
	file := idxFile(0x0b, []uint32{uint32(n)}, elements)
	for _, f := range [][]byte{file, zip(file)} {
		x, err := DecodeIDX("x", f)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range x.Data.([]int16) {
			if v != int16(uint16(i*7)) {
				t.Fatalf("element %d is %d", i, v)
			}
		}
	}
}

// evilFiles are files that must be refused, with words that the error must have.
func evilFiles() map[string]struct {
	file []byte
	says []string
} {
	type evil = struct {
		file []byte
		says []string
	}
	good := idxFile(0x08, []uint32{2, 2}, []byte{1, 2, 3, 4})
	goodZip := zip(good)
	flip := func(b []byte, i int) []byte {
		b = bytes.Clone(b)
		b[i] ^= 0x55
		return b
	}
	const huge = 4_000_000_000
	return map[string]evil{
		"empty":         {nil, []string{"found 0 bytes, want"}},
		"half a magic":  {[]byte{0, 0}, []string{"magic: found 2 bytes"}},
		"foreign magic": {[]byte("PK\x03\x04aaaaaaaa"), []string{"magic: found 50 4b 03 04, want 00 00"}},
		"unknown type": {idxFile(0x0a, []uint32{1}, []byte{1}),
			[]string{"magic: found 00 00 0a 01", "element type of 08"}},
		"rank 0":           {idxFile(0x08, nil, []byte{1}), []string{"rank: found 0, want 1 to 8 axes"}},
		"rank 9":           {idxFile(0x08, make([]uint32, 9), nil), []string{"rank: found 9"}},
		"rank 255":         {[]byte{0, 0, 8, 255, 0, 0, 0, 1}, []string{"rank: found 255"}},
		"truncated header": {good[:9], []string{"header: found 9 bytes, want 12 bytes for 2 axes"}},
		"no sizes":         {good[:4], []string{"header: found 4 bytes, want 12"}},
		"zero size":        {idxFile(0x08, []uint32{0, 28, 28}, nil), []string{"shape: found size 0 on axis 0"}},
		"zero hides overflow": {idxFile(0x08, []uint32{huge, huge, huge, 0}, nil),
			[]string{"shape: found size 0 on axis 3"}},
		"4e9 x 4e9": {idxFile(0x08, []uint32{huge, huge}, []byte{1}),
			[]string{"size: found 13 bytes", "more than 2^62 bytes, declared as 4000000000 x 4000000000 of uint8"}},
		"product wraps to 0": {idxFile(0x0c, []uint32{1 << 31, 1 << 31, 1}, nil), []string{"more than 2^62 bytes"}},
		"product wraps to 4": {idxFile(0x08, []uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1}, []byte{1}),
			[]string{"more than 2^62"}},
		"4e9 doubles": {idxFile(0x0e, []uint32{huge}, make([]byte, 64)),
			[]string{"found 72 bytes", "want 32000000008 bytes, declared as 4000000000 of float64"}},
		"one byte short": {good[:len(good)-1],
			[]string{"size: found 15 bytes, want 16 bytes, declared as 2 x 2 of uint8", "unexpected EOF"}},
		"one byte long":        {append(bytes.Clone(good), 0), []string{"size: found 17 bytes, want 16 bytes"}},
		"gzip: header only":    {goodZip[:5], []string{"gzip header", "unexpected EOF"}},
		"gzip: garbage":        {[]byte("\x1f\x8b\x08arbage and more garbage"), []string{"damaged gzip data"}},
		"gzip: damaged stream": {flip(goodZip, 12), []string{"found 00 05 38 02"}},
		"gzip: wrong checksum": {flip(goodZip, len(goodZip)-6), []string{"damaged gzip data", "checksum"}},
		"gzip: truncated":      {goodZip[:len(goodZip)-12], []string{"unexpected EOF"}},
		"gzip: no checksum":    {goodZip[:len(goodZip)-8], []string{"unexpected EOF"}},
		"gzip: bytes after": {append(bytes.Clone(goodZip), "tail"...),
			[]string{"foreign bytes after the elements"}},
		"gzip: second stream": {append(bytes.Clone(goodZip), goodZip...),
			[]string{"found more than 16 bytes, want 16"}},
		"gzip: one byte short": {zip(good[:15]), []string{"found 3 bytes of elements, want 4"}},
		"gzip: one byte long":  {zip(append(bytes.Clone(good), 0)), []string{"more than 16 bytes"}},
		"gzip: 4e9 x 4e9":      {zip(idxFile(0x08, []uint32{huge, huge}, []byte{1})), []string{"more than 2^62"}},
		"gzip: 4e9 declared": {zip(idxFile(0x08, []uint32{huge}, []byte{1})),
			[]string{"bytes of gzip data, which unpack to", "declared as 4000000000 of uint8"}},
		"gzip: empty":  {zip(nil), []string{"magic: found 0 bytes"}},
		"gzip in gzip": {zip(goodZip), []string{"magic: found 1f 8b"}},
		"gzip: bomb": {zip(idxFile(0x08, []uint32{2, 2}, make([]byte, 8<<20))),
			[]string{"more than 16 bytes, want 16"}},
		"gzip: truncated large": {zip(idxFile(0x08, []uint32{256 << 20}, make([]byte, 1<<20))),
			[]string{"want 268435464 bytes"}},
	}
}

func TestIDXRefusesEvilFiles(t *testing.T) {
	dir := t.TempDir()
	for name, evil := range evilFiles() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			x, err := DecodeIDX("x", evil.file)
			runtime.ReadMemStats(&after)
			if x != nil {
				t.Errorf("an array came back: %v", x.Shape)
			}
			wantError(t, err, append(evil.says, "x: ")...)
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%T %q is no *FormatError", err, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("allocated %d bytes for a file of %d", used, len(evil.file))
			}
			path := filepath.Join(dir, strings.ReplaceAll(name, ":", ""))
			if err := os.WriteFile(path, evil.file, 0o600); err != nil {
				t.Fatal(err)
			}
			_, fromFile := ReadIDX(path)
			wantError(t, fromFile, append(evil.says, path+": ")...)
		})
	}
}

// A compressed file that keeps within the ratio still gets no more memory than twice what it unpacks to.
func TestIDXMemoryFollowsTheStream(t *testing.T) {
	const declared, real = 1 << 30, 2 << 20
	noise := make([]byte, real)
	for i := range noise {
		noise[i] = byte(mix(uint64(i)))
	}
	file := zip(idxFile(0x08, []uint32{declared}, noise))
	if int64(len(file))*compressions[0].ratio < declared {
		t.Fatal("the file does not pass the check of its ratio")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeIDX("x", file)
	runtime.ReadMemStats(&after)
	wantError(t, err, "found 2097152 bytes of elements, want 1073741824")
	if used := after.TotalAlloc - before.TotalAlloc; used > trusted+1<<20 {
		t.Errorf("allocated %d bytes", used)
	}
}

func TestReadIDXNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadIDX(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	_, err := ReadIDX(dir)
	wantError(t, err, "kind of file", "want a regular file")
}

// failing gives some bytes, then an error of the medium.
type failing struct {
	r   io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestIDXKeepsErrorsOfTheMedium(t *testing.T) {
	broken := errors.New("disk on fire")
	good := idxFile(0x08, []uint32{2, 2}, []byte{1, 2, 3, 4})
	for n := range good {
		_, err := readIDX("x", failing{bytes.NewReader(good[:n]), broken}, int64(len(good)), readingOf(nil))
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		if _, ok := errors.AsType[*FormatError](err); ok {
			t.Errorf("after %d bytes: %v blames the format", n, err)
		}
	}
	_, err := readIDX("x", failing{bytes.NewReader(good), broken}, int64(len(good)), readingOf(nil))
	if !errors.Is(err, broken) {
		t.Errorf("at the end: %v", err)
	}
	// A file that was cut after its size was taken.
	_, err = readIDX("x", bytes.NewReader(good[:14]), int64(len(good)), readingOf(nil))
	wantError(t, err, "size: found 2 bytes of elements, want 4", "unexpected EOF")
}

func FuzzIDX(f *testing.F) {
	for _, evil := range evilFiles() {
		if len(evil.file) < 4096 {
			f.Add(evil.file)
		}
	}
	f.Add(idxFile(0x0d, []uint32{1, 2}, make([]byte, 8)))
	f.Add(zip(idxFile(0x08, []uint32{3}, []byte{1, 2, 3})))
	f.Fuzz(func(t *testing.T, file []byte) {
		x, err := DecodeIDX("x", file)
		if err != nil {
			if x != nil {
				t.Error("an array and an error")
			}
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%T %q is no *FormatError", err, err)
			}
			return
		}
		n := 1
		for _, d := range x.Shape {
			n *= d
		}
		if got := reflect.ValueOf(x.Data).Len(); got != n || n == 0 {
			t.Errorf("%d elements for shape %v", got, x.Shape)
		}
	})
}

func BenchmarkReadIDX(b *testing.B) {
	file := idxFile(0x08, []uint32{10000, 28, 28}, make([]byte, 10000*28*28))
	b.SetBytes(int64(len(file)))
	for range b.N {
		if _, err := DecodeIDX("x", file); err != nil {
			b.Fatal(err)
		}
	}
}
