package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A unit is what becomes one image for each target: a kernel of a source file, or kernels of a generated text that
// are always loaded together.
type unit struct {
	source  *source
	name    string
	symbols []string // the entry points
	program string   // CUDA C
	options []string // beside those of all units
	text    string   // the hash of a generated text; "" for kernels of files

	code       map[string][]byte // by target: cubins, PTX of images, and PTX of the virtual architectures of the gates
	logs       map[string]string // by target: what the assembler said about a cubin
	contracted map[string]string // by virtual architecture: PTX, where the compiler was free to fuse
}

// A program includes a file with another KERNEL than that of prim.cuh, so that kernels which are not wanted become
// templates that nobody uses.
func program(family, kernel string) string {
	return "#include \"prim.cuh\"\n#undef KERNEL\n" + kernel + "#include \"" + family + ".cu\"\n"
}

// listing makes a variable of each kernel's name.
const listing = `#define KERNEL(name, threads, blocks) \
  extern "C" { __device__ int listed_##name; } \
  template <class Unused> __global__ void __launch_bounds__(threads, blocks) name
`

// alone makes an entry point of the kernel that ONLY_name is defined for, as ",CHOSEN".
const alone = `#define SECOND(first, second, ...) second
#define CHOOSE(...) SECOND(__VA_ARGS__)
#define CHOSEN extern "C"
#define NOT_CHOSEN template <class Unused>
#define KERNEL(name, threads, blocks) CHOOSE(ONLY_##name, NOT_CHOSEN, ) ` +
	`__global__ void __launch_bounds__(threads, blocks) name
`

var listed = regexp.MustCompile(`(?m)^(?:\.visible )?\.global .* listed_(\w+)`)

// units returns the units of all sources, in order, not yet compiled.
func (p *project) units(sources []*source) ([]*unit, error) {
	lists := make([][]*unit, len(sources))
	err := parallel(len(sources), func(i int) error {
		s := sources[i]
		if s.generated != nil {
			lists[i] = s.generated
			return nil
		}
		ptx, _, err := p.nvrtc(program(s.family, listing), s.virtuals()[0], options(false)...)
		if err != nil {
			return fmt.Errorf("%s.cu: %w", s.family, err)
		}
		for _, m := range listed.FindAllStringSubmatch(string(ptx), -1) {
			only := "--define-macro=ONLY_" + m[1] + "=,CHOSEN"
			lists[i] = append(lists[i],
				&unit{source: s, name: m[1], symbols: []string{m[1]}, program: program(s.family, alone),
					options: []string{only}})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(lists...)
	family := map[string]string{}
	for _, u := range all {
		if other := family[u.name]; other != "" {
			return nil, fmt.Errorf("kernel %s is in %s and in %s", u.name, other, u.source.family)
		}
		family[u.name] = u.source.family
	}
	return all, nil
}

// compile compiles units for targets. Remarks of the compiler are errors.
func (p *project) compile(units []*unit, targets func(*unit) []string) error {
	type job struct {
		*unit
		target     string
		contracted bool
		image      []byte
		log        string
	}
	var jobs []*job
	for _, u := range units {
		if u.code == nil {
			u.code, u.logs, u.contracted = map[string][]byte{}, map[string]string{}, map[string]string{}
		}
		for _, target := range targets(u) {
			target, contracted := strings.CutPrefix(target, contract)
			jobs = append(jobs, &job{unit: u, target: target, contracted: contracted})
		}
	}
	err := parallel(len(jobs), func(i int) (err error) {
		j := jobs[i]
		j.image, j.log, err = p.nvrtc(j.program, j.target, slices.Concat(options(j.contracted), j.options)...)
		if err == nil && strings.HasPrefix(j.target, "compute_") && j.log != "" {
			err = fmt.Errorf("nvrtc for %s: %s", j.target, j.log)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		switch {
		case j.contracted:
			j.unit.contracted[j.target] = string(j.image)
		case strings.HasPrefix(j.target, "sm_"):
			j.logs[j.target] = j.log
			fallthrough
		default:
			j.code[j.target] = j.image
		}
	}
	for _, u := range units {
		if err := u.checkSymbols(); err != nil {
			return err
		}
	}
	return nil
}

// contract before a target says that the compiler may fuse products and sums.
const contract = "contracted "

// forGates are the targets of a unit that the gates look at: those of its images, and PTX with and without contraction.
func forGates(u *unit) []string {
	targets := slices.Clone(u.source.targets)
	for _, v := range u.source.virtuals() {
		if !slices.Contains(targets, v) {
			targets = append(targets, v)
		}
		targets = append(targets, contract+v)
	}
	return targets
}

// checkSymbols looks into the PTX for the entry points: those expected and no others.
func (u *unit) checkSymbols() error {
	want := slices.Sorted(slices.Values(u.symbols))
	for target, code := range u.code {
		if !strings.HasPrefix(target, "compute_") {
			continue
		}
		var have []string
		for _, e := range entries(string(code)) {
			have = append(have, e.name)
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%s for %s has the kernels %v, not %v", u.name, target, have, want)
		}
	}
	return nil
}
