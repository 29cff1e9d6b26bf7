package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// TestImages holds the committed images against the sources, by hashes.
func TestImages(t *testing.T) {
	p := &project{root: "../.."}
	sources, err := p.readSources()
	if err != nil {
		t.Fatal(err)
	}
	have, err := p.readImages()
	if err != nil {
		t.Fatal(err)
	}
	if err := sound(have, sources); err != nil {
		t.Error(err)
	}
	for _, m := range have.Images {
		code, err := m.Code()
		if err != nil {
			t.Fatal(err)
		}
		for _, symbol := range m.Symbols {
			if !bytes.Contains(code, []byte(symbol)) {
				t.Errorf("the image of %s for %s does not name it", symbol, m.Target)
			}
		}
		if cubin := bytes.HasPrefix(code, []byte("\x7fELF")); cubin != strings.HasPrefix(m.Target, "sm_") {
			t.Errorf("the image of %s for %s is of another kind", m.Symbols[0], m.Target)
		}
	}
	if len(images.All()) != len(have.Images) {
		t.Errorf("programs have %d images, the folder %d", len(images.All()), len(have.Images))
	}
}

// TestSound plants faults into a set of images.
func TestSound(t *testing.T) {
	sources := []*source{{family: "scale", hash: "aa", targets: []string{"compute_80"}}}
	u := &unit{source: sources[0], symbols: []string{"scale_f32"}, code: map[string][]byte{"compute_80": []byte(goodPTX)}}
	fresh := func() *images.Manifest {
		return &images.Manifest{Compiler: compiler, Sources: map[string]string{"scale": "aa"}, Images: []*images.Image{newImage(u, "compute_80")}}
	}
	if err := sound(fresh(), sources); err != nil {
		t.Errorf("good images: %v", err)
	}
	for want, plant := range map[string]func(m *images.Manifest){
		"changed since the images were made: scale":        func(m *images.Manifest) { m.Sources["scale"] = "bb" },
		"changed since the images were made: gone":         func(m *images.Manifest) { m.Sources["gone"] = "cc" },
		"changed since the images were made: the compiler": func(m *images.Manifest) { m.Compiler = "nvrtc 11" },
		"the code is not that of the manifest":             func(m *images.Manifest) { m.Images[0].Gzip = compress([]byte("other")) },
		"image scale_f32 for compute_80: ":                 func(m *images.Manifest) { m.Images[0].Gzip = m.Images[0].Gzip[:20] },
	} {
		m := fresh()
		plant(m)
		if err := sound(m, sources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestManifest writes and reads a manifest, and reads damaged ones.
func TestManifest(t *testing.T) {
	s := &source{family: "scale", targets: []string{"compute_80", "sm_80"}}
	u := &unit{source: s, symbols: []string{"a", "b"}, text: "cc", code: map[string][]byte{"compute_80": []byte("one"), "sm_80": []byte("two")}}
	m := &images.Manifest{Compiler: "nvrtc", Sources: map[string]string{"scale": "aa"}, Images: []*images.Image{newImage(u, "compute_80"), newImage(u, "sm_80")}}
	m.Images[1].Registers = 7
	packs := packsOf(m.Images)
	back, err := images.Parse(m.Lines(), packs)
	if err != nil || back.Lines() != m.Lines() {
		t.Fatalf("%v: read back\n%s", err, back.Lines())
	}
	for i, want := range []string{"one", "two"} {
		if code, err := back.Images[i].Code(); string(code) != want {
			t.Errorf("image %d is %q (%v), want %q", i, code, err, want)
		}
	}
	for want, lines := range map[string]string{
		"ends before the image of a": strings.Replace(m.Lines(), "a,b compute_80 ", "a,b compute_80 9", 1),
		"bytes more than its images": "family scale aa\n",
		"manifest: picture":          "picture a\n",
		"manifest: image a x y":      "image a x y\n",
		"manifest: image a x":        "family scale aa\nimage a x many 1 ss\n",
	} {
		if _, err := images.Parse(lines, packs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestSources: what a file includes is part of its hash, and it may name its targets.
func TestSources(t *testing.T) {
	a := hashFiles(map[string]string{"a.cu": "x", "b.cuh": "y"})
	for _, other := range []map[string]string{{"a.cu": "x", "b.cuh": "z"}, {"a.cu": "x"}, {"a.cu": "xy", "b.cuh": ""}, {"a.cu": "x", "c.cuh": "y"}} {
		if hashFiles(other) == a {
			t.Errorf("%v has the hash of other files", other)
		}
	}
	s, err := readSource("testdata/src", "hopper.cu")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.targets, " ") + ", " + strings.Join(s.virtuals(), " "); got != "sm_90a, compute_90a" {
		t.Errorf("targets and virtual architectures: %s", got)
	}
	files, err := included("testdata/src", "hopper.cu")
	if err != nil || len(files) != 2 {
		t.Errorf("%d files: %v", len(files), err)
	}
	if _, err := readSource("testdata/src", "wrong.cu"); err == nil {
		t.Error("a target that is none is taken")
	}
}

// TestChoose: parts of a check cover everything in time, and change with the sources.
func TestChoose(t *testing.T) {
	var all []*unit
	s := &source{hash: "aa"}
	for i := range 300 {
		all = append(all, &unit{source: s, name: strings.Repeat("k", 1+i)})
	}
	if n := len(choose(all, 1)); n != 300 {
		t.Errorf("%d of 300 in the whole", n)
	}
	before := choose(all, 6)
	if n := len(before); n < 20 || n > 90 {
		t.Errorf("%d of 300 in a sixth", n)
	}
	s.hash = "bb"
	if after := choose(all, 6); len(after) == len(before) && after[0] == before[0] && after[1] == before[1] {
		t.Error("other sources, the same part")
	}
}
