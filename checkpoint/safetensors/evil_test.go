package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// evil says for each file of testdata/evil where its fault is, in which part, and what is found there.
var evil = map[string]struct {
	offset      int64
	what, found string
}{
	"empty-file":                {-1, "file size", "0 bytes"},
	"seven-bytes":               {-1, "file size", "7 bytes"},
	"eight-bytes":               {0, "header size", "18446744073709551615 bytes"},
	"header-negative":           {0, "header size", "9223372036854775808 bytes"},
	"header-over-limit":         {0, "header size", "100000001 bytes"},
	"header-past-end":           {0, "header size", "3 bytes"},
	"header-empty":              {8, "header", "the end of the header"},
	"header-space-first":        {8, "header", "' '"},
	"header-array":              {8, "header", "'['"},
	"header-bom":                {8, "header", `'\ufeff'`},
	"header-open":               {60, "header", "the end of the header"},
	"header-zero-padding":       {10, "header", `'\x00' after the last bracket`},
	"header-twice":              {10, "header", "'{' after the last bracket"},
	"json-comma-last":           {61, "header", "'}'"},
	"json-comma-missing":        {61, "header", `'"'`},
	"json-colon-missing":        {12, "header", "'{'"},
	"json-comment":              {9, "header", "'/'"},
	"json-single-quotes":        {9, "header", `'\''`},
	"json-deep":                 {13, `entry of "a"`, "'['"},
	"utf8-invalid":              {10, "text", "byte 0xff"},
	"utf8-overlong":             {10, "text", "byte 0xc0"},
	"utf8-surrogate":            {10, "text", "byte 0xed"},
	"string-half-surrogate":     {10, "header", `\\ud800`},
	"string-swapped-surrogates": {10, "header", `\\ude00`},
	"string-bad-escape":         {10, "header", `\\x`},
	"string-bad-digits":         {10, "header", `\\u00g0`},
	"string-short-escape":       {10, "header", `\\u00`},
	"string-control":            {11, "header", `'\n'`},
	"string-open":               {9, "header", "a string without end"},
	"string-open-escape":        {9, "header", "a string without end"},
	"name-number":               {9, "header", "'1'"},
	"name-twice":                {87, "name of a tensor", `"a" for a second time`},
	"name-twice-escaped":        {92, "name of a tensor", `"a" for a second time`},
	"name-twice-same-data":      {87, "name of a tensor", `"a" for a second time`},
	"metadata-twice":            {27, "header", "a second __metadata__"},
	"metadata-key-twice":        {33, "key in __metadata__", `"a" for a second time`},
	"metadata-number":           {29, "text in __metadata__", "'1'"},
	"metadata-null":             {24, "__metadata__", "'n'"},
	"metadata-nested":           {29, "text in __metadata__", "'{'"},
	"entry-null":                {13, `entry of "a"`, "'n'"},
	"entry-list":                {13, `entry of "a"`, "'['"},
	"entry-without-type":        {9, `entry of "a"`, "not all keys"},
	"entry-without-shape":       {9, `entry of "a"`, "not all keys"},
	"entry-without-offsets":     {9, `entry of "a"`, "not all keys"},
	"entry-type-twice":          {27, `entry of "a"`, `the key "dtype"`},
	"entry-shape-twice":         {39, `entry of "a"`, `the key "shape"`},
	"entry-more-keys":           {60, `entry of "a"`, `the key "stride"`},
	"type-unknown":              {22, `dtype of "a"`, `"F7"`},
	"type-lower-case":           {22, `dtype of "a"`, `"u8"`},
	"type-number":               {22, `dtype of "a"`, "'8'"},
	"shape-negative":            {36, `shape of "a"`, "'-'"},
	"shape-fraction":            {36, `shape of "a"`, "a fraction"},
	"shape-exponent":            {36, `shape of "a"`, "a fraction"},
	"shape-octal":               {36, `shape of "a"`, "begins with 0"},
	"shape-text":                {36, `shape of "a"`, `'"'`},
	"shape-number":              {35, `shape of "a"`, "'1'"},
	"shape-2-63":                {36, `shape of "a"`, "2^63 or more"},
	"shape-digits":              {36, `shape of "a"`, "2^63 or more"},
	"shape-many-axes":           {164, `shape of "a"`, "more axes"},
	"shape-product-wraps":       {9, `size of "a"`, "2^64 bits"},
	"shape-product-wraps-later": {9, `size of "a"`, "2^64 bits"},
	"shape-bytes-wrap":          {9, `size of "a"`, "2^64 bits"},
	"shape-half-byte":           {9, `size of "a"`, "12 bits"},
	"shape-quarter-byte":        {9, `size of "a"`, "18 bits"},
	"offsets-reversed":          {9, `data_offsets of "a"`, "[1, 0]: reversed"},
	"offsets-one":               {54, `data_offsets of "a"`, "1 numbers"},
	"offsets-three":             {54, `data_offsets of "a"`, "3 numbers"},
	"offsets-negative":          {55, `data_offsets of "a"`, "'-'"},
	"offsets-too-long":          {9, `data_offsets of "a"`, "[0, 2]: 2 bytes"},
	"offsets-too-short":         {9, `data_offsets of "a"`, "[0, 1]: 1 bytes"},
	"offsets-2-63":              {75, `data_offsets of "a"`, "2^63 or more"},
	"offsets-far":               {35, `data_offsets of "a"`, "a hole before it"},
	"data-hole-first":           {35, `data_offsets of "a"`, "a hole before it"},
	"data-hole":                 {87, `data_offsets of "b"`, "a hole before it"},
	"data-overlap":              {87, `data_offsets of "b"`, "overlaps"},
	"data-shared":               {87, `data_offsets of "b"`, "overlaps"},
	"data-missing":              {62, "data", "1 bytes"},
	"data-missing-all":          {79, "data", "0 bytes"},
	"data-left-over":            {62, "data", "2 bytes"},
	"data-without-tensors":      {10, "data", "1 bytes"},
}

// evilFiles returns the files of testdata/evil by name.
func evilFiles(t testing.TB) map[string][]byte {
	paths, err := filepath.Glob("testdata/evil/*.safetensors")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".safetensors")] = file
	}
	return files
}

// TestEvil opens files that are wrong in one way each.
func TestEvil(t *testing.T) {
	files := evilFiles(t)
	for name := range evil {
		if files[name] == nil {
			t.Errorf("%s: no such file", name)
		}
	}
	for name, file := range files {
		want, ok := evil[name]
		if !ok {
			t.Errorf("%s: nothing is said of it", name)
		}
		var f *File
		var err error
		memory := allocated(func() { f, err = Open(bytes.NewReader(file), int64(len(file))) })
		var got *FormatError
		if !errors.As(err, &got) || f != nil {
			t.Errorf("%s: error %v, want a FormatError", name, err)
			continue
		}
		if got.Offset != want.offset || got.What != want.what || got.Want == "" ||
			!strings.Contains(got.Found, want.found) {
			t.Errorf("%s: got %d, %q, %q, want %d, %q, %q", name, got.Offset, got.What, got.Found,
				want.offset, want.what, want.found)
		}
		if got.Offset > int64(len(file)) || len(err.Error()) > 400 {
			t.Errorf("%s: offset %d of %d bytes, message %q", name, got.Offset, len(file), err)
		}
		if limit := int64(1<<20 + 2*len(file)); memory > limit {
			t.Errorf("%s: %d bytes of memory, want at most %d", name, memory, limit)
		}
	}
	t.Logf("%d files refused", len(files))
}

// TestLargeHeader opens a file that is large enough for its header of more than 100 MB.
func TestLargeHeader(t *testing.T) {
	file := &long{fileOf("{}", "")}
	copy(file.begin, binary.LittleEndian.AppendUint64(nil, maxHeader+1))
	var err error
	memory := allocated(func() { _, err = Open(file, 1<<40) })
	var format *FormatError
	if !errors.As(err, &format) || format.Offset != 0 || format.What != "header size" || memory > 1<<20 {
		t.Errorf("error %v, %d bytes of memory", err, memory)
	}
}

// long is a file of spaces after its first bytes.
type long struct{ begin []byte }

func (l *long) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		if p[i] = ' '; off+int64(i) < int64(len(l.begin)) {
			p[i] = l.begin[off+int64(i)]
		}
	}
	return len(p), nil
}

// allocated is how much memory a function takes in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestMemory opens large files that are made to fill the memory. A header of the largest size, 100 MB, may take twice
// its size and 64 MiB in all. These are an eighth of that, with an eighth of the 64 MiB.
func TestMemory(t *testing.T) {
	most := maxHeader / 8
	fill := func(item func(i int) string) []byte {
		var out bytes.Buffer
		out.WriteString(`{`)
		for i := 0; ; i++ {
			next := item(i)
			if out.Len()+len(next)+1 > most {
				break
			}
			out.WriteString(next + ",")
		}
		out.Truncate(out.Len() - 1)
		out.WriteByte('}')
		return out.Bytes()
	}
	entry := func(name, shape string) string {
		return `"` + name + `":{"dtype":"U8","shape":[` + shape + `],"data_offsets":[0,0]}`
	}
	repeat := func(s string) string { return strings.Repeat(s, (most-200)/len(s)) }
	for _, c := range []struct {
		name   string
		header []byte
		right  bool
	}{
		{"as many tensors as there can be", fill(func(i int) string { return entry(base64(i), "0") }), true},
		{"names with escapes", fill(func(i int) string { return entry(base64(i)+`\n`, "0") }), true},
		{"many axes", fill(func(i int) string { return entry(base64(i), strings.Repeat("0,", 63)+"0") }), true},
		{"one name for all", fill(func(int) string { return entry("", "0") }), false},
		{"metadata", fmt.Appendf(nil, `{"__metadata__":%s}`, fill(func(i int) string {
			return `"` + base64(i) + `":""`
		})), false},
		{"a long name", []byte("{" + entry(repeat("a"), "0") + "}"), true},
		{"a long name of brackets", []byte("{" + entry(repeat("{"), "0") + "}"), true},
		{"a long name of escapes", []byte("{" + entry(repeat(`\u0041`), "0") + "}"), true},
		{"a long wrong type", []byte(`{"a":{"dtype":"` + repeat(`\n`) + `"}}`), false},
		{"a long shape", []byte("{" + entry("a", repeat("0,")+"0") + "}"), false},
		{"brackets", []byte(`{"a":` + repeat("[")), false},
		{"spaces", []byte(`{` + repeat(" ") + `}`), true},
	} {
		file := fileOf(string(c.header), "")
		var f *File
		var err error
		start := time.Now()
		memory := allocated(func() { f, err = Open(bytes.NewReader(file), int64(len(file))) })
		taken := time.Since(start)
		var format *FormatError
		if c.right != (err == nil) || !c.right && !errors.As(err, &format) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if memory > int64(2*len(file)+64<<20/8) {
			t.Errorf("%s: %d MB of memory for a file of %d MB", c.name, memory/1e6, len(file)/1e6)
		}
		n := 0
		if f != nil {
			n = f.Len()
		}
		t.Logf("%s: %d tensors, %.2f of the file's size, %.1f s", c.name, n, float64(memory)/float64(len(file)),
			taken.Seconds())
	}
}

// base64 is a short name for a number.
func base64(i int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	name := string(digits[i%64])
	for i /= 64; i > 0; i /= 64 {
		name += string(digits[i%64])
	}
	return name
}

// FuzzOpen opens whatever comes, at once and in a file that can be read in small pieces only. What is accepted is
// written again and must say the same.
func FuzzOpen(f *testing.F) {
	for _, file := range evilFiles(f) {
		f.Add(file)
	}
	for _, header := range []string{
		`{"__metadata__":{"format":"pt","b":"a"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`,
		`{"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},` +
			`"b\u0041":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}`,
	} {
		f.Add(fileOf(header, "12345678"))
	}
	f.Add(fileOf(`{}`, ""))
	f.Fuzz(func(t *testing.T, file []byte) {
		x, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) || format.Offset > int64(len(file)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if !json.Valid([]byte(x.header)) {
			t.Fatalf("encoding/json refuses %q", x.header)
		}
		var again bytes.Buffer
		var tensors []Tensor
		for tensor := range x.Tensors() {
			tensors = append(tensors, tensor)
		}
		if err := Write(&again, tensors, x.Metadata(), func(w io.Writer, t Tensor) error {
			_, err := t.WriteTo(w)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		y, err := Open(bytes.NewReader(again.Bytes()), int64(again.Len()))
		if err != nil || y.Len() != x.Len() {
			t.Fatalf("written again: error %v", err)
		}
		for _, tensor := range tensors {
			data, err := io.ReadAll(tensor.Data())
			if err != nil {
				t.Fatal(err)
			}
			check(t, y, tensor, string(data))
		}
	})
}
