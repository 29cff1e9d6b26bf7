package data

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// withIndexes lets small files have an index until the test ends.
func withIndexes(t testing.TB) {
	was := indexFrom
	indexFrom = 1
	t.Cleanup(func() { indexFrom = was })
}

// opener opens a file of one format and tells what is in it.
type opener struct {
	name, content string
	open          func(path string, options ...ReadOption) (string, error)
}

func openers(t testing.TB) []opener {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type row struct{ A int }
	return []opener{
		{"x.csv", "\ufeffa,b\n1,2\n3,4\n\n5,6\n\n", func(path string, o ...ReadOption) (string, error) {
			s, err := OpenCSV[row](path, o...)
			return told(s, err)
		}},
		{"x.tsv", "1\t2\n3\t4\n", func(path string, o ...ReadOption) (string, error) {
			s, err := OpenCSV[[]string](path, append(o, NoHeader(), Comma('\t'))...)
			return told(s, err)
		}},
		{"x.jsonl", "{\"a\":1}\n\n{\"a\":3}\n", func(path string, o ...ReadOption) (string, error) {
			s, err := OpenJSONL[row](path, o...)
			return told(s, err)
		}},
		{"x.tar", read("shard.tar"), func(path string, o ...ReadOption) (string, error) {
			s, err := OpenTar(path, o...)
			return told(s, err)
		}},
		{"x.tfrecord", read("examples.tfrecord"), func(path string, o ...ReadOption) (string, error) {
			s, err := OpenTFRecord(path, o...)
			return told(s, err)
		}},
	}
}

// told is all that is in a source.
func told[T any, S interface {
	Source[T]
	Close() error
}](s S, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer s.Close()
	text := ""
	for i := range s.Len() {
		x, err := s.At(i)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(x)
	}
	return text, nil
}

// With an index the same is read, and the data are not scanned: an index that says less is believed. One that is
// damaged, cut, of another file, of another reader or of other options is made anew.
func TestIndex(t *testing.T) {
	withIndexes(t)
	for _, o := range openers(t) {
		path := write(t, o.name, o.content, false)
		want, err := o.open(path, NoIndex())
		if err != nil || want == "" {
			t.Fatal(o.name, want, err)
		}
		if _, err := os.Stat(path + indexSuffix); err == nil {
			t.Errorf("%s: NoIndex wrote one", o.name)
		}
		check := func(what string) []byte {
			t.Helper()
			if got, err := o.open(path); got != want || err != nil {
				t.Errorf("%s, %s: %q, want %q, error %v", o.name, what, got, want, err)
			}
			index, err := os.ReadFile(path + indexSuffix)
			if err != nil {
				t.Fatal(err)
			}
			return index
		}
		index := check("without an index")
		before, err := os.Stat(path + indexSuffix)
		if err != nil {
			t.Fatal(err)
		}
		check("with an index")
		if after, err := os.Stat(path + indexSuffix); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the index was written again", o.name)
		}
		put := func(b []byte) {
			if err := os.WriteFile(path+indexSuffix, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for at := 0; at < len(index); at += max(1, len(index)/40) {
			damaged := bytes.Clone(index)
			damaged[at] ^= 1
			put(damaged)
			if again := check(fmt.Sprintf("byte %d damaged", at)); !bytes.Equal(again, index) {
				t.Errorf("%s: a damaged index stays", o.name)
			}
			put(index[:at])
			check(fmt.Sprintf("cut to %d bytes", at))
		}
		// Other data, of the same size and another time.
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if again := check("with a stale index"); bytes.Equal(again, index) {
			t.Errorf("%s: a stale index stays", o.name)
		}
		if err := errors.Join(os.Remove(path+indexSuffix), os.Mkdir(path+indexSuffix, 0o700)); err != nil {
			t.Fatal(err)
		}
		if got, err := o.open(path); got != want || err != nil {
			t.Errorf("%s: where no index can be written: %q, error %v", o.name, got, err)
		}
	}
}

// What an index says is checked against the file, also where its checksum is right.
func TestIndexLies(t *testing.T) {
	withIndexes(t)
	for _, o := range openers(t) {
		path := write(t, o.name, o.content, false)
		want, err := o.open(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := os.ReadFile(path + indexSuffix)
		if err != nil {
			t.Fatal(err)
		}
		rest := all[len(indexMagic)+32:]
		key := string(rest[1 : 1+rest[0]])
		for i, note := range [][]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
			{0, 5, 1}, {1, 'k', 1, 1, 'e', 0xff, 0xff, 0xff, 3, 1}, {200, 'k'}} {
			if err := writeIndex(path+indexSuffix, key, note); err != nil {
				t.Fatal(err)
			}
			if got, err := o.open(path); got != want || err != nil {
				t.Errorf("%s, lie %d: %q, error %v", o.name, i, got, err)
			}
		}
	}
	// An index that is believed: the first row of two alone.
	o := openers(t)[1]
	path := write(t, o.name, o.content, false)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	key, err := indexKey(file, `csv '\t' true`)
	if err := errors.Join(err, writeIndex(path+indexSuffix, key, []byte{0, 1, 4})); err != nil {
		t.Fatal(err)
	}
	if got, err := o.open(path); got != "[1 2]\n" || err != nil {
		t.Errorf("the index is not used: %q, error %v", got, err)
	}
}

// Several readers make the index of a file at once, and nothing else is left beside it.
func TestIndexTogether(t *testing.T) {
	withIndexes(t)
	path := write(t, "x.jsonl", strings.Repeat("{\"a\":1}\n", 1000), false)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			rows, err := OpenJSONL[map[string]int](path)
			if err != nil || rows.Len() != 1000 {
				t.Error(rows.Len(), err)
				return
			}
			rows.Close()
		})
	}
	wait.Wait()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Error(entries, err)
	}
}

// FuzzIndex: whatever lies beside the data under the right name, with a right checksum, does no harm.
func FuzzIndex(f *testing.F) {
	withIndexes(f)
	all := openers(f)
	f.Add(0, []byte{3, 1, 4})
	f.Add(3, []byte{1, 'k', 1, 1, 'e', 0xff, 0xff, 0xff, 3, 1})
	dir := f.TempDir()
	for _, o := range all {
		if err := os.WriteFile(filepath.Join(dir, o.name), []byte(o.content), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, which int, note []byte) {
		o := all[uint(which)%uint(len(all))]
		path := filepath.Join(dir, o.name)
		if _, err := o.open(path); err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatal(err)
			}
		}
		index, err := os.ReadFile(path + indexSuffix)
		if err != nil {
			t.Fatal(err)
		}
		rest := index[len(indexMagic)+32:]
		if err := writeIndex(path+indexSuffix, string(rest[1:1+rest[0]]), note); err != nil {
			t.Fatal(err)
		}
		if _, err := o.open(path); err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
		}
		os.Remove(path + indexSuffix)
	})
}
