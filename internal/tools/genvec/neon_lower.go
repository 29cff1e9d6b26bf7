package main

import (
	"math"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// free is the number of registers for values: those that the instruction TBL reads are set aside where there are tables
// or numbers of elements.
func (t *target) free(s *split) int {
	if t == neonTarget && (len(s.tables) > 0 || s.loop.has(op(lane.OpIndex))) {
		return neonTable
	}
	return t.regs
}

// minMax finds lane.Min and lane.Max, for which there are instructions, by the form in which these functions make them.
// It returns the instructions that take their places, with values of the program as operands, and marks what is left
// without a use.
func minMax(p *lane.Program) (found map[int]inst, unused []bool) {
	found = map[int]inst{}
	for v, in := range p.Insts {
		switch in.Op {
		case lane.OpOr:
			if x, y, ok := bothWays(p, in, lane.OpLesser); ok {
				found[v] = inst{op: opMin, args: [3]int{x, y}, n: 2}
			}
		case lane.OpSelect:
			x, y, ok := bothWays(p, p.Insts[in.Args[2]], lane.OpGreater)
			unordered, nan := p.Insts[in.Args[0]], p.Insts[in.Args[1]]
			if ok && p.Insts[in.Args[2]].Op == lane.OpAnd && nan.Op == lane.OpConst && nan.Bits == 0x7fc00000 &&
				unordered.Op == lane.OpUnord && unordered.Args == [3]lane.Value{lane.Value(x), lane.Value(y)} {
				found[v] = inst{op: opMax, args: [3]int{x, y}, n: 2}
			}
		}
	}
	unused = make([]bool, len(p.Insts))
	for v := range unused {
		unused[v] = true
	}
	var use func(v int)
	use = func(v int) {
		if !unused[v] {
			return
		}
		unused[v] = false
		if x, ok := found[v]; ok {
			use(x.args[0])
			use(x.args[1])
			return
		}
		for _, a := range p.Insts[v].Args[:p.Insts[v].Op.Args()] {
			use(int(a))
		}
	}
	for _, o := range p.Outs {
		use(int(o))
	}
	return found, unused
}

// bothWays tells whether the operands of in are o of x and y and o of y and x.
func bothWays(p *lane.Program, in lane.Inst, o lane.Op) (x, y int, ok bool) {
	if in.Op.Args() != 2 {
		return 0, 0, false
	}
	a, b := p.Insts[in.Args[0]], p.Insts[in.Args[1]]
	ok = a.Op == o && b.Op == o && a.Args[0] == b.Args[1] && a.Args[1] == b.Args[0]
	return int(a.Args[0]), int(a.Args[1]), ok
}

// neonSimple are the instructions of one or two operands that are one of NEON.
var neonSimple = map[op]string{
	op(lane.OpAdd): "FADD", op(lane.OpSub): "FSUB", op(lane.OpMul): "FMUL", op(lane.OpDiv): "FDIV", opMin: "FMIN",
	opMax: "FMAX", op(lane.OpSqrt): "FSQRT", op(lane.OpRound): "FRINTN", op(lane.OpFloor): "FRINTM",
	op(lane.OpCeil): "FRINTP", op(lane.OpTrunc): "FRINTZ", op(lane.OpFloat): "SCVTF",
	op(lane.OpIAdd): "ADD", op(lane.OpISub): "SUB", op(lane.OpIMul): "MUL",
	op(lane.OpAnd): "AND", op(lane.OpOr): "ORR", op(lane.OpXor): "EOR",
	op(lane.OpMaskAnd): "AND", op(lane.OpMaskOr): "ORR", op(lane.OpMaskNot): "NOT", op(lane.OpEQ): "FCMEQ",
	opZipLo: "ZIP1", opZipHi: "ZIP2", opJoinLo: "ZIP1 2D", opJoinHi: "ZIP2 2D",
}

// neonSwapped are those whose operands change places: x < y is y > x.
var neonSwapped = map[lane.Op]string{lane.OpLT: "FCMGT", lane.OpLE: "FCMGE", lane.OpILT: "CMGT"}

// neonShifts shift by a constant.
var neonShifts = map[lane.Op]string{lane.OpShl: "SHL", lane.OpShr: "USHR", lane.OpSar: "SSHR"}

// neon selects the instructions of v for arm64: operands are in registers, the destination comes last.
func (a *alloc) neon(v int) {
	in := a.b.insts[v]
	x, y, z := in.args[0], in.args[1], in.args[2]
	o := lane.Op(in.op)
	if in.op >= 256 {
		o = lane.OpIn // none of those below
	}
	if name, ok := neonSimple[in.op]; ok {
		var ops []place
		for _, x := range in.operands() {
			ops = append(ops, a.need(x))
		}
		a.emit(name, append(ops, a.def(v))...)
		return
	}
	if name, ok := neonSwapped[o]; ok {
		xr, yr := a.need(x), a.need(y)
		a.emit(name, yr, xr, a.def(v))
		return
	}
	if name, ok := neonShifts[o]; ok {
		xr := a.need(x)
		a.emitImm(name, int(in.k), xr, a.def(v))
		return
	}
	switch {
	case in.op == opTable:
		a.lookup(v)
	case o == lane.OpFMA:
		a.neonInto("FMLA", v, x, y, z)
	case o == lane.OpFNMA:
		a.neonInto("FMLS", v, x, y, z)
	case o == lane.OpLesser:
		a.neonChoose(v, "FMIN", y, x)
	case o == lane.OpGreater:
		a.neonChoose(v, "FMAX", x, y)
	case o == lane.OpUnord:
		a.neonUnordered(v, x, y)
	case o == lane.OpIMulHi:
		xr, yr := a.need(x), a.need(y)
		lo, hi := place{inReg, a.take(temp)}, place{inReg, a.take(temp)}
		a.emit("UMULL", xr, yr, lo)
		a.emit("UMULL2", xr, yr, hi)
		a.emit("UZP2", lo, hi, a.def(v))
	case o == lane.OpIndex:
		d := a.def(v)
		a.steps = append(a.steps, func(m machine, j int) { m.number(j, d) })
	case o == lane.OpSelect:
		a.neonSelect(v, x, y, z)
	default:
		panic("no instruction for " + o.String())
	}
}

// neonInto selects an instruction of x and y that changes z, or a copy of it if it has other uses.
func (a *alloc) neonInto(name string, v, x, y, z int) {
	zr, yr, xr := a.need(z), a.need(y), a.need(x)
	if !a.free(zr, z) || x == z || y == z {
		d := place{inReg, a.take(temp)}
		a.emit(move, zr, d)
		zr = d
	}
	a.emit(name, xr, yr, zr)
	a.claim(zr, v)
	a.release()
}

// neonChoose selects the first operand where more is more than less, and the second elsewhere. Minimum and maximum do
// that where the first is a number and not zero: if one is a NaN, it is the second, and equal ones have equal bits.
func (a *alloc) neonChoose(v int, extreme string, more, less int) {
	x, y := a.b.insts[v].args[0], a.b.insts[v].args[1]
	xr, yr := a.need(x), a.need(y)
	if a.number(x) {
		a.emit(extreme, xr, yr, a.def(v))
		return
	}
	d := place{inReg, a.take(temp)}
	if more == x {
		a.emit("FCMGT", xr, yr, d)
	} else {
		a.emit("FCMGT", yr, xr, d)
	}
	a.emit("BSL", xr, yr, d)
	a.claim(d, v)
	a.release()
}

// number reports whether v is a constant that is neither zero nor a NaN.
func (a *alloc) number(v int) bool {
	in := a.b.insts[v]
	if in.op != opFixed || a.s.fixed[in.k].kind != fixedConst {
		return false
	}
	c := math.Float32frombits(a.s.fixed[in.k].bits)
	return c == c && c != 0
}

// neonUnordered selects where x or y is a NaN: where one of them does not equal itself.
func (a *alloc) neonUnordered(v, x, y int) {
	xr, yr := a.need(x), a.need(y)
	equal := place{inReg, a.take(temp)}
	a.emit("FCMEQ", xr, xr, equal)
	if x != y {
		other := place{inReg, a.take(temp)}
		a.emit("FCMEQ", yr, yr, other)
		a.emit("AND", other, equal, equal)
	}
	a.emit("NOT", equal, a.def(v))
}

// neonSelect selects m ? y : z. Three instructions do so, which overwrite the mask, z or y: that which is used for the
// last time.
func (a *alloc) neonSelect(v, m, y, z int) {
	mr := a.need(m)
	if a.zero(z) {
		yr := a.need(y)
		a.emit("AND", yr, mr, a.def(v))
		return
	}
	zr := a.need(z)
	if a.zero(y) {
		a.emit("BIC", zr, mr, a.def(v))
		return
	}
	yr := a.need(y)
	switch {
	case a.free(zr, z) && y != z:
		a.emit("BIT", yr, mr, zr)
		a.claim(zr, v)
	case a.free(yr, y) && y != z:
		a.emit("BIF", zr, mr, yr)
		a.claim(yr, v)
	default:
		d := mr
		if !a.free(mr, m) {
			d = place{inReg, a.take(temp)}
			a.emit(move, mr, d)
		}
		a.emit("BSL", yr, zr, d)
		a.claim(d, v)
	}
	a.release()
}
