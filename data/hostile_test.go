package data

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// closing is a source over a file.
type closing[T any] interface {
	Source[T]
	Fingerprint() string
	Close() error
}

// hostileFile checks how a source meets files that are missing, cut under it, or used as they must not be.
func hostileFile[T any, S closing[T]](t *testing.T, path string, open func(path string) (S, error)) {
	t.Helper()
	if _, err := open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: no file: %v", path, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(mine, content, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := open(mine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll[T](s); err != nil || s.Fingerprint() == "" {
		t.Errorf("%s: %v, fingerprint %q", path, err, s.Fingerprint())
	}
	for _, i := range []int{-1, s.Len()} {
		_, err := s.At(i)
		wantError(t, err, "data: there is no ")
	}
	if err := os.Truncate(mine, int64(len(content)/2)); err != nil {
		t.Fatal(err)
	}
	_, err = readAll[T](s)
	if _, ok := errors.AsType[*FormatError](err); !ok {
		t.Errorf("%s cut while it is open: %T %v", path, err, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := readAll[T](s); err == nil {
		t.Errorf("%s is read after Close", path)
	}
	var none S
	if none.Len() != 0 || none.Fingerprint() != "" || none.Close() != nil {
		t.Errorf("%T that is nil is not empty", none)
	}
}

func TestHostileFiles(t *testing.T) {
	hostileFile[[]byte](t, "testdata/examples.tfrecord", func(path string) (*TFRecord, error) {
		return OpenTFRecord(path)
	})
	hostileFile[TarSample](t, "testdata/shard.tar", func(path string) (*Tar, error) { return OpenTar(path) })
	hostileFile[[]float32](t, "testdata/rows.npy", func(path string) (*Array[float32], error) {
		return OpenNPY[float32](path)
	})
	hostileFile[[]int64](t, "testdata/plain.bin", func(path string) (*Tokens, error) {
		return OpenTokens([]string{path}, 4)
	})
}

// An example that is cut, or has another byte, anywhere is a FormatError or another example, never a panic.
func TestHostileTFExample(t *testing.T) {
	records, err := OpenTFRecord("testdata/examples.tfrecord")
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	refused := 0
	for i := range records.Len() {
		record, err := records.At(i)
		if err != nil {
			t.Fatal(err)
		}
		try := func(text []byte) {
			_, err := ParseTFExample(text)
			if _, ok := errors.AsType[*FormatError](err); err != nil && !ok {
				t.Errorf("%T: %v", err, err)
			}
			if err != nil {
				refused++
			}
		}
		for n := range record {
			try(record[:n])
			for bit := range 8 {
				text := append([]byte(nil), record...)
				text[n] ^= 1 << bit
				try(text)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d are refused", refused)
	}
}

// FuzzDiskCache: whatever a file of a cache holds, examples are those that were put there, or made again.
func FuzzDiskCache(f *testing.F) {
	dir := f.TempDir()
	d := &diskCache{dir: dir, prefix: "weft-cache-", left: 1 << 20}
	d.get(0)
	for i := range 5 {
		d.put(i, i+7, i == 3, []byte("example")[:i])
	}
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "weft-cache-1"), text, 0o666); err != nil {
			t.Fatal(err)
		}
		d := &diskCache{dir: dir, prefix: "weft-cache-", left: 1 << 20}
		for i := range 8 {
			if got, _, ok := d.get(i); ok && len(got) > len(text) {
				t.Errorf("example %d has %d bytes of a file of %d", i, len(got), len(text))
			}
			d.put(i, i, false, []byte("again"))
			if got, _, ok := d.get(i); !ok || len(got) > len(text)+5 {
				t.Errorf("example %d is not kept: %q", i, got)
			}
		}
	})
}
