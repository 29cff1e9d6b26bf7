package cpu_test

import (
	"testing"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// The optimizers' updates have fused kernels, found by their text: a rule that changes without its kernel
// in internal/tools/genvec would still be right, but slow.
func TestOptimizerRulesAreFused(t *testing.T) {
	for _, rule := range []optim.Rule{optim.AdamW{}, optim.SGD{}, optim.SGD{Momentum: 0.9}, optim.Lion{}} {
		f := optim.Operation(rule).Expr
		var uniform uint64 // the counters and gradscale are single numbers
		for i := 2 + len(rule.State()); i < len(f.Args); i++ {
			uniform |= 1 << i
		}
		if vec.Pointwise(f.Variant(uniform)) == nil {
			t.Errorf("%+v has no fused kernel under %s", rule, f.Variant(uniform))
		}
	}
}

// So has dropout, both ways.
func TestDropoutIsFused(t *testing.T) {
	for _, op := range tensor.Ops() {
		if op.Name != "dropout" {
			continue
		}
		for _, f := range []*expr.Func{op.Expr, op.Expr.Pullback(0).Func} {
			if vec.Pointwise(f.Variant(0)) == nil {
				t.Errorf("dropout has no fused kernel under %s", f.Variant(0))
			}
		}
		return
	}
	t.Error("no operation is called dropout")
}
