package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// fakeAssemblers is a project whose assemblers say what they would of goodPTX, but for the version and the target
// given, where they say something else.
func fakeAssemblers(t *testing.T, version, target, old, new string) *project {
	t.Helper()
	p := &project{root: t.TempDir()}
	for _, dir := range []string{p.toolchain(), p.images()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.toolchain(), name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", goodLog, 0o644)
	write("bad", strings.ReplaceAll(goodLog, old, new), 0o644)
	for _, a := range assemblers {
		script := "#!/bin/sh\ncd " + p.toolchain() + "\necho x >>calls\ncase $2 in\n-arch=" + target + ") cat " +
			map[bool]string{true: "bad", false: "good"}[a.version == version] + " ;;\n*) cat good ;;\nesac\n"
		write("ptxas-"+a.version, script, 0o755)
	}
	return p
}

// calls is how often assemblers of p ran since calls was called.
func (p *project) calls(t *testing.T) int {
	t.Helper()
	file := filepath.Join(p.toolchain(), "calls")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	os.Remove(file)
	return strings.Count(string(text), "\n")
}

// scaleUnit is a unit that was compiled to goodPTX.
func scaleUnit() *unit {
	s := &source{family: "scale", hash: "aa", targets: []string{"compute_80"}}
	return &unit{source: s, name: "scale_f32", symbols: []string{"scale_f32"},
		code: map[string][]byte{"compute_80": []byte(goodPTX)}}
}

// Every text goes through its assemblers for all their targets, once; a fault under one keeps it off the record.
func TestAssemble(t *testing.T) {
	const tensor = "// mma.sync\n"
	for _, c := range []struct{ add, version, target, old, new, want string }{
		{"", "", "", "", "", ""},
		{tensor, "", "", "", "", ""},
		{"", "12.8", "sm_100", "0 bytes spill stores", "8 bytes spill stores", "spill: scale_f32 (ptxas 12.8 sm_100)"},
		{tensor, "12.6", "sm_90a", "ptxas info    : Compile time",
			"ptxas info    : (C7510) wgmma is serialized\nptxas info    : Compile time",
			"remark: scale_f32 (ptxas 12.6 sm_90a)"},
	} {
		p := fakeAssemblers(t, c.version, c.target, c.old, c.new)
		u := scaleUnit()
		u.code["compute_80"] = append([]byte(c.add), goodPTX...)
		every := 4
		if c.add == tensor {
			every = 31
		}
		g := &gates{}
		known, err := p.assemble(g, []*unit{u}, record{})
		if err != nil {
			t.Fatal(err)
		}
		if n := p.calls(t); n != every {
			t.Errorf("%q: %d calls, want %d", c.want, n, every)
		}
		if good := c.want == ""; known.has(u, "compute_80", textHash(u.code["compute_80"])) != good ||
			good != (len(g.faults) == 0) {
			t.Errorf("%q: record %v, faults %v", c.want, known, g.faults)
		}
		if c.want != "" {
			if len(g.faults) != 1 || !strings.HasPrefix(g.faults[0].String(), c.want) {
				t.Errorf("faults %v, want %s", g.faults, c.want)
			}
			continue
		}
		if known.of(u, "scale_f32") == nil {
			t.Error("a kernel is not on record")
		}
		if _, err := p.assemble(g, []*unit{u}, known); err != nil || p.calls(t) != 0 {
			t.Errorf("what is on record is assembled again: %v", err)
		}
		u.code["compute_80"] = []byte(c.add + goodPTX + "\n")
		if known.of(u, "scale_f32") != nil {
			t.Error("the record of another text is taken")
		}
		if _, err := p.assemble(g, []*unit{u}, known); err != nil || p.calls(t) != every {
			t.Errorf("another text is not assembled: %v", err)
		}
	}
}

// The most registers under any assembler count, for what is on record, too.
func TestAssembledRegisters(t *testing.T) {
	p := fakeAssemblers(t, "13.0", "sm_120", "Used 24", "Used 40")
	u := scaleUnit()
	limits, err := parseBudget("scale_f32 registers=32\n")
	if err != nil {
		t.Fatal(err)
	}
	known := record{}
	for range 2 {
		g := &gates{budget: limits}
		if known, err = p.assemble(g, []*unit{u}, known); err != nil {
			t.Fatal(err)
		}
		if len(g.faults) != 1 || !strings.HasPrefix(g.faults[0].String(),
			"registers: scale_f32 (compute_80 as sm_120): 40 registers, budget 32") {
			t.Errorf("faults %v", g.faults)
		}
	}
}

// The lane assembles what is not on record, up to a number, from the PTX of the images.
func TestAssembleSome(t *testing.T) {
	p := fakeAssemblers(t, "12.8", "sm_120", "0 bytes spill loads", "4 bytes spill loads")
	u := scaleUnit()
	m := &images.Manifest{Compiler: compiler, Sources: map[string]string{"scale": "aa"},
		Images: []*images.Image{newImage(u, "compute_80")}}
	pack(t, m, goodPTX)
	if err := p.write(m); err != nil {
		t.Fatal(err)
	}
	hash := textHash(u.code["compute_80"])
	for _, c := range []struct {
		known record
		texts int
		want  int
	}{
		{record{}, 8, 1},
		{record{}, 0, 0},
		{record{"scale_f32 compute_80": {hash, nil}}, 8, 0},
		{record{"scale_f32 compute_80": {"other", nil}}, 8, 1},
	} {
		u.code = nil
		g := &gates{}
		if err := p.assembleSome(io.Discard, g, []*unit{u}, c.known,
			thoroughness{part: 12, texts: c.texts, frozen: true}); err != nil {
			t.Fatal(err)
		}
		if len(g.faults) != c.want {
			t.Errorf("%v, %d texts: faults %v, want %d", c.known, c.texts, g.faults, c.want)
		}
	}
	if _, err := os.Stat(p.recordFile()); err == nil {
		t.Error("a frozen record is written")
	}
}

// A record that is not complete fails a frozen check, and is written by others.
func TestFrozen(t *testing.T) {
	p := fakeAssemblers(t, "", "", "", "")
	u := scaleUnit()
	check := func(how thoroughness) error {
		known, err := p.readRecord()
		if err != nil {
			t.Fatal(err)
		}
		return p.assembleAll(&gates{}, []*source{u.source}, []*unit{u}, known, how)
	}
	frozen := thoroughness{frozen: true}
	if err := check(frozen); err == nil || !strings.Contains(err.Error(), "run make kernels-check and commit it") {
		t.Errorf("no record: %v", err)
	}
	if err := check(thoroughness{}); err != nil {
		t.Fatal(err)
	}
	if err := check(frozen); err != nil {
		t.Errorf("a complete record: %v", err)
	}
	p.calls(t)
	if err := check(thoroughness{again: true}); err != nil || p.calls(t) == 0 {
		t.Errorf("-again trusts the record: %v", err)
	}
	u.code["compute_80"] = []byte(goodPTX + "\n")
	if err := check(frozen); err == nil {
		t.Error("another text passes")
	}
}
