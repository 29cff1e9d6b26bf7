package lattice

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a program that imports this module gets: modules in its graph, itself and this one counted, and lines of
// go.sum. docs/DEPENDENCIES.md says why they are so many. They may become fewer.
const (
	mostModules = 108
	mostSums    = 220
)

// TestModules counts the modules of a program that imports all of this one, with the requirements that go mod tidy
// writes into its go.mod: gorgonia.org/cu is among them, because that looks at files of all build tags.
func TestModules(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, sums := read(t, filepath.Join(root, "go.mod")), read(t, filepath.Join(root, "go.sum"))
	program := strings.Replace(mod, "module "+module, "module program", 1) +
		"\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": program, "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.Command("go", "list", "-mod=mod", "-m", "all")
	list.Dir = dir
	out, err := list.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Skipf("the graph of modules cannot be had: %s", bytes.TrimSpace(exit.Stderr))
	} else if err != nil {
		t.Fatal(err)
	}
	modules, lines := bytes.Count(out, []byte("\n")), strings.Count(sums, "\n")
	t.Logf("%d modules, %d lines of go.sum", modules, lines)
	if modules > mostModules || lines > mostSums {
		t.Errorf("%d modules and %d lines of go.sum, at most %d and %d", modules, lines, mostModules, mostSums)
	}
	if modules < 5 {
		t.Error("the graph has not been loaded")
	}
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
