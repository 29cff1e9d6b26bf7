package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowAddress returns the addresses of rows 0, 1, ... of a matrix with its stride in bytes in the register row.
// Scaled odd multiples of the stride reach twelve rows from one base, so that one addition moves all of them on.
func rowAddress(g *build.Context, rows int, base, row reg.GPVirtual) []operand.Mem {
	odd := map[int]reg.GPVirtual{1: row}
	for i := 3; i < rows; i += 2 {
		odd[i] = g.GP64()
		g.LEAQ(operand.Mem{Base: odd[i-2], Index: row, Scale: 2}, odd[i])
	}
	address := []operand.Mem{{Base: base}}
	for i := 1; i < rows; i++ {
		multiple, scale := i, uint8(1)
		for multiple%2 == 0 {
			multiple, scale = multiple/2, scale*2
		}
		address = append(address, operand.Mem{Base: base, Index: odd[multiple], Scale: scale})
	}
	return address
}

// microKernel emits the product of panels of rows rows of A with strips of B, each vectors wide, for one chunk of k.
// The sums stay in registers from the first k to the last; A is read through its strides, element by element. The panels
// are the inner loop: a few of them stay in the level-2 cache while B goes by once.
func microKernel(g *build.Context, set isa, rows, vectors int) {
	width := vectors * set.lanes
	name := fmt.Sprintf("tile%dx%d%s", rows, width, set.name)
	g.Function(name)
	g.Doc(fmt.Sprintf("%s computes panels of %d rows of C over strips of %d columns, see tileFunc.", name, rows, width))
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(k int, a *float32, aRow, aCol, aPanel int, b *float32, bRow, bStrip int, c *float32, ldc, cPanel, panels, strips, cols int, add bool)")

	arg := func(name string) operand.Mem {
		basic, err := g.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		return basic.Addr
	}
	load := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	stride := func(name string) reg.GPVirtual {
		r := load(name)
		g.SHLQ(operand.U8(2), r)
		return r
	}
	panelsLeft := g.AllocLocal(8)

	a, b, c := g.GP64(), g.GP64(), g.GP64()
	aStep, bStep := stride("aCol"), stride("bRow")
	aRows := rowAddress(g, rows, a, stride("aRow"))

	g.Label("strip")
	g.MOVQ(load("panels"), panelsLeft)
	g.Label("panel")
	g.Comment("Ask for the tile of C while the sums are computed.")
	g.MOVQ(arg("c"), c)
	ldc := stride("ldc")
	for r := range rows {
		g.PREFETCHT0(operand.Mem{Base: c})
		if width > 16 {
			g.PREFETCHT0(operand.Mem{Base: c, Disp: 4*width - 4})
		}
		if r < rows-1 {
			g.ADDQ(ldc, c)
		}
	}

	sums := make([][]reg.VecVirtual, rows)
	for r := range sums {
		for range vectors {
			v := set.vector(g)
			set.zero(g, v)
			sums[r] = append(sums[r], v)
		}
	}
	rowOfB := make([]reg.VecVirtual, vectors)
	for v := range rowOfB {
		rowOfB[v] = set.vector(g)
	}
	element := set.vector(g)
	step := func() {
		for v := range rowOfB {
			g.VMOVUPS(operand.Mem{Base: b, Disp: v * set.bytes()}, rowOfB[v])
		}
		g.ADDQ(bStep, b)
		for r := range rows {
			g.VBROADCASTSS(aRows[r], element)
			for v := range rowOfB {
				g.VFMADD231PS(rowOfB[v], element, sums[r][v])
			}
		}
		g.ADDQ(aStep, a)
	}

	g.MOVQ(arg("a"), a)
	g.MOVQ(arg("b"), b)
	k := load("k")
	if set.unroll > 1 {
		g.SUBQ(operand.U8(uint8(set.unroll)), k)
		g.JLT(operand.LabelRef("rest"))
		g.Label("steps")
		for range set.unroll {
			step()
		}
		g.SUBQ(operand.U8(uint8(set.unroll)), k)
		g.JGE(operand.LabelRef("steps"))
		g.Label("rest")
		g.ADDQ(operand.U8(uint8(set.unroll)), k)
	}
	g.TESTQ(k, k)
	g.JE(operand.LabelRef("done"))
	g.Label("step")
	step()
	g.DECQ(k)
	g.JNE(operand.LabelRef("step"))
	g.Label("done")

	tile := func(access func(r, v int, at operand.Mem)) {
		g.MOVQ(arg("c"), c)
		for r := range rows {
			for v := range vectors {
				access(r, v, operand.Mem{Base: c, Disp: v * set.bytes()})
			}
			if r < rows-1 {
				g.ADDQ(ldc, c)
			}
		}
	}
	cols := load("cols")
	g.CMPQ(cols, operand.U8(uint8(width)))
	g.JNE(operand.LabelRef("narrow"))
	g.CMPB(arg("add"), operand.U8(0))
	g.JE(operand.LabelRef("store"))
	tile(func(r, v int, at operand.Mem) { g.VADDPS(at, sums[r][v], sums[r][v]) })
	g.Label("store")
	tile(func(r, v int, at operand.Mem) { g.VMOVUPS(sums[r][v], at) })

	g.Label("next")
	aPanel, cPanel := stride("aPanel"), stride("cPanel")
	g.ADDQ(aPanel, arg("a"))
	g.ADDQ(cPanel, arg("c"))
	g.DECQ(panelsLeft)
	g.JNE(operand.LabelRef("panel"))

	g.Comment("Back to the first panel and on to the next strip.")
	g.IMULQ(arg("panels"), aPanel)
	g.SUBQ(aPanel, arg("a"))
	g.IMULQ(arg("panels"), cPanel)
	g.SUBQ(operand.U32(uint32(4*width)), cPanel)
	g.SUBQ(cPanel, arg("c"))
	bStrip := stride("bStrip")
	g.ADDQ(bStrip, arg("b"))
	g.DECQ(arg("strips"))
	g.JNE(operand.LabelRef("strip"))
	g.VZEROUPPER()
	g.RET()

	g.Label("narrow")
	edge := set.newTail(g, cols, vectors)
	g.CMPB(arg("add"), operand.U8(0))
	g.JE(operand.LabelRef("storeNarrow"))
	tile(func(r, v int, at operand.Mem) {
		edge.load(g, v, at, element)
		g.VADDPS(element, sums[r][v], sums[r][v])
	})
	g.Label("storeNarrow")
	tile(func(r, v int, at operand.Mem) { edge.store(g, v, sums[r][v], at) })
	g.JMP(operand.LabelRef("next"))
}
