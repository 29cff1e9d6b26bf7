package expr

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var xyp = func(src string) (*Func, error) { return New(src, []string{"x", "y"}, []string{"p"}) }

// eval computes one result for x, y and p.
func eval(t testing.TB, src string, x, y, p float64) float64 {
	t.Helper()
	f, err := xyp(src)
	if err != nil {
		t.Fatal(err)
	}
	return f.Eval([]float64{x, y}, []float64{p}, func(k int) float64 { return float64(k) + 0.25 })[0]
}

// same treats all NaNs as equal, and tells zeros apart.
func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }

func TestSyntax(t *testing.T) {
	for src, want := range map[string]float64{ // x = 5, y = -2, p = 0.5
		"x - y - 1":               6,
		"x/y/2":                   -1.25,
		"2 + x*y":                 -8,
		"-x*y":                    10,
		"- -x":                    5,
		"-(x + y)":                -3,
		"x < y || x > 4 && 2 < 1": 0,
		"(x < y) + 1 == 1":        1,
		"x >= 5":                  1,
		"x <= y":                  0,
		"x != 5":                  0,
		"!x":                      0,
		"!!x":                     1,
		"!(x < y)":                1,
		"x && y":                  1,
		"x && 0*y":                0,
		"0*x || 0*y":              0,
		"1e-2 + .5 + 0x10 + 1_0":  26.51,
		"017":                     17,
		"pi":                      math.Pi,
		"-inf":                    math.Inf(-1),
		"nan":                     math.NaN(),
		"a = x*x; b = a + y; b*p": 11.5,
		"\n a = x\n\n b = a + a // twice\n b*1\n": 10,
		"x; y":                  5,
		"exp(\n x\n - 5\n)":     1,
		"x +\n y":               3,
		"rand()":                0.25,
		"rand(7)":               7.25,
		"sign = sign(y); sign":  -1,
		"where(x > y, x, y)":    5,
		"fma(x, y, 1)":          -9,
		"add(x, mul(y, 2))":     1,
		"xor(x, 0) + xor(x, y)": 1,
		"0.1 + 0.2":             0.1 + 0.2 - 0.0,
	} {
		if got := eval(t, src, 5, -2, 0.5); !same(got, want) && math.Abs(got-want) > 1e-15 {
			t.Errorf("%q is %v, want %v", src, got, want)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range [][2]string{
		{"", `1:1: there is no result`},
		{"x = 1", `1:1: x is defined twice`},
		{"a = 1", `1:1: a is defined but not used`},
		{"a = 1; a = 2; a", `1:8: a is defined twice`},
		{"a = a; a", `1:5: no operand a; there are x, y, p, pi, inf, nan`},
		{"pi = 3; pi", `1:1: pi is a number and cannot be the name of an operand`},
		{"x +", `1:4: found the end, want a number, a name or "("`},
		{"x\n+ ", `2:1: found "+", want a number, a name or "("`},
		{"x +* y", `1:4: found "*", want a number, a name or "("`},
		{"x\n)", `2:1: found ")", want a number, a name or "("`},
		{"(x", `1:3: found the end, want ")"`},
		{"x y", `1:3: found "y", want ";"`},
		{"x)", `1:2: found ")", want ";"`},
		{"exp(x y)", `1:7: found "y", want "," or ")"`},
		{"z*x", `1:1: no operand z; there are x, y, p, pi, inf, nan`},
		{"exp", `1:1: exp is a function; call it as exp(a)`},
		{"clamp", `1:1: clamp is a function; call it as clamp(x, lo, hi)`},
		{"clamp(x, 0)", `1:1: clamp takes 3 operands, found 2; call it as clamp(x, lo, hi)`},
		{"x < y < 1", `1:7: "<" compares the result of a comparison; write a < b && b < c`},
		{"x % y", `1:3: found "%", which is not an operator here; there are || && == != < <= > >= + - * /`},
		{"x.y", `1:2: found ".", want ";"`},
		{"func", `1:1: found "func", want a number, a name or "("`},
		{"'a'", `1:1: found "'a'", want a number, a name or "("`},
		{"1e999", `1:1: 1e999 is not a float64`},
		{"0xFFFFFFFFFFFFFFFFF", `1:1: 0xFFFFFFFFFFFFFFFFF is not a float64`},
		{"1i", `1:1: found "1i", want a number, a name or "("`},
		{"x ? y", `1:3: illegal character U+003F '?'`},
		{"rand(x)", `1:1: rand takes the number of a random stream, from 0 to 255`},
		{"rand(256)", `1:1: rand takes the number of a random stream, from 0 to 255`},
		{"rand(0.5)", `1:1: rand takes the number of a random stream, from 0 to 255`},
		{strings.Repeat("(", 300) + "x" + strings.Repeat(")", 300), `1:251: nested more than 250 deep`},
		{strings.Repeat("-", 1) + strings.Repeat(" -", 299) + "x", `1:501: nested more than 250 deep`},
	} {
		_, err := xyp(c[0])
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v", c[0], err)
			continue
		}
		if got := fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Msg); got != c[1] {
			t.Errorf("%q: %s\nwant %s", c[0], got, c[1])
		}
		if want := fmt.Sprintf("expression %q: %s", c[0], c[1]); err.Error() != want {
			t.Errorf("error %s\nwant  %s", err, want)
		}
	}
	_, err := xyp("softmax(x)")
	if err == nil || !strings.Contains(err.Error(), "1:1: no function softmax; there are abs, acos, ") {
		t.Errorf("softmax: %v", err)
	}
	for _, names := range [][]string{{"x", "x"}, {"x y"}, {"inf"}, {""}} {
		if _, err := New("1", names, nil); err == nil {
			t.Errorf("operands %q are accepted", names)
		}
	}
}

func TestMust(t *testing.T) {
	defer func() {
		if _, ok := recover().(*SyntaxError); !ok {
			t.Error("no panic with the error")
		}
	}()
	Must("x +", []string{"x"}, nil)
}

// What was written is not rewritten; equal mathematics is one node and one key.
func TestNodesAndKeys(t *testing.T) {
	key := func(src string) string { return Must(src, []string{"x", "y"}, []string{"p"}).Key() }
	for src, want := range map[string]string{
		"x*0 == 0":                "%0=mul(a0,0);%1=eq(%0,0);%1",
		"x + 0":                   "%0=add(a0,0);%0",
		"x*1":                     "%0=mul(a0,1);%0",
		"x - x":                   "%0=sub(a0,a0);%0",
		"0 - 0*x":                 "%0=mul(0,a0);%1=sub(0,%0);%1",
		"-0*1":                    "-0",
		"2*3 + x":                 "%0=add(6,a0);%0",
		"1/3":                     "0.3333333333333333",
		"x*y + p":                 "%0=mul(a0,a1);%1=add(%0,p0);%1",
		"exp(x) + exp(x); exp(x)": "%0=exp(a0);%1=add(%0,%0);%1;%0",
		"rand() < p":              "%0=lt(r0,p0);%0",
		"x; x; 2":                 "a0;a0;2",
	} {
		if got := key(src); got != want {
			t.Errorf("%q has key %s, want %s", src, got, want)
		}
	}
	a, b := Must("t = x*y; t + t", []string{"x", "y"}, nil), Must("u*v + u*v", []string{"u", "v"}, nil)
	if a.Roots[0] != b.Roots[0] || a.Key() != b.Key() || a == b {
		t.Error("equal mathematics differs")
	}
	if Must("x*y", []string{"x", "y"}, nil).Key() == Must("x*y", []string{"y", "x"}, nil).Key() {
		t.Error("operands in another order have the same key")
	}
	if f, g := Must("x", []string{"x"}, nil), Must("x", []string{"x"}, nil); f != g {
		t.Error("the same source is two functions")
	}
	if Must("p", []string{"p"}, nil) == Must("p", nil, []string{"p"}) {
		t.Error("an argument and a parameter are one function")
	}
}

// randomSource writes a random expression of x, y and p.
func randomSource(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(7) == 0 {
		leaves := []string{"x", "y", "p", "2", "0.1", "rand()", "inf", "1e-30", "rand(3)"}
		return leaves[r.IntN(len(leaves))]
	}
	sub := func() string { return randomSource(r, depth-1) }
	switch r.IntN(5) {
	case 0:
		ops := []string{"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&&", "||"}
		return "(" + sub() + " " + ops[r.IntN(len(ops))] + " " + sub() + ")"
	case 1:
		return "-" + strings.TrimLeft(sub(), "-")
	case 2:
		return "!" + sub()
	case 3:
		m := library[r.IntN(len(library))]
		xs := make([]string, len(m.Params))
		for i := range xs {
			xs[i] = sub()
		}
		return m.Name + "(" + strings.Join(xs, ", ") + ")"
	}
	ops := Instructions()
	op := ops[r.IntN(len(ops))]
	xs := make([]string, op.Arity())
	for i := range xs {
		xs[i] = sub()
	}
	return op.String() + "(" + strings.Join(xs, ", ") + ")"
}

// New reads what String writes, derivatives included.
func TestStringReadsBack(t *testing.T) {
	check := func(f *Func) {
		t.Helper()
		again, err := New(f.String(), f.Args, f.Params)
		if err != nil {
			t.Fatalf("%q became %v", f.Src, err)
		}
		if !slices.Equal(again.Roots, f.Roots) {
			t.Fatalf("%q became %q: %s, then %s", f.Src, f.String(), f.Key(), again.Key())
		}
	}
	for seed := range 500 {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		f, err := xyp("t0 = x*y; " + randomSource(r, 3) + "; " + randomSource(r, 4) + "; t0")
		if err != nil {
			t.Fatal(err)
		}
		check(f)
		for i := range f.Args {
			if p := f.Pullback(i); p.Func != nil {
				check(p.Func)
				if p.Func.Src != p.Func.String() {
					t.Fatalf("source %q of a derivative is not its text %q", p.Func.Src, p.Func.String())
				}
			}
		}
	}
}

func FuzzNew(f *testing.F) {
	for _, m := range library {
		f.Add(m.Body)
	}
	f.Add("m2 = x; -(m2 < 0x1p-3 || !p)*1e5 // end\n m2;")
	f.Fuzz(func(t *testing.T, src string) {
		fn, err := xyp(src)
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 {
				t.Fatalf("%q: %v", src, err)
			}
			return
		}
		again, err := xyp(fn.String())
		if err != nil || !slices.Equal(again.Roots, fn.Roots) {
			t.Fatalf("%q became %q: %v", src, fn.String(), err)
		}
		fn.Eval([]float64{1, 2}, []float64{3}, func(int) float64 { return 0.5 })
		fn.Pullback(0)
	})
}

// Every function of the library is described and stands on those above it.
func TestLibrary(t *testing.T) {
	seen := map[string]bool{}
	for i, m := range Library() {
		if m.Doc == "" || seen[m.Name] || macro(m.Name) != &library[i] {
			t.Errorf("%s: no description, or twice", m.Name)
		}
		seen[m.Name] = true
		if _, ok := lookup(m.Name); ok {
			t.Errorf("%s is an instruction, too", m.Name)
		}
		if _, err := New(m.Body, m.Params, nil); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		for _, later := range library[i:] {
			if regexp.MustCompile(`\b` + later.Name + `\(`).MatchString(m.Body) {
				t.Errorf("%s uses %s, which comes later", m.Name, later.Name)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	f := Must("gelu(x)*silu(y) + 17", []string{"x", "y"}, nil)
	var wg sync.WaitGroup
	got := make([]*Pullback, 16)
	for i := range got {
		wg.Go(func() {
			got[i] = f.Pullback(i % 2)
			got[i].Func.Pullback(0)
			f.Key()
			Must(fmt.Sprintf("x*%d", i%3), []string{"x"}, nil).Eval([]float64{1}, nil, nil)
		})
	}
	wg.Wait()
	for i := range got {
		if got[i] != got[i%2] {
			t.Fatal("a derivative was made twice")
		}
	}
}

// Rounding to half precision, at the corners.
func TestRounding(t *testing.T) {
	for _, c := range []struct {
		op      Op
		x, want float64
	}{
		{F16, 65519.99, 65504}, {F16, 65520, math.Inf(1)}, {F16, -1e300, math.Inf(-1)}, {F16, 1 + 0x1p-11, 1},
		{F16, 1 + 3*0x1p-11, 1 + 0x1p-9},
		{F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10}, {F16, 0x1p-25, 0}, {F16, 0x1.8p-25, 0x1p-24},
		{F16, 3 * 0x1p-25, 0x1p-23}, {F16, -0x1p-30, math.Copysign(0, -1)},
		{F16, math.NaN(), math.NaN()}, {F16, 0x1p-14 - 0x1p-26, 0x1p-14},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 3*0x1p-8, 1 + 0x1p-6}, {BF16, 1.00390625, 1}, {BF16, 0x1.ffp127, math.Inf(1)},
		{BF16, 0x1.feffp127, 0x1.fep127},
		{BF16, 0x1p-134, 0}, {BF16, 0x1.8p-134, 0x1p-133}, {BF16, 5e-324, 0},
	} {
		if got := c.op.Eval(c.x, 0, 0); !same(got, c.want) {
			t.Errorf("%v(%v) = %v, want %v", c.op, c.x, got, c.want)
		}
	}
}

func ExampleNew() {
	// One AdamW step: the new parameter and the new moments.
	f, err := New(`
		m2 = b1*m + (1 - b1)*g
		v2 = b2*v + (1 - b2)*g*g
		p*(1 - lr*decay) - lr*(m2/c1)/(sqrt(v2/c2) + eps)
		m2
		v2`,
		[]string{"p", "g", "m", "v"}, []string{"lr", "b1", "b2", "eps", "decay", "c1", "c2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	out := f.Eval([]float64{1, 0.5, 0, 0}, []float64{0.1, 0.9, 0.999, 1e-8, 0, 0.1, 0.001}, nil)
	fmt.Printf("%.4f %.4f %.6f\n", out[0], out[1], out[2])

	_, err = New("relu(x", []string{"x"}, nil)
	fmt.Println(err)
	// Output:
	// 0.9000 0.0500 0.000250
	// expression "relu(x": 1:7: found the end, want "," or ")"
}

func ExampleFunc_Pullback() {
	for _, src := range []string{"x*y", "tanh(x)", "relu(x)", "x + y"} {
		p := Must(src, []string{"x", "y"}, nil).Pullback(0)
		fmt.Println(p.Uses, p.Func.Args, p.Func)
	}
	// Output:
	// [1 2] [y grad] grad * y
	// [2 3] [grad out] grad * (1 - out * out)
	// [2 3] [grad out] where(out <= 0, 0, grad)
	// [2] [grad] grad
}
