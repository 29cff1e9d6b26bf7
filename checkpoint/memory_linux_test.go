//go:build !race

package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// TestEvilLittleMemory opens files that are made to fill the memory, each in a process of its own whose address space
// may grow by twice the file's size and 64 MiB, and by another 64 MiB, which is Go's unit. The race detector
// takes more.
func TestEvilLittleMemory(t *testing.T) {
	if path := os.Getenv("WEFT_EVIL_FILE"); path != "" {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		limit := space(t) + 2*uint64(info.Size()) + 128<<20
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			t.Fatal(err)
		}
		w, err := OpenWeights(path)
		var format *safetensors.FormatError
		if !errors.As(err, &format) || w != nil {
			t.Errorf("error %v", err)
		}
		fmt.Printf("%.200s\n", fmt.Sprint(err))
		return
	}
	const size = 16 << 20
	repeat := func(s string) []byte { return bytes.Repeat([]byte(s), size/len(s)) }
	numbered := func(size int, item func(i int) string) []byte {
		var out bytes.Buffer
		for i := 0; out.Len() < size; i++ {
			out.WriteString(item(i))
		}
		return out.Bytes()
	}
	key := func(i int) string { return "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(i))) }
	entries := numbered(size, func(i int) string { return fmt.Sprintf(`"%x":{},`, i) })
	header := slices.Concat([]byte(`{`), entries, []byte(`}`))
	keys := numbered(size, func(i int) string { return key(i) + "N" })
	dir := t.TempDir()
	for name, file := range map[string][]byte{
		"lists.pt":           pickled(t, repeat("]")),
		"dictionaries.pt":    pickled(t, repeat("}")),
		"memos.pt":           pickled(t, append([]byte("N"), repeat("\x94")...)),
		"marks.pt":           pickled(t, repeat("(")),
		"numbers.pt":         pickled(t, repeat("M\xff\xff")),
		"texts.pt":           pickled(t, repeat("\x8c\x01a")),
		"names.pt":           pickled(t, append([]byte("}("), keys...)),
		"no-archive.npz":     repeat("PK\x01\x02"),
		"x.bin.index.json":   append(numbered(4<<20-100, func(i int) string { return index(i) }), `"a":"a.bin"}}`...),
		"header.safetensors": append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestEvilLittleMemory$")
		cmd.Env = append(os.Environ(), "WEFT_EVIL_FILE="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%.3000s", name, err, out)
		}
		t.Logf("%s: %d MB: %.200s", name, len(file)>>20, out)
	}
}

// index is the text of item i of an index, and what comes before the first.
func index(i int) string {
	if i == 0 {
		return `{"weight_map":{`
	}
	return fmt.Sprintf(`"%x":"a.bin",`, i)
}

// pickled is a file of PyTorch with a pickle.
func pickled(t *testing.T, code []byte) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "a/data.pkl", Method: zip.Store})
	if err == nil {
		_, err = w.Write(append([]byte("\x80\x02"), code...))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// space is the process's address space in bytes.
func space(t *testing.T) uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	var pages uint64
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}
