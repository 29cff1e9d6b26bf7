package zipfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// files is a zip file with stored files of these contents.
func files(t testing.TB, contents map[string]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range contents {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestOpen(t *testing.T) {
	want := map[string]string{"b/1": "one", "a": "", "b/data.pkl": strings.Repeat("x", 1000)}
	file := files(t, want)
	entries, err := Open(bytes.NewReader(file), int64(len(file)), "test")
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, error %v", len(entries), err)
	}
	for i, e := range entries {
		if text, err := io.ReadAll(e.Data); err != nil || string(text) != want[e.Name] {
			t.Errorf("%s: %q, error %v", e.Name, text, err)
		}
		if i > 0 && e.Name < entries[i-1].Name {
			t.Errorf("%s is after %s", e.Name, entries[i-1].Name)
		}
	}
}

// TestMemory opens files whose directories are as large as can be, and a little larger.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		entries int
		found   string
	}{{80000, ""}, {160000, "more bytes"}} {
		// One local header, which all entries share.
		file := append([]byte("PK\x03\x04"), make([]byte, 26)...)
		begin := len(file)
		for i := range c.entries {
			entry := make([]byte, 46, 50)
			copy(entry, "PK\x01\x02")
			name := fmt.Sprintf("%x", i)
			binary.LittleEndian.PutUint16(entry[28:], uint16(len(name)))
			file = append(append(file, entry...), name...)
		}
		end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
		binary.LittleEndian.PutUint16(end[8:], uint16(c.entries))
		binary.LittleEndian.PutUint16(end[10:], uint16(c.entries))
		binary.LittleEndian.PutUint32(end[12:], uint32(len(file)-begin))
		binary.LittleEndian.PutUint32(end[16:], uint32(begin))
		file = append(file, end...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(file), int64(len(file)), "test")
		runtime.ReadMemStats(&after)
		taken := int(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%d entries: %.1f MB for a file of %.1f: %v", c.entries, float64(taken)/1e6, float64(len(file))/1e6, err)
		if (err != nil) != (c.found != "") || err != nil && !strings.Contains(err.Error(), c.found) {
			t.Errorf("%d entries: error %v, want %q", c.entries, err, c.found)
		}
		if taken > 64<<20+2*len(file) {
			t.Errorf("%d entries: %d MB", c.entries, taken>>20)
		}
	}
}

// FuzzOpen opens whatever comes. What is accepted lies apart, inside the file.
func FuzzOpen(f *testing.F) {
	f.Add(files(f, map[string]string{"a": "1234", "b/c": ""}))
	f.Add(files(f, nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		entries, err := Open(bytes.NewReader(file), int64(len(file)), "test")
		if err != nil {
			var format *safetensors.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error %v", err)
			}
			return
		}
		total := 0
		for _, e := range entries {
			if e.Data == nil {
				continue
			}
			data, err := io.ReadAll(e.Data)
			if err != nil || int64(len(data)) != e.Data.Size() {
				t.Fatalf("%q: %d bytes of %d, error %v", e.Name, len(data), e.Data.Size(), err)
			}
			total += len(data)
		}
		if total > len(file) {
			t.Fatalf("%d bytes of %d", total, len(file))
		}
	})
}

// broken fails to read what is before an offset.
type broken struct {
	io.ReaderAt
	before int64
}

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off < b.before {
		return 0, io.ErrClosedPipe
	}
	return b.ReaderAt.ReadAt(p, off)
}

// TestEvil opens files with one fault each.
func TestEvil(t *testing.T) {
	// What an entry of the directory says, by its offset there.
	const compressed, size, name, header = 20, 24, 46, 42
	type change = func(file []byte, entries [2]int) []byte
	put := func(entry, at int, v uint32) change {
		return func(file []byte, entries [2]int) []byte {
			binary.LittleEndian.PutUint32(file[entries[entry]+at:], v)
			return file
		}
	}
	for says, c := range map[string]change{
		"want a zip file":       func(file []byte, _ [2]int) []byte { return file[:len(file)-1] },
		"want a header":         func(file []byte, _ [2]int) []byte { file[0]++; return file },
		"found 1048576 bytes":   put(0, compressed, 1<<20),
		"4, as it is stored in": put(1, size, 3),
		"overlaps with another": func(file []byte, entries [2]int) []byte {
			return put(1, header, 0)(put(0, header, 0)(file, entries), entries)
		},
		"\"a\" for a second time": func(file []byte, entries [2]int) []byte {
			file[entries[1]+name] = 'a'
			return file
		},
	} {
		file := files(t, map[string]string{"a": "1234", "b": "5678"})
		first := bytes.Index(file, []byte("PK\x01\x02"))
		entries := [2]int{first, first + 4 + bytes.Index(file[first+4:], []byte("PK\x01\x02"))}
		if file[entries[0]+name] == 'b' { // files come in any order
			entries[0], entries[1] = entries[1], entries[0]
		}
		file = c(file, entries)
		_, err := Open(bytes.NewReader(file), int64(len(file)), "test")
		var format *safetensors.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v", says, err)
		}
	}
	file := files(t, map[string]string{"a": "1234"})
	for _, from := range []int64{10, int64(len(file))} { // only the directory can be read, or nothing
		r := broken{bytes.NewReader(file), from}
		if _, err := Open(r, int64(len(file)), "test"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("what is before %d cannot be read: error %v", from, err)
		}
	}
}
