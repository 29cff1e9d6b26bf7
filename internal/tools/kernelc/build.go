package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// build compiles what has changed and writes all images.
func (p *project) build() error {
	sources, units, limits, err := p.read()
	if err != nil {
		return err
	}
	old, err := p.readImages()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kernelc: all images are made anew:", err)
		old = &images.Manifest{}
	}
	m := &images.Manifest{Compiler: compiler, Sources: map[string]string{}}
	for _, s := range sources {
		m.Sources[s.family] = s.hash
	}
	codes := map[*images.Image][]byte{}
	keep := func(u *unit) {
		for _, g := range imagesOf(old, u) {
			g.Text = u.text
			m.Images = append(m.Images, g)
		}
	}
	var changed []*unit
	for _, u := range units {
		have := imagesOf(old, u)
		whole := true
		for _, g := range have {
			codes[g], err = g.Code()
			whole = whole && err == nil
		}
		if whole && current(old, u, have) {
			keep(u)
		} else {
			changed = append(changed, u)
		}
	}
	// A header seldom changes a kernel. Where the PTX is that of before, so are the cubins.
	if err := p.compile(changed, func(u *unit) []string { return u.source.of("compute_") }); err != nil {
		return err
	}
	var unlike []*unit
	for _, u := range changed {
		if samePTX(old, u) {
			keep(u)
		} else {
			unlike = append(unlike, u)
		}
	}
	if err := p.compile(unlike, func(u *unit) []string { return u.source.of("sm_") }); err != nil {
		return err
	}
	for _, u := range unlike {
		for _, target := range u.source.targets {
			g := newImage(u, target)
			codes[g] = u.code[target]
			m.Images = append(m.Images, g)
		}
	}
	sortImages(m.Images)
	if err := setRegisters(m.Images, unlike, limits); err != nil {
		return err
	}
	if err := images.Pack(m.Images, func(g *images.Image) ([]byte, error) { return codes[g], nil }); err != nil {
		return err
	}
	return p.write(m)
}

// read reads what images are made from.
func (p *project) read() ([]*source, []*unit, budget, error) {
	sources, err := p.readSources()
	if err != nil {
		return nil, nil, nil, err
	}
	units, err := p.units(sources)
	if err != nil {
		return nil, nil, nil, err
	}
	limits, err := p.readBudget()
	return sources, units, limits, err
}

// imagesOf returns the images of a unit.
func imagesOf(m *images.Manifest, u *unit) []*images.Image {
	var all []*images.Image
	for _, g := range m.Images {
		if g.Family == u.source.family && slices.Equal(g.Symbols, u.symbols) {
			all = append(all, g)
		}
	}
	return all
}

// current tells whether images are those of a unit as its source is now. It needs no compiler.
func current(m *images.Manifest, u *unit, have []*images.Image) bool {
	targets := slices.Clone(u.source.targets)
	for _, g := range have {
		i := slices.Index(targets, g.Target)
		if i < 0 || g.Text != u.text {
			return false
		}
		targets = slices.Delete(targets, i, i+1)
	}
	return len(targets) == 0 && m.Compiler == compiler && m.Sources[u.source.family] == u.source.hash
}

// samePTX tells whether the images of a unit have the PTX that its source gives now, and so would have the cubins, too:
// sources that look at the architecture may differ in these alone.
func samePTX(m *images.Manifest, u *unit) bool {
	have := imagesOf(m, u)
	texts := u.source.of("compute_")
	for _, v := range texts {
		if !slices.ContainsFunc(have, func(g *images.Image) bool { return g.Target == v && g.Sum == sum(u.code[v]) }) {
			return false
		}
	}
	return len(texts) > 0 && len(have) == len(u.source.targets) && m.Compiler == compiler && !u.source.arch
}

func newImage(u *unit, target string) *images.Image {
	return &images.Image{Family: u.source.family, Symbols: u.symbols, Target: target, Sum: sum(u.code[target]),
		Text: u.text}
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func sortImages(all []*images.Image) {
	slices.SortFunc(all, func(a, b *images.Image) int {
		if c := strings.Compare(a.Family, b.Family); c != 0 {
			return c
		}
		if c := strings.Compare(a.Symbols[0], b.Symbols[0]); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
}

// setRegisters gives images their budget. Kernels without one are reported as lines for budget.txt, with what they
// use now.
func setRegisters(all []*images.Image, compiled []*unit, limits budget) error {
	use := map[string]int{}
	for _, u := range compiled {
		for _, log := range u.logs {
			functions, _ := readLog(log)
			for name, f := range functions {
				use[name] = max(use[name], f.registers)
			}
		}
	}
	var missing []string
	for _, g := range all {
		g.Registers = 0
		for _, symbol := range g.Symbols {
			if l := limits.of(symbol); l != nil {
				g.Registers = max(g.Registers, l.registers)
			} else if line := fmt.Sprintf("%s registers=%d", symbol, use[symbol]); !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("kernels without a line in budget.txt: add one with limits and run this again; they use\n%s",
			strings.Join(missing, "\n"))
	}
	return nil
}

// readImages reads the manifest and the packs that are on disk.
func (p *project) readImages() (*images.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(p.images(), "manifest.txt"))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(p.images(), "*.pack"))
	if err != nil {
		return nil, err
	}
	packs := map[string][]byte{}
	for _, file := range files {
		if packs[strings.TrimSuffix(filepath.Base(file), ".pack")], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return images.Parse(string(text), packs)
}

// write writes packs, manifest and the Go file that embeds them, each at once, and removes packs of families that are
// no more.
func (p *project) write(m *images.Manifest) error {
	folder := p.images()
	packs := packsOf(m.Images)
	for family, pack := range packs {
		if err := writeFile(filepath.Join(folder, family+".pack"), pack); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(folder, "manifest.txt"), []byte(m.Lines())); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(folder, "z_packs.go"), embedding(m)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.pack"))
	for _, file := range files {
		if _, ok := packs[strings.TrimSuffix(filepath.Base(file), ".pack")]; !ok {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

func packsOf(all []*images.Image) map[string][]byte {
	packs := map[string][]byte{}
	for _, g := range all {
		packs[g.Family] = append(packs[g.Family], g.Packed...)
	}
	return packs
}

// writeFile replaces a file that has other contents.
func writeFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	fresh := name + ".new"
	if err := os.WriteFile(fresh, data, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, name)
}

// embedding is the Go file that puts the packs into programs.
func embedding(m *images.Manifest) []byte {
	var variables, table strings.Builder
	var family string
	for _, g := range m.Images {
		if g.Family == family {
			continue
		}
		family = g.Family
		name := goName(family)
		fmt.Fprintf(&variables, "\t//go:embed %s.pack\n\t%s []byte\n", family, name)
		fmt.Fprintf(&table, "\t%q: %s,\n", family, name)
	}
	text := "// Code generated by make kernels. DO NOT EDIT.\n\npackage images\n\nimport _ \"embed\"\n\nvar (\n" +
		variables.String() + ")\n\nvar packs = map[string][]byte{\n" + table.String() + "}\n"
	formatted, err := format.Source([]byte(text))
	if err != nil {
		panic(err) // family names are letters, digits and underscores
	}
	return formatted
}

// goName is the variable of a family: packMatmulTensor for matmul_tensor.
func goName(family string) string {
	name := "pack"
	for part := range strings.SplitSeq(family, "_") {
		if part != "" {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return name
}
