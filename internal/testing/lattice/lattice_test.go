package lattice

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

//go:embed lattice.txt
var text string

const module = "github.com/weft-ml/weft"

// TestLattice holds lattice.txt against the imports of all packages of the module, as seen from
// each kind of processor, with CUDA and its emulator. Generators are modules of their own and no part of it.
func TestLattice(t *testing.T) {
	imports := map[string][]string{}
	for _, env := range [][]string{
		{"GOARCH=amd64"}, {"GOARCH=arm64"}, {"GOOS=linux", "CGO_ENABLED=1", "GOFLAGS=-tags=cuda,emu"},
	} {
		list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")
		list.Env = append(os.Environ(), env...)
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			imports[fields[0]] = append(imports[fields[0]], fields[1:]...)
		}
	}
	if len(imports) == 0 {
		t.Fatal("go list found no packages")
	}
	for _, fault := range check(text, imports) {
		t.Error(fault)
	}
}

// A rule is a line of lattice.txt.
type rule struct {
	path string // without the module, perhaps with /...
	may  []string
	used bool
}

// covers tells whether a package is the one of a path or, where the path ends in /..., below it.
func covers(path, pkg string) bool {
	if below, ok := strings.CutSuffix(path, "..."); ok {
		return strings.HasPrefix(pkg, below)
	}
	return pkg == path
}

// check returns what is wrong with the lattice itself and with the packages, given by their full
// import paths, that it describes.
func check(lattice string, imports map[string][]string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	rules, closed := parse(lattice, fault)
	isClosed := func(pkg string) bool {
		return slices.ContainsFunc(closed, func(path string) bool { return covers(path, pkg) })
	}
	pkgs := make([]string, 0, len(imports))
	for pkg := range imports {
		pkgs = append(pkgs, pkg)
	}
	slices.Sort(pkgs)
	for _, pkg := range pkgs {
		name := local(pkg)
		r := find(rules, name)
		if r == nil {
			fault("package %s has no line in lattice.txt", name)
			continue
		}
		r.used = true
		deps := slices.Clone(imports[pkg])
		slices.Sort(deps)
		for _, dep := range slices.Compact(deps) {
			if !standard(dep) && !slices.Contains(r.may, local(dep)) {
				fault("package %s may not import %s", name, local(dep))
			}
			if isClosed(local(dep)) && !isClosed(name) {
				fault("package %s imports %s, which is closed to it", name, local(dep))
			}
		}
	}
	for _, r := range rules {
		if !r.used {
			fault("lattice.txt has a line for %s, which does not exist", r.path)
		}
	}
	return faults
}

// parse reads the rules and the closed paths, and reports names that no earlier line has.
func parse(lattice string, fault func(format string, args ...any)) (rules []*rule, closed []string) {
	for line := range strings.Lines(lattice) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if path, ok := strings.CutPrefix(line, "closed "); ok {
			closed = append(closed, path)
			continue
		}
		path, may, ok := strings.Cut(line, ":")
		if !ok {
			fault("lattice.txt: no colon in %q", line)
			continue
		}
		r := &rule{path: path, may: strings.Fields(may)}
		for _, dep := range r.may {
			earlier := slices.ContainsFunc(rules, func(r *rule) bool { return r.path == dep })
			if dep != "C" && !external(dep) && !earlier {
				fault("lattice.txt: %s names %s, which has no line before it", path, dep)
			}
		}
		if slices.ContainsFunc(rules, func(r *rule) bool { return r.path == path }) {
			fault("lattice.txt has two lines for %s", path)
		}
		rules = append(rules, r)
	}
	return rules, closed
}

// find returns the rule for a package: its own, or the first pattern that covers it, or nil.
func find(rules []*rule, name string) (pattern *rule) {
	for _, r := range rules {
		if r.path == name {
			return r
		}
		if pattern == nil && covers(r.path, name) {
			pattern = r
		}
	}
	return pattern
}

// local is an import path without this module's.
func local(path string) string { return strings.TrimPrefix(path, module+"/") }

// external tells a path of another module from one inside this one, written without the module:
// the former begins with a domain name.
func external(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

// standard tells whether a full import path belongs to the standard library. Cgo does not: which
// package may use it is part of the lattice.
func standard(path string) bool { return path != "C" && !external(path) }

// TestCheck plants one fault of each kind and sees it caught.
func TestCheck(t *testing.T) {
	const good = `
		# a comment
		a:
		a/b: a example.org/x
		cgo: C
		cmd/...: a a/b
		cmd/special: a
		closed tool/...
		tool/one:
		tool/two: tool/one
		wrong: tool/one
	`
	packages := func() map[string][]string {
		return map[string][]string{
			module + "/a":           {"fmt", "net/http"},
			module + "/a/b":         {"fmt", module + "/a", "example.org/x"},
			module + "/cgo":         {"C", "unsafe"},
			module + "/cmd/one":     {module + "/a/b"},
			module + "/cmd/special": {module + "/a"},
			module + "/tool/one":    {"fmt"},
			module + "/tool/two":    {module + "/tool/one"},
			module + "/wrong":       {"fmt"},
		}
	}
	for _, c := range []struct {
		name    string
		lattice string
		pkg     string // gets one more import
		dep     string
		want    []string
	}{
		{name: "nothing wrong", lattice: good},
		{"import against the order", good, "a", module + "/a/b", []string{"package a may not import a/b"}},
		{"import beside the pattern", good, "cmd/special", module + "/a/b", []string{
			"package cmd/special may not import a/b"}},
		{"other module", good, "a", "example.org/x", []string{"package a may not import example.org/x"}},
		{"part of an allowed path", good, "a/b", "example.org/x/y", []string{
			"package a/b may not import example.org/x/y"}},
		{"tool in a program", good, "wrong", module + "/tool/one", []string{
			"package wrong imports tool/one, which is closed to it"}},
		{"cgo", good, "a", "C", []string{"package a may not import C"}},
		{"package without a line", good, "new", "fmt", []string{"package new has no line in lattice.txt"}},
		{"line without a package", good + "gone: a\n", "a", "os", []string{
			"lattice.txt has a line for gone, which does not exist"}},
		{"pattern without a package", good + "gone/...: a\n", "a", "os", []string{
			"lattice.txt has a line for gone/..., which does not exist"}},
		{"order", strings.Replace(good, "a:", "a: a/b", 1), "a", "os", []string{
			"lattice.txt: a names a/b, which has no line before it"}},
		{"twice", good + "a:\n", "a", "os", []string{
			"lattice.txt has two lines for a", "lattice.txt has a line for a, which does not exist"}},
		{"no colon", good + "b\n", "a", "os", []string{`lattice.txt: no colon in "b"`}},
	} {
		imports := packages()
		if c.pkg != "" {
			imports[module+"/"+c.pkg] = append(imports[module+"/"+c.pkg], c.dep)
		}
		if got := check(c.lattice, imports); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
