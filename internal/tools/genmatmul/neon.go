package main

import (
	"fmt"

	"github.com/weft-ml/weft/internal/tools/neon"
)

// The kernels of arm64. A vector has four elements, so a strip has eight columns; 24 of the 32 registers hold the sums
// of 12 rows, two a row of B, and the others elements of A, by which a vector is multiplied without being broadcast.
const (
	neonLanes = 4
	neonRows  = 12
	rowOfB    = 24
	elements  = 26 // the first register for elements of A
)

// neonTile is one micro-kernel of arm64.
type neonTile struct {
	*neon.File
	rows, vectors int
}

// neonOffsets are the registers for the distances of rows 1 to 11 of A from row 0, in bytes.
var neonOffsets = []string{"", "R9", "R10", "R16", "R17", "R19", "R20", "R21", "R22", "R23", "R24", "R25"}

// width is the number of columns of a strip.
func (t neonTile) width() int { return t.vectors * neonLanes }

func (t neonTile) sum(r, v int) int { return r*t.vectors + v }

// neonKernel writes the micro-kernel of some rows and vectors. The registers:
//
//	R0, R1, R2  what it reads of A and B, and C      R3  k          R4, R5, R6  steps in A, B and C, in bytes
//	R11 to R13  where A, C and B of this panel begin R7  panels left           R8  scratch
//	R14, R15    the table of offsets of B, and an offset
//	R26         how far apart vectors are in B, then in C
func neonKernel(f *neon.File, rows, vectors int) {
	t := neonTile{f, rows, vectors}
	name := fmt.Sprintf("tile%dx%dNEON", rows, t.width())
	doc := fmt.Sprintf("computes panels of %d rows of C over strips of %d columns, see tileFunc.", rows, t.width())
	f.Func(name, doc, "func(k int, a *float32, aRow, aCol, aPanel int, b *float32, bRow int, "+
		"bRows *int, bApart int, bSplit *int, bStrip int, "+
		"c *float32, ldc, cApart, cPanel, panels, strips, cols, cols2 int, add bool)",
		4*rows*t.width())
	for _, p := range [][2]string{{"a", "R11"}, {"b", "R13"}, {"c", "R12"}} {
		f.Ins("MOVD %s, %s", f.Argument(p[0]), p[1])
	}
	t.stride("aCol", "R4")
	t.stride("bRow", "R5")
	t.stride("ldc", "R6")
	t.stride("aRow", "R8")
	for r := 1; r < rows; r++ {
		if r == 1 {
			f.Ins("MOVD R8, %s", neonOffsets[r])
		} else {
			f.Ins("ADD R8, %s, %s", neonOffsets[r-1], neonOffsets[r])
		}
	}
	f.Label("strip")
	f.Ins("MOVD %s, R7", f.Argument("panels"))
	f.Label("panel")
	for i := range rows * vectors {
		f.Zero(i)
	}
	t.product()
	t.stride("cApart", "R26")
	for _, cols := range t.columns() {
		f.Ins("MOVD %s, R8", f.Argument(cols))
		f.Ins("CMP $%d, R8", neonLanes)
		f.Ins("BNE narrow")
	}
	t.store()
	f.Label("next")
	t.next()
	f.Label("narrow")
	t.storeNarrow()
	f.Ins("B next")
}

// columns are the arguments with the numbers of columns of the vectors.
func (t neonTile) columns() []string { return []string{"cols", "cols2"}[:t.vectors] }

// stride sets a register to an argument in bytes.
func (t neonTile) stride(name, register string) {
	t.Ins("MOVD %s, %s", t.Argument(name), register)
	t.Ins("LSL $2, %s", register)
}

// product adds up the products of all k. Where the elements of A are neighbours, as in packed panels, they are read as
// vectors. The rows of B are a stride apart or, if there is a table of offsets, there.
func (t neonTile) product() {
	t.Ins("MOVD R11, R0")
	t.Ins("MOVD R13, R1")
	t.Ins("MOVD %s, R3", t.Argument("k"))
	t.Ins("CBZ R3, done")
	t.Ins("MOVD %s, R14", t.Argument("bRows"))
	t.Ins("CBNZ R14, unfolded")
	t.loops("", func() {
		for v := range t.vectors {
			t.Ins("FMOVQ %d(R1), F%d", 16*v, rowOfB+v)
		}
	}, func() { t.Ins("ADD R5, R1") })
	t.Label("unfolded")
	t.stride("bApart", "R26")
	t.loops("Unfolded", func() {
		t.Ins("MOVD.P 8(R14), R15")
		t.Ins("ADD R15<<2, R13, R1")
		t.vectorsAt("R1", "R15", func(v int, at string) { t.Ins("FMOVQ %s, F%d", at, rowOfB+v) })
	}, func() {})
	t.Label("done")
}

// loops writes the loops over k, which end at the label done: for A in place and, of as many rows as are packed, for
// packed panels. loadB reads a row of B, and next goes on to the next one.
func (t neonTile) loops(suffix string, loadB, next func()) {
	if t.rows%neonLanes == 0 {
		t.Ins("CMP $4, R9")
		t.Ins("BEQ packed%s", suffix)
	}
	turn := func(label string) {
		next()
		t.Ins("ADD R4, R0")
		t.Ins("SUBS $1, R3")
		t.Ins("BNE %s", label)
		t.Ins("B done")
	}
	t.Label("step" + suffix)
	loadB()
	const ahead = 4
	element := func(r int) int { return elements + r%6 }
	load := func(r int) {
		switch {
		case r == 0:
			t.Ins("FMOVS (R0), F%d", element(r))
		case r < t.rows:
			t.Ins("FMOVS (R0)(%s), F%d", neonOffsets[r], element(r))
		}
	}
	for r := range min(ahead, t.rows) {
		load(r)
	}
	for r := range t.rows {
		load(r + ahead)
		for v := range t.vectors {
			t.MultiplyAdd(t.sum(r, v), rowOfB+v, element(r), 0)
		}
	}
	turn("step" + suffix)
	if t.rows%neonLanes != 0 {
		return
	}
	t.Label("packed" + suffix)
	loadB()
	for i := range t.rows / neonLanes {
		t.Ins("FMOVQ %d(R0), F%d", 16*i, elements+i)
	}
	for r := range t.rows {
		for v := range t.vectors {
			t.MultiplyAdd(t.sum(r, v), rowOfB+v, elements+r/neonLanes, r%neonLanes)
		}
	}
	turn("packed" + suffix)
}

// vectorsAt calls f for the vectors of a row, of which the second one is R26 further; its address is in scratch.
func (t neonTile) vectorsAt(row, scratch string, f func(v int, at string)) {
	f(0, "("+row+")")
	if t.vectors > 1 {
		t.Ins("ADD R26, %s, %s", row, scratch)
		f(1, "("+scratch+")")
	}
}

// store writes the tile to C, or adds it.
func (t neonTile) store() {
	t.Ins("MOVBU %s, R8", t.Argument("add"))
	t.Ins("MOVD R12, R2")
	t.Ins("CBZ R8, store")
	for r := range t.rows {
		t.vectorsAt("R2", "R8", func(v int, at string) {
			t.Ins("FMOVQ %s, F%d", at, elements+v)
			t.Op("FADD", t.sum(r, v), t.sum(r, v), elements+v)
		})
		t.Ins("ADD R6, R2")
	}
	t.Ins("MOVD R12, R2")
	t.Label("store")
	for r := range t.rows {
		t.vectorsAt("R2", "R8", func(v int, at string) { t.Ins("FMOVQ F%d, %s", t.sum(r, v), at) })
		if r < t.rows-1 {
			t.Ins("ADD R6, R2")
		}
	}
}

// storeNarrow is store for the columns that are there. The tile goes through memory, element by element.
func (t neonTile) storeNarrow() {
	t.Ins("MOVD $tile-%d(SP), R0", 4*t.rows*t.width())
	for r := range t.rows {
		for v := range t.vectors {
			t.Ins("FMOVQ F%d, %d(R0)", t.sum(r, v), 4*(r*t.width()+v*neonLanes))
		}
	}
	t.Ins("MOVBU %s, R14", t.Argument("add"))
	t.Ins("MOVD R12, R2")
	t.Ins("MOVD $%d, R3", t.rows)
	t.Label("narrowRow")
	for v, cols := range t.columns() {
		t.Ins("MOVD R2, R15")
		if v > 0 {
			t.Ins("ADD R26, R2, R15")
		}
		t.Ins("MOVD %s, R8", t.Argument(cols))
		t.Ins("MOVD ZR, R1")
		t.Label(fmt.Sprint("element", v))
		t.Ins("FMOVS (R0)(R1<<2), F0")
		t.Ins("CBZ R14, storeElement%d", v)
		t.Ins("FMOVS (R15)(R1<<2), F1")
		t.Ins("FADDS F1, F0, F0")
		t.Label(fmt.Sprint("storeElement", v))
		t.Ins("FMOVS F0, (R15)(R1<<2)")
		t.Ins("ADD $1, R1")
		t.Ins("CMP R8, R1")
		t.Ins("BLT element%d", v)
		t.Ins("ADD $%d, R0", 4*neonLanes)
	}
	t.Ins("ADD R6, R2")
	t.Ins("SUBS $1, R3")
	t.Ins("BNE narrowRow")
}

// next goes on to the next panel, or to the first panel of the next strip, or returns.
func (t neonTile) next() {
	t.stride("aPanel", "R0")
	t.stride("cPanel", "R1")
	t.Ins("ADD R0, R11")
	t.Ins("ADD R1, R12")
	t.Ins("SUBS $1, R7")
	t.Ins("BNE panel")
	t.Comment("Back to the first panel and on to the next strip.")
	t.Ins("MOVD %s, R8", t.Argument("panels"))
	t.Ins("MSUB R8, R11, R0, R11")
	t.Ins("MSUB R8, R12, R1, R12")
	t.Ins("ADD $%d, R12", 4*t.width())
	t.stride("bStrip", "R0")
	t.Ins("ADD R0, R13")
	t.Ins("MOVD %s, R0", t.Argument("strips"))
	t.Ins("SUBS $1, R0")
	t.Ins("MOVD R0, %s", t.Argument("strips"))
	t.Ins("BNE strip")
	t.Ins("RET")
}

// neonCopy writes copyStrips and copyPanels: k rows are copied piece by piece of a number of vectors, the pieces of one
// column of pieces following each other. What is left of a row of strips is copied element by element.
func neonCopy(f *neon.File, name, doc, pieces string, vectors int) {
	rest := pieces == "strips"
	signature := fmt.Sprintf("func(dst, src *float32, row, k, %s int)", pieces)
	if rest {
		signature = "func(dst, src *float32, row, k, strips, cols int)"
	}
	f.Func(name, doc, signature, 0)
	for i, argument := range []string{"dst", "src", "row", "k", pieces} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	if rest {
		f.Ins("MOVD %s, R5", f.Argument("cols"))
	}
	f.Ins("CBZ R3, done")
	f.Ins("LSL $2, R2")
	f.Ins("MOVD $%d, R6", 16*vectors)
	f.Ins("MUL R3, R6, R7") // bytes of k pieces
	f.Label("row")
	f.Ins("MOVD R0, R8")
	f.Ins("MOVD R1, R9")
	f.Ins("MOVD R4, R10")
	f.Ins("CBZ R10, rest")
	f.Label("piece")
	for v := range vectors {
		f.Ins("FMOVQ %d(R9), F%d", 16*v, v)
	}
	for v := range vectors {
		f.Ins("FMOVQ F%d, %d(R8)", v, 16*v)
	}
	f.Ins("ADD R6, R9")
	f.Ins("ADD R7, R8")
	f.Ins("SUBS $1, R10")
	f.Ins("BNE piece")
	f.Label("rest")
	if rest {
		f.Ins("MOVD R5, R10")
		f.Ins("CBZ R10, next")
		f.Label("element")
		f.Ins("SUB $1, R10")
		f.Ins("FMOVS (R9)(R10<<2), F0")
		f.Ins("FMOVS F0, (R8)(R10<<2)")
		f.Ins("CBNZ R10, element")
		f.Label("next")
	}
	f.Ins("ADD R2, R1")
	f.Ins("ADD R6, R0")
	f.Ins("SUBS $1, R3")
	f.Ins("BNE row")
	f.Label("done")
	f.Ins("RET")
}

// neonGather writes gatherStrip.
func neonGather(f *neon.File) {
	f.Func("gatherStripNEON", "is assembly.gatherStrip for this tier.",
		"func(dst, src *float32, rows *int, k int, columns *int)", 0)
	for i, argument := range []string{"dst", "src", "rows", "k", "columns"} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	f.Label("row")
	f.Ins("MOVD.P 8(R2), R5")
	f.Ins("ADD R5<<2, R1, R5")
	for i := range 2 * neonLanes {
		f.Ins("MOVD %d(R4), R6", 8*i)
		f.Ins("MOVWU (R5)(R6<<2), R7")
		f.Ins("MOVW R7, %d(R0)", 4*i)
	}
	f.Ins("ADD $%d, R0", 8*neonLanes)
	f.Ins("SUBS $1, R3")
	f.Ins("BNE row")
	f.Ins("RET")
}

// neonPieces writes copyPieces.
func neonPieces(f *neon.File) {
	f.Func("copyPiecesNEON", "is assembly.copyPieces for this tier.",
		"func(dst, src *float32, rows *int, k int, pieces *int, count int)", 0)
	for i, argument := range []string{"dst", "src", "rows", "k", "pieces", "count"} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	f.Label("row")
	f.Ins("MOVD.P 8(R2), R6")
	f.Ins("ADD R6<<2, R1, R6")
	f.Ins("MOVD R4, R7")
	f.Ins("MOVD R5, R8")
	f.Label("piece")
	f.Ins("MOVD.P 8(R7), R9")
	f.Ins("ADD R9<<2, R6, R9")
	f.Ins("FMOVQ (R9), F0")
	f.Ins("MOVD.P 8(R7), R9")
	f.Ins("ADD R9<<2, R0, R9")
	f.Ins("FMOVQ F0, (R9)")
	f.Ins("SUBS $1, R8")
	f.Ins("BNE piece")
	f.Ins("ADD $%d, R0", 8*neonLanes)
	f.Ins("SUBS $1, R3")
	f.Ins("BNE row")
	f.Ins("RET")
}

// neonGatherPanel writes gatherPanel.
func neonGatherPanel(f *neon.File) {
	f.Func("gatherPanel", "sets dst[p*12+r] = src[columns[p]+r*row] for p < k, at least one, and r < 12.",
		"func(dst, src *float32, row int, columns *int, k int)", 0)
	for i, argument := range []string{"dst", "src", "row", "columns", "k"} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	f.Ins("LSL $2, R2")
	f.Label("column")
	f.Ins("MOVD.P 8(R3), R5")
	f.Ins("ADD R5<<2, R1, R5")
	for r := range neonRows {
		f.Ins("MOVWU (R5), R6")
		f.Ins("MOVW R6, %d(R0)", 4*r)
		f.Ins("ADD R2, R5")
	}
	f.Ins("ADD $%d, R0", 4*neonRows)
	f.Ins("SUBS $1, R4")
	f.Ins("BNE column")
	f.Ins("RET")
}

// neonTranspose writes the copy of four or eight rows of a row-major matrix to columns, four columns a turn.
func neonTranspose(f *neon.File, rows int) {
	name := fmt.Sprintf("transpose%d", rows)
	f.Func(name, fmt.Sprintf("sets dst[p*step+r] = src[r*row+p] for r < %d and p < k, with k a multiple of 4.", rows),
		"func(dst *float32, step int, src *float32, row, k int)", 0)
	for i, argument := range []string{"dst", "step", "src", "row", "k"} {
		f.Ins("MOVD %s, R%d", f.Argument(argument), i)
	}
	f.Ins("LSL $2, R1")
	f.Ins("LSL $2, R3")
	f.Ins("CBZ R4, done")
	f.Label("block")
	f.Ins("MOVD R2, R5")
	for r := range rows {
		f.Ins("FMOVQ (R5), F%d", r)
		if r < rows-1 {
			f.Ins("ADD R3, R5")
		}
	}
	// Of 4x4 elements: rows 0 and 2, and 1 and 3, alternate; then these do.
	for r := 0; r < rows; r += 4 {
		f.Op("ZIP1", 16, r, r+2)
		f.Op("ZIP1", 17, r+1, r+3)
		f.Op("ZIP2", 18, r, r+2)
		f.Op("ZIP2", 19, r+1, r+3)
		f.Op("ZIP1", 20+r, 16, 17)
		f.Op("ZIP2", 21+r, 16, 17)
		f.Op("ZIP1", 22+r, 18, 19)
		f.Op("ZIP2", 23+r, 18, 19)
	}
	for p := range 4 {
		for r := 0; r < rows; r += 4 {
			f.Ins("FMOVQ F%d, %d(R0)", 20+r+p, 4*r)
		}
		f.Ins("ADD R1, R0")
	}
	f.Ins("ADD $16, R2")
	f.Ins("SUBS $4, R4")
	f.Ins("BNE block")
	f.Label("done")
	f.Ins("RET")
}

// neonPeak writes the loop of independent multiply-adds: 24, for units that start four in a cycle.
func neonPeak(f *neon.File) {
	const sums = 24
	f.Func("peakNEON", fmt.Sprintf("does %d independent vector multiply-adds of x n times.", sums),
		"func(n int, x float32)", 0)
	f.Ins("MOVD %s, R0", f.Argument("n"))
	f.Ins("FMOVS %s, F31", f.Argument("x"))
	for i := range sums {
		f.Zero(i)
	}
	f.Label("turn")
	for i := range sums {
		f.MultiplyAdd(i, 31, 31, 0)
	}
	f.Ins("SUBS $1, R0")
	f.Ins("BNE turn")
	f.Ins("RET")
}

// generateNEON returns the files of arm64 by name.
func generateNEON() map[string][]byte {
	f := neon.NewFile(command, "matmul", "pool")
	for rows := 1; rows <= neonRows; rows++ {
		neonKernel(f, rows, 2)
		neonKernel(f, rows, 1)
	}
	neonCopy(f, "copyStripsNEON", "is assembly.copyStrips for this tier.", "strips", 2)
	neonCopy(f, "copyPanels", "sets dst[q*12*k+p*12+r] = src[p*row+q*12+r] for q < panels, p < k and r < 12.",
		"panels", 3)
	neonGather(f)
	neonPieces(f)
	neonGatherPanel(f)
	for taps := 1; taps <= mostTaps; taps++ {
		neonCorrelate(f, taps)
	}
	neonTranspose(f, 8)
	neonTranspose(f, 4)
	neonPeak(f)
	return map[string][]byte{"z_arm64.s": f.Assembly(), "z_arm64.go": f.Stubs()}
}
