package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// An isa is an instruction set as far as the kernels see it.
type isa struct {
	name   string // suffix of function names
	lanes  int    // float32 lanes of a vector
	rows   int    // rows of the micro-kernel
	pixels int    // rows of two sums that there are registers for beside two vectors of B and an element of A
	unroll int    // steps of k in one turn of the loop
}

// The tile of C fills the registers: 12x2 of 32 and 6x2 of 16 hold sums, two hold a row of B, one an element of A.
var (
	avx512 = isa{name: "AVX512", lanes: 16, rows: 12, pixels: 14, unroll: 4}
	avx2   = isa{name: "AVX2", lanes: 8, rows: 6, pixels: 6, unroll: 4}
)

// bytes is the size of a vector.
func (s isa) bytes() int { return 4 * s.lanes }

// vector returns a fresh vector register.
func (s isa) vector(g *build.Context) reg.VecVirtual {
	if s.lanes == 16 {
		return g.ZMM()
	}
	return g.YMM()
}

// zero sets v to +0.
func (s isa) zero(g *build.Context, v reg.Register) {
	if s.lanes == 16 {
		g.VPXORD(v, v, v)
	} else {
		g.VXORPS(v, v, v)
	}
}

// A tail selects the first columns of a strip that is narrower than its vectors.
type tail struct {
	set   isa
	masks []operand.Op // a mask register for each vector, or where in memory it is
	tmp   reg.VecVirtual
}

// newTail makes the masks for the number of columns in cols.
func (s isa) newTail(g *build.Context, cols reg.GPVirtual, vectors int) tail {
	t := tail{set: s}
	if s.lanes == 16 {
		g.Comment("Masks of the columns: one bit for each.")
		bits := g.GP64()
		g.MOVQ(cols, reg.RCX)
		g.MOVQ(operand.U32(1), bits)
		g.SHLQ(reg.CL, bits)
		g.DECQ(bits)
		for v := range vectors {
			if v > 0 {
				g.SHRQ(operand.U8(16), bits)
			}
			k := g.K()
			g.KMOVW(bits.As32(), k)
			t.masks = append(t.masks, k)
		}
		return t
	}
	g.Comment("Masks of the columns: a window on 16 lanes of ones and 16 of zeros.")
	window := g.GP64()
	g.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("tails"), 64), window)
	skip := g.GP64()
	g.MOVQ(cols, skip)
	g.SHLQ(operand.U8(2), skip)
	g.SUBQ(skip, window)
	for v := range vectors {
		t.masks = append(t.masks, operand.Mem{Base: window, Disp: 32 * v})
	}
	t.tmp = g.YMM()
	return t
}

// load reads the selected columns of vector v, zero elsewhere.
func (t tail) load(g *build.Context, v int, from operand.Mem, to reg.Register) {
	if t.set.lanes == 16 {
		g.VMOVUPS_Z(from, t.masks[v], to)
		return
	}
	g.VMOVUPS(t.masks[v], t.tmp)
	g.VMASKMOVPS(from, t.tmp, to)
}

// store writes the selected columns of vector v.
func (t tail) store(g *build.Context, v int, from reg.Register, to operand.Mem) {
	if t.set.lanes == 16 {
		g.VMOVUPS(from, t.masks[v], to)
		return
	}
	g.VMOVUPS(t.masks[v], t.tmp)
	g.VMASKMOVPS(from, t.tmp, to)
}

// tails emits the table behind the AVX2 masks.
func tails(g *build.Context) {
	g.StaticGlobal("tails")
	g.DataAttributes(build.RODATA | build.NOPTR)
	for i := range 32 {
		g.AddDatum(4*i, operand.U32(map[bool]uint32{true: 0xffffffff}[i < 16]))
	}
}

// halves emits orders of lanes: of the first four columns of a vector, which has 4 to 8, then of the last four.
func halves(g *build.Context) {
	g.StaticGlobal("halves")
	g.DataAttributes(build.RODATA | build.NOPTR)
	for columns := 4; columns <= 8; columns++ {
		for i := range 8 {
			g.AddDatum(32*(columns-4)+4*i, operand.U32(i+i/4*(columns-8)))
		}
	}
}
