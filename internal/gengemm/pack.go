package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyRows emits the copy of k rows of one strip, two vectors wide, from a row-major matrix.
// Columns from cols on become zero.
func copyRows(g *build.Context, set isa) {
	name := "copyRows" + set.name
	g.Function(name)
	g.Doc(name + " copies cols columns of k rows to a packed strip and pads it with zeros.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, row, k, cols int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	row := g.Load(g.Param("row"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	cols := g.Load(g.Param("cols"), g.GP64()).(reg.GPVirtual)
	g.SHLQ(operand.U8(2), row)
	g.TESTQ(k, k)
	g.JE(operand.LabelRef("done"))

	x := []reg.VecVirtual{set.vector(g), set.vector(g)}
	loop := func(label string, load func(v int, from operand.Mem)) {
		g.Label(label)
		for v := range x {
			load(v, operand.Mem{Base: src, Disp: v * set.bytes()})
		}
		for v := range x {
			g.VMOVUPS(x[v], operand.Mem{Base: dst, Disp: v * set.bytes()})
		}
		g.ADDQ(row, src)
		g.ADDQ(operand.U32(uint32(2*set.bytes())), dst)
		g.DECQ(k)
		g.JNE(operand.LabelRef(label))
	}
	g.CMPQ(cols, operand.U8(uint8(2*set.lanes)))
	g.JNE(operand.LabelRef("narrow"))
	loop("row", func(v int, from operand.Mem) { g.VMOVUPS(from, x[v]) })
	g.VZEROUPPER()
	g.RET()

	g.Label("narrow")
	edge := set.newTail(g, cols, 2)
	loop("narrowRow", func(v int, from operand.Mem) { edge.load(g, v, from, x[v]) })
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// copy12 emits the copy of twelve neighbouring elements of each of k rows: a panel of A when A is a transposed view.
func copy12(g *build.Context) {
	g.Function("copy12")
	g.Doc("copy12 sets dst[p*12+r] = src[p*row+r] for r < 12 and p < k.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, row, k int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	row := g.Load(g.Param("row"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	g.SHLQ(operand.U8(2), row)
	g.TESTQ(k, k)
	g.JE(operand.LabelRef("done"))
	eight, four := g.YMM(), g.XMM()
	g.Label("row")
	g.VMOVUPS(operand.Mem{Base: src}, eight)
	g.VMOVUPS(operand.Mem{Base: src, Disp: 32}, four)
	g.VMOVUPS(eight, operand.Mem{Base: dst})
	g.VMOVUPS(four, operand.Mem{Base: dst, Disp: 32})
	g.ADDQ(row, src)
	g.ADDQ(operand.U8(48), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("row"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// transposeLanes emits the transposition of the 4x4 blocks that the four vectors hold in each 128-bit lane:
// element i of in[j] becomes element j of the result i.
func transposeLanes(g *build.Context, in [4]reg.VecVirtual) (out [4]reg.VecVirtual) {
	for i := range out {
		out[i] = g.YMM()
	}
	low01, high01, low23, high23 := g.YMM(), g.YMM(), g.YMM(), g.YMM()
	g.VUNPCKLPS(in[1], in[0], low01)
	g.VUNPCKHPS(in[1], in[0], high01)
	g.VUNPCKLPS(in[3], in[2], low23)
	g.VUNPCKHPS(in[3], in[2], high23)
	g.VUNPCKLPD(low23, low01, out[0])
	g.VUNPCKHPD(low23, low01, out[1])
	g.VUNPCKLPD(high23, high01, out[2])
	g.VUNPCKHPD(high23, high01, out[3])
	return out
}

// transpose emits the copy of four or eight rows of a row-major matrix to columns, four columns a turn. Eight rows
// arrive in pairs that share a vector, so that no shuffle has to cross its halves.
func transpose(g *build.Context, rows int) {
	name := fmt.Sprintf("transpose%d", rows)
	g.Function(name)
	g.Doc(fmt.Sprintf("%s sets dst[p*step+r] = src[r*row+p] for r < %d and p < k, with k a multiple of 4.", name, rows))
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst *float32, step int, src *float32, row, k int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	step := g.Load(g.Param("step"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64()).(reg.GPVirtual)
	row := g.Load(g.Param("row"), g.GP64()).(reg.GPVirtual)
	k := g.Load(g.Param("k"), g.GP64())
	g.SHLQ(operand.U8(2), step)
	g.SHLQ(operand.U8(2), row)
	from := rowAddress(g, rows, src, row)
	g.SUBQ(operand.U8(4), k)
	g.JLT(operand.LabelRef("done"))

	g.Label("block")
	var in [4]reg.VecVirtual
	for i := range in {
		in[i] = g.YMM()
		g.VMOVUPS(from[i], in[i].AsX())
		if rows == 8 {
			g.VINSERTF128(operand.U8(1), from[i+4], in[i], in[i])
		}
	}
	for _, column := range transposeLanes(g, in) {
		if rows == 8 {
			g.VMOVUPS(column, operand.Mem{Base: dst})
		} else {
			g.VMOVUPS(column.AsX(), operand.Mem{Base: dst})
		}
		g.ADDQ(step, dst)
	}
	g.ADDQ(operand.U8(16), src)
	g.SUBQ(operand.U8(4), k)
	g.JGE(operand.LabelRef("block"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}
