package expr_test

import (
	"testing"

	"github.com/weft-ml/weft/kernels/expr"
)

type program struct{ _ [1 << 10]int }

// What a function was compiled to is found by its type and key, and the first one stays.
func TestCompiled(t *testing.T) {
	f := expr.Must("x*7.25", []string{"x"}, nil)
	if p := expr.Compiled[program](f, 1); p != nil {
		t.Fatal("compiled before it was compiled")
	}
	first := expr.Compile(f, 1, &program{})
	other := expr.Compile(f, 2, &program{})
	if again := expr.Compile(f, 1, &program{}); again != first || first == other {
		t.Error("compiled twice for one key")
	}
	if expr.Compiled[program](f, 1) != first || expr.Compiled[program](f, 2) != other {
		t.Error("found something else")
	}
	if expr.Compiled[int](f, 1) != nil || expr.Compiled[program](f, uint64(1)) != nil {
		t.Error("found what another backend has compiled")
	}
}
