package main

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// A step emits one machine instruction for copy j of an unrolled body.
type step func(m machine, j int)

// machine is what the steps of a body need to emit their instructions. Registers are those of copy j.
type machine interface {
	ins(name string, j int, ops ...place)               // sources first, or last first on x86, then the destination
	insImm(name string, imm, j int, ops ...place)       // with a constant
	loadIn(k, j int, to place)                          // an element of input k
	loadFixed(k, j int, to place)                       // fixed value k
	lookup(op op, table lane.Table, j int, x, to place) // opPermLo, opPermHi or opTable
	number(j int, to place)                             // the numbers of the elements
	store(k, j int, from, spare place)                  // to output k
	accumulate(k, j int, from, spare place)             // the value of accumulator k, in the lanes that exist
	storeSlot(i int, from place)                        // value i that is computed before the loop
}

// place is an operand of a step.
type place struct {
	kind placeKind
	n    int // register, slot or fixed value
}

type placeKind int

const (
	inReg     placeKind = iota // vector register n of the copy
	inMask                     // mask register n of the copy
	pinned                     // vector register n of the machine
	inAcc                      // accumulator n of the copy, in a register or in memory
	inSlot                     // spill slot n of the copy
	inFixed                    // memory of fixed value n
	constMask                  // mask register n of the machine
)

const (
	noValue = -1
	temp    = -2
)

// alloc assigns registers to the values of a body by one pass in program order,
// spilling the value whose next use is farthest (Belady), and selects the machine
// instructions on the way.
type alloc struct {
	t     *target
	s     *split
	b     *body
	regs  int         // vector registers of a copy
	hoist map[int]int // fixed values that live in a machine register
	sums  bool        // accumulators of some copies are in memory

	pos    int     // the instruction being selected
	uses   [][]int // positions where a value is used
	reg    []int   // where a value is, or noValue
	slot   []int
	mask   []int
	held   []int // value in each register, noValue or temp
	masks  []int
	locked map[int]bool // registers the current instruction reads

	steps []step
	slots int
	peak  int
	kpeak int
}

func newAlloc(t *target, s *split, b *body, regs int, hoist map[int]int) *alloc {
	a := &alloc{t: t, s: s, b: b, regs: regs, hoist: hoist}
	n := len(b.insts)
	a.uses = make([][]int, n)
	a.reg, a.slot, a.mask = fill(n), fill(n), fill(n)
	a.held, a.masks = fill(regs), fill(s.masks)
	for v, in := range b.insts {
		for _, x := range in.operands() {
			a.uses[x] = append(a.uses[x], v)
		}
	}
	for _, o := range b.outs {
		a.uses[o] = append(a.uses[o], n)
	}
	return a
}

func fill(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = noValue
	}
	return s
}

// run selects all instructions; finish consumes each value of outs.
func (a *alloc) run(finish func(i int, x place)) {
	for v := range a.b.insts {
		a.pos = v
		a.locked = map[int]bool{}
		switch a.b.insts[v].op {
		case opFixed, op(lane.OpIn), op(lane.OpAcc):
		default:
			a.inst(v)
		}
		a.release()
	}
	for i, o := range a.b.outs {
		a.pos = len(a.b.insts)
		a.locked = map[int]bool{}
		finish(i, a.need(o))
		if u := a.uses[o]; len(u) > 0 {
			a.uses[o] = u[:len(u)-1]
		}
		a.release()
	}
}

// release frees temporaries and the registers of values without further use.
func (a *alloc) release() {
	for r, v := range a.held {
		if v == temp || v >= 0 && a.dead(v) {
			a.held[r] = noValue
			if v >= 0 {
				a.reg[v] = noValue
			}
		}
	}
	for m, v := range a.masks {
		if v >= 0 && a.dead(v) {
			a.masks[m] = noValue
		}
	}
}

// dead reports whether v has no use after the current instruction.
func (a *alloc) dead(v int) bool { return a.next(v) < 0 }

// next is the position of the next use of v after the current one, or negative.
func (a *alloc) next(v int) int {
	for _, u := range a.uses[v] {
		if u > a.pos || u == len(a.b.insts) {
			return u
		}
	}
	return -1
}

// take finds a register for v, spilling another value if it must.
func (a *alloc) take(v int) int {
	best := noValue
	for r, h := range a.held {
		if h == noValue {
			best = r
			break
		}
	}
	if best == noValue {
		far := -1
		for r, h := range a.held {
			if h >= 0 && !a.locked[r] && a.next(h) > far {
				best, far = r, a.next(h)
			}
		}
		if best == noValue {
			panic("out of vector registers")
		}
		a.spill(best)
	}
	a.held[best] = v
	a.locked[best] = true
	if v >= 0 {
		a.reg[v] = best
	}
	a.peak = max(a.peak, best+1)
	return best
}

// spill moves the value of register r to its slot.
func (a *alloc) spill(r int) {
	v := a.held[r]
	if a.slot[v] == noValue {
		a.slot[v] = a.slots
		a.slots++
		a.emit(move, place{inReg, r}, place{inSlot, a.slot[v]})
	}
	a.reg[v] = noValue
}

const move = "VMOVUPS"

func (a *alloc) emit(name string, ops ...place) {
	a.steps = append(a.steps, func(m machine, j int) { m.ins(name, j, ops...) })
}

// lookup selects what looks the value of v up in a table in memory.
func (a *alloc) lookup(v int) {
	in := a.b.insts[v]
	x := a.need(in.args[0])
	d := a.def(v)
	a.steps = append(a.steps, func(m machine, j int) { m.lookup(in.op, a.s.tables[in.k], j, x, d) })
}

func (a *alloc) emitImm(name string, imm int, ops ...place) {
	a.steps = append(a.steps, func(m machine, j int) { m.insImm(name, imm, j, ops...) })
}

// register reports whether v is in a vector register already.
func (a *alloc) register(v int) bool {
	in := a.b.insts[v]
	switch in.op {
	case opFixed:
		_, ok := a.hoist[int(in.k)]
		return ok
	case op(lane.OpAcc):
		return !a.sums || a.reg[v] != noValue
	case op(lane.OpIn):
		return a.slot[v] == noValue || a.reg[v] != noValue
	}
	return a.reg[v] != noValue
}

// need brings v into a register.
func (a *alloc) need(v int) place {
	in := a.b.insts[v]
	switch {
	case in.op == opFixed:
		return a.needFixed(int(in.k))
	case in.op == op(lane.OpAcc) && !a.sums:
		return place{inAcc, int(in.k)}
	case a.reg[v] != noValue:
		a.locked[a.reg[v]] = true
		return place{inReg, a.reg[v]}
	case a.slot[v] != noValue:
		r := place{inReg, a.take(v)}
		a.emit(move, place{inSlot, a.slot[v]}, r)
		return r
	case in.op == op(lane.OpIn):
		r := place{inReg, a.take(v)}
		k := int(in.k)
		a.steps = append(a.steps, func(m machine, j int) { m.loadIn(k, j, r) })
		return r
	case in.op == op(lane.OpAcc):
		r := place{inReg, a.take(v)}
		a.emit(move, place{inAcc, int(in.k)}, r)
		return r
	}
	panic(fmt.Sprintf("value %d (%v) is nowhere", v, in.op))
}

func (a *alloc) needFixed(k int) place {
	if r, ok := a.hoist[k]; ok {
		return place{pinned, r}
	}
	t := place{inReg, a.take(temp)}
	a.steps = append(a.steps, func(m machine, j int) { m.loadFixed(k, j, t) })
	return t
}

// any gives v as a register or as a memory operand of x86.
func (a *alloc) any(v int) place {
	in := a.b.insts[v]
	switch {
	case in.op == opFixed:
		k := int(in.k)
		if _, ok := a.hoist[k]; !ok && !(a.t == avx2 && a.s.fixed[k].kind == fixedUniform) {
			return place{inFixed, k}
		}
	case in.op == op(lane.OpAcc) && a.reg[v] == noValue:
		return place{inAcc, int(in.k)}
	case in.op < 256 && a.reg[v] == noValue && a.slot[v] != noValue:
		return place{inSlot, a.slot[v]}
	}
	return a.need(v)
}

// def makes a register for the result of instruction v, which may be that of an
// operand used for the last time.
func (a *alloc) def(v int) place {
	a.release()
	a.locked = map[int]bool{}
	return place{inReg, a.take(v)}
}

// defMask makes a mask register for the result of v.
func (a *alloc) defMask(v int) place {
	a.release()
	for m, h := range a.masks {
		if h == noValue {
			a.masks[m], a.mask[v] = v, m
			a.kpeak = max(a.kpeak, m+1)
			return place{inMask, m}
		}
	}
	panic("out of mask registers")
}

// simple are the instructions with the same shape in both targets.
var simple = map[lane.Op]struct {
	name    string
	commute bool
}{
	lane.OpAdd: {"VADDPS", true}, lane.OpSub: {"VSUBPS", false}, lane.OpMul: {"VMULPS", true},
	lane.OpDiv:    {"VDIVPS", false},
	lane.OpLesser: {"VMINPS", false}, lane.OpGreater: {"VMAXPS", false},
	lane.OpIAdd: {"VPADDD", true}, lane.OpISub: {"VPSUBD", false}, lane.OpIMul: {"VPMULLD", true},
	lane.OpAnd: {"VANDPS", true}, lane.OpOr: {"VORPS", true}, lane.OpXor: {"VXORPS", true},
}

// immediate are the instructions with one operand and an immediate. Rounding
// suppresses the inexact exception.
var immediate = map[lane.Op]struct {
	avx2, avx512 string
	imm          int
}{
	lane.OpRound: {"VROUNDPS", "VRNDSCALEPS", 8}, lane.OpFloor: {"VROUNDPS", "VRNDSCALEPS", 9},
	lane.OpCeil: {"VROUNDPS", "VRNDSCALEPS", 10}, lane.OpTrunc: {"VROUNDPS", "VRNDSCALEPS", 11},
}

// predicates are the immediates of VCMPPS, quiet, and those with operands swapped.
var predicates = map[lane.Op][2]int{
	lane.OpLT: {0x11, 0x1e}, lane.OpLE: {0x12, 0x1d}, lane.OpEQ: {0, 0}, lane.OpUnord: {3, 3},
}

// inst selects the machine instructions of instruction v.
func (a *alloc) inst(v int) {
	if a.t == neonTarget {
		a.neon(v)
		return
	}
	if a.own(v) {
		return
	}
	in := a.b.insts[v]
	x, y, z := in.args[0], in.args[1], in.args[2]
	o := lane.Op(in.op)
	switch o {
	case lane.OpSqrt, lane.OpFloat:
		name := map[lane.Op]string{lane.OpSqrt: "VSQRTPS", lane.OpFloat: "VCVTDQ2PS"}[o]
		xr := a.need(x)
		a.emit(name, xr, a.def(v))
	case lane.OpShl, lane.OpShr, lane.OpSar:
		name := map[lane.Op]string{lane.OpShl: "VPSLLD", lane.OpShr: "VPSRLD", lane.OpSar: "VPSRAD"}[o]
		xr := a.need(x)
		a.emitImm(name, int(in.k), xr, a.def(v))
	case lane.OpIndex:
		d := a.def(v)
		a.steps = append(a.steps, func(m machine, j int) { m.number(j, d) })
	case lane.OpLdexp:
		xr := a.need(x)
		ya := a.any(y)
		a.emit("VSCALEFPS", ya, xr, a.def(v))
	case lane.OpLookup:
		xr := a.need(x)
		k := a.s.table(in.k)
		tab := place{inFixed, k}
		if r, ok := a.hoist[k]; ok {
			tab = place{pinned, r}
		}
		a.emit("VPERMPS", tab, xr, a.def(v))
	case lane.OpFMA, lane.OpFNMA:
		a.fma(v, o == lane.OpFNMA)
	case lane.OpLT, lane.OpLE, lane.OpEQ, lane.OpUnord:
		imm := predicates[o][0]
		if !a.register(x) && a.register(y) {
			x, y, imm = y, x, predicates[o][1]
		}
		xr := a.need(x)
		a.emitImm("VCMPPS", imm, a.any(y), xr, a.defCompare(v))
	case lane.OpILT:
		a.compareInt(v)
	case lane.OpMaskAnd, lane.OpMaskOr, lane.OpMaskNot:
		a.maskLogic(v, o)
	case lane.OpSelect:
		a.sel(v, x, y, z)
	default:
		a.tabulated(v)
	}
}

// own selects the machine instructions of v if it is one that only this program has, made by expand.
func (a *alloc) own(v int) bool {
	in := a.b.insts[v]
	x, y, z := in.args[0], in.args[1], in.args[2]
	switch in.op {
	case opPermLo, opPermHi:
		a.lookup(v)
	case opBlend:
		m, ya, zr := a.need(x), a.any(y), a.need(z)
		a.emit("VBLENDVPS", m, ya, zr, a.def(v))
	case opMulEven:
		// No operand from memory: a broadcast would be one of 64 bits.
		xr, yr := a.need(x), a.need(y)
		a.emit("VPMULUDQ", yr, xr, a.def(v))
	case opOdd:
		xr := a.need(x)
		a.emitImm("VPSRLQ", 32, xr, a.def(v))
	case opZipLo, opZipHi, opJoinLo, opJoinHi:
		name := map[op]string{
			opZipLo: "VUNPCKLPS", opZipHi: "VUNPCKHPS", opJoinLo: "VUNPCKLPD", opJoinHi: "VUNPCKHPD",
		}[in.op]
		xr, yr := a.need(x), a.need(y)
		a.emit(name, yr, xr, a.def(v))
	case opXor3:
		a.xor3(v)
	case opHighs:
		a.highs(v)
	default:
		return false
	}
	return true
}

// tabulated selects the machine instruction of v from the tables of those that are one instruction.
func (a *alloc) tabulated(v int) {
	in := a.b.insts[v]
	x, y := in.args[0], in.args[1]
	o := lane.Op(in.op)
	if s, ok := simple[o]; ok {
		if s.commute && !a.register(x) && a.register(y) {
			x, y = y, x
		}
		xr := a.need(x)
		ya := a.any(y)
		a.emit(s.name, ya, xr, a.def(v))
		return
	}
	s, ok := immediate[o]
	if !ok {
		panic(fmt.Sprintf("no instruction for %v", o))
	}
	name := s.avx2
	if a.t == avx512 {
		name = s.avx512
	}
	xr := a.need(x)
	a.emitImm(name, s.imm, xr, a.def(v))
}

// defCompare makes room for the mask of comparison v.
func (a *alloc) defCompare(v int) place {
	if a.t == avx512 {
		return a.defMask(v)
	}
	return a.def(v)
}

func (a *alloc) compareInt(v int) {
	x, y := a.b.insts[v].args[0], a.b.insts[v].args[1]
	if a.t == avx512 {
		xr := a.need(x)
		a.emitImm("VPCMPD", 1, a.any(y), xr, a.defMask(v))
		return
	}
	yr := a.need(y)
	a.emit("VPCMPGTD", a.any(x), yr, a.def(v)) // y > x
}

func (a *alloc) maskLogic(v int, o lane.Op) {
	x, y := a.b.insts[v].args[0], a.b.insts[v].args[1]
	if a.t == avx512 {
		mx := place{inMask, a.mask[x]}
		if o == lane.OpMaskNot {
			a.emit("KNOTW", mx, a.defMask(v))
			return
		}
		my := place{inMask, a.mask[y]}
		a.emit(map[lane.Op]string{lane.OpMaskAnd: "KANDW", lane.OpMaskOr: "KORW"}[o], my, mx, a.defMask(v))
		return
	}
	xr := a.need(x)
	if o == lane.OpMaskNot {
		ones := place{inReg, a.take(temp)}
		a.emit("VPCMPEQD", ones, ones, ones)
		a.emit("VXORPS", ones, xr, a.def(v))
		return
	}
	a.emit(map[lane.Op]string{lane.OpMaskAnd: "VANDPS", lane.OpMaskOr: "VORPS"}[o], a.any(y), xr, a.def(v))
}

// highs selects the upper halves of the products x of the even and y of the odd lanes.
// Those of y are in place.
func (a *alloc) highs(v int) {
	x, y := a.b.insts[v].args[0], a.b.insts[v].args[1]
	xr, yr := a.need(x), a.need(y)
	if a.t == avx512 {
		if !a.free(yr, y) {
			panic("the product of the odd lanes has another use")
		}
		a.emit("VMOVSHDUP", xr, place{constMask, evenMask}, yr)
		a.claim(yr, v)
		a.release()
		return
	}
	high := place{inReg, a.take(temp)}
	a.emit("VMOVSHDUP", xr, high)
	a.emitImm("VPBLENDD", 0xaa, yr, high, a.def(v))
}

// xor3 selects x ^ y ^ z, which overwrites an operand.
func (a *alloc) xor3(v int) {
	in := a.b.insts[v]
	x, y, z := in.args[0], in.args[1], in.args[2]
	xr, yr, zp := a.need(x), a.need(y), a.any(z)
	switch {
	case a.free(xr, x) && x != y && x != z:
	case a.free(yr, y) && x != y && y != z:
		xr, yr = yr, xr
	default:
		d := place{inReg, a.take(temp)}
		a.emit(move, xr, d)
		xr = d
	}
	a.emitImm("VPTERNLOGD", 0x96, zp, yr, xr)
	a.claim(xr, v)
	a.release()
}

// free reports whether the register p of val may be overwritten.
func (a *alloc) free(p place, val int) bool {
	return p.kind == inReg && (a.held[p.n] == temp || a.held[p.n] == val && a.dead(val))
}

// claim makes p, which is free, the register of v.
func (a *alloc) claim(p place, v int) {
	if old := a.held[p.n]; old >= 0 {
		a.reg[old] = noValue
	}
	a.held[p.n], a.reg[v] = v, p.n
}

// zero reports whether v is the constant +0.
func (a *alloc) zero(v int) bool {
	in := a.b.insts[v]
	return in.op == opFixed && a.s.fixed[in.k].kind == fixedConst && a.s.fixed[in.k].bits == 0
}

// sel selects x ? y : z.
func (a *alloc) sel(v, x, y, z int) {
	if a.t == avx2 {
		m := a.need(x)
		if a.zero(z) {
			a.emit("VANDPS", a.any(y), m, a.def(v))
			return
		}
		zr := a.need(z)
		if a.zero(y) {
			a.emit("VANDNPS", zr, m, a.def(v))
			return
		}
		a.emit("VBLENDVPS", m, a.any(y), zr, a.def(v))
		return
	}
	m := place{inMask, a.mask[x]}
	if a.zero(z) {
		yr := a.need(y)
		a.emit("VMOVAPS_Z", yr, m, a.def(v))
		return
	}
	zr := a.need(z)
	a.emit("VBLENDMPS", a.any(y), zr, m, a.def(v))
}

// fma selects ±x*y + z. The result overwrites an operand, so one that is used for
// the last time is preferred; else the addend is copied.
func (a *alloc) fma(v int, negate bool) {
	in := a.b.insts[v]
	x, y, z := in.args[0], in.args[1], in.args[2]
	if !a.register(x) && a.register(y) {
		x, y = y, x
	}
	name := "VFMADD"
	if negate {
		name = "VFNMADD"
	}
	// At most one operand may stay in memory: the last one that is there.
	var xp, yp, zp place
	switch {
	case !a.register(z):
		xp, yp = a.need(x), a.need(y)
		zp = a.any(z)
	case !a.register(y):
		xp, zp = a.need(x), a.need(z)
		yp = a.any(y)
	default:
		zp, yp, xp = a.need(z), a.need(y), a.need(x)
	}
	switch {
	case a.free(zp, z) && x != z && y != z:
		a.emit(name+"231PS", yp, xp, zp)
		a.claim(zp, v)
	case a.free(xp, x) && x != y && x != z && yp.kind != inSlot && yp.kind != inFixed:
		a.emit(name+"213PS", zp, yp, xp)
		a.claim(xp, v)
	case a.free(xp, x) && x != y && x != z:
		a.emit(name+"132PS", yp, zp, xp)
		a.claim(xp, v)
	case a.free(yp, y) && x != y && y != z:
		a.emit(name+"213PS", zp, xp, yp)
		a.claim(yp, v)
	default:
		d := place{inReg, a.take(temp)}
		if zp.kind == inFixed {
			k := zp.n
			a.steps = append(a.steps, func(m machine, j int) { m.loadFixed(k, j, d) })
		} else {
			a.emit(move, zp, d)
		}
		a.emit(name+"231PS", yp, xp, d)
		a.claim(d, v)
	}
	a.release()
}
