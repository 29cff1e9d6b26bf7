// Size prints how many lines each package has, and fails where they are more than internal/tools/size/budget.txt
// allows. It counts files in Go, assembly, C and CUDA that are written by hand, without tests, all of their lines; the
// total is that of the library, without programs, tools and tests. In tests too it looks for lines over 120 columns,
// where a tab counts 4, and for functions over 80 lines that are no tables. Run it in the root of the module:
//
//	go run ./internal/tools/size [-update]
//
// With -update it lowers the budget to what there is now and adds packages that are new. A budget is raised by hand, in
// the commit that needs it and with a reason behind the number.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
)

const file = "internal/tools/size/budget.txt"

func main() {
	update := flag.Bool("update", false, "lower the budget to what there is now")
	flag.Parse()
	if err := run(os.Stdout, *update); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, update bool) error {
	t, err := count(".")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b, err := parseBudget(string(text))
	if err != nil {
		return err
	}
	if update {
		b.lower(t)
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	t.print(w, b)
	faults := b.check(t)
	for _, f := range faults {
		fmt.Fprintln(w, f)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d faults: shorten, or raise %s with a reason", len(faults), file)
	}
	return nil
}

// print writes the table of packages, group by group.
func (t *tally) print(w io.Writer, b *budget) {
	limit := func(name string) string {
		if e := b.find(name); e != nil {
			return fmt.Sprint(e.limit)
		}
		return "none"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tgroup\tlines\tbudget")
	for _, pkg := range slices.SortedFunc(maps.Keys(t.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(group(a), group(b)), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", pkg, group(pkg), t.lines[pkg], limit("package "+pkg))
	}
	fmt.Fprintf(table, "total\t%s\t%d\t%s\n", library, t.library(), limit("total"))
	table.Flush()
}
