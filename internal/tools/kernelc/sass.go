package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A sassOp is a machine instruction, as nvdisasm writes it.
type sassOp struct {
	predicate string // such as "@!P0"; instructions without one are always executed
	name      string // such as "LDG.E.128.CONSTANT"
	operands  string
	targets   []int // of a branch, as indices of instructions
}

var (
	sassLine  = regexp.MustCompile(`^\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);`)
	sassLabel = regexp.MustCompile(`^(\.L_\w+):`)
	sassJump  = regexp.MustCompile(`\.L_\w+`)
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
			ops = append(ops, sassOp{m[1], m[2], strings.TrimSpace(m[3]), nil})
		}
	}
	for i := range ops {
		if ops[i].branches() {
			for _, label := range sassJump.FindAllString(ops[i].operands, -1) {
				if at, ok := labels[label]; ok && at < len(ops) {
					ops[i].targets = append(ops[i].targets, at)
				}
			}
		}
	}
	end := len(ops)
	for end > 0 && (ops[end-1].is("NOP") || slices.Equal(ops[end-1].targets, []int{end - 1})) {
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

// branches tells whether a thread may go on elsewhere than at the following instruction. BRA.DIV is taken only where
// the threads of a warp are not together, which is not asked for. Assemblers leave some loops by CALL.
func (o *sassOp) branches() bool {
	return o.is("BRA") && !o.is("BRA.DIV") || o.is("BRX") || o.is("BRXU") || o.is("EXIT") || o.is("RET") ||
		o.is("CALL") && strings.Contains(o.operands, "(.L_")
}

// continues tells whether a thread may go on at the following instruction. The condition of a branch is a predicate, or
// the first of two operands.
func (o *sassOp) continues() bool {
	return !o.branches() || o.predicate != "" || o.is("BRA") && strings.Contains(o.operands, ",")
}

// width is the number of bytes that an instruction moves between global memory and the registers of a thread.
func width(o *sassOp) int {
	if !o.is("LDG") && !o.is("STG") {
		return 0
	}
	for modifier := range strings.SplitSeq(o.name, ".") {
		switch modifier {
		case "U8", "S8":
			return 1
		case "U16", "S16":
			return 2
		case "64":
			return 8
		case "128":
			return 16
		}
	}
	return 4
}

// works tells whether an instruction computes with elements: in floating point, or by shared memory and shuffles.
// HFMA2 with the operand -RZ only sets registers.
func (o *sassOp) works() bool {
	return floating.MatchString(o.name) && !strings.Contains(o.operands, "-RZ") ||
		o.is("LDS") || o.is("STS") || o.is("SHFL")
}

var floating = regexp.MustCompile(`^(F|D|H)(ADD|MUL|FMA|MNMX|SETP|SET|SEL)2?(\.|$)`)

// products is how many multiply-adds an instruction does for a warp.
func products(o *sassOp) int {
	switch {
	case o.is("FFMA"):
		return warpSize
	case strings.HasPrefix(o.name, "HMMA.16816."):
		return 16 * 8 * 16
	case strings.HasPrefix(o.name, "HMMA.1688."):
		return 16 * 8 * 8
	}
	if m := groupProducts.FindStringSubmatch(o.name); m != nil {
		columns, _ := strconv.Atoi(m[1])
		return 16 * columns * 16
	}
	return 0
}

// groupProducts are wgmma, of which each of four warps does 16 rows.
var groupProducts = regexp.MustCompile(`^HGMMA\.64x(\d+)x16\.`)
