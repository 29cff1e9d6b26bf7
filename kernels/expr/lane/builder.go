package lane

import (
	"fmt"
	"math"
)

// Value names the result of an instruction of the Builder that made it.
type Value int32

// Inst is one instruction of a program.
type Inst struct {
	Op   Op
	Args [3]Value // operands, Op.Args() of them
	K    int32    // which input, uniform, accumulator or table; or the shift count
	Bits uint32   // the value of a constant
}

// Table is the operand of a lookup.
type Table = [16]float32

// Builder makes a program in static single assignment form. Equal instructions
// are made once (hash-consing) and instructions on constants are evaluated while
// building; nothing else is simplified, so the bits are those of the source.
type Builder struct {
	insts  []Inst
	known  map[Inst]Value
	tables []Table
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder { return &Builder{known: map[Inst]Value{}} }

// Program returns the program that computes outs, without unused instructions.
func (b *Builder) Program(outs ...Value) *Program {
	used := make([]bool, len(b.insts))
	for _, o := range outs {
		used[o] = true
	}
	for v := len(b.insts) - 1; v >= 0; v-- {
		if used[v] {
			for _, a := range b.insts[v].operands() {
				used[a] = true
			}
		}
	}
	p := &Program{Tables: b.tables}
	moved := make([]Value, len(b.insts))
	for v, in := range b.insts {
		if !used[v] {
			continue
		}
		for i := range in.operands() {
			in.Args[i] = moved[in.Args[i]]
		}
		switch in.Op {
		case OpIn:
			p.Ins = max(p.Ins, int(in.K)+1)
		case OpUniform:
			p.Uniforms = max(p.Uniforms, int(in.K)+1)
		case OpAcc:
			p.Accs = max(p.Accs, int(in.K)+1)
		}
		moved[v] = Value(len(p.Insts))
		p.Insts = append(p.Insts, in)
	}
	for _, o := range outs {
		p.Outs = append(p.Outs, moved[o])
	}
	return p
}

// Inline adds program p with the given inputs and scalars and returns its outputs. p must not have accumulators.
func (b *Builder) Inline(p *Program, ins, uniforms []Value) []Value {
	at := make([]Value, len(p.Insts))
	for v, in := range p.Insts {
		for i := range in.operands() {
			in.Args[i] = at[in.Args[i]]
		}
		switch in.Op {
		case OpIn:
			at[v] = ins[in.K]
		case OpUniform:
			at[v] = uniforms[in.K]
		case OpAcc:
			panic("lane: Inline of a program with accumulators")
		case OpLookup:
			at[v] = b.Lookup(in.Args[0], p.Tables[in.K])
		default:
			at[v] = b.emit(in)
		}
	}
	outs := make([]Value, len(p.Outs))
	for i, o := range p.Outs {
		outs[i] = at[o]
	}
	return outs
}

// operands returns the operands that the instruction has.
func (in *Inst) operands() []Value { return in.Args[:in.Op.Args()] }

// emit adds an instruction, or finds the equal one that is there.
func (b *Builder) emit(in Inst) Value {
	constant := in.Op.Args() > 0
	for i, a := range in.operands() {
		src := b.insts[a].Op
		if src.IsMask() != (i < infos[in.Op].maskArg) {
			panic(fmt.Sprintf("lane: operand %d of %v is %v", i, in.Op, src))
		}
		constant = constant && src == OpConst
	}
	if constant && !in.Op.IsMask() {
		var x [3]uint32
		for i, a := range in.operands() {
			x[i] = b.insts[a].Bits
		}
		return b.Bits(eval(&in, x, b.tables))
	}
	if v, ok := b.known[in]; ok {
		return v
	}
	v := Value(len(b.insts))
	b.insts = append(b.insts, in)
	b.known[in] = v
	return v
}

func (b *Builder) op(o Op, args ...Value) Value {
	in := Inst{Op: o}
	copy(in.Args[:], args)
	return b.emit(in)
}

func (b *Builder) shift(o Op, x Value, n int) Value {
	return b.emit(Inst{Op: o, Args: [3]Value{x}, K: int32(n)})
}

// In is the element of input stream k.
func (b *Builder) In(k int) Value { return b.emit(Inst{Op: OpIn, K: int32(k)}) }

// Uniform is scalar k, which is the same for all elements.
func (b *Builder) Uniform(k int) Value { return b.emit(Inst{Op: OpUniform, K: int32(k)}) }

// Acc is the partial sum of accumulator k that this element is added to in a reduction.
func (b *Builder) Acc(k int) Value { return b.emit(Inst{Op: OpAcc, K: int32(k)}) }

// Index is the number of the element, counted from 0 modulo 2^32.
func (b *Builder) Index() Value { return b.emit(Inst{Op: OpIndex}) }

// Const is the constant x rounded to float32.
func (b *Builder) Const(x float64) Value { return b.Bits(math.Float32bits(float32(x))) }

// Bits is the constant with the given bits.
func (b *Builder) Bits(x uint32) Value { return b.emit(Inst{Op: OpConst, Bits: x}) }

// Add is x + y.
func (b *Builder) Add(x, y Value) Value { return b.op(OpAdd, x, y) }

// Sub is x - y.
func (b *Builder) Sub(x, y Value) Value { return b.op(OpSub, x, y) }

// Mul is x * y.
func (b *Builder) Mul(x, y Value) Value { return b.op(OpMul, x, y) }

// Div is x / y.
func (b *Builder) Div(x, y Value) Value { return b.op(OpDiv, x, y) }

// Sqrt is the square root of x.
func (b *Builder) Sqrt(x Value) Value { return b.op(OpSqrt, x) }

// FMA is x*y + z rounded once.
func (b *Builder) FMA(x, y, z Value) Value { return b.op(OpFMA, x, y, z) }

// FNMA is z - x*y rounded once.
func (b *Builder) FNMA(x, y, z Value) Value { return b.op(OpFNMA, x, y, z) }

// Lesser is x if x < y and y otherwise, so a NaN or a tie gives y.
func (b *Builder) Lesser(x, y Value) Value { return b.op(OpLesser, x, y) }

// Greater is x if x > y and y otherwise, so a NaN or a tie gives y.
func (b *Builder) Greater(x, y Value) Value { return b.op(OpGreater, x, y) }

// Round is x rounded to an integer, ties to even; the sign of zero is that of x.
func (b *Builder) Round(x Value) Value { return b.op(OpRound, x) }

// Floor is x rounded down; the sign of zero is that of x.
func (b *Builder) Floor(x Value) Value { return b.op(OpFloor, x) }

// Ceil is x rounded up; the sign of zero is that of x.
func (b *Builder) Ceil(x Value) Value { return b.op(OpCeil, x) }

// Trunc is x rounded towards zero; the sign of zero is that of x.
func (b *Builder) Trunc(x Value) Value { return b.op(OpTrunc, x) }

// Float is the int32 x rounded to a float.
func (b *Builder) Float(x Value) Value { return b.op(OpFloat, x) }

// Ldexp is x * 2^n rounded once, overflow and subnormal results included. n must be an integer with |n| <= 252 and |x|
// in [2^-24, 2^24] or zero; x may be a NaN, and must be one if n is.
func (b *Builder) Ldexp(x, n Value) Value { return b.op(OpLdexp, x, n) }

// IAdd is x + y on integers.
func (b *Builder) IAdd(x, y Value) Value { return b.op(OpIAdd, x, y) }

// ISub is x - y on integers.
func (b *Builder) ISub(x, y Value) Value { return b.op(OpISub, x, y) }

// IMul is x * y on integers: the lower half of the product.
func (b *Builder) IMul(x, y Value) Value { return b.op(OpIMul, x, y) }

// IMulHi is the upper half of the 64-bit product of x and y as unsigned integers.
func (b *Builder) IMulHi(x, y Value) Value { return b.op(OpIMulHi, x, y) }

// And is x & y.
func (b *Builder) And(x, y Value) Value { return b.op(OpAnd, x, y) }

// Or is x | y.
func (b *Builder) Or(x, y Value) Value { return b.op(OpOr, x, y) }

// Xor is x ^ y.
func (b *Builder) Xor(x, y Value) Value { return b.op(OpXor, x, y) }

// Shl is x << n.
func (b *Builder) Shl(x Value, n int) Value { return b.shift(OpShl, x, n) }

// Shr is x >> n with zeros shifted in.
func (b *Builder) Shr(x Value, n int) Value { return b.shift(OpShr, x, n) }

// Sar is x >> n with the sign shifted in.
func (b *Builder) Sar(x Value, n int) Value { return b.shift(OpSar, x, n) }

// Lookup is the entry x & 15 of the table.
func (b *Builder) Lookup(x Value, t Table) Value {
	k := 0
	for k < len(b.tables) && !sameBits(b.tables[k], t) {
		k++
	}
	if k == len(b.tables) {
		b.tables = append(b.tables, t)
	}
	return b.emit(Inst{Op: OpLookup, Args: [3]Value{x}, K: int32(k)})
}

func sameBits(s, t Table) bool {
	for i := range s {
		if math.Float32bits(s[i]) != math.Float32bits(t[i]) {
			return false
		}
	}
	return true
}

// LT is the mask of x < y, false for a NaN.
func (b *Builder) LT(x, y Value) Value { return b.op(OpLT, x, y) }

// LE is the mask of x <= y, false for a NaN.
func (b *Builder) LE(x, y Value) Value { return b.op(OpLE, x, y) }

// EQ is the mask of x == y, false for a NaN.
func (b *Builder) EQ(x, y Value) Value { return b.op(OpEQ, x, y) }

// Unord is the mask that is true if x or y is a NaN.
func (b *Builder) Unord(x, y Value) Value { return b.op(OpUnord, x, y) }

// ILT is the mask of x < y on int32.
func (b *Builder) ILT(x, y Value) Value { return b.op(OpILT, x, y) }

// MaskAnd is true where both masks are.
func (b *Builder) MaskAnd(x, y Value) Value { return b.op(OpMaskAnd, x, y) }

// MaskOr is true where either mask is.
func (b *Builder) MaskOr(x, y Value) Value { return b.op(OpMaskOr, x, y) }

// MaskNot inverts the mask.
func (b *Builder) MaskNot(x Value) Value { return b.op(OpMaskNot, x) }

// Select is y where mask m is true and z elsewhere.
func (b *Builder) Select(m, y, z Value) Value { return b.op(OpSelect, m, y, z) }

// Horner is the polynomial in x with the coefficients c, the constant one last:
// one fused multiply-add for each but the first.
func (b *Builder) Horner(x Value, c ...float64) Value {
	p := b.Const(c[0])
	for _, k := range c[1:] {
		p = b.FMA(p, x, b.Const(k))
	}
	return p
}
