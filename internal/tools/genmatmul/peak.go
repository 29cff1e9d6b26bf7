package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chains is the number of independent sums in the peak loop: more than the latency of a multiply-add times the
// number that start in each cycle.
const chains = 12

// peak emits a loop of independent fused multiply-adds, which nothing but the arithmetic units can slow down.
func peak(g *build.Context, set isa) {
	name := "peak" + set.name
	g.Function(name)
	g.Doc(name + " does 12 independent vector multiply-adds of x n times.")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(n int, x float32)")
	n := g.Load(g.Param("n"), g.GP64())
	x := set.vector(g)
	at, err := g.Param("x").Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSS(at.Addr, x)
	sums := make([]reg.VecVirtual, chains)
	for i := range sums {
		sums[i] = set.vector(g)
		set.zero(g, sums[i])
	}
	g.Label("turn")
	for _, sum := range sums {
		g.VFMADD231PS(x, x, sum)
	}
	g.DECQ(n)
	g.JNE(operand.LabelRef("turn"))
	g.VZEROUPPER()
	g.RET()
}
