package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A limit is a line of budget.txt: what a kernel may use and what it must have, on every target.
type limit struct {
	pattern   string
	used      bool
	registers int      // of a thread, at most
	blocks    int      // on a multiprocessor, at least, on the targets of cubins
	dynamic   int      // bytes of dynamic shared memory that the kernel is launched with
	bytes     int      // the limits below are for the full path that moves this many at most; 0 is any number
	element   float64  // instructions for each element, at most; 0 for any number
	width     int      // bytes of most accesses, at least
	flight    int      // bytes that the threads of a multiprocessor have requested when they wait, at least
	code      int      // bytes of the instructions on the path, at most; 0 for any number
	must      []string // machine instructions that a cubin must have, such as HMMA
	gpus      []string // the only ones on which the kernel is launched; none is all
	allow     []string // PTX instructions that the gates of rounding and of subnormals let pass
}

type budget []*limit

func (p *project) readBudget() (budget, error) {
	text, err := os.ReadFile(filepath.Join(p.images(), "budget.txt"))
	if err != nil {
		return nil, err
	}
	return parseBudget(string(text))
}

// parseBudget reads lines such as
//
//	matmul_half_*_f16  registers=128 blocks=2 dynamic=65536 must=HMMA,LDSM
//
// The first pattern that fits a kernel is its budget. A # begins a comment.
func parseBudget(text string) (budget, error) {
	var b budget
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		l := &limit{pattern: fields[0]}
		if _, err := filepath.Match(l.pattern, ""); err != nil {
			return nil, fmt.Errorf("budget: %s: %w", l.pattern, err)
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			if err := l.set(key, value); err != nil {
				return nil, fmt.Errorf("budget: %s: %s: %w", l.pattern, field, err)
			}
		}
		if l.registers == 0 {
			return nil, fmt.Errorf("budget: %s has no registers=", l.pattern)
		}
		b = append(b, l)
	}
	return b, nil
}

func (l *limit) set(key, value string) (err error) {
	switch key {
	case "registers", "blocks", "dynamic", "bytes", "width", "flight", "code":
		*map[string]*int{"registers": &l.registers, "blocks": &l.blocks, "dynamic": &l.dynamic, "bytes": &l.bytes,
			"width": &l.width, "flight": &l.flight, "code": &l.code}[key], err = strconv.Atoi(value)
	case "element":
		l.element, err = strconv.ParseFloat(value, 64)
	case "must":
		l.must = strings.Split(value, ",")
	case "gpus":
		l.gpus = strings.Split(value, ",")
	case "allow":
		l.allow = strings.Split(value, ",")
	default:
		return fmt.Errorf("no such limit")
	}
	return err
}

// of returns the budget of a kernel, or nil.
func (b budget) of(kernel string) *limit {
	for _, l := range b {
		if fits, _ := filepath.Match(l.pattern, kernel); fits {
			l.used = true
			return l
		}
	}
	return nil
}

// unused returns the patterns that were the budget of no kernel.
func (b budget) unused() []string {
	var all []string
	for _, l := range b {
		if !l.used {
			all = append(all, l.pattern)
		}
	}
	return all
}
