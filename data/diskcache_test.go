package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// keptNumbers are numbers behind a function that is counted, a filter and a cache in a folder.
func keptNumbers(dir, version, print string, most int64, made *atomic.Int64) *Pipeline[int] {
	s := make(Slice[int], 60)
	for i := range s {
		s[i] = i + 1000
	}
	costly := Map(From(printed{s, print}), func(s Sample, x int) (int, error) {
		made.Add(1)
		return x*1000 + s.Random.IntN(1000), nil
	})
	some := Filter(costly, func(_ Sample, x int) (bool, error) { return x/1000%7 > 0, nil })
	kept := CacheOnDisk(some, DiskCache[int]{dir, version, most,
		func(x int) ([]byte, error) { return strconv.AppendInt(nil, int64(x), 10), nil },
		func(text []byte) (int, error) { return strconv.Atoi(string(text)) }})
	return Map(Shuffle(kept, 3), func(s Sample, x int) (int, error) { return x + s.Index<<32 + s.Epoch<<40, nil })
}

// What is kept is what was made, with any workers, in later runs too; other data or another version finds nothing.
func TestDiskCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b*", "c")
	var made atomic.Int64
	run := func(version, print string, most int64, workers int) string {
		t.Helper()
		made.Store(0)
		p := keptNumbers(dir, version, print, most, &made)
		_, sum := one(t, Batches(p, 7, keep, Epochs(2), Workers(workers)), nil)
		return sum
	}
	want := run("1", "x", 1<<20, 0)
	if made.Load() != 60 {
		t.Errorf("%d examples made in two epochs, want 60", made.Load())
	}
	for _, workers := range []int{0, 1, 8} {
		if got := run("1", "x", 1<<20, workers); got != want || made.Load() != 0 {
			t.Errorf("%d workers: hash %s, want %s; %d made", workers, got, want, made.Load())
		}
	}
	for _, other := range [][2]string{{"2", "x"}, {"1", "y"}} {
		// Two workers may be at one position of two epochs, and then both make it.
		if got := run(other[0], other[1], 1<<20, 2); got != want || made.Load() < 60 || made.Load() >= 80 {
			t.Errorf("%v: hash %s, %d made", other, got, made.Load())
		}
	}
	if got := run("3", "x", 500, 2); got != want || made.Load() <= 60 || made.Load() >= 120 {
		t.Errorf("limited: hash %s, %d made", got, made.Load())
	}
	var size int64
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		info, _ := f.Info()
		size += info.Size()
	}
	if most := int64(3*60*(recordHeader+7) + 500); len(files) != 4 || size > most {
		t.Errorf("%d files of %d bytes, want 4 of at most %d", len(files), size, most)
	}
}

// Files that are cut or damaged anywhere are used as far as they go; none gives another example.
func TestDiskCacheDamaged(t *testing.T) {
	dir := t.TempDir()
	var made atomic.Int64
	run := func() string {
		made.Store(0)
		_, sum := one(t, Batches(keptNumbers(dir, "1", "x", 1<<20, &made), 7, keep, Workers(0)), nil)
		return sum
	}
	want := run()
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	whole, err := os.ReadFile(paths[0])
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	check := func(name string, text []byte) {
		t.Helper()
		all, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range all {
			os.Remove(path)
		}
		if err := os.WriteFile(paths[0], text, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := run(); got != want || made.Load() == 0 {
			t.Errorf("%s: hash %s, want %s; %d made", name, got, want, made.Load())
		}
		if got := run(); got != want || made.Load() != 0 {
			t.Errorf("%s, again: hash %s, want %s; %d made", name, got, want, made.Load())
		}
	}
	for _, n := range []int{0, 1, recordHeader, recordHeader + 3, len(whole) / 2, len(whole) - 1} {
		check(fmt.Sprintf("cut to %d", n), whole[:n])
	}
	for i := range recordHeader + 7 {
		text := append([]byte(nil), whole...)
		text[i+5*(recordHeader+7)] ^= 1
		check(fmt.Sprintf("byte %d", i), text)
	}
}

// Several may fill a cache at once, and later ones find what any of them has made.
func TestDiskCacheTogether(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	var made atomic.Int64
	sums := make([]string, 4)
	for i := range sums {
		all.Go(func() {
			_, sums[i] = one(t, Batches(keptNumbers(dir, "1", "x", 1<<20, &made), 7, keep, Workers(i)), nil)
		})
	}
	all.Wait()
	made.Store(0)
	_, want := one(t, Batches(keptNumbers(dir, "1", "x", 1<<20, &made), 7, keep), nil)
	for i, sum := range sums {
		if sum != want || made.Load() != 0 {
			t.Errorf("%d: hash %s, want %s; %d made", i, sum, want, made.Load())
		}
	}
}

// Nothing can be written: that is no error. What is wrong with the description is.
func TestDiskCacheRefused(t *testing.T) {
	var made atomic.Int64
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	one(t, Batches(keptNumbers(file, "1", "x", 1<<20, &made), 7, keep), nil)
	if made.Load() != 60 {
		t.Errorf("%d made", made.Load())
	}
	p := From(make(Slice[int], 3))
	encode := func(int) ([]byte, error) { return nil, errors.New("no text") }
	decode := func([]byte) (int, error) { return 0, nil }
	how := DiskCache[int]{t.TempDir(), "1", 100, encode, decode}
	_, _, err := collect(t, Batches(CacheOnDisk(p, how), 2, keep), nil)
	wantError(t, err, `example 0: cache on disk, version "1": no text`)
	_, _, err = collect(t, Batches(CacheOnDisk(Repeat(p, Forever), how), 2, keep), nil)
	wantError(t, err, "call it before Repeat")
	_, _, err = collect(t, Batches(CacheOnDisk(FromStream(lines[int]{1}), how), 2, keep), nil)
	wantError(t, err, "in its order only")
	_, _, err = collect(t, Batches(CacheOnDisk(p, DiskCache[int]{Dir: "x"}), 2, keep), nil)
	wantError(t, err, "want Dir, MaxBytes")
}
