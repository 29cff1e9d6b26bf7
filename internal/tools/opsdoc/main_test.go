package main

import (
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/tensor"
)

func TestDocument(t *testing.T) {
	loops := func(*kernels.Launch) {}
	vjp := func(c *tensor.Ctx, g *tensor.Tensor) []*tensor.Tensor { return nil }
	ops := []*tensor.Op{
		{Op: kernels.Op{Name: "sum", CPU: loops, Kernel: "sum_fwd"}, Doc: "sum of x[i]", Args: []string{"x"},
			Cast: tensor.CastFull, VJP: vjp},
		{Op: kernels.Op{Name: "argmax", CPU: loops, Types: []tensor.DType{tensor.Float32, tensor.Int64}},
			Doc: "first i of max x[i]", Args: []string{"x"}, NoGrad: "the result is an index"},
		{Op: kernels.Op{Name: "or", Expr: expr.Must("x+y", []string{"x", "y"}, nil)}, Doc: "x|y",
			Args: []string{"x", "y"}},
		{Op: kernels.Op{Name: "t"}, Doc: "x transposed", Args: []string{"x"}, VJP: vjp,
			View: func(*tensor.Ctx, *kernels.Layout) {}},
		{Op: kernels.Op{Name: "fused"}, Doc: "of a and b", Args: []string{"a", "b"},
			Compose: func(*tensor.Ctx) *tensor.Tensor { return nil }},
	}
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
	for _, o := range tensor.Ops() {
		if o.Doc == "" || strings.ContainsRune(o.Doc, '\n') {
			t.Errorf("%s: Doc must be one line: %q", o.Name, o.Doc)
		}
		if gradient(o) == "" {
			t.Errorf("%s: neither VJP nor NoGrad", o.Name)
		}
	}
}
