package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// reduceLoop is the loop of a kernel with results, which has one block of the canonical order. A turn of it adds to all
// partial sums. Those of the first part are in registers, and if there are more, the others are on the stack: a pass
// over the elements for each part would skip pieces of memory, and take twice as long where they are not in the caches.
// Then each part in turn has the registers, takes the elements that are left, and is joined.
func (k *kernel) reduceLoop(e *emitter, p *plan) {
	c, parts, span := e.c, k.parts(e.t, p), operand.U32(e.t.width*p.resident)
	k.beginSums(e, p, parts)
	c.SUBQ(operand.U32(lanes), count)
	c.JL(operand.LabelRef("rest"))
	c.Label("loop")
	for j := 0; j < p.copies; j += p.group {
		e.copies(p.alloc.steps, j, j+p.group)
	}
	c.ADDQ(operand.U32(4*lanes), index)
	c.SUBQ(operand.U32(lanes), count)
	c.JGE(operand.LabelRef("loop"))
	c.Label("rest")
	for j := p.resident; j < p.resident+p.extra; j++ {
		e.call(move, e.vec(place{inAcc, 0}, j), e.sumAt(0, j))
	}
	e.extra = 0
	c.ADDQ(operand.U32(lanes), count)
	for e.part = range parts {
		if e.part > 0 {
			k.loadSums(e, p)
			c.SUBQ(span, count)
		}
		c.JLE(operand.LabelRef(label("tree", e.part)))
		if e.part == 0 && parts > 1 {
			c.Label("short")
		}
		k.tail(e, p)
		k.joinPart(e, p)
		if parts > 1 {
			for i := range k.results {
				c.VMOVSS(xmm[e.accReg[i]], e.partSum(parts, i, e.part))
			}
		}
		if e.part == 0 && parts > 1 { // a short row has no elements for the others
			c.TESTQ(index, index)
			c.JNE(operand.LabelRef("others"))
			c.CMPQ(count, span)
			c.JLE(operand.LabelRef("done"))
			c.Label("others")
		}
	}
	for i, r := range k.results {
		k.joinParts(e, parts, i, r)
	}
	c.Label("done")
	for i, r := range k.results {
		k.storeResult(e, i, r)
	}
	k.finish(e)
}

func label(name string, part int) string { return fmt.Sprint(name, part) }

// beginSums sets partial sums to the neutral element. A row that has elements for the first part alone needs no others.
func (k *kernel) beginSums(e *emitter, p *plan, parts int) {
	e.part = 0
	for i, r := range k.results {
		neutral := e.vectors()[e.accReg[i]]
		e.loadConst(r.kind.neutral, neutral)
		for j := range p.resident - 1 {
			e.call("VMOVAPS", neutral, e.vectors()[e.accReg[i]+1+j])
		}
	}
	if parts == 1 {
		return
	}
	e.c.CMPQ(count, operand.U32(e.t.width*p.resident))
	e.c.JLE(operand.LabelRef("short"))
	for i := range k.results {
		for j := p.resident; j < p.copies; j++ {
			if e.inMemory(j) {
				e.call(move, e.vectors()[e.accReg[i]], e.sumAt(i, j))
			} else {
				e.call("VMOVAPS", e.vectors()[e.accReg[i]], e.vec(place{inAcc, i}, j))
			}
		}
	}
}

// loadSums loads the partial sums of a part.
func (k *kernel) loadSums(e *emitter, p *plan) {
	for i := range k.results {
		for j := range p.resident {
			e.call(move, e.sumAt(i, e.part*p.resident+j), e.vectors()[e.accReg[i]+j])
		}
	}
}

// tail is what is left behind the turns of the loop for a part: up to 64 elements at a time, which masks have room for.
func (k *kernel) tail(e *emitter, p *plan) {
	c, w := e.c, e.t.width
	each := min(p.resident, 64/w)
	from := e.part * p.resident
	for first := from; first < from+p.resident; first += each {
		last, more := first+each == from+p.resident, first+each < p.copies
		end, full := label("tree", e.part), label("full", e.part)
		if first > from {
			end = full
		}
		masked := label("masked", e.part)
		if more { // whole vectors first
			c.CMPQ(count, operand.U32(w*each))
			c.JL(operand.LabelRef(masked))
			for j := first; j < first+each; j += p.group {
				e.copies(p.alloc.steps, j, j+p.group)
			}
			if last {
				c.JMP(operand.LabelRef(full))
			} else {
				c.SUBQ(operand.U32(w*each), count)
				c.JNE(operand.LabelRef(label("upper", e.part)))
				c.TESTQ(index, index)
				c.JNE(operand.LabelRef(full))
				c.JMP(operand.LabelRef(label("four", e.part)))
			}
			c.Label(masked)
		} else if first > from {
			c.Label(label("upper", e.part))
		}
		if e.t == avx512 {
			k.bits(e)
		} else {
			k.tailAddress(e)
		}
		e.masked = true
		for j := range each {
			if e.t == avx512 {
				c.KMOVW(reg.R15L, opmask[tailMask])
				c.SHRQ(operand.Imm(uint64(w)), masks)
			}
			e.copies(p.alloc.steps, first+j, first+j+1)
			if j < each-1 {
				c.CMPQ(count, operand.U32(w*(j+1)))
				c.JLE(operand.LabelRef(end))
			}
		}
		e.masked = false
		if !last {
			c.JMP(operand.LabelRef(end))
		}
	}
}

// joinPart joins the partial sums of a part. In those of a short row one vector or four have all elements.
func (k *kernel) joinPart(e *emitter, p *plan) {
	c := e.c
	full, joined := label("full", e.part), label("joined", e.part)
	trees := func(n int) {
		for i, r := range k.results {
			k.tree(e, n, e.accReg[i], r)
		}
	}
	if e.part > 0 {
		c.Label(label("tree", e.part))
		c.Label(full)
		trees(p.resident)
		return
	}
	if e.t == avx512 {
		c.JMP(operand.LabelRef(full)) // the row has more than 64 elements
	}
	c.Label(label("tree", e.part))
	c.TESTQ(index, index)
	c.JNE(operand.LabelRef(full))
	for n := 1; n < p.resident; n *= 4 {
		longer := label(fmt.Sprintf("longer%d_", n), e.part)
		c.CMPQ(count, operand.U32(n*e.t.width))
		c.JG(operand.LabelRef(longer))
		if n == 4 {
			c.Label(label("four", e.part))
		}
		trees(n)
		c.JMP(operand.LabelRef(joined))
		c.Label(longer)
	}
	c.Label(full)
	trees(p.resident)
	c.Label(joined)
}

// partSum is where result i of a part is kept.
func (e *emitter) partSum(parts, i, part int) operand.Mem {
	return e.partSums.Offset(4 * (i*parts + part))
}

// joinParts joins what the parts have for result i, neighbours first.
func (k *kernel) joinParts(e *emitter, parts, i int, r result) {
	if parts == 1 {
		return
	}
	first := e.accReg[i]
	for part := range parts {
		e.c.VMOVSS(e.partSum(parts, i, part), xmm[first+part])
	}
	for h := 1; h < parts; h *= 2 {
		for part := 0; part < parts; part += 2 * h {
			e.combine(r.kind, xmm, first+part, first+part+h)
		}
	}
}

// storeResult returns result i, or stores it for its row.
func (k *kernel) storeResult(e *emitter, i int, r result) {
	to := operand.Mem{Base: rowOut, Disp: 4 * i}
	if !k.rows {
		ret, err := e.c.Return(r.name).Resolve()
		if err != nil {
			panic(err)
		}
		to = ret.Addr
	}
	e.c.VMOVSS(xmm[e.accReg[i]], to)
}

func (e *emitter) loadConst(bits uint32, r reg.Register) {
	if bits == 0 {
		e.call("VXORPS", r, r, r)
		return
	}
	e.call("VBROADCASTSS", e.pool.constant(bits), r)
}

// tree joins the partial sums in n vectors from register first on, neighbours first, in the first one. Two shuffles of
// two vectors bring the even and the odd elements of both together. After two such levels a vector has, in each 128
// bits, one element of each of four vectors.
func (k *kernel) tree(e *emitter, n, first int, r result) {
	merge := func(name string, lower, upper int) {
		for j := 0; j < n; j += 2 {
			x, y := e.vectors()[first+j], e.vectors()[first+j+1]
			e.call(name, operand.U8(upper), y, x, e.vectors()[other])
			e.call(name, operand.U8(lower), y, x, e.vectors()[first+j/2])
			e.combine(r.kind, e.vectors(), first+j/2, other)
		}
		n /= 2
	}
	swap := func(order int) { // within 128 bits
		e.call("VPERMILPS", operand.U8(order), e.vectors()[first], e.vectors()[other])
		e.combine(r.kind, e.vectors(), first, other)
	}
	const neighbours, halves = 0xb1, 0x4e // elements 1 0 3 2, and 2 3 0 1
	swapParts := func(order int) {        // of 128 bits
		name, x := "VSHUFF32X4", e.vectors()[first]
		if e.t == avx2 {
			name, order = "VPERM2F128", 0x01
		}
		e.call(name, operand.U8(order), x, x, e.vectors()[other])
		e.combine(r.kind, e.vectors(), first, other)
	}
	pairs := func() {
		swap(neighbours)
		swap(halves)
	}
	quads := func() {
		swapParts(neighbours)
		if e.t == avx512 {
			swapParts(halves)
		}
	}
	if n == 1 {
		pairs()
		quads()
		return
	}
	eight := n == 8
	merge("VSHUFPS", 0x88, 0xdd)
	merge("VSHUFPS", 0x88, 0xdd)
	switch {
	case !eight:
		quads()
		pairs()
	case e.t == avx512:
		merge("VSHUFF32X4", 0x88, 0xdd)
		swapParts(neighbours)
		pairs()
		swapParts(halves)
	default:
		merge("VPERM2F128", 0x20, 0x31)
		pairs()
		swapParts(halves)
	}
}

// other is a register beside those of accumulators; behind it are those of combine.
const other = 0

// combine makes register x the combination of registers x and y of the given width;
// registers from 1 on are free for temporaries.
func (e *emitter) combine(r *reduction, width []reg.Register, x, y int) {
	b := lane.NewBuilder()
	s := prepare(b.Program(r.combine(b, b.Acc(0), b.Acc(1))), e.t, false)
	a := newAlloc(e.t, s, &s.loop, 6, nil)
	a.run(func(_ int, out place) {
		a.steps = append(a.steps, func(m machine, j int) { m.ins("VMOVAPS", j, out, place{pinned, x}) })
	})
	sub := *e
	sub.s, sub.group, sub.regs, sub.masks, sub.accReg = s, 1, 0, a.kpeak, []int{x, y}
	sub.first, sub.width, sub.part, sub.resident = 1, width, 0, 1
	for _, step := range a.steps {
		step(&sub, 0)
	}
}
