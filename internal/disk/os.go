package disk

import (
	"io/fs"
	"os"
)

// OS is the file system of the machine.
var OS FS = system{}

type system struct{}

func (system) Create(name string) (File, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &writer{File: file}, nil
}

// A writer has the system begin to write to the disk, without waiting, while the file grows: Sync finds little left.
type writer struct {
	*os.File
	size, begun int64 // bytes written, and of these on their way
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	w.size += int64(n)
	if w.size-w.begun >= beginAt {
		begin(w.File, w.begun, w.size-w.begun)
		w.begun = w.size
	}
	return n, err
}

// beginAt is how many bytes begin to be written at once.
const beginAt = 8 << 20

func (system) Open(name string) (Reader, error) {
	info, err := os.Stat(name) // opening a pipe would wait for somebody who writes
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return reader{file, info.Size()}, nil
}

type reader struct {
	*os.File
	size int64
}

func (r reader) Size() int64 { return r.size }

func (system) Mkdir(name string) error { return os.Mkdir(name, 0o777) }

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) Remove(name string) error { return os.Remove(name) }

func (system) ReadDir(name string) ([]Entry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(list))
	for i, e := range list {
		entries[i] = Entry{e.Name(), e.IsDir()}
	}
	return entries, nil
}

func (system) SyncDir(name string) error { return syncDir(name) }

func (system) Free(name string) (int64, error) { return free(name) }
