package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// TestOS holds what the real file system does where the interface asks for more than package os.
func TestOS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file, err := OS.Create(in("a"))
	ok(err)
	_, err = file.Write([]byte("text"))
	ok(err)
	ok(file.Sync())
	ok(file.Close())
	if _, err := OS.Create(in("a")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v", err)
	}
	r, err := OS.Open(in("a"))
	ok(err)
	text := make([]byte, 3)
	if _, err := r.ReadAt(text, 1); err != nil || string(text) != "ext" || r.Size() != 4 {
		t.Errorf("read %q of %d bytes, error %v", text, r.Size(), err)
	}
	ok(r.Close())
	ok(OS.Mkdir(in("d")))
	ok(OS.Mkdir(in("e")))
	if err := OS.Mkdir(in("d")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir of a folder that exists: %v", err)
	}
	if err := OS.Rename(in("d"), in("e")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Rename to a folder that exists: %v", err)
	}
	if _, err := OS.Open(in("d")); err == nil {
		t.Error("Open of a folder: no error")
	}
	if _, err := OS.Open(in("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
	ok(OS.Rename(in("a"), in("d/b")))
	ok(OS.SyncDir(in("d")))
	if err := OS.SyncDir(in("x")); err == nil {
		t.Error("SyncDir of nothing: no error")
	}
	ok(OS.Remove(in("e")))
	if err := OS.Remove(in("d")); err == nil {
		t.Error("Remove of a folder with a file: no error")
	}
	list, err := OS.ReadDir(dir)
	ok(err)
	inside, err := OS.ReadDir(in("d"))
	ok(err)
	if !slices.Equal(list, []Entry{{"d", true}}) || !slices.Equal(inside, []Entry{{"b", false}}) {
		t.Errorf("entries %v, %v", list, inside)
	}
	if _, err := OS.ReadDir(in("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of nothing: %v", err)
	}
	free, err := OS.Free(dir)
	if known := runtime.GOOS == "linux" || runtime.GOOS == "darwin"; err != nil || known != (free > 0) {
		t.Errorf("%d bytes free, error %v", free, err)
	}
	if _, err := OS.Free(in("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Free of nothing: %v", err)
	}
}

// TestReplace replaces a file, and fails to: the old one stays, and nothing else.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write := func(text string, fail error) error {
		return Replace(OS, path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, fail)
		})
	}
	broken := errors.New("broken")
	if err := errors.Join(write("one", nil), write("two", nil)); err != nil {
		t.Fatal(err)
	}
	if err := write("three", broken); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(path)
	list, err2 := OS.ReadDir(filepath.Dir(path))
	if err != nil || err2 != nil || string(text) != "two" || len(list) != 1 {
		t.Errorf("%q, files %v, errors %v, %v", text, list, err, err2)
	}
	if err := Replace(OS, filepath.Join(path, "b"), nil); err == nil {
		t.Error("in a folder that is none: no error")
	}
}
