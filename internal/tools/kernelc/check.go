package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// thoroughness is how much a check does.
type thoroughness struct {
	part   int    // compile one unit of so many
	seed   string // which ones: another seed, others
	before string // of a part: the file of an earlier manifest; units whose images it does not have are compiled, too
	texts  int    // of a part: assemble so many texts that are not on record
	again  bool   // assemble what is on record, too
	frozen bool   // do not write the record; the whole must be on it
	only   string // look at kernels with such names alone, and neither at the record nor at the images
}

// check compiles, compares with the images on disk, passes the gates and prints the table.
func (p *project) check(w io.Writer, how thoroughness) error {
	sources, all, limits, err := p.read()
	if err != nil {
		return err
	}
	known, err := p.readRecord()
	if err != nil {
		return err
	}
	var others []*unit
	if how.before != "" {
		earlier, err := os.ReadFile(how.before)
		if err != nil {
			return err
		}
		have, err := p.readImages()
		if err != nil {
			return err
		}
		others = fresh(all, have, string(earlier), how.seed)
	}
	units := choose(all, how.part, how.seed, others)
	if how.only != "" {
		units = slices.DeleteFunc(units, func(u *unit) bool {
			fits, _ := filepath.Match(how.only, u.name)
			return !fits
		})
	}
	if err := p.compile(units, forGates); err != nil {
		return err
	}
	g := &gates{budget: limits}
	g.listed(all)
	for _, u := range units {
		g.unit(u)
	}
	switch {
	case how.only != "":
	case how.part > 1:
		err = p.assembleSome(w, g, all, known, how)
	default:
		err = p.assembleAll(g, sources, units, known, how)
	}
	if err != nil {
		return err
	}
	expected, err := p.readPredictions()
	if err != nil {
		return err
	}
	g.expected(expected, all)
	rows, err := p.machineCode(g, units, known, expected)
	if err != nil {
		return err
	}
	g.inTime(expected)
	printTable(w, rows)
	printPredictions(w, expected)
	fmt.Fprintf(w, "%d of %d images compiled again\n", len(units), len(all))
	if len(g.faults) > 0 {
		var text strings.Builder
		for _, f := range g.faults {
			fmt.Fprintln(&text, f)
		}
		return fmt.Errorf("%d faults, which docs/KERNEL-IMAGES.md explains:\n%s", len(g.faults), text.String())
	}
	if how.only != "" {
		return nil
	}
	return p.compare(sources, all, units, limits)
}

// choose returns one unit of n, by the seed, and the given others.
func choose(all []*unit, n int, seed string, others []*unit) []*unit {
	var chosen []*unit
	for _, u := range all {
		if n <= 1 || lot(u, seed)%uint32(n) == 0 || slices.Contains(others, u) {
			chosen = append(chosen, u)
		}
	}
	return chosen
}

// fresh returns units with images that an earlier manifest does not have, some of them where they are many.
func fresh(all []*unit, have *images.Manifest, earlier, seed string) []*unit {
	const most = 16
	isNew := func(m *images.Image) bool { return !strings.Contains(earlier, m.Sum) }
	var some []*unit
	for _, u := range all {
		if slices.ContainsFunc(imagesOf(have, u), isNew) {
			some = append(some, u)
		}
	}
	slices.SortFunc(some, func(a, b *unit) int { return cmp.Compare(lot(a, seed), lot(b, seed)) })
	return some[:min(most, len(some))]
}

// lot is the number that a unit draws.
func lot(u *unit, seed string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, u.name+" "+seed)
	return h.Sum32()
}

// unit passes what the compiler made of a unit through the gates.
func (g *gates) unit(u *unit) {
	for _, v := range u.source.virtuals() {
		g.ptx(u.name, v, string(u.code[v]))
		free := map[string]string{}
		for _, e := range entries(u.contracted[v]) {
			free[e.name] = e.text
		}
		for _, e := range entries(string(u.code[v])) {
			g.contraction(e.name, v, e.text, free[e.name])
		}
	}
	for _, target := range u.source.targets {
		if log, ok := u.logs[target]; ok {
			g.log(log, target, u.symbols)
			functions, _ := readLog(log)
			for name, f := range functions {
				g.registers(name, target, f.registers)
			}
		}
	}
}

// machineCode passes the instructions of all cubins through the gates and returns the rows of the table.
func (p *project) machineCode(g *gates, units []*unit, known record, expected []*prediction) ([]row, error) {
	type job struct {
		*unit
		target string
	}
	var jobs []job
	for _, u := range units {
		for _, target := range u.source.targets {
			if strings.HasPrefix(target, "sm_") {
				jobs = append(jobs, job{u, target})
			}
		}
	}
	var rows []row
	var mu sync.Mutex
	err := parallel(len(jobs), func(i int) error {
		u, target := jobs[i].unit, jobs[i].target
		text, err := p.nvdisasm(u.code[target])
		if err != nil {
			return fmt.Errorf("%s for %s: %w", u.name, target, err)
		}
		code := readSass(text)
		functions, _ := readLog(u.logs[target])
		mu.Lock()
		defer mu.Unlock()
		for _, e := range entries(string(u.code[u.source.virtuals()[0]])) {
			l := g.budget.of(e.name)
			g.sass(e.name, target, code[e.name], e.text)
			r := newRow(e.name, target, functions[e.name], e.threads, code[e.name], l, known.of(u, e.name))
			g.way(&r)
			for _, p := range expected {
				if p.kernel == e.name && machines[target] != nil {
					g.predict(p, &r, code[e.name])
				}
			}
			rows = append(rows, r)
		}
		return nil
	})
	return rows, err
}

// assembleSome assembles some of the texts that are not on record, so that a change of a few kernels is looked at when
// it is made, and one of many in passing.
func (p *project) assembleSome(w io.Writer, g *gates, all []*unit, known record, how thoroughness) error {
	have, err := p.readImages()
	if err != nil {
		return err
	}
	var fresh []*unit
	for _, u := range all {
		if u.code == nil { // not compiled again: the images have its PTX, unless it is for one chip alone
			u.code = map[string][]byte{}
			for _, m := range imagesOf(have, u) {
				if u.code[m.Target], err = m.Code(); err != nil {
					return err
				}
			}
		}
		for _, v := range u.source.virtuals() {
			if u.code[v] != nil && !known.has(u, v, textHash(u.code[v])) {
				fresh = append(fresh, u)
				break
			}
		}
	}
	slices.SortFunc(fresh, func(a, b *unit) int { return cmp.Compare(lot(a, how.seed), lot(b, how.seed)) })
	some := fresh[:min(how.texts, len(fresh))]
	passed, err := p.assemble(g, some, known)
	if err != nil {
		return err
	}
	if !how.frozen {
		maps.Copy(known, passed)
		if err := writeFile(p.recordFile(), []byte(known.String())); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%d of %d kernels are not on record; %d of them assembled (make kernels-check does all)\n",
		len(fresh), len(all), len(some))
	return nil
}

// assembleAll assembles the units family by family, so that a run that is interrupted keeps what it has.
func (p *project) assembleAll(g *gates, sources []*source, all []*unit, known record, how thoroughness) error {
	done := record{}
	for _, s := range sources {
		var family []*unit
		for _, u := range all {
			if u.source == s {
				family = append(family, u)
			}
		}
		for part := range slices.Chunk(family, 32) {
			trusted := known
			if how.again {
				trusted = record{}
			}
			fresh, err := p.assemble(g, part, trusted)
			if err != nil {
				return err
			}
			maps.Copy(done, fresh)
			if !how.frozen {
				maps.Copy(known, fresh)
				if err := writeFile(p.recordFile(), []byte(known.String())); err != nil {
					return err
				}
			}
		}
	}
	text := []byte(done.String())
	if !how.frozen {
		return writeFile(p.recordFile(), text)
	}
	if have, err := os.ReadFile(p.recordFile()); err != nil || !bytes.Equal(have, text) {
		return errors.New("assembled.txt is not of these kernels: run make kernels-check and commit it")
	}
	return nil
}

// compare holds the images on disk against the sources: all by the hashes of their sources, and those of the given
// units, which are compiled, by their code.
func (p *project) compare(sources []*source, all, units []*unit, limits budget) error {
	have, err := p.readImages()
	if err != nil {
		return err
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := sound(have, sources); err != nil {
		faults = append(faults, err)
	}
	known := 0
	for _, u := range all {
		images := imagesOf(have, u)
		known += len(images)
		if !current(have, u, images) {
			fault("%s: the images are not of the source as it is now", u.name)
		}
		for _, m := range images {
			if code, ok := u.code[m.Target]; ok && sum(code) != m.Sum {
				fault("%s: the image for %s is not what the source gives", u.name, m.Target)
			}
			registers := 0
			for _, symbol := range m.Symbols {
				if l := limits.of(symbol); l != nil {
					registers = max(registers, l.registers)
				}
			}
			if registers != m.Registers {
				fault("%s: the manifest has a budget of %d registers, budget.txt %d", u.name, m.Registers, registers)
			}
		}
	}
	if known != len(have.Images) {
		fault("%d images are of no kernel", len(have.Images)-known)
	}
	text, err := os.ReadFile(filepath.Join(p.images(), "z_packs.go"))
	if err != nil || !bytes.Equal(text, embedding(have)) {
		fault("z_packs.go is not of the manifest")
	}
	if len(faults) > 0 {
		return fmt.Errorf("run make kernels:\n%w", errors.Join(faults...))
	}
	return nil
}

// sound tells whether the images on disk are whole, and of the sources as they are now. It needs no compiler.
func sound(have *images.Manifest, sources []*source) error {
	var stale []string
	now := map[string]bool{}
	for _, s := range sources {
		now[s.family] = true
		if have.Sources[s.family] != s.hash {
			stale = append(stale, s.family)
		}
	}
	for family := range have.Sources {
		if !now[family] {
			stale = append(stale, family)
		}
	}
	if have.Compiler != compiler {
		stale = append(stale, "the compiler")
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		return fmt.Errorf("changed since the images were made: %s", strings.Join(stale, ", "))
	}
	for _, m := range have.Images {
		if _, err := m.Code(); err != nil {
			return err
		}
	}
	return nil
}
