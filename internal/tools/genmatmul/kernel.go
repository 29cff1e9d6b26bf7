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

// A tileKernel emits one kernel: the product of panels of rows rows of A with strips of B, each vectors wide, for one
// chunk of k. The sums stay in registers from the first k to the last; A is read through its strides, element by
// element. The panels are the inner loop: a few of them stay in the level-2 cache while B goes by once.
type tileKernel struct {
	*build.Context
	set           isa
	rows, vectors int

	panelsLeft     operand.Mem
	a, b, c, aStep reg.GPVirtual
	aRows          []operand.Mem
	sums           [][]reg.VecVirtual
	rowOfB         []reg.VecVirtual
	element        reg.VecVirtual
}

func microKernel(g *build.Context, set isa, rows, vectors int) {
	t := &tileKernel{Context: g, set: set, rows: rows, vectors: vectors}
	t.begin()
	t.Label("strip")
	t.MOVQ(t.load("panels"), t.panelsLeft)
	t.Label("panel")
	t.prefetch()
	t.clear()
	t.product()
	for _, cols := range t.columns() {
		t.CMPQ(cols, operand.U8(uint8(set.lanes)))
		t.JNE(operand.LabelRef("narrow"))
	}
	t.output("store",
		func(r, v int, at operand.Mem) { t.VADDPS(at, t.sums[r][v], t.sums[r][v]) },
		func(r, v int, at operand.Mem) { t.VMOVUPS(t.sums[r][v], at) })
	t.Label("next")
	t.next()

	t.Label("narrow")
	if set.lanes == 8 {
		t.outputOverlapping()
		t.Label("masked")
	}
	var edges []tail
	for _, cols := range t.columns() {
		edges = append(edges, set.newTail(g, cols, 1))
	}
	t.output("storeNarrow", func(r, v int, at operand.Mem) {
		edges[v].load(g, 0, at, t.element)
		t.VADDPS(t.element, t.sums[r][v], t.sums[r][v])
	}, func(r, v int, at operand.Mem) { edges[v].store(g, 0, t.sums[r][v], at) })
	t.JMP(operand.LabelRef("next"))
}

// outputOverlapping is output for vectors of at least four columns without the masked stores of AVX2, which some
// processors have made slow: of a vector it stores the first four columns and the last four, those in both twice.
func (t *tileKernel) outputOverlapping() {
	last, table := make([]operand.Mem, t.vectors), t.GP64()
	t.LEAQ(operand.NewDataAddr(operand.NewStaticSymbol("halves"), 0), table)
	for v, from := range t.columns() {
		t.SUBQ(operand.U8(4), from)
		t.JLT(operand.LabelRef("masked"))
		row := t.GP64()
		t.MOVQ(from, row)
		t.SHLQ(operand.U8(5), row)
		t.VMOVUPS(operand.Mem{Base: table, Index: row, Scale: 1}, t.rowOfB[v])
		if v > 0 {
			t.ADDQ(t.load("cApart"), from)
		}
		last[v] = operand.Mem{Base: t.c, Index: from, Scale: 4}
	}
	for _, row := range t.sums {
		for v, sum := range row {
			t.VPERMPS(sum, t.rowOfB[v], sum)
		}
	}
	t.output("storeOverlapping", func(r, v int, at operand.Mem) {
		t.VMOVUPS(at, t.element.AsX())
		t.VINSERTF128(operand.U8(1), last[v], t.element, t.element)
		t.VADDPS(t.element, t.sums[r][v], t.sums[r][v])
	}, func(r, v int, at operand.Mem) {
		t.VMOVUPS(t.sums[r][v].AsX(), at)
		t.VEXTRACTF128(operand.U8(1), t.sums[r][v], last[v])
	})
	t.JMP(operand.LabelRef("next"))
}

// width is the number of columns of a strip.
func (t *tileKernel) width() int { return t.vectors * t.set.lanes }

// columns are the numbers of columns of the vectors.
func (t *tileKernel) columns() []reg.GPVirtual {
	return []reg.GPVirtual{t.load("cols"), t.load("cols2")}[:t.vectors]
}

// arg is an argument in memory, load one in a register, and stride one in bytes.
func (t *tileKernel) arg(name string) operand.Mem {
	basic, err := t.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return basic.Addr
}

func (t *tileKernel) load(name string) reg.GPVirtual {
	return t.Load(t.Param(name), t.GP64()).(reg.GPVirtual)
}

func (t *tileKernel) stride(name string) reg.GPVirtual {
	r := t.load(name)
	t.SHLQ(operand.U8(2), r)
	return r
}

// begin declares the function and computes what all panels share.
func (t *tileKernel) begin() {
	name := fmt.Sprintf("tile%dx%d%s", t.rows, t.width(), t.set.name)
	t.Function(name)
	t.Doc(fmt.Sprintf("%s computes panels of %d rows of C over strips of %d columns, see tileFunc.", name, t.rows,
		t.width()))
	t.Pragma("noescape")
	t.Attributes(build.NOSPLIT)
	t.SignatureExpr("func(k int, a *float32, aRow, aCol, aPanel int, b *float32, bRow int, bRows *int, " +
		"bApart int, bSplit *int, bStrip int, " +
		"c *float32, ldc, cApart, cPanel, panels, strips, cols, cols2 int, add bool)")
	t.panelsLeft = t.AllocLocal(8)
	t.a, t.b, t.c = t.GP64(), t.GP64(), t.GP64()
	t.aStep = t.stride("aCol")
	t.aRows = rowAddress(t.Context, t.rows, t.a, t.stride("aRow"))
}

// prefetch asks for the tile of C.
func (t *tileKernel) prefetch() {
	t.Comment("Ask for the tile of C while the sums are computed.")
	t.MOVQ(t.arg("c"), t.c)
	ldc := t.stride("ldc")
	last := t.set.bytes() - 4
	at := operand.Mem{Base: t.c, Disp: last}
	if t.vectors > 1 {
		at = operand.Mem{Base: t.c, Index: t.load("cApart"), Scale: 4, Disp: last}
	}
	for r := range t.rows {
		t.PREFETCHT0(operand.Mem{Base: t.c})
		if t.width() > 16 {
			t.PREFETCHT0(at)
		}
		if r < t.rows-1 {
			t.ADDQ(ldc, t.c)
		}
	}
}

// clear takes the vector registers and sets the sums to zero.
func (t *tileKernel) clear() {
	t.sums = make([][]reg.VecVirtual, t.rows)
	for r := range t.sums {
		for range t.vectors {
			v := t.set.vector(t.Context)
			t.set.zero(t.Context, v)
			t.sums[r] = append(t.sums[r], v)
		}
	}
	t.rowOfB = make([]reg.VecVirtual, t.vectors)
	for v := range t.rowOfB {
		t.rowOfB[v] = t.set.vector(t.Context)
	}
	t.element = t.set.vector(t.Context)
}

// product adds up the products of all k. The rows of B are a stride apart or, if there is a table of offsets, there,
// with AVX-512 in two pieces each if so told.
func (t *tileKernel) product() {
	t.MOVQ(t.arg("a"), t.a)
	t.MOVQ(t.arg("b"), t.b)
	k, offsets := t.load("k"), t.load("bRows")
	t.TESTQ(offsets, offsets)
	t.JNE(operand.LabelRef("unfolded"))
	bStep, ahead := t.stride("bRow"), t.ahead()
	t.loop("", k, func() {
		t.step(func(v int) operand.Mem { return operand.Mem{Base: t.b, Disp: v * t.set.bytes()} }, nil)
		if ahead != nil {
			t.PREFETCHT1(operand.Mem{Base: t.b, Index: ahead, Scale: 1})
		}
		t.ADDQ(bStep, t.b)
	})
	t.JMP(operand.LabelRef("done"))
	t.Label("unfolded")
	offset, from := t.GP64(), []reg.GPVirtual{t.b}
	if t.vectors > 1 {
		second := t.load("bApart")
		t.LEAQ(operand.Mem{Base: t.b, Index: second, Scale: 4}, second)
		from = append(from, second)
	}
	vector := func(from []reg.GPVirtual) func(v int) operand.Mem {
		return func(v int) operand.Mem { return operand.Mem{Base: from[v], Index: offset, Scale: 4} }
	}
	next := func() {
		t.MOVQ(operand.Mem{Base: offsets}, offset)
		t.ADDQ(operand.U8(8), offsets)
	}
	if t.set.lanes == 16 {
		t.MOVQ(t.arg("bSplit"), offset)
		t.TESTQ(offset, offset)
		t.JE(operand.LabelRef("whole"))
		var masks []operand.Op
		var pieces []reg.GPVirtual
		for v := range t.vectors {
			mask, piece := t.K(), t.GP64()
			t.KMOVW(operand.Mem{Base: offset, Disp: 16 + 8*v}, mask)
			t.MOVQ(operand.Mem{Base: offset, Disp: 8 * v}, piece)
			t.LEAQ(operand.Mem{Base: t.b, Index: piece, Scale: 4}, piece)
			masks, pieces = append(masks, mask), append(pieces, piece)
		}
		t.loop("Split", k, func() {
			next()
			t.step(vector(from), func(v int) { t.VMOVUPS(vector(pieces)(v), masks[v], t.rowOfB[v]) })
		})
		t.JMP(operand.LabelRef("done"))
		t.Label("whole")
	}
	t.loop("Unfolded", k, func() {
		next()
		t.step(vector(from), nil)
	})
	t.Label("done")
}

// ahead returns how far from a row of B lies the line to ask for beside it, nil for none: in the same row of the next
// strip the first line while the first panel is computed and the second with the second panel, then nothing new. A
// strip that comes from the level-3 cache would else hold up its first panel. On Emerald Rapids products of 1024 and
// 2048 take 0.97 of the time, an LSTM 0.96.
func (t *tileKernel) ahead() reg.Register {
	if t.set.lanes != 16 || t.vectors == 1 {
		return nil
	}
	ahead, panel, strip := t.GP64(), t.load("panels"), t.stride("bStrip")
	t.XORQ(ahead, ahead)
	t.SUBQ(t.panelsLeft, panel)
	t.CMOVQEQ(strip, ahead)
	t.ADDQ(operand.U8(64), strip)
	t.DECQ(panel)
	t.CMOVQEQ(strip, ahead)
	return ahead
}

// loop calls step k times, several times in a turn while k is large enough. Its labels have a suffix.
func (t *tileKernel) loop(suffix string, k reg.GPVirtual, step func()) {
	if t.set.unroll > 1 {
		unroll := operand.U8(uint8(t.set.unroll))
		t.SUBQ(unroll, k)
		t.JLT(operand.LabelRef("rest" + suffix))
		t.Label("steps" + suffix)
		for range t.set.unroll {
			step()
		}
		t.SUBQ(unroll, k)
		t.JGE(operand.LabelRef("steps" + suffix))
		t.Label("rest" + suffix)
		t.ADDQ(unroll, k)
	}
	t.TESTQ(k, k)
	t.JE(operand.LabelRef("done"))
	t.Label("step" + suffix)
	step()
	t.DECQ(k)
	t.JNE(operand.LabelRef("step" + suffix))
}

// step adds the products of one k, for which b tells where the vectors of the row of B are, and more loads the rest of
// these, if it is not nil.
func (t *tileKernel) step(b func(v int) operand.Mem, more func(v int)) {
	for v := range t.rowOfB {
		t.VMOVUPS(b(v), t.rowOfB[v])
		if more != nil {
			more(v)
		}
	}
	for r := range t.rows {
		t.VBROADCASTSS(t.aRows[r], t.element)
		for v := range t.rowOfB {
			t.VFMADD231PS(t.rowOfB[v], t.element, t.sums[r][v])
		}
	}
	t.ADDQ(t.aStep, t.a)
}

// output calls add for each vector of the tile of C if there is something to add to, and then store.
func (t *tileKernel) output(label string, add, store func(r, v int, at operand.Mem)) {
	t.CMPB(t.arg("add"), operand.U8(0))
	t.JE(operand.LabelRef(label))
	t.tile(add)
	t.Label(label)
	t.tile(store)
}

func (t *tileKernel) tile(access func(r, v int, at operand.Mem)) {
	t.MOVQ(t.arg("c"), t.c)
	ldc, at := t.stride("ldc"), []operand.Mem{{Base: t.c}}
	if t.vectors > 1 {
		at = append(at, operand.Mem{Base: t.c, Index: t.load("cApart"), Scale: 4})
	}
	for r := range t.rows {
		for v := range t.vectors {
			access(r, v, at[v])
		}
		if r < t.rows-1 {
			t.ADDQ(ldc, t.c)
		}
	}
}

// next goes on to the next panel, or to the first panel of the next strip, or returns.
func (t *tileKernel) next() {
	aPanel, cPanel := t.stride("aPanel"), t.stride("cPanel")
	t.ADDQ(aPanel, t.arg("a"))
	t.ADDQ(cPanel, t.arg("c"))
	t.DECQ(t.panelsLeft)
	t.JNE(operand.LabelRef("panel"))

	t.Comment("Back to the first panel and on to the next strip.")
	t.IMULQ(t.arg("panels"), aPanel)
	t.SUBQ(aPanel, t.arg("a"))
	t.IMULQ(t.arg("panels"), cPanel)
	t.SUBQ(operand.U32(uint32(4*t.width())), cPanel)
	t.SUBQ(cPanel, t.arg("c"))
	bStrip := t.stride("bStrip")
	t.ADDQ(bStrip, t.arg("b"))
	t.DECQ(t.arg("strips"))
	t.JNE(operand.LabelRef("strip"))
	t.VZEROUPPER()
	t.RET()
}
