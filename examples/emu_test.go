//go:build emu && cuda && cgo && linux

package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

// timing are lines that differ from run to run, and those of the device and its memory.
var timing = regexp.MustCompile(`(?m)^(device|done:|memory:|step \d+/).*\n`)

// output runs a program and returns what it reports, without timing: JSON lines, then text for people.
func output(t *testing.T, binary, args string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-log", "json", "-hash"}, strings.Fields(args)...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", args, err, stderr.String())
	}
	var all strings.Builder
	for line := range strings.Lines(stdout.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for _, name := range []string{"rate", "seconds", "peak_allocated", "peak_reserved"} {
			delete(fields, name)
		}
		text, _ := json.Marshal(fields)
		all.Write(append(text, '\n'))
	}
	return all.String() + timing.ReplaceAllString(stderr.String(), "")
}

// TestCUDA runs the examples from the first step to the last metric on the emulated GPU. What they print is what they
// print on the CPU: losses, metrics, the hash of all weights, the text that the GPT writes. In short mode two run.
func TestCUDA(t *testing.T) {
	if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	corpus := filepath.Join(t.TempDir(), "corpus")
	text := strings.Repeat("the loom holds the warp and the weft goes over and under\n", 40)
	if err := os.WriteFile(corpus, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, args string }{
		{"mlp", "-epochs 1"},
		{"regression", "-epochs 1"},
		{"vae", "-epochs 1"},
		{"gan", "-steps 10"},
		{"lstm", "-steps 10 -sample 5"},
		{"chargpt", "-steps 10 -layers 2 -width 32 -heads 2 -context 16 -batch 2 -dropout 0.1 -sample 10 -data " +
			corpus},
	} {
		if testing.Short() && c.program != "mlp" && c.program != "chargpt" {
			continue
		}
		t.Run(c.program, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), c.program)
			out, err := exec.Command("go", "build", "-tags", "cuda", "-o", binary, "./"+c.program).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want, got := output(t, binary, "-device cpu "+c.args), output(t, binary, "-device cuda "+c.args)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(want, `"hash":`) || strings.Count(want, `"step"`) < 10 {
				t.Errorf("little is compared:\n%s", want)
			}
		})
	}
}
