package crashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-ml/weft/internal/disk"
)

// read is all of a file; nil if it cannot be read.
func read(fsys disk.FS, name string) []byte {
	r, err := fsys.Open(name)
	if err != nil {
		return nil
	}
	defer r.Close()
	content := make([]byte, r.Size())
	if len(content) > 0 {
		if _, err := r.ReadAt(content, 0); err != nil {
			return nil
		}
	}
	return content
}

// write makes a file and syncs it, or not.
func write(t *testing.T, fsys disk.FS, name string, content []byte, sync bool) disk.File {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(content); n != len(content) || err != nil {
		t.Fatalf("%d bytes written, error %v", n, err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// tree is all that is in a file system, as text: a line for each name.
func tree(t *testing.T, fsys disk.FS, root string) string {
	t.Helper()
	var out strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fsys.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name)
			if e.Dir {
				fmt.Fprintf(&out, "%s/\n", name)
				walk(name)
				continue
			}
			fmt.Fprintf(&out, "%s %q\n", name, read(fsys, filepath.Join(root, name)))
		}
	}
	walk(".")
	return out.String()
}

// TestLikeOS does random operations here and on the disk of the machine: the same succeed, and leave the same.
func TestLikeOS(t *testing.T) {
	type place func(name string) string
	paths := []string{"a", "b", "c", "a/a", "a/b", "b/a", "b/b", "a/b/c"}
	counts := map[string]int{}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		here := New()
		for step := range 60 {
			from, to := paths[rng.IntN(len(paths))], paths[rng.IntN(len(paths))]
			content := bytes.Repeat([]byte{byte('a' + step%26)}, rng.IntN(1500))
			var op string
			var do func(fsys disk.FS, in place) error
			switch rng.IntN(6) {
			case 0, 1:
				op, do = "create", func(fsys disk.FS, in place) error {
					f, err := fsys.Create(in(from))
					if err != nil {
						return err
					}
					half := len(content) / 3
					_, err1 := f.Write(content[:half])
					_, err2 := f.Write(content[half:])
					err = errors.Join(err1, err2, f.Sync(), f.Close())
					if f.Close() == nil || f.Sync() == nil {
						t.Error("a file that is closed can be synced and closed")
					}
					if _, err := f.Write(content); err == nil {
						t.Error("a file that is closed can be written")
					}
					return err
				}
			case 2:
				op, do = "mkdir", func(fsys disk.FS, in place) error { return fsys.Mkdir(in(from)) }
			case 3:
				op, do = "rename", func(fsys disk.FS, in place) error { return fsys.Rename(in(from), in(to)) }
			case 4:
				op, do = "remove", func(fsys disk.FS, in place) error { return fsys.Remove(in(from)) }
			default:
				op, do = "sync", func(fsys disk.FS, in place) error {
					_, err := fsys.Open(in(to))
					return errors.Join(fsys.SyncDir(in(".")), err)
				}
			}
			ours := do(here, func(name string) string { return name })
			theirs := do(disk.OS, func(name string) string { return filepath.Join(dir, name) })
			if (ours == nil) != (theirs == nil) || errors.Is(ours, fs.ErrExist) != errors.Is(theirs, fs.ErrExist) ||
				errors.Is(ours, fs.ErrNotExist) != errors.Is(theirs, fs.ErrNotExist) {
				t.Fatalf("seed %d, step %d: %s %s %s: error %v, of the system %v", seed, step, op, from, to,
					ours, theirs)
			}
			counts[fmt.Sprintf("%s %v", op, ours == nil)]++
		}
		if ours, theirs := tree(t, here, "."), tree(t, disk.OS, dir); ours != theirs {
			t.Fatalf("seed %d: got\n%s, want\n%s", seed, ours, theirs)
		}
	}
	t.Log(counts)
	if len(counts) != 10 {
		t.Errorf("not all operations failed and succeeded: %v", counts)
	}
}

// states are the different trees that a crash can leave, and how many choices lead there.
func states(t *testing.T, f *FS) (all map[string]bool, n int) {
	all = map[string]bool{}
	for after := range f.States() {
		all[tree(t, after, ".")] = true
		n++
	}
	return all, n
}

// TestStates holds all states after some operations.
func TestStates(t *testing.T) {
	x, y := strings.Repeat("x", Sector), strings.Repeat("y", 3)
	zero := strings.Repeat("\x00", Sector)
	file := func(content string) string { return fmt.Sprintf("a %q\n", content) }
	for _, c := range []struct {
		name string
		do   func(f *FS)
		want []string
		n    int // choices
	}{
		{"nothing", func(f *FS) {}, []string{""}, 1},
		{"a file of two sectors", func(f *FS) { write(t, f, "a", []byte(x+y), false) },
			[]string{"", file(""), file(x + y), file(zero + y), file(x + "\x00\x00\x00"), file(zero + "\x00\x00\x00")},
			1 + 2*2*2},
		{"synced, but not its name", func(f *FS) { write(t, f, "a", []byte(x+y), true) }, []string{"", file(x + y)}, 2},
		{"its name alone", func(f *FS) { write(t, f, "a", []byte(y), false); f.SyncDir(".") },
			[]string{file(""), file(y), file("\x00\x00\x00")}, 4},
		{"both", func(f *FS) { write(t, f, "a", []byte(y), true); f.SyncDir(".") }, []string{file(y)}, 1},
		{"more after a sync", func(f *FS) { write(t, f, "a", []byte(y), true).Write([]byte("z")); f.SyncDir(".") },
			[]string{file(y), file(y + "z"), file(y + "\x00")}, 4},
		{"renamed", func(f *FS) { write(t, f, "b", []byte(y), true); f.SyncDir("."); f.Rename("b", "a") },
			[]string{file(y), "b \"yyy\"\n", file(y) + "b \"yyy\"\n", ""}, 4},
		{"renamed, its data not synced", func(f *FS) {
			write(t, f, "b", []byte(y), false)
			f.SyncDir(".")
			f.Rename("b", "a")
		}, []string{"", file(""), file(y), file("\x00\x00\x00"), "b \"\"\n", "b \"yyy\"\n", "b \"\\x00\\x00\\x00\"\n",
			file("") + "b \"\"\n", file(y) + "b \"yyy\"\n", file("\x00\x00\x00") + "b \"\\x00\\x00\\x00\"\n"}, 13},
		{"renamed to itself", func(f *FS) {
			write(t, f, "a", []byte(y), true)
			f.SyncDir(".")
			f.Rename("a", "./a")
		}, []string{file(y)}, 1},
		{"renamed and synced", func(f *FS) {
			write(t, f, "b", []byte(y), true)
			f.SyncDir(".")
			f.Rename("b", "a")
			f.SyncDir(".")
		}, []string{file(y)}, 1},
		{"replaced", func(f *FS) {
			write(t, f, "a", []byte(x), true)
			write(t, f, "b", []byte(y), true)
			f.SyncDir(".")
			f.Rename("b", "a")
		}, []string{file(y), file(x), file(y) + "b \"yyy\"\n", file(x) + "b \"yyy\"\n"}, 4},
		{"in a folder that is not synced", func(f *FS) {
			f.Mkdir("d")
			write(t, f, "d/a", []byte(y), true)
			f.SyncDir("d")
		}, []string{"", "d/\nd/" + file(y)}, 2},
		{"in a folder, itself not synced", func(f *FS) {
			f.Mkdir("d")
			write(t, f, "d/a", []byte(y), true)
			f.SyncDir(".")
		}, []string{"d/\n", "d/\nd/" + file(y)}, 2},
		{"removed", func(f *FS) { write(t, f, "a", []byte(y), true); f.SyncDir("."); f.Remove("a") },
			[]string{"", file(y)}, 2},
		{"removed and synced", func(f *FS) { write(t, f, "a", []byte(y), false); f.Remove("a"); f.SyncDir(".") },
			[]string{""}, 1},
	} {
		f := New()
		c.do(f)
		got, n := states(t, f)
		want := map[string]bool{}
		for _, s := range c.want {
			want[s] = true
		}
		if !maps.Equal(got, want) || n != c.n {
			t.Errorf("%s: %d choices, want %d; got %q, want %q", c.name, n, c.n, slices.Sorted(maps.Keys(got)), c.want)
		}
		for after := range f.States() {
			again, n := states(t, after)
			if n != 1 || !again[tree(t, after, ".")] {
				t.Errorf("%s: a second crash changes what the first has left", c.name)
			}
		}
		drawn, rng := map[string]bool{}, rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			drawn[tree(t, f.Crash(Random(rng)), ".")] = true
		}
		if !maps.Equal(drawn, want) {
			t.Errorf("%s: random states %q, want %q", c.name, slices.Sorted(maps.Keys(drawn)), c.want)
		}
	}
}

// TestRandom holds that of many parts each one is lost alone, and survives alone.
func TestRandom(t *testing.T) {
	f := New()
	for i := range 8 {
		write(t, f, strconv.Itoa(i), nil, true)
	}
	survived := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 4))
	const draws = 20000
	for range draws {
		entries, err := f.Crash(Random(rng)).ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, e := range entries {
			names += e.Name
		}
		survived[names]++
	}
	const all = "01234567"
	for i := range all {
		for _, names := range []string{all[i : i+1], all[:i] + all[i+1:]} {
			if survived[names] < draws/500 {
				t.Errorf("%q survived %d times of %d", names, survived[names], draws)
			}
		}
	}
	for _, names := range []string{"", all} {
		if survived[names] < draws/10 {
			t.Errorf("%q survived %d times of %d", names, survived[names], draws)
		}
	}
}

var errTest = errors.New("planned")

// failAt makes one operation fail.
func failAt(call int, done bool) func(int, string, string) (error, bool) {
	return func(n int, _, _ string) (error, bool) {
		if n == call {
			return errTest, done
		}
		return nil, false
	}
}

// TestFailedSync holds that a second sync succeeds and puts nothing on the disk, until something is written.
func TestFailedSync(t *testing.T) {
	f := New()
	file := write(t, f, "a", []byte("x"), false)
	f.Fault = failAt(f.Calls()+1, false)
	if err := file.Sync(); !errors.Is(err, errTest) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(file.Sync(), f.SyncDir(".")); err != nil {
		t.Errorf("the second sync: %v", err)
	}
	if got, _ := states(t, f); len(got) != 3 || string(read(f, "a")) != "x" {
		t.Errorf("after a second sync: %v", got)
	}
	if _, err := file.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if got, _ := states(t, f); len(got) != 1 {
		t.Errorf("after the sector was written and synced again: %v", got)
	}

	f = New()
	write(t, f, "a", nil, true)
	f.Fault = failAt(f.Calls()+1, false)
	if err := f.SyncDir("."); !errors.Is(err, errTest) {
		t.Errorf("error %v", err)
	}
	write(t, f, "b", nil, true)
	if err := f.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	if got, _ := states(t, f); len(got) != 2 || !got["b \"\"\n"] {
		t.Errorf("of two names, the first after a failed sync: %v", got)
	}
}

// TestFaults lets each operation fail, without and with its effect.
func TestFaults(t *testing.T) {
	ops := []struct {
		op     string
		do     func(f *FS) error
		effect string // what is there if the operation has its effect
	}{
		{"create", func(f *FS) error { _, err := f.Create("new"); return err }, "file \"text\"\nfolder/\nnew \"\"\n"},
		{"mkdir", func(f *FS) error { return f.Mkdir("new") }, "file \"text\"\nfolder/\nnew/\n"},
		{"rename", func(f *FS) error { return f.Rename("file", "new") }, "folder/\nnew \"text\"\n"},
		{"remove", func(f *FS) error { return f.Remove("file") }, "folder/\n"},
		{"open", func(f *FS) error { _, err := f.Open("file"); return err }, ""},
		{"readdir", func(f *FS) error { _, err := f.ReadDir("."); return err }, ""},
		{"syncdir", func(f *FS) error { return f.SyncDir(".") }, ""},
	}
	for _, c := range ops {
		for _, done := range []bool{false, true} {
			f := New()
			write(t, f, "file", []byte("text"), true)
			if err := f.Mkdir("folder"); err != nil {
				t.Fatal(err)
			}
			want := tree(t, f, ".")
			if done && c.effect != "" {
				want = c.effect
			}
			after := 0
			f.After = func() { after++ }
			f.Fault = func(_ int, op, _ string) (error, bool) {
				if op == c.op {
					return errTest, done
				}
				return nil, false
			}
			err := c.do(f)
			var path *fs.PathError
			if f.Fault = nil; !errors.Is(err, errTest) || !errors.As(err, &path) || path.Op != c.op || after != 1 {
				t.Errorf("%s: error %v, After was called %d times", c.op, err, after)
			}
			if got := tree(t, f, "."); got != want {
				t.Errorf("%s, done %v: got %s, want %s", c.op, done, got, want)
			}
		}
	}
	f := New()
	file := write(t, f, "a", nil, false)
	f.Fault = failAt(f.Calls()+1, false)
	if n, err := file.Write([]byte("four")); n != 2 || !errors.Is(err, errTest) || string(read(f, "a")) != "fo" {
		t.Errorf("a short write: %d bytes, error %v, file %q", n, err, read(f, "a"))
	}
	r, err := f.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	f.Fault = failAt(f.Calls()+1, false)
	if n, err := r.ReadAt(make([]byte, 2), 0); n != 0 || !errors.Is(err, errTest) {
		t.Errorf("reading: %d bytes, error %v", n, err)
	}
	f.Fault = failAt(f.Calls()+1, false)
	if err := errors.Join(r.Close(), r.Close()); !errors.Is(err, errTest) || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closing twice: error %v", err)
	}
	if _, err := r.ReadAt(make([]byte, 2), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("reading a closed file: error %v", err)
	}
}

// TestSpace fills the disk and makes room.
func TestSpace(t *testing.T) {
	f := New()
	f.Space = 10
	file := write(t, f, "a", []byte("sixsix"), false)
	n, err := file.Write([]byte("sixsix"))
	if got := string(read(f, "a")); n != 4 || !errors.Is(err, syscall.ENOSPC) || got != "sixsixsixs" {
		t.Errorf("%d bytes, error %v, file %q", n, err, got)
	}
	if err := f.Remove("a"); err != nil || f.Space != 10 {
		t.Errorf("error %v, space %d", err, f.Space)
	}
	write(t, f, "a", []byte("six"), false)
	write(t, f, "b", []byte("four"), false)
	if err := f.Rename("a", "b"); err != nil || f.Space != 7 {
		t.Errorf("error %v, space %d", err, f.Space)
	}
}

// saver is a toy: it keeps numbered states of two files in folders, of which the newest counts. What it does wrong is
// the test of the test bed.
type saver struct {
	fsys *FS
	omit string // a step that is left out
	done int    // the last state that was reported as saved
}

func content(n int, name string) []byte {
	return []byte(strings.Repeat(name+strconv.Itoa(n), 600/len(name+strconv.Itoa(n))))
}

func (s *saver) save(n int) error {
	tmp, dir := "tmp-"+strconv.Itoa(n), "step-"+strconv.Itoa(n)
	step := func(name string, do func() error) func() error {
		if name == s.omit {
			return func() error { return nil }
		}
		return do
	}
	var a, b disk.File
	for _, do := range []func() error{
		func() error { return s.fsys.Mkdir(tmp) },
		func() (err error) { a, err = s.fsys.Create(tmp + "/a"); return err },
		func() error { _, err := a.Write(content(n, "a")); return err },
		func() error { return s.sync("sync a", a) },
		func() error { return a.Close() },
		func() (err error) { b, err = s.fsys.Create(tmp + "/b"); return err },
		func() error { _, err := b.Write(content(n, "b")); return err },
		func() error { return s.sync("sync b", b) },
		func() error { return b.Close() },
		step("sync folder", func() error { return s.fsys.SyncDir(tmp) }),
		func() error { return s.fsys.Rename(tmp, dir) },
		step("sync parent", func() error { return s.fsys.SyncDir(".") }),
	} {
		if err := do(); err != nil {
			return err
		}
	}
	s.done = n
	for _, old := range []string{"/a", "/b", ""} {
		if err := s.fsys.Remove("step-" + strconv.Itoa(n-1) + old); err != nil && n > 1 {
			return err
		}
	}
	return nil
}

func (s *saver) sync(name string, f disk.File) error {
	if name == s.omit {
		return nil
	}
	err := f.Sync()
	if err != nil && s.omit == "giving up" {
		err = f.Sync()
	}
	return err
}

// fault says what is wrong with a disk on which a state was reported as saved: one that is not whole may only be older
// than that, as remains of one that was removed.
func (s *saver) fault(t *testing.T, after *FS) string {
	entries, err := after.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	newest := 0
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimPrefix(e.Name, "step-"))
		if err != nil || n < s.done {
			continue
		}
		for _, name := range []string{"a", "b"} {
			if !bytes.Equal(read(after, e.Name+"/"+name), content(n, name)) {
				return "a state is not whole: " + e.Name + "/" + name
			}
		}
		newest = max(newest, n)
	}
	if newest < s.done {
		return fmt.Sprintf("state %d was saved, and %d is there", s.done, newest)
	}
	return ""
}

// TestProtocol crashes the toy after each operation, with and without failing operations: the right one survives, and
// each step that is left out is found.
func TestProtocol(t *testing.T) {
	const good = ""
	for _, omit := range []string{good, "sync a", "sync b", "sync folder", "sync parent", "giving up"} {
		faults, crashes, reported := map[string]int{}, 0, 0
		for fail := range 40 {
			for _, done := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(fail), 3))
				f := New()
				s := &saver{fsys: f, omit: omit}
				f.Fault = failAt(fail, done)
				f.After = func() {
					for range 20 {
						crashes++
						if fault := s.fault(t, f.Crash(Random(rng))); fault != "" {
							faults[fault]++
						}
					}
				}
				for n := 1; n <= 3; n++ {
					if err := s.save(n); err != nil {
						break
					}
				}
				reported += s.done
			}
		}
		if (omit == good) != (len(faults) == 0) {
			t.Errorf("without %q: %d faults: %v", omit, len(faults), faults)
		}
		t.Logf("without %q: %d crashes, %d states saved, faults of %d kinds", omit, crashes, reported, len(faults))
	}
}
