package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// numbered is the start of names that NVRTC makes with the number of its process, unless that is 1 as in src/nvrtc.c:
// their length is then 43.
var numbered = regexp.MustCompile(`_ZN(?:4[4-9]|5\d)_INTERNAL_\d{8}_10_program_cu_[0-9a-f]{8}_\d+`)

// TestImages holds the committed images against the sources, by hashes.
func TestImages(t *testing.T) {
	p := &project{root: "../../.."}
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
	generated := 0
	for _, s := range sources {
		for _, u := range s.generated {
			generated++
			if !current(have, u, imagesOf(have, u)) {
				t.Errorf("%s: the images are not of the source as it is now: run make kernels", u.name)
			}
		}
	}
	if generated < 400 {
		t.Errorf("%d generated kernels", generated)
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
		if name := numbered.Find(code); name != nil {
			t.Errorf("the image of %s for %s has the number of a process in %s", m.Symbols[0], m.Target, name)
		}
	}
	if len(images.All()) != len(have.Images) {
		t.Errorf("programs have %d images, the folder %d", len(images.All()), len(have.Images))
	}
}

// TestSound plants faults into a set of images.
func TestSound(t *testing.T) {
	sources := []*source{{family: "scale", hash: "aa", targets: []string{"compute_80"}}}
	u := &unit{source: sources[0], symbols: []string{"scale_f32"},
		code: map[string][]byte{"compute_80": []byte(goodPTX)}}
	fresh := func() *images.Manifest {
		m := &images.Manifest{Compiler: compiler, Sources: map[string]string{"scale": "aa"},
			Images: []*images.Image{newImage(u, "compute_80")}}
		pack(t, m, goodPTX)
		return m
	}
	if err := sound(fresh(), sources); err != nil {
		t.Errorf("good images: %v", err)
	}
	for want, plant := range map[string]func(m *images.Manifest){
		"changed since the images were made: scale":        func(m *images.Manifest) { m.Sources["scale"] = "bb" },
		"changed since the images were made: gone":         func(m *images.Manifest) { m.Sources["gone"] = "cc" },
		"changed since the images were made: the compiler": func(m *images.Manifest) { m.Compiler = "nvrtc 11" },
		"the code is not that of the manifest":             func(m *images.Manifest) { pack(t, m, "other") },
		"image scale_f32 for compute_80: ": func(m *images.Manifest) {
			m.Images[0].Packed = m.Images[0].Packed[:20]
		},
	} {
		m := fresh()
		plant(m)
		if err := sound(m, sources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// pack gives images codes.
func pack(t *testing.T, m *images.Manifest, codes ...string) {
	t.Helper()
	err := images.Pack(m.Images,
		func(g *images.Image) ([]byte, error) { return []byte(codes[slices.Index(m.Images, g)]), nil })
	if err != nil {
		t.Fatal(err)
	}
}

// TestPack: images in a row are compressed with those before them, and each can be had alone.
func TestPack(t *testing.T) {
	m := &images.Manifest{Sources: map[string]string{"scale": "aa"}}
	var codes []string
	noise := rand.NewChaCha8([32]byte{})
	common := make([]byte, 1000)
	noise.Read(common)
	for i := range 40 {
		code := fmt.Sprint(i) + string(common)
		m.Images = append(m.Images,
			&images.Image{Family: "scale", Symbols: []string{fmt.Sprint("k", i)},
				Target: []string{"sm_80", "sm_90"}[i%2], Sum: sum([]byte(code))})
		codes = append(codes, code)
	}
	pack(t, m, codes...)
	packs := packsOf(m.Images)
	if n := len(packs["scale"]); n > 10*len(common) { // a row of 8 needs the common part once
		t.Errorf("%d bytes", n)
	}
	back, err := images.Parse("compiler c\n"+m.Lines(), packs)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range back.Images {
		if code, err := g.Code(); string(code) != codes[i] {
			t.Errorf("image %d: %d bytes, %v", i, len(code), err)
		}
	}
	back.Images[0].Packed[20] ^= 1
	if _, err := back.Images[2].Code(); err == nil {
		t.Error("an image behind a damaged one is good")
	}
}

// TestManifest writes and reads a manifest, and reads damaged ones.
func TestManifest(t *testing.T) {
	s := &source{family: "scale", targets: []string{"compute_80", "sm_80"}}
	u := &unit{source: s, symbols: []string{"a", "b"}, text: "cc",
		code: map[string][]byte{"compute_80": []byte("one"), "sm_80": []byte("two")}}
	m := &images.Manifest{Compiler: "nvrtc", Sources: map[string]string{"scale": "aa"},
		Images: []*images.Image{newImage(u, "compute_80"), newImage(u, "sm_80")}}
	m.Images[1].Registers = 7
	pack(t, m, "one", "two")
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
	for _, other := range []map[string]string{{"a.cu": "x", "b.cuh": "z"}, {"a.cu": "x"}, {"a.cu": "xy", "b.cuh": ""},
		{"a.cu": "x", "c.cuh": "y"}} {
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

// TestChoose: parts of a check cover everything in time.
func TestChoose(t *testing.T) {
	var all []*unit
	for i := range 300 {
		all = append(all, &unit{name: strings.Repeat("k", 1+i)})
	}
	if n := len(choose(all, 1, "", nil)); n != 300 {
		t.Errorf("%d of 300 in the whole", n)
	}
	seen := map[*unit]bool{}
	for seed := range 40 {
		part := choose(all, 6, fmt.Sprint(seed), all[7:9])
		if n := len(part); n < 20 || n > 90 {
			t.Errorf("%d of 300 in a sixth", n)
		}
		if !slices.Contains(part, all[7]) || !slices.Contains(part, all[8]) {
			t.Error("units that must be there are not")
		}
		for _, u := range part {
			seen[u] = true
		}
	}
	if len(seen) < 290 {
		t.Errorf("%d of 300 in 40 sixths", len(seen))
	}
}

// TestFresh: units are fresh while the earlier manifest lacks one of their images.
func TestFresh(t *testing.T) {
	u := &unit{source: &source{family: "scale"}, symbols: []string{"scale_f32"}}
	m := &images.Manifest{}
	for _, sum := range []string{"aa", "bb"} {
		m.Images = append(m.Images, &images.Image{Family: "scale", Symbols: u.symbols, Target: sum, Sum: sum})
	}
	for earlier, want := range map[string]int{"image aa\nimage bb\n": 0, "image aa\n": 1, "": 1} {
		if got := fresh([]*unit{u}, m, earlier, ""); len(got) != want {
			t.Errorf("behind %q: %d units, want %d", earlier, len(got), want)
		}
	}
	if n := len(fresh(slices.Repeat([]*unit{u}, 40), m, "", "")); n != 16 {
		t.Errorf("%d of 40 units", n)
	}
}

// TestSamePTX: cubins are kept where the PTX is that of before, and nothing else may decide about them.
func TestSamePTX(t *testing.T) {
	s := &source{family: "scale", targets: []string{"compute_80", "sm_80"}}
	u := &unit{source: s, symbols: []string{"scale_f32"},
		code: map[string][]byte{"compute_80": []byte(goodPTX), "sm_80": []byte("cubin")}}
	m := &images.Manifest{Compiler: compiler, Images: []*images.Image{newImage(u, "compute_80"), newImage(u, "sm_80")}}
	if !samePTX(m, u) {
		t.Error("the same PTX is another")
	}
	for what, plant := range map[string]func(m *images.Manifest, s *source, u *unit){
		"text":         func(m *images.Manifest, s *source, u *unit) { u.code["compute_80"] = []byte("other") },
		"no text":      func(m *images.Manifest, s *source, u *unit) { delete(u.code, "compute_80") },
		"compiler":     func(m *images.Manifest, s *source, u *unit) { m.Compiler = "nvrtc 11" },
		"architecture": func(m *images.Manifest, s *source, u *unit) { s.arch = true },
		"target": func(m *images.Manifest, s *source,
			u *unit) {
			s.targets = append(slices.Clone(s.targets), "sm_90")
		},
		"name": func(m *images.Manifest, s *source, u *unit) { u.symbols = []string{"scale_f16"} },
	} {
		m, s, u := *m, *s, *u
		u.source, u.code = &s, maps.Clone(u.code)
		delete(u.code, "sm_80")
		plant(&m, &s, &u)
		if samePTX(&m, &u) {
			t.Errorf("another %s: cubins are kept", what)
		}
	}
}
