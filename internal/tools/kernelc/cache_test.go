package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What was asked before is not asked again; another program, argument or input is another question.
func TestCache(t *testing.T) {
	c := &cache{dir: t.TempDir()}
	program := filepath.Join(t.TempDir(), "ptxas")
	write(t, program, "version 1")
	runs := 0
	ask := func(q question) {
		t.Helper()
		out, err := c.ask(q, func() (output, error) { runs++; return output{[]byte("image\n"), []byte("log")}, nil })
		if err != nil || string(out.result) != "image\n" || string(out.log) != "log" {
			t.Errorf("%q, %q, %v", out.result, out.log, err)
		}
	}
	expect := func(what string, want int) {
		t.Helper()
		if runs != want {
			t.Errorf("%s: the program ran %d times, want %d", what, runs, want)
		}
	}
	q := question{[]string{program}, []string{"-a"}, []byte("text")}
	ask(q)
	ask(q)
	expect("the same again", 1)
	ask(question{q.programs, []string{"-b"}, q.input})
	expect("another argument", 2)
	ask(question{q.programs, q.arguments, []byte("texts")})
	expect("another text", 3)
	write(t, program, "version 2")
	ask(q)
	expect("a program is read once", 3)
	c = &cache{dir: c.dir}
	ask(q)
	expect("another version", 4)
	for _, plant := range []func(entry []byte) []byte{
		func(entry []byte) []byte { entry[len(entry)-1] ^= 1; return entry },
		func(entry []byte) []byte { entry[32]++; return entry },
		func(entry []byte) []byte { return entry[:len(entry)-1] },
		func(entry []byte) []byte { return nil },
		func(entry []byte) []byte { return packEntry("another key", output{[]byte("image\n"), nil}) },
	} {
		before := runs
		file := c.file(t, q)
		entry, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(plant(entry)))
		ask(q)
		ask(q)
		expect("a spoiled entry", before+1)
	}
	old := time.Now().Add(-2 * kept)
	if err := errors.Join(os.Chtimes(c.file(t, q), old, old), c.prune()); err != nil {
		t.Fatal(err)
	}
	before := runs
	ask(q)
	expect("an old entry", before+1)
	failed := errors.New("failed")
	for range 2 {
		_, err := c.ask(question{input: []byte("wrong")}, func() (output, error) { return output{}, failed })
		if err != failed {
			t.Errorf("error %v", err)
		}
	}
}

// A change of a header is another input for each program that includes it, however indirectly.
func TestCacheIncludes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.cuh"), "#include \"b.cuh\"\n")
	hash := func(header string) string {
		write(t, filepath.Join(dir, "b.cuh"), header)
		files, err := includedBy(dir, "program", "#include \"a.cuh\"\n#include \"absent.h\"\n")
		if err != nil || len(files) != 3 {
			t.Fatal(files, err)
		}
		return hashFiles(files)
	}
	if one := hash("1"); one == hash("2") || one != hash("1") {
		t.Error("the hash is not of the header")
	}
}

func (c *cache) file(t *testing.T, q question) string {
	key, err := c.key(q)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.dir, key[:2], key)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
