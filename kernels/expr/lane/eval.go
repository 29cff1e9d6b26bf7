package lane

import "math"

// Program is a sequence of instructions in which operands come before their uses.
type Program struct {
	Ins      int // input streams
	Uniforms int // scalars
	Accs     int // accumulators
	Insts    []Inst
	Tables   []Table
	Outs     []Value
}

// Eval runs the program on one element, number 0. It is the definition of what a program computes: every kernel made
// from the program gives the same bits, where any NaN equals any other.
func (p *Program) Eval(ins, uniforms, accs []float32) []float32 {
	return p.EvalAt(0, ins, uniforms, accs)
}

// EvalAt is Eval for the element with the given number.
func (p *Program) EvalAt(index uint32, ins, uniforms, accs []float32) []float32 {
	r := make([]uint32, len(p.Insts))
	for v := range p.Insts {
		in := &p.Insts[v]
		switch in.Op {
		case OpIn:
			r[v] = math.Float32bits(ins[in.K])
		case OpUniform:
			r[v] = math.Float32bits(uniforms[in.K])
		case OpAcc:
			r[v] = math.Float32bits(accs[in.K])
		case OpIndex:
			r[v] = index
		case OpConst:
			r[v] = in.Bits
		default:
			var x [3]uint32
			for i, a := range in.operands() {
				x[i] = r[a]
			}
			r[v] = eval(in, x, p.Tables)
		}
	}
	out := make([]float32, len(p.Outs))
	for i, o := range p.Outs {
		out[i] = math.Float32frombits(r[o])
	}
	return out
}

// eval computes one instruction on the bits of its operands. A mask is all ones or zero.
func eval(in *Inst, r [3]uint32, tables []Table) uint32 {
	x, y, z := math.Float32frombits(r[0]), math.Float32frombits(r[1]), math.Float32frombits(r[2])
	f := math.Float32bits
	switch in.Op {
	case OpAdd:
		return f(x + y)
	case OpSub:
		return f(x - y)
	case OpMul:
		return f(x * y)
	case OpDiv:
		return f(x / y)
	case OpSqrt:
		return f(Sqrt32(x))
	case OpFMA:
		return f(FMA32(x, y, z))
	case OpFNMA:
		return f(FMA32(-x, y, z))
	case OpLesser:
		return f(Lesser32(x, y))
	case OpGreater:
		return f(Greater32(x, y))
	case OpRound:
		return f(float32(math.RoundToEven(float64(x))))
	case OpFloor:
		return f(float32(math.Floor(float64(x))))
	case OpCeil:
		return f(float32(math.Ceil(float64(x))))
	case OpTrunc:
		return f(float32(math.Trunc(float64(x))))
	case OpFloat:
		return f(float32(int32(r[0])))
	case OpLdexp:
		return f(Ldexp32(x, y))
	case OpIAdd:
		return r[0] + r[1]
	case OpISub:
		return r[0] - r[1]
	case OpIMul:
		return r[0] * r[1]
	case OpIMulHi:
		return uint32(uint64(r[0]) * uint64(r[1]) >> 32)
	case OpAnd, OpMaskAnd:
		return r[0] & r[1]
	case OpOr, OpMaskOr:
		return r[0] | r[1]
	case OpXor:
		return r[0] ^ r[1]
	case OpShl:
		return r[0] << in.K
	case OpShr:
		return r[0] >> in.K
	case OpSar:
		return uint32(int32(r[0]) >> in.K)
	case OpLookup:
		return f(tables[in.K][r[0]&15])
	case OpLT:
		return mask(x < y)
	case OpLE:
		return mask(x <= y)
	case OpEQ:
		return mask(x == y)
	case OpUnord:
		return mask(x != x || y != y)
	case OpILT:
		return mask(int32(r[0]) < int32(r[1]))
	case OpMaskNot:
		return ^r[0]
	case OpSelect:
		return r[0]&r[1] | ^r[0]&r[2]
	}
	panic("lane: no such operation: " + in.Op.String())
}

func mask(b bool) uint32 {
	if b {
		return 0xffffffff
	}
	return 0
}
