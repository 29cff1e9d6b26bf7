package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// slide emits the chains of windows that slide over a plane, for AVX-512: a vector of windows in a row, four rows at a
// time, then the others. Masks take the place of padding: what they leave out is loaded as zeros.
func slide(g *build.Context) {
	g.Function("slideAVX512")
	g.Doc("slideAVX512 is assembly.slide for this tier.")
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
	rows, to, from, at, mask, stored := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.K(), g.K()
	weight, left, tap := g.GP64(), g.GP64(), g.GP64()
	sums := [4]reg.VecVirtual{g.ZMM(), g.ZMM(), g.ZMM(), g.ZMM()}
	x, w := g.ZMM(), g.ZMM()

	body := func(label string, sums []reg.VecVirtual) {
		for _, sum := range sums {
			avx512.zero(g, sum)
		}
		g.LEAQ(operand.Mem{Base: table, Disp: 32}, tap)
		g.MOVQ(weights, weight)
		g.Load(g.Param("taps"), left)
		g.Label(label)
		g.MOVQ(operand.Mem{Base: tap}, at)
		g.LEAQ(operand.Mem{Base: from, Index: at, Scale: 4}, at)
		g.KMOVW(operand.Mem{Base: tap, Disp: 8}, mask)
		g.VBROADCASTSS(operand.Mem{Base: weight}, w)
		for i, sum := range sums {
			if i > 0 {
				g.ADDQ(srcRow, at)
			}
			g.VMOVUPS_Z(operand.Mem{Base: at}, mask, x)
			g.VFMADD231PS(x, w, sum)
		}
		g.ADDQ(operand.U8(16), tap)
		g.ADDQ(operand.U8(4), weight)
		g.DECQ(left)
		g.JNE(operand.LabelRef(label))
		for _, sum := range sums {
			g.PREFETCHT0(operand.Mem{Base: from, Index: ahead, Scale: 1})
			g.VMOVUPS(sum, stored, operand.Mem{Base: to})
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
	g.KMOVW(operand.Mem{Base: table, Disp: 24}, stored)
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
