package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// A row is what the table tells about a cubin.
type row struct {
	kernel, target    string
	registers, budget int
	shared            int // static and dynamic
	threads, blocks   int
	limit             string // what keeps more blocks away
	instructions      int
	element           float64
}

func newRow(name, target string, f *figures, threads int, ops []sassOp, l *limit) row {
	r := row{kernel: name, target: target, threads: threads, instructions: len(ops),
		element: perElement(ops, elementSize(name))}
	if f != nil {
		r.registers, r.shared = f.registers, f.shared
	}
	if l != nil {
		r.budget = l.registers
		r.shared += l.dynamic
	}
	r.blocks, r.limit = resident(target, r.threads, r.registers, r.shared)
	return r
}

// printTable prints rows by kernel and target.
func printTable(w io.Writer, rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.target, b.target))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\ttarget\tregisters\tbudget\tshared\tthreads\tblocks/SM\twarps\t"+
		"limited by\tinstructions\tper element\t")
	for _, r := range rows {
		element := "-"
		if r.element > 0 {
			element = fmt.Sprintf("%.1f", r.element)
		}
		occupied := "-"
		if sm, ok := multiprocessors[r.target]; ok && r.threads > 0 {
			occupied = fmt.Sprintf("%d%%", 100*r.blocks*((r.threads+warpSize-1)/warpSize)/sm.warps)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%s\t\n", r.kernel, r.target, r.registers, r.budget,
			r.shared,
			r.threads, r.blocks, occupied, r.limit, r.instructions, element)
	}
	t.Flush()
}
