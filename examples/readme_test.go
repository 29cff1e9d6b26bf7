package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme does what the README tells new users, in an empty folder: its commands, and its program, which is
// hello/main.go. The module comes from this checkout.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	hello, err := os.ReadFile("hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(readme), "\n## First steps\n")
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(page)
	if !found || program == nil {
		t.Fatal("the README has no first steps with a program")
	}
	if program[1] != string(hello) {
		t.Errorf("the README's program is not hello/main.go:\n%s", program[1])
	}
	if n := strings.Count(program[1], "\n"); n > 40 {
		t.Errorf("the program has %d lines", n)
	}

	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program[1]), 0o666); err != nil {
		t.Fatal(err)
	}
	var out []byte
	commands := regexp.MustCompile(`(?m)^    (go \S.*?)(?: +#.*)?$`).FindAllStringSubmatch(page, 3)
	for i, c := range commands {
		args := strings.Fields(c[1])
		if i == 1 { // before it goes to the net
			replace := exec.Command("go", "mod", "edit", "-replace", "github.com/weft-ml/weft="+root)
			replace.Dir = dir
			if out, err := replace.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		// From the cache, where all is that this test was built with, and which this module's go.sum has checked.
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c[1], err, out)
		}
	}
	if len(commands) != 3 || !strings.Contains(string(out), "int64[3] [4 9 4]") {
		t.Errorf("%d commands; the last one prints %s", len(commands), out)
	}
}
