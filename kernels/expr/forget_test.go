package expr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// known counts the nodes and functions that are found by their text.
func known() (int, int) {
	return nodes.Len(), functions.Len()
}

// numbered is a function that no other test makes.
func numbered(i int) *Func {
	return Must(fmt.Sprintf("x*sigmoid(%d.125*x) + tanh(x)", i), []string{"x"}, nil)
}

// Functions that a program makes and drops are given back, but for the last ones; those in use stay what they are.
func TestForgotten(t *testing.T) {
	kept := numbered(-1)
	gradient := kept.Pullback(0).Func.String()
	before, _ := known()
	const many = 5000
	for i := range many {
		numbered(i).Pullback(0)
	}
	each := 30 // nodes, about
	var nodes, made int
	for range 100 {
		runtime.GC() // cleanups run some time later
		if nodes, made = known(); made < 1000 && nodes < before+Kept*each+1000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d functions made: %d known, %d nodes, %d before", many, made, nodes, before)
	if made >= 1000 || nodes >= before+Kept*each+1000 {
		t.Errorf("%d functions are known, and %d nodes, %d before", made, nodes, before)
	}
	if numbered(-1) != kept {
		t.Error("a function in use was made again")
	}
	again := Must("tanh(x) + 1", []string{"x"}, nil)
	if kept.Roots[0].X[1] != again.Roots[0].X[0] {
		t.Error("a node in use was made again: its derivative would not be found")
	}
	fresh := &Func{Args: kept.Args, Roots: kept.Roots}
	if p := fresh.Pullback(0); p.Func == nil || p.Func.String() != gradient {
		t.Errorf("derivative %v, want %s", p.Func, gradient)
	}
}

// A function asked for in every step is compiled once.
func TestLastStay(t *testing.T) {
	Compile(numbered(-2), 0, new(int))
	for range 5 {
		runtime.GC()
		if Compiled[int](numbered(-2), 0) == nil {
			t.Fatal("it was made again")
		}
	}
}

// Work and text grow with the length of an expression, not with its square.
func TestLongExpressions(t *testing.T) {
	for name, source := range map[string]func(n int) string{
		"sum":  func(n int) string { return "x" + strings.Repeat(" + x*y", n) + strings.Repeat(" - x/y", n) },
		"and":  func(n int) string { return "x" + strings.Repeat(" && x", n) },
		"or":   func(n int) string { return "x < y" + strings.Repeat(" || y < x", n) },
		"call": func(n int) string { return "x" + strings.Repeat(" + sin(x)*cos(y)", n) },
		"definitions": func(n int) string {
			var b strings.Builder
			b.WriteString("t0 = x\n")
			for i := range n {
				fmt.Fprintf(&b, "t%d = t%d*x + y\n", i+1, i)
			}
			fmt.Fprintf(&b, "t%d", n)
			return b.String()
		},
	} {
		work := func(n int) (bytes uint64, d time.Duration) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			f := Must(source(n), []string{"x", "y"}, nil)
			if again, err := New(f.String(), f.Args, nil); err == nil && again.Roots[0] != f.Roots[0] {
				t.Errorf("%s: its text is another function", name)
			}
			f.Key()
			f.Pullback(0)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc, time.Since(start)
		}
		small, _ := work(1000)
		large, took := work(10_000)
		t.Logf("%s: %d bytes for 1000, %d for 10000 in %v", name, small, large, took)
		if large > 30*small {
			t.Errorf("%s: %d bytes for 1000, %d for 10000", name, small, large)
		}
	}
}

// Conditions in a row are parsed about as fast as terms in a row.
func TestLongConditions(t *testing.T) {
	parsed := func(src string) time.Duration {
		start := time.Now()
		Must(src, []string{"x"}, nil)
		return time.Since(start)
	}
	const n = 50_000
	terms, conditions := parsed("x"+strings.Repeat(" + x", n)), parsed("x"+strings.Repeat(" && x", n))
	if conditions > 20*terms {
		t.Errorf("%d terms take %v, %d conditions %v", n, terms, n, conditions)
	}
}
