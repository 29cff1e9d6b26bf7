package main

import (
	"bytes"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	columns  = 120 // of a line
	tabWidth = 4
	lines    = 80 // of a function
)

// kinds are the endings of files that are counted.
var kinds = []string{".go", ".s", ".c", ".cc", ".h", ".cu", ".cuh"}

// generated is the line that a generated file begins with.
var generated = regexp.MustCompile(`^// (Code g|G)enerated .*DO NOT EDIT\.$`)

// A tally is what was found in the files of a module.
type tally struct {
	lines map[string]int // by package: without tests and generated files
	long  map[string]int // by package: lines over 120 columns, tests too
	funcs []function     // over 80 lines, tables among them
}

// count reads all hand-written files below a folder.
func count(root string) (*tally, error) {
	t := &tally{lines: map[string]int{}, long: map[string]int{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (name[0] == '.' || name[0] == '_' || path == filepath.Join(root, "build")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(kinds, filepath.Ext(name)) {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return t.file(filepath.ToSlash(rel), text)
	})
	return t, err
}

// file counts one file, given by its path below the module.
func (t *tally) file(path string, text []byte) error {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if generated.Match(first) {
		return nil
	}
	pkg, name := pathpkg.Split(path)
	pkg = strings.TrimSuffix(pkg, "/")
	if !strings.HasSuffix(name, "_test.go") && !strings.Contains(path, "testdata/") {
		t.lines[pkg] += bytes.Count(text, []byte("\n"))
	}
	for line := range strings.Lines(string(text)) {
		if width(strings.TrimRight(line, "\n")) > columns {
			t.long[pkg]++
		}
	}
	var all []function
	var err error
	switch filepath.Ext(name) {
	case ".go":
		all, err = goFunctions(path, text)
	case ".s":
	default:
		all = cFunctions(path, text)
	}
	for _, f := range all {
		if f.lines > lines {
			t.funcs = append(t.funcs, f)
		}
	}
	return err
}

// width is the number of columns of a line.
func width(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

// groups are where packages stand. What is in none of them is the library, whose size has a budget as a whole.
var groups = map[string][]string{
	"programs":  {"bench", "cmd", "examples"},
	"tools":     {"internal/tools", "scripts"},
	"testing":   {"internal/testing"},
	"interface": {"kernels/cuda/driver/include"}, // NVIDIA's, from its documentation
}

const library = "library"

func group(pkg string) string {
	for name, paths := range groups {
		for _, path := range paths {
			if pkg == path || strings.HasPrefix(pkg, path+"/") {
				return name
			}
		}
	}
	return library
}
