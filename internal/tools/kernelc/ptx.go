package main

import (
	"regexp"
	"strconv"
	"strings"
)

// An entry is the text of one kernel in a PTX module.
type entry struct {
	name    string
	text    string
	threads int // of a block, by the launch bounds; 0 if there are none
}

var (
	entryLine   = regexp.MustCompile(`(?m)^(?:\.visible )?\.entry ([\w$]+)\(`)
	boundsLine  = regexp.MustCompile(`\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?`)
	instruction = regexp.MustCompile(`(?m)^\s*(?:\{\s*)?(?:@!?%?\w+\s+)?([a-z][\w.:]*)\s[^;\n]*;`)
)

// entries returns the kernels of a module. A body ends at the first brace that begins a line.
func entries(ptx string) []entry {
	var all []entry
	for _, m := range entryLine.FindAllStringSubmatchIndex(ptx, -1) {
		e := entry{name: ptx[m[2]:m[3]], text: ptx[m[0]:]}
		if end := strings.Index(e.text, "\n}"); end >= 0 {
			e.text = e.text[:end+2]
		}
		if b := boundsLine.FindStringSubmatch(e.text); b != nil {
			e.threads = 1
			for _, n := range b[1:] {
				if n, err := strconv.Atoi(n); err == nil {
					e.threads *= n
				}
			}
		}
		all = append(all, e)
	}
	return all
}

// mnemonics returns the instructions of PTX without operands, such as "add.rn.f32", in order.
func mnemonics(ptx string) []string {
	var all []string
	for line := range strings.SplitSeq(strings.ReplaceAll(ptx, ";", ";\n"), "\n") {
		if m := instruction.FindStringSubmatch(line); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}
