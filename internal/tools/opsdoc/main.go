// Opsdoc writes docs/OPS.md, the list of all operations, from the table of package tensor.
// Run it in the root of the module:
//
//	go run ./internal/tools/opsdoc
package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

var engine = tensor.Engine(seam.Key{})

func main() {
	where, err := findFiles(".", engine.Ops())
	if err == nil {
		err = os.WriteFile(filepath.Join("docs", "OPS.md"), []byte(document(engine.Ops(), where)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "opsdoc:", err)
		os.Exit(1)
	}
}

const head = `# Operations

Generated from the operation table by ` + "`make docs`" + `; do not edit.

- **gradient**: derived from the expression, written beside the operation, or why there is none.
- **CPU**: *expression* runs on vector kernels chunk by chunk; *direct* has loops of its own for the types named;
  *reference* runs the slow float64 definition; *view* computes nothing. If float16 and bfloat16 are not named, the
  computation is in float32: operands are widened, which is exact, and each result is rounded once.
- **CUDA**: *expression* has kernels made from the expression; *approximate*: on float16 and bfloat16 alone these use
  the GPU's approximate units, within a unit in the last place of the CPU's results, or 2^-16 in gradients, where terms
  of size 1 cancel; *view* computes nothing; else the name of its kernels, or *none*. Using an operation on a GPU that
  has no kernel for the operands' type is an error.
- **autocast**: what package amp does with operands that are float32, float16 or bfloat16: *lower* casts them to the
  region's type, *full* to float32, *widest* to the widest among them; *banned* is an error; an empty cell leaves them.

The last section has the files of each operation in all layers.
`

// document returns the page for a table of operations and their files.
func document(ops []*tensor.Op, where map[string]files) string {
	var page strings.Builder
	page.WriteString(head)
	section(&page, "Pointwise", ops, func(o *tensor.Op) bool { return o.Expr != nil })
	section(&page, "Views", ops, func(o *tensor.Op) bool { return o.View != nil })
	section(&page, "Structured", ops, func(o *tensor.Op) bool { return o.Expr == nil && o.View == nil })
	fileSection(&page, where)
	return page.String()
}

// fileSection writes the files of operations, by name.
func fileSection(page *strings.Builder, where map[string]files) {
	page.WriteString("\n## Files\n\n| operation | `tensor` | `kernels/cpu` | `kernels/cuda` | `kernels/cuda/src` |\n")
	page.WriteString("|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(where)) {
		f := where[name]
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n",
			name, f.tensor, cmp.Or(f.cpu, "-"), cmp.Or(f.plan, "-"), cmp.Or(strings.Join(f.src, ", "), "-"))
	}
}

// section writes the operations for which in holds, by name.
func section(page *strings.Builder, title string, ops []*tensor.Op, in func(*tensor.Op) bool) {
	var rows []*tensor.Op
	for _, o := range ops {
		if in(o) {
			rows = append(rows, o)
		}
	}
	slices.SortFunc(rows, func(a, b *tensor.Op) int { return strings.Compare(a.Name, b.Name) })
	fmt.Fprintf(page, "\n## %s (%d)\n\n", title, len(rows))
	page.WriteString("| operation | operands | result | gradient | CPU | CUDA | autocast |\n")
	page.WriteString("|---|---|---|---|---|---|---|\n")
	for _, o := range rows {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
			o.Name, strings.Join(o.Args, ", "), definition(o), gradient(o), cpu(o), cuda(o), autocast(o))
	}
}

// definition is the line of mathematics, fit for a cell of a table.
func definition(o *tensor.Op) string {
	text := strings.ReplaceAll(o.Doc, "|", `\|`)
	if o.Expr != nil {
		return "`" + text + "`"
	}
	return text
}

func gradient(o *tensor.Op) string {
	switch {
	case o.NoGrad != "":
		return "none: " + o.NoGrad
	case o.Expr != nil:
		return "derived"
	case o.VJP != nil, o.VJPAll != nil:
		return "written"
	case o.Compose != nil:
		return "of its composition"
	}
	return ""
}

func cuda(o *tensor.Op) string {
	switch {
	case o.View != nil:
		return "view"
	case o.Approximate:
		return "expression, *approximate*"
	case o.Expr != nil:
		return "expression"
	}
	return cmp.Or(o.Kernel, "*none*")
}

func cpu(o *tensor.Op) string {
	switch {
	case o.View != nil:
		return "view"
	case o.Expr != nil:
		return "expression"
	case o.CPU == nil:
		return "reference"
	case len(o.Types) == 0:
		return "direct: float32"
	}
	var types []string
	for _, d := range o.Types {
		types = append(types, d.String())
	}
	return "direct: " + strings.Join(types, ", ")
}

func autocast(o *tensor.Op) string {
	if o.Cast == seam.CastKeep {
		return ""
	}
	return o.Cast.String()
}
