package expr_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels/expr"
)

type program struct{ code [1 << 10]int }

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

// Functions that nobody holds are collected, with their derivatives and programs. One that is held stays the same.
func TestFunctionsAreCollected(t *testing.T) {
	held := expr.Must("x*0.125", []string{"x"}, nil)
	live := func() uint64 {
		var m runtime.MemStats
		for range 5 { // cleanups run after a collection
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	const n = 2000
	for i := range n {
		f := expr.Must(fmt.Sprintf("tanh(x*%d.5)+x", i), []string{"x"}, nil)
		expr.Compile(f, 0, &program{})
		f.Pullback(0)
	}
	if grown := int64(live()) - int64(before); grown > n*8<<10/10 {
		t.Errorf("%d functions left %d bytes", n, grown)
	}
	if expr.Must("x*0.125", []string{"x"}, nil) != held {
		t.Error("a function in use was made anew")
	}
}
