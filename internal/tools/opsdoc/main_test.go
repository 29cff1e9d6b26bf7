package main

import (
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/tensor"
)

// made is an operation that is not in the table.
func made(k kernels.Op, doc string, args ...string) *tensor.Op {
	op := engine.NewOp(k, tensor.Float32)
	op.Doc, op.Args, op.NoGrad = doc, args, ""
	return op
}

// row is an operation of the table.
func row(t *testing.T, name string) *tensor.Op {
	for _, op := range engine.Ops() {
		if op.Name == name {
			return op
		}
	}
	t.Fatalf("there is no operation %s", name)
	return nil
}

func TestDocument(t *testing.T) {
	loops := func(*kernels.Launch) {}
	sum := made(kernels.Op{Name: "sum", CPU: loops, Kernel: "sum_fwd"}, "sum of x[i]", "x")
	argmax := made(kernels.Op{Name: "argmax", CPU: loops, Types: []tensor.DType{tensor.Float32, tensor.Int64}},
		"first i of max x[i]", "x")
	or := made(kernels.Op{Name: "or", Expr: expr.Must("x+y", []string{"x", "y"}, nil)}, "x|y", "x", "y")
	view := made(kernels.Op{Name: "t"}, "x transposed", "x")
	fused := made(kernels.Op{Name: "fused"}, "of a and b", "a", "b")
	sum.Cast, sum.VJP = seam.CastFull, row(t, "softmax").VJP
	argmax.NoGrad = "the result is an index"
	view.VJP, view.View = row(t, "permute").VJP, row(t, "permute").View
	fused.Compose = row(t, "cross_entropy_grad").Compose
	ops := []*tensor.Op{sum, argmax, or, view, fused}
	table := "| operation | operands | result | gradient | CPU | CUDA | autocast |\n|---|---|---|---|---|---|---|\n"
	want := head +
		"\n## Pointwise (1)\n\n" + table +
		"| `or` | x, y | `x\\|y` | derived | expression | expression |  |\n" +
		"\n## Views (1)\n\n" + table +
		"| `t` | x | x transposed | written | view | view |  |\n" +
		"\n## Structured (3)\n\n" + table +
		"| `argmax` | x | first i of max x[i] | none: the result is an index | direct: float32, int64 | *none* |  |\n" +
		"| `fused` | a, b | of a and b | of its composition | reference | *none* |  |\n" +
		"| `sum` | x | sum of x[i] | written | direct: float32 | sum_fwd | full |\n"
	where := map[string]files{
		"t":   {tensor: "op_view_t.go"},
		"sum": {"op_reduce_sum.go", "reduce.go", "plan_reduce.go", []string{"reduce.cu", "reduce_row.cu"}},
	}
	want += "\n## Files\n\n| operation | `tensor` | `kernels/cpu` | `kernels/cuda` | `kernels/cuda/src` |\n" +
		"|---|---|---|---|---|\n" +
		"| `sum` | op_reduce_sum.go | reduce.go | plan_reduce.go | reduce.cu, reduce_row.cu |\n" +
		"| `t` | op_view_t.go | - | - | - |\n"
	if got := document(ops, where); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTable holds what the page relies on: every operation says what it computes and what becomes of its gradient.
func TestTable(t *testing.T) {
	for _, o := range engine.Ops() {
		if o.Doc == "" || strings.ContainsRune(o.Doc, '\n') {
			t.Errorf("%s: Doc must be one line: %q", o.Name, o.Doc)
		}
		if gradient(o) == "" {
			t.Errorf("%s: neither VJP nor NoGrad", o.Name)
		}
	}
}
