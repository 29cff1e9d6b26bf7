package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/tools/neon"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// The general registers of a kernel on arm64. R0 to R8 are those of its outputs, then of its inputs.
const (
	neonCount    = "R9"  // elements left
	neonUniforms = "R10" // argument array
	neonPool     = "R11" // the constants
	neonLocals   = "R12" // local variables
	neonScratch  = "R13"
	neonSecond   = "R14" // distance of lane 1 of a tail from lane 0, in bytes
	neonThird    = "R15" // of lane 2
	neonMask     = "R16" // address of the mask of a tail
	neonSums     = "R17" // of partial sums in memory
	neonNumber   = "R19" // the number of the first element
	neonRowsLeft = "R20"
	neonRowOut   = "R21" // where the results of the row go
)

// neonTable is the first of four vector registers that hold a table, or the numbers of the lanes.
const neonTable = 28

// neonBases are the registers of the outputs and inputs of a reduction as they begin, of which R0, R1, ... are copies.
var neonBases = []string{"R22", "R23", "R24", "R25"}

// neonEmitter writes the machine code of one kernel for arm64.
//
// Pointers move on with the elements. A tail of less than four elements is a vector whose lanes behind the last element
// hold that element, too: each lane is read from the address of an element and written to such an address, so that what
// is written there twice is the same.
type neonEmitter struct {
	*neon.File
	k      *kernel
	s      *split
	group  int // copies that are interleaved
	regs   int // vector registers of a copy
	spills int // spill slots of a copy
	masked bool

	inType, outType elem
	accReg          []int // first register of an accumulator

	// Where local variables begin: spilled values, slots, partial sums, results of passes.
	spillAt, slotAt, sumsAt, passesAt int
	frame                             int
}

func pointer(n int) string { return fmt.Sprintf("R%d", n) }

// output and input are the pointers of a kernel.
func (e *neonEmitter) output(k int) string { return pointer(k) }
func (e *neonEmitter) input(k int) string  { return pointer(slices.Index(e.k.vectors(), e.k.ins[k])) }

// vec is the vector register of a place.
func (e *neonEmitter) vec(p place, j int) int {
	switch p.kind {
	case pinned:
		return p.n
	case inAcc:
		return e.accReg[p.n] + j
	case inReg:
		return j%e.group*e.regs + p.n
	}
	panic("no register")
}

// slot is where copy j of a spilled value lies.
func (e *neonEmitter) slot(p place, j int) int { return e.spillAt + 16*(p.n+j%e.group*e.spills) }

func (e *neonEmitter) ins(name string, j int, ops ...place) {
	last := ops[len(ops)-1]
	if name == move {
		switch {
		case last.kind == inSlot:
			e.Ins("FMOVQ F%d, %d(%s)", e.vec(ops[0], j), e.slot(last, j), neonLocals)
		case ops[0].kind == inSlot:
			e.Ins("FMOVQ %d(%s), F%d", e.slot(ops[0], j), neonLocals, e.vec(last, j))
		default:
			e.Move(e.vec(last, j), e.vec(ops[0], j))
		}
		return
	}
	var sources []int
	for _, p := range ops[:len(ops)-1] {
		sources = append(sources, e.vec(p, j))
	}
	e.Op(name, e.vec(last, j), sources...)
}

func (e *neonEmitter) insImm(name string, imm, j int, ops ...place) {
	e.Shift(name, e.vec(ops[1], j), e.vec(ops[0], j), imm)
}

func (e *neonEmitter) loadIn(k, j int, to place) {
	r, from := e.vec(to, j), e.input(k)
	switch {
	case e.inType == octet:
		e.Ins("FMOVS %d(%s), F%d", 4*j, from, r)
		e.Op("USHLL 8B", r, r)
		e.Op("USHLL 4H", r, r)
		e.Op("SCVTF", r, r)
	case e.inType != single:
		e.Ins("FMOVD %d(%s), F%d", 8*j, from, r)
		e.Op(map[elem]string{half: "FCVTL", brain: "SHLL"}[e.inType], r, r)
	case !e.masked:
		e.Ins("FMOVQ %d(%s), F%d", 16*j, from, r)
	default:
		e.Ins("FMOVS (%s), F%d", from, r)
		for lane, distance := range []string{neonSecond, neonThird} {
			e.Ins("ADD %s, %s, %s", distance, from, neonScratch)
			e.Ins("VLD1 (%s), V%d.S[%d]", neonScratch, r, lane+1)
		}
	}
}

func (e *neonEmitter) store(k, j int, from, _ place) {
	r, to := e.vec(from, j), e.output(k)
	switch {
	case e.k.interleaved():
		e.Ins("FMOVQ F%d, %d(%s)", r, 64*j+16*k, e.output(0))
	case e.outType != single:
		e.Op(map[elem]string{half: "FCVTN", brain: "SHRN"}[e.outType], r, r)
		e.Ins("FMOVD F%d, %d(%s)", r, 8*j, to)
	case !e.masked:
		e.Ins("FMOVQ F%d, %d(%s)", r, 16*j, to)
	default:
		e.Ins("FMOVS F%d, (%s)", r, to)
		for lane, distance := range []string{neonSecond, neonThird} {
			e.Ins("ADD %s, %s, %s", distance, to, neonScratch)
			e.Ins("VST1 V%d.S[%d], (%s)", r, lane+1, neonScratch)
		}
	}
}

func (e *neonEmitter) accumulate(k, j int, from, spare place) {
	r, acc := e.vec(from, j), e.accReg[k]+j
	if !e.masked {
		e.Move(acc, r)
		return
	}
	mask := e.vec(spare, j)
	e.Ins("FMOVQ (%s), F%d", neonMask, mask)
	e.Op("BIT", acc, r, mask)
}

func (e *neonEmitter) loadFixed(k, j int, to place) {
	r, f := e.vec(to, j), e.s.fixed[k]
	switch f.kind {
	case fixedConst:
		e.loadConst(f.bits, r)
	case fixedUniform:
		e.Ins("ADD $%d, %s, %s", 4*f.k, neonUniforms, neonScratch)
		e.Ins("VLD1R (%s), [V%d.S4]", neonScratch, r)
	case fixedSlot:
		e.Ins("FMOVQ %d(%s), F%d", e.slotAt+16*f.k, neonLocals, r)
	default:
		panic("a table has no register")
	}
}

func (e *neonEmitter) loadConst(bits uint32, r int) {
	if bits == 0 {
		e.Zero(r)
		return
	}
	e.Ins("FMOVQ %d(%s), F%d", e.Constant(bits, bits, bits, bits), neonPool, r)
}

func (e *neonEmitter) storeSlot(i int, from place) {
	e.Ins("FMOVQ F%d, %d(%s)", e.vec(from, 0), e.slotAt+16*i, neonLocals)
}

// lookup reads the table for the first of the copies that are interleaved, which come one after another.
func (e *neonEmitter) lookup(_ op, table lane.Table, j int, x, to place) {
	if j%e.group == 0 {
		at := e.table(table)
		for i := range 4 {
			e.Ins("FMOVQ %d(%s), F%d", at+16*i, neonPool, neonTable+i)
		}
	}
	e.Op("TBL", e.vec(to, j), neonTable, e.vec(x, j))
}

func (e *neonEmitter) table(t lane.Table) int {
	var words []uint32
	for _, x := range t {
		words = append(words, math.Float32bits(x))
	}
	return e.Constant(words...)
}

// number sets a register to the numbers of the elements of copy j.
func (e *neonEmitter) number(j int, to place) {
	r := e.vec(to, j)
	e.Op("DUP", r, 19) // neonNumber
	first := uint32(4 * j)
	e.Ins("FMOVQ %d(%s), F%d", e.Constant(first, first+1, first+2, first+3), neonPool, neonTable)
	e.Op("ADD", r, r, neonTable)
}
