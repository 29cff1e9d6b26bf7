package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// vendor is the prefix of the names of processes that measure PyTorch.
const vendor = "vendor "

// collect reads the figures that a process printed, even if it was ended early: lines of a name and an object.
func collect(figures map[string]figure, file string) {
	text, _ := os.ReadFile(file) // none where the process could not start
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, " {")
		var f figure
		if json.Unmarshal([]byte("{"+value), &f) == nil && f.Time != 0 {
			figures[name] = f
		}
	}
}

// summary compares the figures of all lines with their targets and the vendor's figures: a table for people, in
// FOLDER/summary.txt, and one line of results. A target that is missed is no failure of a process.
func (c *check) summary() {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "line\tus\tmeasured\tof copy\tpredicted\tof vendor\ttarget\tmet")
	n, _ := sizes(c.small)
	values := map[string]figure{}
	met, known, targets := 0, 0, 0
	for _, family := range families {
		if family.lines == nil {
			continue
		}
		for _, l := range family.lines(n) {
			f, measured := c.weft[l.name]
			if v, ok := c.vendor[l.name]; ok && measured {
				f.Vendor = v.Time / f.Time
			}
			f = f.compare(l.target)
			f.Predicted = predicted[l.name]
			values[l.name] = f
			want, verdict := "", ""
			if l.target != (target{}) {
				targets++
				want, verdict = fmt.Sprintf("%.4g of %s", l.target.least, l.target.of), "unknown"
				if l.target.of == "TFLOP/s" {
					want = fmt.Sprintf("%.4g TFLOP/s", l.target.least)
				}
			}
			if f.Met != nil {
				known++
				verdict = "NO"
				if *f.Met {
					met++
					verdict = "yes"
				}
			}
			if !measured {
				fmt.Fprintf(w, "%s\t\tnot measured\t\t%s\t\t%s\t%s\n", l.name, f.expected(), want, verdict)
				continue
			}
			speed := fmt.Sprintf("%.0f GB/s", f.GBs)
			if l.flops > 0 {
				speed = fmt.Sprintf("%.1f TFLOP/s", f.TFLOPs)
			}
			fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\n",
				l.name, f.Time, speed, ratio(f.Copy), f.expected(), ratio(f.Vendor), want, verdict)
		}
	}
	w.Flush()
	fmt.Fprintf(&text, "%d of %d targets met, %d missed, %d unknown\n", met, targets, known-met, targets-known)
	if c.small {
		fmt.Fprintln(&text, "This is a rehearsal: its figures mean nothing.")
	}
	c.table = text.String()
	file := filepath.Join(c.out, "summary.txt")
	if err := os.WriteFile(file, []byte(c.table), 0o666); err != nil {
		c.note("summary", err.Error())
		return
	}
	line, err := json.Marshal(values)
	if err != nil {
		c.note("summary", err.Error())
		return
	}
	c.write(result{Stage: c.stage, Name: "summary", OK: true, Output: file, Values: line, GPU: c.gpu})
}

// ratio formats a ratio; it is empty if the ratio was not measured.
func ratio(r float64) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}
