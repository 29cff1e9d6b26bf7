package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// double emits the float64 kernel of some rows. The tile has as many vectors as that of float32, of half as many
// columns each; the sums stay in registers from the first k to the last.
func double(g *build.Context, set isa, rows int) {
	name := fmt.Sprintf("double%d%s", rows, set.name)
	g.Function(name)
	g.Doc(fmt.Sprintf("%s computes tiles of %d rows and %d columns, see tiles64.", name, rows, set.lanes))
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(k int, a, b, sums *float64)")
	arg := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	k, a, b, to := arg("k"), arg("a"), arg("b"), arg("sums")
	sums := make([][2]reg.VecVirtual, rows)
	for r := range sums {
		for v := range sums[r] {
			sums[r][v] = set.vector(g)
			set.zero(g, sums[r][v])
		}
	}
	rowOfB, element := [2]reg.VecVirtual{set.vector(g), set.vector(g)}, set.vector(g)
	g.Label("step")
	for v, row := range rowOfB {
		g.VMOVUPD(operand.Mem{Base: b, Disp: v * set.bytes()}, row)
	}
	for r := range sums {
		g.VBROADCASTSD(operand.Mem{Base: a, Disp: 8 * r}, element)
		for v, row := range rowOfB {
			g.VFMADD231PD(row, element, sums[r][v])
		}
	}
	g.ADDQ(operand.U32(uint32(8*set.rows)), a)
	g.ADDQ(operand.U32(uint32(2*set.bytes())), b)
	g.DECQ(k)
	g.JNE(operand.LabelRef("step"))
	for r, row := range sums {
		for v, sum := range row {
			g.VMOVUPD(sum, operand.Mem{Base: to, Disp: (2*r + v) * set.bytes()})
		}
	}
	g.VZEROUPPER()
	g.RET()
}
