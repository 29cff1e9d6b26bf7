package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// slide emits the chains of windows that slide over a plane: a vector of windows in a row, four rows at a time, then
// the others. Masks take the place of padding: what they leave out is loaded as zeros. AVX2 stores whole vectors.
func slide(g *build.Context, set isa) {
	g.Function("slide" + set.name)
	g.Doc("slide" + set.name + " is assembly.slide for this tier.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst *float32, dstRow int, src *float32, srcRow, ahead int, weights *float32, taps int, " +
		"blocks *int, count int)")

	load := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	dst, src, dstRow, srcRow := load("dst"), load("src"), load("dstRow"), load("srcRow")
	weights, table, count := load("weights"), load("blocks"), load("count")
	g.SHLQ(operand.U8(2), dstRow)
	g.SHLQ(operand.U8(2), srcRow)
	ahead := load("ahead")
	g.SHLQ(operand.U8(2), ahead)
	rows, to, from, at := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	weight, left, tap := g.GP64(), g.GP64(), g.GP64()
	sums := [4]reg.VecVirtual{set.vector(g), set.vector(g), set.vector(g), set.vector(g)}
	x, w, masks := set.vector(g), set.vector(g), newBitMasks(g, set)

	body := func(label string, sums []reg.VecVirtual) {
		for _, sum := range sums {
			set.zero(g, sum)
		}
		g.LEAQ(operand.Mem{Base: table, Disp: 32}, tap)
		g.MOVQ(weights, weight)
		g.Load(g.Param("taps"), left)
		g.Label(label)
		g.MOVQ(operand.Mem{Base: tap}, at)
		g.LEAQ(operand.Mem{Base: from, Index: at, Scale: 4}, at)
		masks.read(operand.Mem{Base: tap, Disp: 8})
		g.VBROADCASTSS(operand.Mem{Base: weight}, w)
		for i, sum := range sums {
			if i > 0 {
				g.ADDQ(srcRow, at)
			}
			masks.load(operand.Mem{Base: at}, x)
			g.VFMADD231PS(x, w, sum)
		}
		g.ADDQ(operand.U8(16), tap)
		g.ADDQ(operand.U8(4), weight)
		g.DECQ(left)
		g.JNE(operand.LabelRef(label))
		for _, sum := range sums {
			g.PREFETCHT0(operand.Mem{Base: from, Index: ahead, Scale: 1})
			masks.store(sum, operand.Mem{Base: to})
			g.ADDQ(dstRow, to)
			g.ADDQ(srcRow, from)
		}
		g.SUBQ(operand.U8(uint8(len(sums))), rows)
	}

	g.Label("block")
	g.MOVQ(operand.Mem{Base: table}, rows)
	g.MOVQ(operand.Mem{Base: table, Disp: 8}, to)
	g.LEAQ(operand.Mem{Base: dst, Index: to, Scale: 4}, to)
	g.MOVQ(operand.Mem{Base: table, Disp: 16}, from)
	g.LEAQ(operand.Mem{Base: src, Index: from, Scale: 4}, from)
	masks.readStored(operand.Mem{Base: table, Disp: 24})
	g.CMPQ(rows, operand.U8(4))
	g.JLT(operand.LabelRef("rest"))
	g.Label("rows")
	body("tap4", sums[:])
	g.CMPQ(rows, operand.U8(4))
	g.JGE(operand.LabelRef("rows"))
	g.Label("rest")
	g.TESTQ(rows, rows)
	g.JE(operand.LabelRef("next"))
	g.Label("row")
	body("tap1", sums[:1])
	g.JNE(operand.LabelRef("row"))
	g.Label("next")
	g.Load(g.Param("taps"), left)
	g.SHLQ(operand.U8(4), left)
	g.LEAQ(operand.Mem{Base: table, Index: left, Scale: 1, Disp: 32}, table)
	g.DECQ(count)
	g.JNE(operand.LabelRef("block"))
	g.VZEROUPPER()
	g.RET()
}

// bitMasks are the masks of slide, which come from memory as a bit for each lane.
type bitMasks struct {
	*build.Context
	mask   reg.Register // of loads
	stored reg.Register // AVX-512: of stores
	bits   reg.Register // AVX2: that of each lane
}

func newBitMasks(g *build.Context, set isa) bitMasks {
	if set.lanes == 16 {
		return bitMasks{Context: g, mask: g.K(), stored: g.K()}
	}
	bits := g.YMM()
	g.VMOVDQU(operand.NewDataAddr(operand.NewStaticSymbol("laneBits"), 0), bits)
	return bitMasks{Context: g, mask: g.YMM(), bits: bits}
}

// read reads the mask of the loads that follow.
func (m *bitMasks) read(from operand.Mem) {
	if m.bits == nil {
		m.KMOVW(from, m.mask)
		return
	}
	m.VPBROADCASTD(from, m.mask)
	m.VPAND(m.bits, m.mask, m.mask)
	m.VPCMPEQD(m.bits, m.mask, m.mask)
}

// readStored reads the mask of stores.
func (m *bitMasks) readStored(from operand.Mem) {
	if m.bits == nil {
		m.KMOVW(from, m.stored)
	}
}

func (m *bitMasks) load(from operand.Mem, to reg.Register) {
	if m.bits == nil {
		m.VMOVUPS_Z(from, m.mask, to)
		return
	}
	m.VMASKMOVPS(from, m.mask, to)
}

func (m *bitMasks) store(from reg.Register, to operand.Mem) {
	if m.bits == nil {
		m.VMOVUPS(from, m.stored, to)
		return
	}
	m.VMOVUPS(from, to)
}

// laneBits emits the bit of each lane of a vector.
func laneBits(g *build.Context) {
	g.StaticGlobal("laneBits")
	g.DataAttributes(build.RODATA | build.NOPTR)
	for i := range avx2.lanes {
		g.AddDatum(4*i, operand.U32(1<<i))
	}
}
