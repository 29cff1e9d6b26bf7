package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed files are what the generator writes.
func TestUpToDate(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(target, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs: run go run . in internal/tools/genmatmul", name)
		}
	}
}
