package crashfs

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/weft-ml/weft/internal/disk"
)

// Sector is the unit in which data reach the disk.
const Sector = 512

// FS is a file system in memory. Its folder is ".". It may be used by several goroutines.
type FS struct {
	// Fault is asked before each operation: call counts them from 1, op is "create", "open", "read", "write", "sync",
	// "close", "mkdir", "rename", "remove", "readdir", "syncdir" or "free". If it returns an error, the operation fails
	// with it; with done it has its effect nevertheless.
	Fault func(call int, op, name string) (err error, done bool)
	// After is called after each operation.
	After func()
	// Space is how many more bytes can be written; negative for no limit. Files that are removed give theirs back.
	Space int64

	mu    sync.Mutex
	calls int
	root  *folder
}

// A node is a *file or a *folder.
type node any

type folder struct {
	names map[string]*history[node] // nil is no node
}

type file struct {
	size    *history[int64]
	sectors []*history[*[Sector]byte]
}

// New returns an empty file system.
func New() *FS { return &FS{root: newFolder(), Space: -1} }

func newFolder() *folder { return &folder{map[string]*history[node]{}} }

// Calls is the number of operations so far.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// do is one operation: effect changes the file system, or says why not, and is told if the operation is to fail before
// it is done.
func (f *FS) do(op, name string, effect func(fails bool) error) error {
	f.mu.Lock()
	f.calls++
	var fault error
	done := false
	if f.Fault != nil {
		fault, done = f.Fault(f.calls, op, name)
	}
	err := effect(fault != nil && !done)
	if fault != nil {
		err = fault
	}
	f.mu.Unlock()
	if f.After != nil {
		f.After()
	}
	if err != nil && err != io.EOF {
		err = &fs.PathError{Op: op, Path: name, Err: err}
	}
	return err
}

func clean(name string) string { return path.Clean(filepath.ToSlash(name)) }

// lookup is the node with a name.
func (f *FS) lookup(name string) (node, error) {
	if name = clean(name); name == "." {
		return f.root, nil
	}
	in, base, err := f.parent(name)
	if err != nil {
		return nil, err
	}
	if h := in.names[base]; h != nil && h.now() != nil {
		return h.now(), nil
	}
	return nil, syscall.ENOENT
}

// parent is the folder that a name is in, and the last part of the name.
func (f *FS) parent(name string) (*folder, string, error) {
	name = clean(name)
	if name == "." || !filepath.IsLocal(name) {
		return nil, "", syscall.EINVAL
	}
	in, err := f.folder(path.Dir(name))
	return in, path.Base(name), err
}

// folder is the folder with a name.
func (f *FS) folder(name string) (*folder, error) {
	n, err := f.lookup(name)
	if err != nil {
		return nil, err
	}
	in, ok := n.(*folder)
	if !ok {
		return nil, syscall.ENOTDIR
	}
	return in, nil
}

// set makes a name in a folder stand for a node, or for nothing.
func (in *folder) set(name string, n node) {
	if in.names[name] == nil {
		in.names[name] = &history[node]{values: []node{nil}}
	}
	in.names[name].set(n)
}

// entries are the names in a folder that stand for something.
func (in *folder) entries() []string {
	all := slices.Sorted(maps.Keys(in.names))
	return slices.DeleteFunc(all, func(name string) bool { return in.names[name].now() == nil })
}

// add makes a name for a node that is new.
func (f *FS) add(name string, n node) error {
	if _, err := f.lookup(name); err == nil {
		return syscall.EEXIST
	}
	in, base, err := f.parent(name)
	if err == nil {
		in.set(base, n)
	}
	return err
}

// Create is that of [disk.FS].
func (f *FS) Create(name string) (disk.File, error) {
	n := &file{size: &history[int64]{values: []int64{0}}}
	if err := f.do("create", name, func(fails bool) error {
		if fails {
			return nil
		}
		return f.add(name, n)
	}); err != nil {
		return nil, err
	}
	return &writer{f: f, name: name, file: n}, nil
}

// Mkdir is that of [disk.FS].
func (f *FS) Mkdir(name string) error {
	return f.do("mkdir", name, func(fails bool) error {
		if fails {
			return nil
		}
		return f.add(name, newFolder())
	})
}

// Rename is that of [disk.FS].
func (f *FS) Rename(from, to string) error {
	return f.do("rename", from, func(fails bool) error {
		if fails {
			return nil
		}
		source, old, err := f.parent(from)
		if err != nil {
			return err
		}
		target, base, err := f.parent(to)
		if err != nil {
			return err
		}
		n, err := f.lookup(from)
		if err != nil {
			return err
		}
		_, isFolder := n.(*folder)
		other, _ := f.lookup(to)
		switch taken := other.(type) {
		case *folder:
			return syscall.EEXIST
		case *file:
			if isFolder {
				return syscall.ENOTDIR
			}
			if taken == n {
				return nil
			}
			f.free(taken)
		}
		if isFolder && strings.HasPrefix(clean(to), clean(from)+"/") {
			return syscall.EINVAL
		}
		source.set(old, nil)
		target.set(base, n)
		return nil
	})
}

// Remove is that of [disk.FS].
func (f *FS) Remove(name string) error {
	return f.do("remove", name, func(fails bool) error {
		if fails {
			return nil
		}
		n, err := f.lookup(name)
		if err != nil {
			return err
		}
		in, base, err := f.parent(name)
		if err != nil {
			return err
		}
		switch n := n.(type) {
		case *folder:
			if len(n.entries()) > 0 {
				return syscall.ENOTEMPTY
			}
		case *file:
			f.free(n)
		}
		in.set(base, nil)
		return nil
	})
}

func (f *FS) free(n *file) {
	if f.Space >= 0 {
		f.Space += n.size.now()
	}
}

// ReadDir is that of [disk.FS].
func (f *FS) ReadDir(name string) (entries []disk.Entry, err error) {
	err = f.do("readdir", name, func(bool) error {
		in, err := f.folder(name)
		if err != nil {
			return err
		}
		for _, name := range in.entries() {
			_, isFolder := in.names[name].now().(*folder)
			entries = append(entries, disk.Entry{Name: name, Dir: isFolder})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// SyncDir is that of [disk.FS].
func (f *FS) SyncDir(name string) error {
	return f.do("syncdir", name, func(fails bool) error {
		in, err := f.folder(name)
		if err != nil {
			return err
		}
		for _, h := range in.names {
			h.sync(fails)
		}
		return nil
	})
}

// Free is that of [disk.FS].
func (f *FS) Free(name string) (free int64, err error) {
	err = f.do("free", name, func(bool) error {
		_, err := f.folder(name)
		free = f.Space
		return err
	})
	return free, err
}

// A writer is an open new file.
type writer struct {
	f      *FS
	name   string
	file   *file
	closed bool
}

// Write appends. It fails with half of p written, or with what there was space for.
func (w *writer) Write(p []byte) (n int, err error) {
	err = w.f.do("write", w.name, func(fails bool) error {
		if w.closed {
			return os.ErrClosed
		}
		n = len(p)
		if fails {
			n /= 2
		}
		var full error
		if s := w.f.Space; s >= 0 && int64(n) > s {
			n, full = int(s), syscall.ENOSPC
		}
		if w.f.Space >= 0 {
			w.f.Space -= int64(n)
		}
		w.file.append(p[:n])
		return full
	})
	return n, err
}

func (n *file) append(p []byte) {
	at := n.size.now()
	n.size.set(at + int64(len(p)))
	for len(p) > 0 {
		i, in := int(at/Sector), int(at%Sector)
		if i == len(n.sectors) {
			n.sectors = append(n.sectors, &history[*[Sector]byte]{values: []*[Sector]byte{{}}})
		}
		next := *n.sectors[i].now()
		count := copy(next[in:], p)
		n.sectors[i].set(&next)
		p, at = p[count:], at+int64(count)
	}
}

// content is what programs read.
func (n *file) content() []byte {
	var all bytes.Buffer
	for _, s := range n.sectors {
		all.Write(s.now()[:])
	}
	return all.Bytes()[:n.size.now()]
}

// Sync puts the data and the size on the disk, but not the name.
func (w *writer) Sync() error {
	return w.f.do("sync", w.name, func(fails bool) error {
		if w.closed {
			return os.ErrClosed
		}
		w.file.size.sync(fails)
		for _, s := range w.file.sectors {
			s.sync(fails)
		}
		return nil
	})
}

// Close closes the file, also if it fails.
func (w *writer) Close() error {
	return w.f.do("close", w.name, func(bool) error {
		if w.closed {
			return os.ErrClosed
		}
		w.closed = true
		return nil
	})
}

// Open is that of [disk.FS].
func (f *FS) Open(name string) (disk.Reader, error) {
	r := &reader{f: f, name: name}
	err := f.do("open", name, func(bool) error {
		n, err := f.lookup(name)
		if err != nil {
			return err
		}
		file, ok := n.(*file)
		if !ok {
			return fs.ErrInvalid
		}
		r.content = file.content()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// A reader is a file as it was when it was opened.
type reader struct {
	f       *FS
	name    string
	content []byte
	closed  bool
}

func (r *reader) Size() int64 { return int64(len(r.content)) }

func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	err = r.f.do("read", r.name, func(fails bool) error {
		if r.closed {
			return os.ErrClosed
		}
		if fails {
			return nil
		}
		n, err = bytes.NewReader(r.content).ReadAt(p, off)
		return err
	})
	return n, err
}

func (r *reader) Close() error {
	return r.f.do("close", r.name, func(bool) error {
		if r.closed {
			return os.ErrClosed
		}
		r.closed = true
		return nil
	})
}
