package lane

import (
	"strings"
	"testing"
)

func TestBuilderSharesAndFolds(t *testing.T) {
	b := NewBuilder()
	x := b.In(0)
	first, second := b.Add(x, b.Const(1)), b.Add(x, b.Const(1))
	if first != second {
		t.Error("equal instructions are made twice")
	}
	if b.FMA(b.Const(2), b.Const(3), b.Const(4)) != b.Const(10) {
		t.Error("constants are not folded")
	}
	if b.Mul(x, b.Const(0)) == b.Const(0) {
		t.Error("x*0 is folded, which hides a NaN")
	}
}

func TestProgramDropsUnused(t *testing.T) {
	b := NewBuilder()
	x := b.In(1)
	Exp(b, x)
	p := b.Program(Neg(b, x))
	if len(p.Insts) != 3 || p.Ins != 2 {
		t.Errorf("%d instructions and %d inputs, want 3 and 2", len(p.Insts), p.Ins)
	}
}

func TestMaskMisuse(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "operand 1 of add is lt") {
			t.Errorf("panic %q", s)
		}
	}()
	b := NewBuilder()
	b.Add(b.In(0), b.LT(b.In(0), b.In(1)))
}

func TestInline(t *testing.T) {
	b := NewBuilder()
	erf := b.Program(b.Mul(Erf(b, b.In(0)), b.Uniform(0)))
	c := NewBuilder()
	out := c.Inline(erf, []Value{c.Add(c.In(0), c.In(1))}, []Value{c.Const(2)})
	p := c.Program(out...)
	if got, want := p.Eval([]float32{0.5, 0.25}, nil, nil)[0],
		erf.Eval([]float32{0.75}, []float32{2}, nil)[0]; got != want {
		t.Errorf("inlined %v, want %v", got, want)
	}
}

func TestUnknownOp(t *testing.T) {
	if s := Op(200).String(); s != "Op(200)" {
		t.Error(s)
	}
}

// TestIntegerProducts covers the constants, which a Builder multiplies itself.
func TestIntegerProducts(t *testing.T) {
	b := NewBuilder()
	x, y := b.Bits(0xfffffffe), b.Bits(0x80000003)
	if b.IMul(x, y) != b.Bits(0xfffffffa) || b.IMulHi(x, y) != b.Bits(0x80000001) {
		t.Error("wrong product of constants")
	}
}
