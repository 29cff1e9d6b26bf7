package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// A build with limited waits defines the limit, and changes the kernels that include waits, no others.
func TestLimit(t *testing.T) {
	if got := (&project{limit: 2 * time.Second}).limitOptions(); !slices.Equal(got,
		[]string{"--define-macro=WEFT_BARRIER_LIMIT=2000000000"}) {
		t.Errorf("options %v", got)
	}
	if got := (&project{}).limitOptions(); got != nil {
		t.Errorf("options without a limit: %v", got)
	}
	for file, want := range map[string]bool{"prim_hopper.cuh": true, "softmax.cu": false} {
		files, err := included("../../../kernels/cuda/src", file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unit{source: newSource("f", files)}
		if got := (&project{limit: time.Second}).limits(u); got != want {
			t.Errorf("%s with a limit: %v", file, got)
		}
		if (&project{}).limits(u) {
			t.Errorf("%s without a limit", file)
		}
	}
}

// The go command takes images with limited waits in place of those of the repository, which stay as they are.
func TestOverlay(t *testing.T) {
	p := &project{root: t.TempDir(), limit: 2 * time.Second}
	u := scaleUnit()
	manifest := func() *images.Manifest {
		m := &images.Manifest{Compiler: compiler, Sources: map[string]string{"scale": "aa"},
			Images: []*images.Image{newImage(u, "compute_80")}}
		pack(t, m, goodPTX)
		return m
	}
	if err := os.MkdirAll(p.images(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":                        "module example.org/m\n",
		"main.go":                       "package main\n\nimport \"example.org/m/kernels/cuda/images\"\n\nfunc main() { print(images.Manifest) }\n",
		"kernels/cuda/images/images.go": "package images\n\nimport _ \"embed\"\n\n//go:embed manifest.txt\nvar Manifest string\n",
	} {
		if err := os.WriteFile(filepath.Join(p.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.write(manifest(), p.images()); err != nil {
		t.Fatal(err)
	}
	if err := p.writeLimited(manifest(), 1); err != nil {
		t.Fatal(err)
	}
	for overlay, want := range map[string]bool{"": false, filepath.Join(p.limited(), "overlay.json"): true} {
		cmd := exec.Command("go", "run", "-overlay="+overlay, ".")
		cmd.Dir = p.root
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), compiler) {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "WEFT_BARRIER_LIMIT=2000000000") != want {
			t.Errorf("with overlay %q:\n%s", overlay, out)
		}
	}
}
