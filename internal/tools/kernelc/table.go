package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A row is what the table tells about a cubin.
type row struct {
	kernel, target    string
	registers, budget int
	shared            int // static and dynamic
	threads, blocks   int
	limit             string         // what keeps more blocks away
	elsewhere         map[string]int // blocks on the other GPUs that run this code or its like
	path              *path
}

// newRow computes a row. The record has the registers of other GPUs; it is nil where they are not known.
func newRow(name, target string, f *figures, threads int, ops []sassOp, l *limit, known *assembled) row {
	r := row{kernel: name, target: target, threads: threads, elsewhere: map[string]int{}}
	most := 0
	if f != nil {
		r.registers, r.shared = f.registers, f.shared
	}
	if l != nil {
		most = l.bytes
		r.budget = l.registers
		r.shared += l.dynamic
	}
	r.path = fullPath(ops, most)
	r.blocks, r.limit = resident(target, r.threads, r.registers, r.shared)
	for _, other := range runsAs[target] {
		if l != nil && l.gpus != nil && !slices.Contains(l.gpus, other) {
			continue
		}
		registers := r.registers
		if target == "sm_90" {
			if known == nil {
				continue
			}
			registers = known.registers[other]
		}
		r.elsewhere[other], _ = resident(other, r.threads, registers, r.shared)
	}
	return r
}

// warps is how many are resident on a multiprocessor.
func (r *row) warps(target string) int {
	blocks := r.blocks
	if target != r.target {
		blocks = r.elsewhere[target]
	}
	return blocks * ((r.threads + warpSize - 1) / warpSize)
}

// flight is the number of bytes that the resident threads of a multiprocessor have requested, in the mean, when they
// wait; -1 if they wait for none, or nothing is known of the target.
func (r *row) flight(target string) int {
	if _, known := r.elsewhere[target]; !known && target != r.target || r.path == nil || r.path.waits == 0 {
		return -1
	}
	return int(float64(r.path.loaded*warpSize*r.warps(target)) / r.path.waits)
}

// printTable prints rows by kernel and target.
func printTable(w io.Writer, rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.target, b.target))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\ttarget\tregisters\tbudget\tshared\tthreads\tblocks/SM\twarps\tlimited by\telsewhere\t"+
		"code KB\tper element\twidth\tflight KB\tshare\t")
	for _, r := range rows {
		var elsewhere []string
		for _, other := range slices.Sorted(maps.Keys(r.elsewhere)) {
			elsewhere = append(elsewhere, fmt.Sprintf("%s:%d", strings.TrimPrefix(other, "sm_"), r.elsewhere[other]))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", r.kernel, r.target, r.registers, r.budget,
			r.shared, r.threads, r.blocks, r.warps(r.target), r.limit, cmp.Or(strings.Join(elsewhere, " "), "-"),
			r.pathColumns())
	}
	t.Flush()
}

func (r *row) pathColumns() string {
	if r.path == nil {
		return "-\t-\t-\t-\t-\t"
	}
	element, flight, share := "-", "-", "-"
	if n := r.path.perElement(elementSize(r.kernel)); n > 0 {
		element = fmt.Sprintf("%.1f", n)
	}
	if n := r.flight(r.target); n >= 0 {
		flight = fmt.Sprintf("%.1f", float64(n)/1024)
	}
	if m := machines[r.target]; m != nil {
		share = fmt.Sprintf("%.2f", m.share(r.path, r.warps(r.target)))
	}
	return fmt.Sprintf("%.1f\t%s\t%d\t%s\t%s\t", float64(instructionBytes*r.path.code)/1024, element, r.path.width,
		flight, share)
}
