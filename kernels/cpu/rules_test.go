package cpu_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// The optimizers' updates have fused kernels, where the counters, gradscale and skip are one element.
func TestOptimizerRulesAreFused(t *testing.T) {
	for _, rule := range []optim.Rule{optim.AdamW(1e-3), optim.SGD(1e-3), optim.SGD(1e-3, optim.Momentum(0.9)),
		optim.Lion(1e-4)} {
		f := optim.Operation(rule).Expr
		var uniform uint64
		for i := 2 + len(rule.State); i < len(f.Args); i++ {
			uniform |= 1 << i
		}
		if f.Fusion(uniform) == nil {
			t.Errorf("%+v is not fused", rule)
		}
	}
}

// So have the operations that training spends its time in, and their gradients, and so has the same mathematics under
// another name.
func TestActivationsAreFused(t *testing.T) {
	wanted := map[string]bool{
		"dropout": true, "gelu": true, "gelu_tanh": true, "silu": true, "relu": true, "softplus": true, "mish": true,
	}
	for _, op := range engine.Ops() {
		if !wanted[op.Name] {
			continue
		}
		delete(wanted, op.Name)
		if op.Expr.Fusion(0) == nil || op.Expr.Pullback(0).Func.Fusion(0) == nil {
			t.Errorf("%s or its gradient is not fused", op.Name)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("no operations are called %v", wanted)
	}
	if swish := tensor.MustPointwise("swish", "z*sigmoid(z)", []string{"z"}); swish.Expr.Fusion(0) == nil {
		t.Error("silu under another name is not fused")
	}
}

// TestFusionIsByMathematics: an operation or a rule of a user that has the name of a fused one gets its own results.
func TestFusionIsByMathematics(t *testing.T) {
	gelu := tensor.MustPointwise("gelu", "x*sigmoid(1.702*x)", []string{"x"})
	x := tensor.FromSlice([]float32{-2, -0.5, 0, 0.25, 1, 3}, 6)
	got := tensor.ToSlice[float32](engine.Apply(gelu, []*tensor.Tensor{x}, nil, nil))
	want := tensor.ToSlice[float32](x.Mul(x.Scale(1.702).Sigmoid()))
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	if f := gelu.Expr.Fusion(0); f != nil {
		t.Errorf("a user's gelu has the kernel %s", f.Name)
	}
	other := optim.AdamW(1e-3)
	other.Update = "p - lr*g*decay; m + beta1; v + beta2*rest1*rest2 + eps*c1*c2"
	f := optim.Operation(other).Expr
	for uniform := range uint64(1 << len(f.Args)) {
		if fusion := f.Fusion(uniform); fusion != nil {
			t.Errorf("a user's adamw has the kernel %s", fusion.Name)
		}
	}
}
