package main

import (
	"regexp"
	"slices"
	"strings"
)

// A sassOp is a machine instruction, as nvdisasm writes it.
type sassOp struct {
	predicate string // such as "@!P0"; instructions without one are always executed
	name      string // such as "LDG.E.128.CONSTANT"
	operands  string
	target    int // of a branch, as an index into the instructions; -1 if there is none
}

var (
	sassLine  = regexp.MustCompile(`^\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);`)
	sassLabel = regexp.MustCompile(`^(\.L_\w+):`)
	sassJump  = regexp.MustCompile("`\\((\\.L_\\w+)\\)")
)

var sassSection = regexp.MustCompile(`(?m)^\s*\.section\s+\.text\.([\w$]+),.*$`)

// readSass returns the instructions of each kernel of a cubin.
func readSass(text string) map[string][]sassOp {
	kernels := map[string][]sassOp{}
	begins := sassSection.FindAllStringSubmatchIndex(text, -1)
	for i, m := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		kernels[text[m[2]:m[3]]] = readOps(text[m[1]:end])
	}
	return kernels
}

// readOps returns the instructions of one kernel, without the padding at the end.
func readOps(text string) []sassOp {
	var ops []sassOp
	labels := map[string]int{}
	for line := range strings.Lines(text) {
		if m := sassLabel.FindStringSubmatch(line); m != nil {
			labels[m[1]] = len(ops)
		} else if m := sassLine.FindStringSubmatch(line); m != nil {
			ops = append(ops, sassOp{m[1], m[2], strings.TrimSpace(m[3]), -1})
		}
	}
	for i := range ops {
		if m := sassJump.FindStringSubmatch(ops[i].operands); m != nil && ops[i].is("BRA") {
			if at, ok := labels[m[1]]; ok {
				ops[i].target = at
			}
		}
	}
	end := len(ops)
	for end > 0 && (ops[end-1].is("NOP") || ops[end-1].target == end-1) {
		end--
	}
	return ops[:end]
}

// is tells whether an instruction has a name, perhaps with modifiers behind it.
func (o *sassOp) is(name string) bool {
	return strings.HasPrefix(o.name, name) && (len(o.name) == len(name) || o.name[len(name)] == '.')
}

// counts tells how often instructions with a name occur.
func counts(ops []sassOp, name string) int {
	n := 0
	for i := range ops {
		if ops[i].is(name) {
			n++
		}
	}
	return n
}

// next returns where a thread may go from an instruction.
func next(ops []sassOp, i int) []int {
	var to []int
	o := &ops[i]
	ends := o.is("EXIT") || o.is("BRA") || o.is("RET")
	if (!ends || o.predicate != "") && i+1 < len(ops) {
		to = append(to, i+1)
	}
	if o.target >= 0 && o.target < len(ops) && !slices.Contains(to, o.target) {
		to = append(to, o.target)
	}
	return to
}
