package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyStrips emits the copy of rows of a row-major matrix to packed strips, two vectors wide. A row is read from its
// first column to its last, while the rows below are on their way to the cache.
func copyStrips(g *build.Context, set isa) {
	name := "copyStrips" + set.name
	g.Function(name)
	g.Doc(name + " is assembly.copyStrips for this tier.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, row, k, strips, cols int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	row := g.Load(g.Param("row"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	strips := g.Load(g.Param("strips"), g.GP64())
	cols := g.Load(g.Param("cols"), g.GP64()).(reg.GPVirtual)
	g.SHLQ(operand.U8(2), row)
	g.TESTQ(k, k)
	g.JE(operand.LabelRef("done"))

	g.Comment("A strip has k rows.")
	width := 2 * set.bytes()
	strip := g.GP64()
	g.MOVQ(k, strip)
	g.IMUL3Q(operand.U32(uint32(width)), strip, strip)
	edge := set.newTail(g, cols, 2)
	x := []reg.VecVirtual{set.vector(g), set.vector(g)}
	from, ahead, to, left := g.GP64(), g.GP64(), g.GP64(), g.GP64()

	g.Label("row")
	g.MOVQ(src, from)
	g.LEAQ(operand.Mem{Base: src, Index: row, Scale: 8}, ahead)
	g.MOVQ(dst, to)
	g.MOVQ(strips, left)
	g.TESTQ(left, left)
	g.JE(operand.LabelRef("narrow"))
	g.Label("strip")
	for v := range x {
		g.VMOVUPS(operand.Mem{Base: from, Disp: v * set.bytes()}, x[v])
	}
	for line := 0; line < width; line += 64 {
		g.PREFETCHT0(operand.Mem{Base: ahead, Disp: line})
	}
	for v := range x {
		g.VMOVUPS(x[v], operand.Mem{Base: to, Disp: v * set.bytes()})
	}
	g.ADDQ(operand.U32(uint32(width)), from)
	g.ADDQ(operand.U32(uint32(width)), ahead)
	g.ADDQ(strip, to)
	g.DECQ(left)
	g.JNE(operand.LabelRef("strip"))

	g.Label("narrow")
	g.TESTQ(cols, cols)
	g.JE(operand.LabelRef("next"))
	for v := range x {
		edge.load(g, v, operand.Mem{Base: from, Disp: v * set.bytes()}, x[v])
		g.VMOVUPS(x[v], operand.Mem{Base: to, Disp: v * set.bytes()})
	}
	g.Label("next")
	g.ADDQ(row, src)
	g.ADDQ(operand.U32(uint32(width)), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("row"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// gatherStrip emits the copy of columns that lie anywhere, the same in each row, to a packed strip. Scalar moves are as
// fast as vector gathers, which some processors have made slow.
func gatherStrip(g *build.Context, set isa) {
	name := "gatherStrip" + set.name
	g.Function(name)
	g.Doc(name + " is assembly.gatherStrip for this tier.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, rows *int, k int, columns *int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	rows := g.Load(g.Param("rows"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	columns := g.Load(g.Param("columns"), g.GP64())
	row, column, x := g.GP64(), g.GP64(), g.GP32()

	g.Label("row")
	g.MOVQ(operand.Mem{Base: rows}, row)
	g.LEAQ(operand.Mem{Base: src, Index: row, Scale: 4}, row)
	for i := range 2 * set.lanes {
		g.MOVQ(operand.Mem{Base: columns, Disp: 8 * i}, column)
		g.MOVL(operand.Mem{Base: row, Index: column, Scale: 4}, x)
		g.MOVL(x, operand.Mem{Base: dst, Disp: 4 * i})
	}
	g.ADDQ(operand.U8(8), rows)
	g.ADDQ(operand.U32(uint32(2*set.bytes())), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("row"))
	g.RET()
}

// copyPieces emits the copy of rows that lie in pieces, the same ones in each row, to a packed strip: whole vectors, of
// which the next one overwrites what is beyond a piece. That of the last one is room behind the strip.
func copyPieces(g *build.Context, set isa) {
	name := "copyPieces" + set.name
	g.Function(name)
	g.Doc(name + " is assembly.copyPieces for this tier.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, rows *int, k int, pieces *int, count int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	rows := g.Load(g.Param("rows"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	pieces := g.Load(g.Param("pieces"), g.GP64())
	count := g.Load(g.Param("count"), g.GP64())
	row, piece, left, offset, x := g.GP64(), g.GP64(), g.GP64(), g.GP64(), set.vector(g)

	g.Label("row")
	g.MOVQ(operand.Mem{Base: rows}, row)
	g.LEAQ(operand.Mem{Base: src, Index: row, Scale: 4}, row)
	g.MOVQ(pieces, piece)
	g.MOVQ(count, left)
	g.Label("piece")
	g.MOVQ(operand.Mem{Base: piece}, offset)
	g.VMOVUPS(operand.Mem{Base: row, Index: offset, Scale: 4}, x)
	g.MOVQ(operand.Mem{Base: piece, Disp: 8}, offset)
	g.VMOVUPS(x, operand.Mem{Base: dst, Index: offset, Scale: 4})
	g.ADDQ(operand.U8(16), piece)
	g.DECQ(left)
	g.JNE(operand.LabelRef("piece"))
	g.ADDQ(operand.U8(8), rows)
	g.ADDQ(operand.U32(uint32(2*set.bytes())), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// copyPanels emits the copy of neighbouring elements of rows to packed panels, twelve to each: what packs A when it is
// a transposed view.
func copyPanels(g *build.Context) {
	g.Function("copyPanels")
	g.Doc("copyPanels sets dst[q*12*k+p*12+r] = src[p*row+q*12+r] for q < panels, p < k and r < 12.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, row, k, panels int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	row := g.Load(g.Param("row"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	panels := g.Load(g.Param("panels"), g.GP64())
	g.SHLQ(operand.U8(2), row)
	g.TESTQ(k, k)
	g.JE(operand.LabelRef("done"))
	panel := g.GP64()
	g.MOVQ(k, panel)
	g.IMUL3Q(operand.U32(48), panel, panel)
	from, ahead, to, left := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	eight, four := g.YMM(), g.XMM()

	g.Label("row")
	g.MOVQ(src, from)
	g.LEAQ(operand.Mem{Base: src, Index: row, Scale: 8}, ahead)
	g.MOVQ(dst, to)
	g.MOVQ(panels, left)
	g.Label("panel")
	g.VMOVUPS(operand.Mem{Base: from}, eight)
	g.VMOVUPS(operand.Mem{Base: from, Disp: 32}, four)
	g.PREFETCHT0(operand.Mem{Base: ahead})
	g.VMOVUPS(eight, operand.Mem{Base: to})
	g.VMOVUPS(four, operand.Mem{Base: to, Disp: 32})
	g.ADDQ(operand.U8(48), from)
	g.ADDQ(operand.U8(48), ahead)
	g.ADDQ(panel, to)
	g.DECQ(left)
	g.JNE(operand.LabelRef("panel"))
	g.ADDQ(row, src)
	g.ADDQ(operand.U8(48), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("row"))
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// gatherPanel emits the copy of columns of twelve rows that lie anywhere to a packed panel.
func gatherPanel(g *build.Context) {
	const rows = 12
	g.Function("gatherPanel")
	g.Doc("gatherPanel sets dst[p*12+r] = src[columns[p]+r*row] for p < k, at least one, and r < 12.")
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst, src *float32, row int, columns *int, k int)")

	dst := g.Load(g.Param("dst"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	row := g.Load(g.Param("row"), g.GP64()).(reg.GPVirtual)
	columns := g.Load(g.Param("columns"), g.GP64())
	k := g.Load(g.Param("k"), g.GP64())
	g.SHLQ(operand.U8(2), row)
	at, x := g.GP64(), g.XMM()
	from := rowAddress(g, rows, at, row)
	g.Label("column")
	g.MOVQ(operand.Mem{Base: columns}, at)
	g.LEAQ(operand.Mem{Base: src, Index: at, Scale: 4}, at)
	for r := 0; r < rows; r += 4 { // by vectors, since stores take longer than loads
		g.VMOVSS(from[r], x)
		for lane := 1; lane < 4; lane++ {
			g.VINSERTPS(operand.U8(lane<<4), from[r+lane], x, x)
		}
		g.VMOVUPS(x, operand.Mem{Base: dst, Disp: 4 * r})
	}
	g.ADDQ(operand.U8(8), columns)
	g.ADDQ(operand.U8(4*rows), dst)
	g.DECQ(k)
	g.JNE(operand.LabelRef("column"))
	g.RET()
}

// copyPlane emits the copy of rows of n elements, at least 4, which are neighbours or every second one in the source.
// The last vector of a row ends with it, whatever others have copied before; vectors have 4 elements if n is below 8.
func copyPlane(g *build.Context, step int) {
	name := fmt.Sprintf("copyPlane%d", step)
	doc := fmt.Sprintf("sets dst[i*dstRow+j] = src[i*srcRow+%d*j] for i < rows, at least one, and j < n, at least 4.",
		step)
	p := newPlane(g, name, doc)
	vectors := func(lanes int, x, y reg.VecVirtual) func() {
		return func() {
			from := operand.Mem{Base: p.src, Index: p.j, Scale: uint8(4 * step)}
			g.VMOVUPS(from, x)
			if step == 2 { // elements 0, 2, ... of the first, 1, 3, ... of the second, which ends with the last one
				g.VMOVUPS(from.Offset(4*(lanes-1)), y)
				g.VSHUFPS(operand.U8(0xd8), y, x, x)
				if lanes == 8 {
					g.VPERMQ(operand.U8(0xd8), x, x)
				}
			}
			g.VMOVUPS(x, operand.Mem{Base: p.dst, Index: p.j, Scale: 4})
		}
	}
	g.CMPQ(p.last, operand.U8(8))
	g.JLT(operand.LabelRef("few"))
	p.overlappingRows("", 8, vectors(8, g.YMM(), g.YMM()))
	g.Label("few")
	p.overlappingRows("Few", 4, vectors(4, g.XMM(), g.XMM()))
}

// putPlane emits the copy of rows of n elements to every second one of the destination: four at a time, the elements
// between which are read and written, too, and the last one to four by themselves, since a vector that overlaps the one
// before would wait for what that has stored.
func putPlane(g *build.Context) {
	p := newPlane(g, "putPlane2", "sets dst[i*dstRow+2*j] = src[i*srcRow+j] for i < rows and j < n, both at least one.")
	x, n, single := g.YMM(), g.GP64(), g.GP32()
	g.MOVQ(p.last, n)
	g.SUBQ(operand.U8(4), p.last)
	from, to := operand.Mem{Base: p.src, Index: p.j, Scale: 4}, operand.Mem{Base: p.dst, Index: p.j, Scale: 8}
	p.eachRow("", 4, func() {
		g.VPMOVZXDQ(from, x)
		g.VBLENDPS(operand.U8(0xaa), to, x, x)
		g.VMOVUPS(x, to)
	}, func() {
		g.Label("single")
		g.MOVL(from, single)
		g.MOVL(single, to)
		g.INCQ(p.j)
		g.CMPQ(p.j, n)
		g.JLT(operand.LabelRef("single"))
	})
}

// plane is a function that copies rows: its arguments, n being in last, with distances in bytes, and a column.
type plane struct {
	*build.Context
	dst, dstRow, src, srcRow, rows, last, j reg.Register
}

// newPlane begins the function.
func newPlane(g *build.Context, name, doc string) plane {
	g.Function(name)
	g.Doc(name + " " + doc)
	g.Pragma("noescape")
	g.Attributes(build.NOSPLIT)
	g.SignatureExpr("func(dst *float32, dstRow int, src *float32, srcRow, rows, n int)")
	load := func(name string) reg.Register { return g.Load(g.Param(name), g.GP64()) }
	p := plane{g, load("dst"), load("dstRow"), load("src"), load("srcRow"), load("rows"), load("n"), g.GP64()}
	g.SHLQ(operand.U8(2), p.dstRow)
	g.SHLQ(operand.U8(2), p.srcRow)
	return p
}

// overlappingRows emits the rest of it: a vector for every step-th column, of which the last one ends with the row.
// Labels have a suffix.
func (p plane) overlappingRows(suffix string, step uint8, vector func()) {
	p.SUBQ(operand.U8(step), p.last)
	p.eachRow(suffix, step, vector, func() {
		p.MOVQ(p.last, p.j)
		vector()
	})
}

// eachRow emits the rest of it: in each row vector for every step-th column j below last, then end.
func (p plane) eachRow(suffix string, step uint8, vector, end func()) {
	p.Label("row" + suffix)
	p.XORQ(p.j, p.j)
	p.CMPQ(p.j, p.last)
	p.JGE(operand.LabelRef("end" + suffix))
	p.Label("vector" + suffix)
	vector()
	p.ADDQ(operand.U8(step), p.j)
	p.CMPQ(p.j, p.last)
	p.JLT(operand.LabelRef("vector" + suffix))
	p.Label("end" + suffix)
	end()
	p.ADDQ(p.dstRow, p.dst)
	p.ADDQ(p.srcRow, p.src)
	p.DECQ(p.rows)
	p.JNE(operand.LabelRef("row" + suffix))
	p.VZEROUPPER()
	p.RET()
}

// maskedPlane emits copyPlane and, with put, putPlane2 for AVX-512: masks select the elements of the last vector, and
// every second one of what is read or written of them.
func maskedPlane(g *build.Context, step int, put bool) {
	name, doc := fmt.Sprintf("copyPlane%dAVX512", step), fmt.Sprintf("dst[i*dstRow+j] = src[i*srcRow+%d*j]", step)
	if put {
		name, doc = "putPlane2AVX512", "dst[i*dstRow+2*j] = src[i*srcRow+j]"
	}
	p := newPlane(g, name, "sets "+doc+" for i < rows and j < n, both at least one.")
	count := 16 / step // elements of a vector
	bits, every := g.GP64(), g.GP64()
	g.MOVQ(p.last, reg.RCX)
	g.DECQ(reg.RCX)
	g.MOVQ(reg.RCX, p.last)
	g.ANDQ(operand.I32(int32(-count)), p.last) // where the last vector begins
	g.SUBQ(p.last, reg.RCX)
	g.MOVQ(operand.U32(2), bits)
	g.SHLQ(reg.CL, bits)
	g.DECQ(bits)
	g.MOVQ(operand.U32(0x5555), every)
	mask := func(bits reg.GPVirtual) operand.Op {
		k := g.K()
		g.KMOVW(bits.As32(), k)
		return k
	}
	few, all := mask(bits), mask(every)
	g.PDEPQ(every, bits, bits)
	fewOfAll := mask(bits)
	x := g.ZMM()
	vector := func(few, all operand.Op) {
		from, to := operand.Mem{Base: p.src, Index: p.j, Scale: 4}, operand.Mem{Base: p.dst, Index: p.j, Scale: 4}
		switch {
		case put:
			to.Scale = 8
			g.VPMOVZXDQ_Z(from, few, x)
			g.VMOVUPS(x, all, to)
		case step == 2:
			from.Scale = 8
			g.VMOVUPS_Z(from, all, x)
			g.VPMOVQD(x, few, to)
		default:
			g.VMOVUPS_Z(from, few, x)
			g.VMOVUPS(x, few, to)
		}
	}
	g.MOVQ(operand.I32(-1), every)
	full := mask(every)
	p.eachRow("", uint8(count), func() { vector(full, all) }, func() { vector(few, fewOfAll) })
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

// ahead is how many bytes ahead a transposition fetches its rows: too short ones for what processors foresee.
const ahead = 256

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
	for _, row := range from {
		g.PREFETCHT0(row.Offset(ahead))
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
