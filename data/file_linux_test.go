package data

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe, a device and a folder are errors at once, from every function that reads a file.
func TestAttackSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", dir} {
		for name, read := range map[string]func() error{
			"idx":  func() error { _, err := ReadIDX(path); return err },
			"text": func() error { _, err := ReadText(path, Bytes); return err },
		} {
			done := make(chan error, 1)
			go func() { done <- read() }()
			select {
			case err := <-done:
				if f, ok := errors.AsType[*FormatError](err); !ok || f.What != "kind of file" || f.File != path {
					t.Errorf("%s of %s: %v", name, path, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of %s does not come back", name, path)
			}
		}
	}
}

// A file that is larger than allowed, packed or not, is an error before its memory is taken; MaxSize moves the limit.
func TestAttackLargeFiles(t *testing.T) {
	dir := t.TempDir()
	plain := idxFile(0x08, []uint32{1000}, make([]byte, 1000))
	for name, file := range map[string][]byte{"plain": plain, "packed": zip(plain)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIDX(path, MaxSize(1008)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := ReadIDX(path, MaxSize(1007))
		wantError(t, err, path+": size: found 1008 bytes, declared as 1000 of uint8, want at most 1007 bytes")
	}
	path := filepath.Join(dir, "plain")
	if _, err := ReadText(path, Bytes, MaxSize(1008)); err != nil {
		t.Error(err)
	}
	_, err := ReadText(path, Bytes, MaxSize(1007))
	wantError(t, err, "found 1008 bytes, want at most 1007 bytes (MaxSize allows more)")
}

// A format error has the offset of what is wrong, in the unpacked file.
func TestFormatErrorOffsets(t *testing.T) {
	good := idxFile(0x08, []uint32{2, 3}, []byte{1, 2, 3, 4, 5, 6})
	changed := func(at int, b byte) []byte {
		file := append([]byte(nil), good...)
		file[at] = b
		return file
	}
	for _, c := range []struct {
		file   []byte
		offset int64
	}{
		{changed(2, 7), 0}, {changed(3, 0), 3}, {changed(7, 0), 4}, {changed(11, 0), 8}, {good[:9], 9},
		{zip(good[:14]), 14}, {zip(append(good[:18:18], 1)), 18},
	} {
		_, err := DecodeIDX("x", c.file)
		if f, ok := errors.AsType[*FormatError](err); !ok || f.Offset != c.offset {
			t.Errorf("%x: %v, want offset %d", c.file, err, c.offset)
		}
	}
	_, err := NewText([]byte("ab\xff"), Chars)
	wantError(t, err, "text: byte 2: character: found 0xff, want valid UTF-8")
}
