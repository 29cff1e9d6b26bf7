package data

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/tensor"
)

// A pipe, a device and a folder are errors at once, from every function that reads a file.
func TestAttackSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", dir} {
		for name, read := range readers {
			soon(t, name+" of "+path, func() {
				err := read(path)
				if f, ok := errors.AsType[*FormatError](err); !ok || f.What != "kind of file" || f.File != path {
					t.Errorf("%s of %s: %v", name, path, err)
				}
			})
		}
	}
}

// What is no file among the pictures of a folder is an error, too.
func TestAttackSpecialPictures(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "c"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "c/pipe.png"), 0o600), os.Symlink("/dev/zero", filepath.Join(dir,
			"c/zero.png"))); err != nil {
		t.Fatal(err)
	}
	pictures, err := ImageFolder(dir)
	if err != nil || pictures.Len() != 2 {
		t.Fatalf("%d pictures, error %v", pictures.Len(), err)
	}
	for i := range 2 {
		soon(t, "a picture", func() {
			_, err := pictures.At(i)
			wantError(t, err, "kind of file")
		})
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

// Files that are none, or have no content, are errors at once: a file of /proc may wait for what it tells.
func TestAttackStrangeFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for link, target := range map[string]string{"loop": "loop", "broken": "nowhere", "zero": "/dev/zero"} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		at("socket"): "found S", at("loop"): "too many levels", at("broken"): "no such file", at("zero"): "found D",
		at("empty"): "found 0 bytes", "/proc/kmsg": "found 0 bytes", "/proc/self/mem": "found 0 bytes",
		"/dev/null": "found D",
		at("none"):  "no such file", at("empty") + "/x": "not a directory", "\x00": "invalid argument",
		"": "no such file",
	} {
		for name, read := range readers {
			soon(t, name+" of "+path, func() { wantError(t, read(path), says) })
		}
	}
}

// readers are all functions that read a file.
var readers = map[string]func(path string) error{
	"idx":  func(path string) error { _, err := ReadIDX(path); return err },
	"text": func(path string) error { _, err := ReadText(path, Bytes); return err },
}

// soon ends the test if f hangs.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal(what, "does not come back")
	}
}

// TestAttackLittleMemory: files that are larger than what the process may have are errors of kind ErrMemory. A process
// of its own reads them, with 2 GiB of address space: files with holes, which cost their author nothing, and one that
// unpacks to 2 GiB.
func TestAttackLittleMemory(t *testing.T) {
	if dir := os.Getenv("WEFT_LITTLE_MEMORY"); dir != "" {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 2 << 30, Max: 2 << 30}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sparse", "sparse8", "bomb"} {
			path := filepath.Join(dir, name)
			for kind, read := range readers {
				err := read(path)
				if _, wrong := errors.AsType[*FormatError](err); wrong && name == "sparse8" {
					continue // over 4 GiB
				}
				if name == "bomb" && kind == "text" && err == nil {
					continue // it is small
				}
				if !errors.Is(err, tensor.ErrMemory) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		return
	}
	if raceEnabled {
		t.Skip("the race detector takes more address space than the limit leaves")
	}
	dir := t.TempDir()
	header := idxFile(0x0d, []uint32{1 << 29}, nil)
	for name, size := range map[string]int64{"sparse": 1 << 31, "sparse8": 1 << 33} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, header, 0o600), os.Truncate(file,
			int64(len(header))+size)); err != nil {
			t.Fatal(err)
		}
	}
	bomb := append(zip(header), bytes.Repeat(zip(make([]byte, 1<<24)), 1<<7)...)
	if err := os.WriteFile(filepath.Join(dir, "bomb"), bomb, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAttackLittleMemory$")
	cmd.Env = append(os.Environ(), "WEFT_LITTLE_MEMORY="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
