package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A fault is what a gate found wrong. The table of docs/KERNEL-IMAGES.md tells what to do about each.
type fault struct {
	gate   string // such as "spill"
	kernel string
	where  string // target or assembler; "" if it is the same everywhere
	what   string
}

func (f fault) String() string {
	if f.where == "" {
		return fmt.Sprintf("%s: %s: %s", f.gate, f.kernel, f.what)
	}
	return fmt.Sprintf("%s: %s (%s): %s", f.gate, f.kernel, f.where, f.what)
}

// gates collects the faults of kernels under a budget.
type gates struct {
	budget budget
	faults []fault
}

func (g *gates) fail(gate, kernel, where, format string, args ...any) {
	f := fault{gate, kernel, where, fmt.Sprintf(format, args...)}
	if !slices.Contains(g.faults, f) {
		g.faults = append(g.faults, f)
	}
}

// listed: each kernel has a budget, and each budget a kernel.
func (g *gates) listed(units []*unit) {
	for _, u := range units {
		for _, symbol := range u.symbols {
			if g.budget.of(symbol) == nil {
				g.fail("listed", symbol, "", "it has no line in budget.txt")
			}
		}
	}
	for _, pattern := range g.budget.unused() {
		g.fail("listed", pattern, "", "budget.txt has a line for it, and there is no such kernel")
	}
}

// expected: each prediction is of a kernel.
func (g *gates) expected(all []*prediction, units []*unit) {
	for _, e := range all {
		if !slices.ContainsFunc(units, func(u *unit) bool { return slices.Contains(u.symbols, e.kernel) }) {
			g.fail("listed", e.kernel, "", "predictions.txt has a line for it, and there is no such kernel")
		}
	}
}

// log: what an assembler says about the kernels of a text, and about functions that they call. where names assembler
// and target. It tells whether there was nothing to object to.
func (g *gates) log(log, where string, kernels []string) bool {
	before := len(g.faults)
	functions, odd := readLog(log)
	for _, remark := range odd {
		g.fail("remark", strings.Join(kernels, " "), where, "%s", remark)
	}
	for _, name := range kernels {
		if functions[name] == nil || functions[name].registers == 0 {
			g.fail("log", name, where, "the assembler does not say what it uses")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		if f.stores+f.loads > 0 {
			g.fail("spill", name, where, "%d bytes of stores and %d of loads for spilled registers", f.stores, f.loads)
		}
		if f.stack > 0 {
			g.fail("local", name, where, "%d bytes of local memory", f.stack)
		}
	}
	return len(g.faults) == before
}

// registers: of a thread, within the budget.
func (g *gates) registers(name, where string, n int) {
	if l := g.budget.of(name); l != nil && n > l.registers {
		g.fail("registers", name, where, "%d registers, budget %d", n, l.registers)
	}
}

// unrounded are the instructions that an assembler may fuse to multiply-adds, as they do not say how to round.
var unrounded = regexp.MustCompile(`^(add|sub|mul|mad)\.((ftz|sat|noftz)\.)*(f16|f16x2|bf16|bf16x2|f32|f32x2|f64)$`)

// ptx: the text of a module.
func (g *gates) ptx(name, where, text string) {
	var allowed []string
	if l := g.budget.of(name); l != nil {
		allowed = l.allow
	}
	for _, op := range mnemonics(text) {
		if slices.Contains(allowed, op) {
			continue
		}
		if unrounded.MatchString(op) {
			g.fail("rounding", name, where, "%s does not say how it rounds: write __fadd_rn and the like", op)
		}
		if strings.Contains(op, ".ftz") {
			g.fail("subnormals", name, where, "%s flushes subnormal numbers to zero", op)
		}
	}
	for _, m := range sharedArray.FindAllStringSubmatch(text, -1) {
		if align, _ := strconv.Atoi(m[1]); align < 16 {
			g.fail("alignment", name, where, "shared memory %s is aligned to %d bytes, not 16", m[2], align)
		}
	}
	if strings.Contains(text, "__local_depot") || localArray.MatchString(text) {
		g.fail("local", name, where, "variables in local memory")
	}
}

var (
	sharedArray = regexp.MustCompile(`(?m)^\s*(?:\.\w+ )*\.shared \.align (\d+) [^;\n]*?([\w$]+)\[[^;\n]*;`)
	localArray  = regexp.MustCompile(`(?m)^\s*(?:\.\w+ )*\.local `)
)

// contraction: a compiler that may fuse must not find anything to fuse. Both texts are of the same kernel.
func (g *gates) contraction(name, where, separate, free string) {
	written, fused := fusedOps(separate), fusedOps(free)
	for _, op := range slices.Sorted(maps.Keys(fused)) {
		if fused[op] != written[op] {
			g.fail("contraction", name, where,
				"%d %s, and %d where the compiler may contract: write each operation with its rounding",
				written[op], op, fused[op])
		}
	}
}

func fusedOps(ptx string) map[string]int {
	n := map[string]int{}
	for _, op := range mnemonics(ptx) {
		if strings.HasPrefix(op, "fma.") {
			n[op]++
		}
	}
	return n
}

// composed are PTX instructions that an assembler makes of several, with multiply-adds among them.
var composed = regexp.MustCompile(`^(fma|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)\.`)

// sass: the instructions of a cubin. ptx is the text it comes from.
func (g *gates) sass(name, target string, ops []sassOp, ptx string) {
	for _, op := range []string{"LDL", "STL"} {
		if n := counts(ops, op); n > 0 {
			g.fail("local", name, target, "%d instructions %s", n, op)
		}
	}
	if !slices.ContainsFunc(mnemonics(ptx), composed.MatchString) {
		for _, op := range []string{"FFMA", "DFMA"} {
			if n := counts(ops, op); n > 0 {
				g.fail("contraction", name, target, "%d instructions %s, and no fma in the PTX", n, op)
			}
		}
	}
	l := g.budget.of(name)
	if l == nil {
		return
	}
	for _, must := range l.must {
		if !slices.ContainsFunc(ops, func(o sassOp) bool { return o.is(must) }) {
			g.fail("instructions", name, target, "no %s", must)
		}
	}
}

// way: the path on which all elements exist, and the blocks that are resident.
func (g *gates) way(r *row) {
	l := g.budget.of(r.kernel)
	if l == nil {
		return
	}
	g.blocks(r.kernel, r.target, r.target, r.blocks)
	for target, blocks := range r.elsewhere {
		g.blocks(r.kernel, r.target, target, blocks)
	}
	if r.path == nil {
		if l.element > 0 || l.width > 0 || l.flight > 0 || l.code > 0 {
			g.fail("path", r.kernel, r.target, "no path moves elements, and the budget has limits for it")
		}
		return
	}
	if n := r.path.perElement(elementSize(r.kernel)); l.element > 0 && n > l.element {
		g.fail("element", r.kernel, r.target, "%.1f instructions for each element, budget %g", n, l.element)
	}
	if r.path.width < l.width {
		g.fail("width", r.kernel, r.target, "most bytes move in accesses of %d bytes, budget %d", r.path.width, l.width)
	}
	if n := instructionBytes * r.path.code; l.code > 0 && n > l.code {
		g.fail("code", r.kernel, r.target, "%d bytes of code, budget %d", n, l.code)
	}
	for _, target := range []string{r.target, "sm_100"} {
		if n := r.flight(target); n >= 0 && n < l.flight {
			g.fail("flight", r.kernel, target, "a multiprocessor waits for %d bytes at once, budget %d", n, l.flight)
		}
	}
}

// blocks: how many fit on a multiprocessor of a target. Where that has fewer threads than most, as many fewer may fit.
func (g *gates) blocks(name, where, target string, blocks int) {
	l := g.budget.of(name)
	if l == nil {
		return
	}
	if least := max(1, l.blocks*multiprocessors[target].warps/64); blocks < least {
		g.fail("occupancy", name, where, "%d blocks on a multiprocessor of %s, budget %d", blocks, target, least)
	}
}
