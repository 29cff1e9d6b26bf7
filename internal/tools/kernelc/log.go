package main

import (
	"fmt"
	"regexp"
	"strings"
)

// figures are what an assembler says about one function, in bytes but for the registers of a thread.
type figures struct {
	registers, shared    int
	stack, stores, loads int // local memory, and instructions that spill to it
}

var (
	entryRemark  = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	ofRemark     = regexp.MustCompile(`Function properties for (\S+)`)
	stackRemark  = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedRemark   = regexp.MustCompile(`Used (\d+) registers`)
	sharedRemark = regexp.MustCompile(`(\d+) bytes smem`)
	oddRemark    = regexp.MustCompile(`\(C\d{4}\)|\bwarning\b|\berror\b`)

	// A multiprocessor of 8.6, 8.9 and 12.0 has 1,536 threads, and launch bounds may ask for 2,048.
	harmless = regexp.MustCompile(`Value of threads per SM for entry \S+ is out of range`)
)

// readLog returns the figures of all functions in a log of ptxas -v, and the remarks that should not be there.
func readLog(log string) (functions map[string]*figures, odd []string) {
	functions = map[string]*figures{}
	of := func(name string) *figures {
		if functions[name] == nil {
			functions[name] = &figures{}
		}
		return functions[name]
	}
	var kernel, function *figures
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case entryRemark.MatchString(line):
			kernel = of(entryRemark.FindStringSubmatch(line)[1])
		case ofRemark.MatchString(line):
			function = of(ofRemark.FindStringSubmatch(line)[1])
		case stackRemark.MatchString(line) && function != nil:
			m := stackRemark.FindString(line)
			fmt.Sscanf(m, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &function.stack,
				&function.stores, &function.loads)
		case usedRemark.MatchString(line) && kernel != nil:
			fmt.Sscanf(usedRemark.FindString(line), "Used %d registers", &kernel.registers)
			fmt.Sscanf(sharedRemark.FindString(line), "%d bytes smem", &kernel.shared)
		case oddRemark.MatchString(line) && !harmless.MatchString(line):
			odd = append(odd, line)
		}
	}
	return functions, odd
}
