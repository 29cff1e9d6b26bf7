package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pixels emits the kernel of panels of so many rows with strips of two vectors. The sums are in registers from the
// first k to the last; A is read through its table.
func pixels(g *build.Context, set isa, rows int) {
	name := fmt.Sprintf("pixels%d%s", rows, set.name)
	g.Function(name)
	g.Doc(fmt.Sprintf("%s computes panels of %d rows, see pixelsFunc.", name, rows))
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(k int, a *float32, aRow int, aCols *int, aPanel int, b *float32, c *float32, " +
		"ldc, cPanel, panels, strips int, add bool, read, write *float32, lines int)")

	t := &tileKernel{Context: g}
	panel, panelA, panelC := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	at, read, apart := g.GP64(), g.GP64(), g.GP64()
	address := rowAddress(g, rows, at, t.stride("aRow"))
	sums := make([][2]reg.VecVirtual, rows)
	each := func(c reg.GPVirtual, f func(sum reg.VecVirtual, at operand.Mem)) {
		g.MOVQ(panelC, c)
		ldc := t.stride("ldc")
		for r := range sums {
			for v, sum := range sums[r] {
				f(sum, operand.Mem{Base: c, Disp: set.bytes() * v})
			}
			if r < rows-1 {
				g.ADDQ(ldc, c)
			}
		}
	}

	g.MOVQ(t.arg("read"), read)
	g.MOVQ(t.arg("write"), apart)
	g.SUBQ(read, apart)

	g.Label("strip")
	g.MOVQ(t.load("panels"), panel)
	g.MOVQ(t.load("a"), panelA)
	g.MOVQ(t.load("c"), panelC)
	g.Label("panel")
	for r := range sums {
		for v := range sums[r] {
			sums[r][v] = set.vector(g)
			set.zero(g, sums[r][v])
		}
	}
	b := pixelSteps(t, set, panelA, at, read, apart, address, sums)

	g.Label("sums")
	c := g.GP64()
	g.CMPB(t.arg("add"), operand.U8(0))
	g.JE(operand.LabelRef("store"))
	each(c, func(sum reg.VecVirtual, at operand.Mem) { g.VADDPS(at, sum, sum) })
	g.Label("store")
	each(c, func(sum reg.VecVirtual, at operand.Mem) { g.VMOVUPS(sum, at) })
	g.ADDQ(t.stride("aPanel"), panelA)
	g.ADDQ(t.stride("cPanel"), panelC)
	g.DECQ(panel)
	g.JNE(operand.LabelRef("panel"))

	g.Comment("On to the next strip: b is behind this one.")
	g.MOVQ(b, t.arg("b"))
	g.ADDQ(operand.U32(2*set.bytes()), t.arg("c"))
	g.DECQ(t.arg("strips"))
	g.JNE(operand.LabelRef("strip"))
	g.VZEROUPPER()
	g.RET()
}

// pixelSteps emits the loop over k, once with lines that are fetched and once without, and returns where B then is.
func pixelSteps(t *tileKernel, set isa, panelA operand.Mem, at, read, apart reg.GPVirtual, address []operand.Mem,
	sums [][2]reg.VecVirtual) (b reg.GPVirtual) {
	g := t.Context
	k, columns, a := t.load("k"), t.load("aCols"), g.GP64()
	b = g.GP64()
	g.MOVQ(t.arg("b"), b)
	g.MOVQ(panelA, a)
	of, element := [2]reg.VecVirtual{set.vector(g), set.vector(g)}, set.vector(g)
	step := func(fetch func()) {
		g.MOVQ(operand.Mem{Base: columns}, at)
		g.LEAQ(operand.Mem{Base: a, Index: at, Scale: 4}, at)
		fetch()
		for v := range of {
			g.VMOVUPS(operand.Mem{Base: b, Disp: set.bytes() * v}, of[v])
		}
		for r := range sums {
			g.VBROADCASTSS(address[r], element)
			for v := range of {
				g.VFMADD231PS(of[v], element, sums[r][v])
			}
		}
		g.ADDQ(operand.U8(8), columns)
		g.ADDQ(operand.U32(2*set.bytes()), b)
		g.DECQ(k)
	}
	g.CMPQ(t.arg("lines"), operand.U8(0))
	g.JLE(operand.LabelRef("step"))
	g.SUBQ(k, t.arg("lines"))
	g.Label("fetch")
	step(func() {
		g.PREFETCHT1(operand.Mem{Base: read})
		g.PREFETCHT1(operand.Mem{Base: read, Index: apart, Scale: 1})
		g.ADDQ(operand.U8(64), read)
	})
	g.JNE(operand.LabelRef("fetch"))
	g.JMP(operand.LabelRef("sums"))
	g.Label("step")
	step(func() {})
	g.JNE(operand.LabelRef("step"))
	return b
}
