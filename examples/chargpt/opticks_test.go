package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/data"
)

// wantError checks that err is not nil and that its text is one line that contains every part.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestOpticks(t *testing.T) {
	path, err := opticks()
	if err != nil {
		t.Skipf("this toolchain has no source tree: %v", err)
	}
	text, err := data.ReadText(path, data.Chars)
	if err != nil {
		t.Fatal(err)
	}
	if n := text.TrainLen() + text.ValidationLen(); n < 500_000 || text.VocabSize() < 60 ||
		text.ValidationLen() != n-n*9/10 {
		t.Errorf("%d characters, %d of them different, %d for validation", n, text.VocabSize(), text.ValidationLen())
	}
	if _, err := text.Encode("By the Rays of Light"); err != nil {
		t.Error(err)
	}
}

func TestOpticksSearch(t *testing.T) {
	root := t.TempDir()
	want := filepath.Join(root, "src", "testdata", "Isaac.Newton-Opticks.txt")
	t.Setenv("GOROOT", root)
	t.Setenv("PATH", t.TempDir()) // no go command
	_, err := opticks()
	wantError(t, err, "Newton's Opticks not found", "GOROOT: no "+want, "go env GOROOT: ", "-data FILE")

	t.Setenv("GOROOT", "")
	_, err = opticks()
	wantError(t, err, "GOROOT: not set; go env GOROOT: ")

	if err := os.MkdirAll(filepath.Dir(want), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, []byte("light"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOROOT", root)
	if got, err := opticks(); err != nil || got != want {
		t.Errorf("found %q, error %v", got, err)
	}
}

// A GOROOT that has no text does not keep the go command from naming a better one.
func TestOpticksAsksTheGoCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for the go command is a shell script")
	}
	root, bin := t.TempDir(), t.TempDir()
	want := filepath.Join(root, "src", "testdata", "Isaac.Newton-Opticks.txt")
	if err := os.MkdirAll(filepath.Dir(want), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, []byte("light"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
test "$*" = "env GOROOT" && echo "${GOROOT:-` + root + `}"
`
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("GOROOT", t.TempDir())
	if got, err := opticks(); err != nil || got != want {
		t.Errorf("found %q, error %v; want %q", got, err, want)
	}
}
