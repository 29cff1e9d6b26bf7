package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project is a checkout of the repository, or for tests a folder like it.
type project struct {
	root  string
	cache *cache // of what compilers made; may be nil
}

func (p *project) sources() string   { return filepath.Join(p.root, "kernels/cuda/src") }
func (p *project) images() string    { return filepath.Join(p.root, "kernels/cuda/images") }
func (p *project) toolchain() string { return filepath.Join(p.root, "build/cuda") }

// source is a file of kernels, a family.
type source struct {
	family  string   // the file without .cu
	hash    string   // of the file and all that it includes, in hexadecimal
	targets []string // of its images
	arch    bool     // it looks at the architecture that it is compiled for

	generated []*unit // of a family whose texts are written by a program, in place of a file
}

// defaultTargets are those of a file that does not say "// targets: ..." in a line of its own.
var defaultTargets = []string{"sm_80", "sm_90", "compute_80"}

var (
	targetsLine = regexp.MustCompile(`(?m)^// targets: (.*)$`)
	includeLine = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)
	targetName  = regexp.MustCompile(`^(sm|compute)_[0-9]+a?$`)
)

// readSources returns all families.
func (p *project) readSources() ([]*source, error) {
	files, err := filepath.Glob(filepath.Join(p.sources(), "*.cu"))
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, file := range files {
		s, err := readSource(p.sources(), filepath.Base(file))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no kernels in %s", p.sources())
	}
	s, err := p.readPointwise()
	return append(all, s), err
}

func readSource(dir, file string) (*source, error) {
	files, err := included(dir, file)
	if err != nil {
		return nil, err
	}
	s := newSource(strings.TrimSuffix(file, ".cu"), files)
	if m := targetsLine.FindStringSubmatch(files[file]); m != nil {
		s.targets = strings.Fields(m[1])
	}
	for _, target := range s.targets {
		if !targetName.MatchString(target) {
			return nil, fmt.Errorf("%s: no such target: %s", file, target)
		}
	}
	return s, nil
}

// newSource is a family of the given files.
func newSource(family string, files map[string]string) *source {
	s := &source{family: family, hash: hashFiles(files), targets: defaultTargets}
	for _, text := range files {
		s.arch = s.arch || strings.Contains(text, "__CUDA_ARCH__")
	}
	return s
}

// of are the targets of a kind, "sm_" or "compute_".
func (s *source) of(kind string) []string {
	return slices.DeleteFunc(slices.Clone(s.targets), func(target string) bool {
		return !strings.HasPrefix(target, kind)
	})
}

// included returns the contents of a file and of all files that it includes and that are in its folder.
func included(dir, file string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	return includedBy(dir, file, string(text))
}

// includedBy returns a text, by a name, and the files of a folder that it includes. The host side of prim.cuh includes
// others, which the GPU never sees.
func includedBy(dir, name, text string) (map[string]string, error) {
	files := map[string]string{name: text}
	for todo := []string{text}; len(todo) > 0; todo = todo[1:] {
		for _, m := range includeLine.FindAllStringSubmatch(todo[0], -1) {
			if _, done := files[m[1]]; done {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, m[1]))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			files[m[1]] = string(text)
			todo = append(todo, string(text))
		}
	}
	return files, nil
}

func hashFiles(files map[string]string) string {
	h := sha256.New()
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(h, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// virtuals are the virtual architectures whose PTX the gates assemble for a file: those of its PTX images, and
// compute_90a if there is a cubin for sm_90a.
func (s *source) virtuals() []string {
	var all []string
	for _, target := range s.targets {
		v := target
		if number, cubin := strings.CutPrefix(target, "sm_"); cubin && strings.HasSuffix(number, "a") {
			v = "compute_" + number
		}
		if strings.HasPrefix(v, "compute_") && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
