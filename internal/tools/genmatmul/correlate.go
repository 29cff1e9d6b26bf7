package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/weft-ml/weft/internal/tools/neon"
)

// mostTaps is how many rows of sums a kernel keeps in registers: with the vectors of G, what AVX2 has.
const mostTaps = 7

const correlateSignature = "func(k int, grad *float32, gradRow int, x *float32, rows *int, step int, " +
	"c *float32, cRow int)"

func correlateName(taps int, tier string) (name, doc string) {
	return fmt.Sprintf("correlate%d%s", taps, tier), fmt.Sprintf("adds to %d rows of sums, see correlateFunc.", taps)
}

// correlate emits one kernel of the gradients of depthwise weights, for so many taps and two vectors of channels. The
// sums are in registers from the first k to the last; each vector of G is multiplied by those of all taps.
func correlate(g *build.Context, set isa, taps int) {
	name, doc := correlateName(taps, set.name)
	g.Function(name)
	g.Doc(name + " " + doc)
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr(correlateSignature)

	load := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	k, from, x, rows, c := load("k"), load("grad"), load("x"), load("rows"), load("c")
	gRow, step, cRow := load("gradRow"), load("step"), load("cRow")
	for _, stride := range []reg.GPVirtual{gRow, step, cRow} {
		g.SHLQ(operand.U8(2), stride)
	}
	at := g.GP64()
	address := rowAddress(g, taps, at, step)
	sums := make([][2]reg.VecVirtual, taps)
	each := func(f func(sum reg.VecVirtual, at operand.Mem)) {
		g.MOVQ(c, at)
		for t := range sums {
			for v := range sums[t] {
				f(sums[t][v], operand.Mem{Base: at, Disp: v * set.bytes()})
			}
			if t < taps-1 {
				g.ADDQ(cRow, at)
			}
		}
	}
	for t := range sums {
		sums[t] = [2]reg.VecVirtual{set.vector(g), set.vector(g)}
	}
	each(func(sum reg.VecVirtual, at operand.Mem) { g.VMOVUPS(at, sum) })
	of := [2]reg.VecVirtual{set.vector(g), set.vector(g)}

	g.Label("step")
	g.MOVQ(operand.Mem{Base: rows}, at)
	g.LEAQ(operand.Mem{Base: x, Index: at, Scale: 4}, at)
	for v := range of {
		g.VMOVUPS(operand.Mem{Base: from, Disp: v * set.bytes()}, of[v])
	}
	for t := range sums {
		for v := range of {
			g.VFMADD231PS(address[t].Offset(v*set.bytes()), of[v], sums[t][v])
		}
	}
	g.ADDQ(operand.U8(8), rows)
	g.ADDQ(gRow, from)
	g.DECQ(k)
	g.JNE(operand.LabelRef("step"))
	each(func(sum reg.VecVirtual, at operand.Mem) { g.VMOVUPS(sum, at) })
	g.VZEROUPPER()
	g.RET()
}

// neonCorrelate is correlate for arm64.
func neonCorrelate(f *neon.File, taps int) {
	name, doc := correlateName(taps, "NEON")
	f.Func(name, doc, correlateSignature, 0)
	for i, argument := range []string{"k", "grad", "gradRow", "x", "rows", "step", "c", "cRow"} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	for _, stride := range []int{2, 5, 7} {
		f.Ins("LSL $2, R%d", stride)
	}
	const of, seen = 2 * mostTaps, 2*mostTaps + 2
	each := func(format string) {
		f.Ins("MOVD R6, R8")
		for t := range taps {
			for v := range 2 {
				f.Ins(format, 16*v, 2*t+v)
			}
			f.Ins("ADD R7, R8")
		}
	}
	each("FMOVQ %d(R8), F%d")
	f.Label("step")
	f.Ins("MOVD.P 8(R4), R8")
	f.Ins("ADD R8<<2, R3, R8")
	for v := range 2 {
		f.Ins("FMOVQ %d(R1), F%d", 16*v, of+v)
	}
	for t := range taps {
		for v := range 2 {
			f.Ins("FMOVQ %d(R8), F%d", 16*v, seen+v)
			f.Op("FMLA", 2*t+v, of+v, seen+v)
		}
		f.Ins("ADD R5, R8")
	}
	f.Ins("ADD R2, R1")
	f.Ins("SUBS $1, R0")
	f.Ins("BNE step")
	each("FMOVQ F%[2]d, %[1]d(R8)")
	f.Ins("RET")
}
