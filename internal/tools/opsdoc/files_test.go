package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/tensor"
)

// TestFiles holds that each operation has its files, of one family in all layers.
func TestFiles(t *testing.T) {
	where, err := findFiles("../../..", engine.Ops())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range engine.Ops() {
		for _, fault := range stray(o, where[o.Name]) {
			t.Error(fault)
		}
	}
}

// TestStray plants one fault of each kind and sees it caught.
func TestStray(t *testing.T) {
	loops := func(*kernels.Launch) {}
	sum := made(kernels.Op{Name: "sum", CPU: loops, Kernel: "sum"}, "")
	loss := made(kernels.Op{Name: "loss", Kernel: "loss"}, "")
	view := made(kernels.Op{Name: "t"}, "")
	view.View = row(t, "permute").View
	exp := made(kernels.Op{Name: "exp", Expr: expr.Must("exp(x)", []string{"x"}, nil)}, "")
	pointwise := files{"op_reduce_var.go", "pointwise.go", "plan_pointwise.go", []string{"pointwise.cuh"}}
	reduce := []string{"reduce.cu", "reduce_row.cu"}
	for _, c := range []struct {
		name string
		op   *tensor.Op
		f    files
		want string
	}{
		{"nothing wrong", sum, files{"op_reduce_sum.go", "reduce_arg.go", "plan_reduce.go", reduce}, ""},
		{"two words", loss, files{"op_cross_entropy.go", "", "plan_cross_entropy.go",
			[]string{"cross_entropy.cu"}}, ""},
		{"a view", view, files{tensor: "op_view_t.go"}, ""},
		{"an expression", exp, pointwise, ""},
		{"the gradient of a view", sum, files{"op_view_slice.go", "copy.go", "plan_copy.go", []string{"copy.cu"}}, ""},
		{"no file", sum, files{}, `no file of a family has the operation: ""`},
		{"no family", sum, files{tensor: "op_fold.go"}, `no file of a family has the operation: "op_fold.go"`},
		{"no loops", sum, files{"op_reduce_sum.go", "", "plan_reduce.go", reduce}, "no file of kernels/cpu"},
		{"no plan", loss, files{tensor: "op_cross_entropy.go"}, "no file of kernels/cuda gives loss a plan"},
		{"no kernels", loss, files{tensor: "op_cross_entropy.go", plan: "plan_cross_entropy.go"},
			"no file of kernels/cuda/src for plan_cross_entropy.go"},
		{"other loops", sum, files{"op_reduce_sum.go", "norm.go", "plan_reduce.go", reduce},
			"norm.go is not of the family reduce"},
		{"part of a stem", sum, files{"op_reduce_sum.go", "reduction.go", "plan_reduce.go", reduce},
			"reduction.go is not of the family reduce"},
		{"another plan", sum, files{"op_reduce_sum.go", "reduce.go", "plan_scan.go", reduce},
			"scan.go is not of the family reduce"},
		{"other kernels", sum, files{"op_reduce_sum.go", "reduce.go", "plan_reduce.go", []string{"rows.cu"}},
			"rows.cu is not of the family reduce"},
	} {
		got := strings.TrimPrefix(strings.Join(stray(c.op, c.f), "; "), c.op.Name+": ")
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// stray tells which files of an operation are missing, or of another family than the one that tensor has it in. All
// expressions have the same files, and what goes back through a view is copied.
func stray(o *tensor.Op, f files) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, o.Name+": "+fmt.Sprintf(format, args...))
	}
	own := family(strings.TrimSuffix(strings.TrimPrefix(f.tensor, "op_"), ".go"))
	if own == "" {
		fault("no file of a family has the operation: %q", f.tensor)
		return faults
	}
	switch {
	case o.Expr != nil:
		own = "pointwise"
	case own == "view" && o.View == nil:
		own = "copy"
	}
	if f.cpu == "" && o.CPU != nil {
		fault("no file of kernels/cpu")
	}
	if f.plan == "" && o.Kernel != "" {
		fault("no file of kernels/cuda gives %s a plan", o.Kernel)
	}
	if f.plan != "" && len(f.src) == 0 {
		fault("no file of kernels/cuda/src for %s", f.plan)
	}
	for _, file := range slices.Concat([]string{f.cpu, strings.TrimPrefix(f.plan, "plan_")}, f.src) {
		if stem, _, _ := strings.Cut(file, "."); file != "" && family(stem) != own {
			fault("%s is not of the family %s", file, own)
		}
	}
	return faults
}
