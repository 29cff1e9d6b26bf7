package main

import (
	"fmt"

	"github.com/weft-ml/weft/internal/tools/neon"
)

// emitNEON writes the assembly function of the kernel for arm64.
func (k *kernel) emitNEON(f *neon.File) {
	s := prepare(k.prog, neonTarget, k.interleaved())
	p := k.plan(neonTarget, s)
	e := &neonEmitter{File: f, k: k, s: s, group: p.group, regs: p.alloc.regs, spills: p.alloc.slots}
	e.inType, e.outType = k.types()
	before := newAlloc(neonTarget, s, &s.before, neonTarget.free(s), nil)
	before.run(func(i int, x place) {
		before.steps = append(before.steps, func(m machine, j int) { m.storeSlot(i, x) })
	})
	e.layOut(p, before)
	f.Func(k.name+neonTarget.name, k.doc, k.signature(), e.frame)
	e.params()
	if k.rows {
		f.Label("row")
		f.Ins("MOVD %s, %s", f.Argument("n"), neonCount)
	}
	setup := *e
	setup.group, setup.regs, setup.spills = 1, neonTarget.free(s), before.slots
	setup.copies(before.steps, 0, 1)
	switch {
	case k.piece != nil:
		e.hoist(p)
		e.pieceLoop(p)
	case len(k.results) > 0:
		e.reduceLoop(p)
	default:
		e.hoist(p)
		e.mapLoop(p)
	}
}

// layOut places local variables: spilled values, slots, partial sums while the tail of a pass is added to them, and
// results of passes.
func (e *neonEmitter) layOut(p *plan, before *alloc) {
	local := func(n int) (at int) {
		at = e.frame
		e.frame += (n + 15) &^ 15
		return at
	}
	e.spillAt = local(16 * max(p.alloc.slots*p.group, before.slots))
	e.slotAt = local(16 * e.s.slots)
	if n := len(e.k.results); n > 0 {
		e.sumsAt = local(16 * n * p.copies)
		e.passesAt = local(16 * n)
	}
	for i := range e.k.results {
		e.accReg = append(e.accReg, neonTarget.free(e.s)-(len(e.k.results)-i)*p.copies)
	}
}

// params loads the arguments.
func (e *neonEmitter) params() {
	k := e.k
	if !k.direct() {
		e.Ins("MOVD %s, %s", e.Argument("p"), neonScratch)
	}
	for i, name := range k.vectors() {
		r := pointer(i)
		if len(k.results) > 0 {
			r = neonBases[i]
		}
		if k.direct() {
			e.Ins("MOVD %s, %s", e.Argument(name), r)
		} else {
			e.Ins("MOVD %d(%s), %s", 8*i, neonScratch, r)
		}
	}
	if len(k.uniforms) > 0 {
		e.Ins("MOVD %s, %s", e.Argument("u"), neonUniforms)
	}
	if k.rows {
		e.Ins("MOVD %s, %s", e.Argument("r"), neonRowOut)
		e.Ins("MOVD %s, %s", e.Argument("rows"), neonRowsLeft)
	} else {
		e.Ins("MOVD %s, %s", e.Argument("n"), neonCount)
	}
	if e.frame > 0 {
		e.Ins("MOVD $local-%d(SP), %s", e.frame, neonLocals)
	}
	e.Constants(neonPool)
	if k.interleaved() {
		e.Ins("MOVD ZR, %s", neonNumber)
	}
}

// copies emits the steps for the copies from lo to hi-1, interleaved.
func (e *neonEmitter) copies(steps []step, lo, hi int) {
	for _, s := range steps {
		for j := lo; j < hi; j++ {
			s(e, j)
		}
	}
}

// hoist loads the fixed values that have registers.
func (e *neonEmitter) hoist(p *plan) {
	for _, i := range sortedKeys(p.hoist) {
		e.loadFixed(i, 0, place{pinned, p.hoist[i]})
	}
}

// advance moves the pointers on by some elements.
func (e *neonEmitter) advance(elements int) {
	for i := range e.k.outs {
		size := e.outType.size()
		if e.k.interleaved() {
			size *= 4
		}
		e.Ins("ADD $%d, %s", size*elements, e.output(i))
	}
	for i, name := range e.k.ins {
		if e.k.isOutput(name) {
			continue
		}
		e.Ins("ADD $%d, %s", e.inType.size()*elements, e.input(i))
	}
}

// loop emits a loop over the elements, some in each turn, which leaves fewer than that in the counter. A turn goes on
// by stride elements.
func (e *neonEmitter) loop(name string, elements, stride int, turn func()) {
	e.Ins("SUBS $%d, %s", elements, neonCount)
	e.Ins("BLT %sEnd", name)
	e.Label(name)
	turn()
	e.advance(stride)
	e.Ins("SUBS $%d, %s", stride, neonCount)
	e.Ins("BGE %s", name)
	e.Label(name + "End")
	e.Ins("ADDS $%d, %s", elements, neonCount)
}

// tail sets the distances between the lanes of a tail: those behind the last element are 0.
func (e *neonEmitter) tail() {
	e.Ins("SUB $1, %s, %s", neonCount, neonThird)
	e.Ins("LSL $2, %s", neonThird)
	e.Ins("MOVD $4, %s", neonSecond)
	e.Ins("CMP %s, %s", neonSecond, neonThird)
	e.Ins("CSEL LT, %s, %s, %s", neonThird, neonSecond, neonSecond)
}

// mapLoop is the loop of a kernel without results: whole groups of vectors, then single ones, then a tail.
func (e *neonEmitter) mapLoop(p *plan) {
	w := neonTarget.width
	e.loop("loop", w*p.copies, w*p.copies, func() { e.copies(p.alloc.steps, 0, p.copies) })
	if p.copies > 1 {
		e.loop("single", w, w, func() { e.copies(p.alloc.steps, 0, 1) })
	}
	e.Ins("BEQ done")
	e.tail()
	e.masked = true
	e.copies(p.alloc.steps, 0, 1)
	if e.k.rows {
		for i := range len(e.k.outs) + len(e.k.ins) {
			e.Ins("ADD %s<<2, %s", neonCount, pointer(i))
		}
	}
	e.Label("done")
	e.finish()
}

// pieceLoop is the loop of a kernel that takes whole turns only.
func (e *neonEmitter) pieceLoop(p *plan) {
	step := neonTarget.width * p.copies
	e.Label("loop")
	e.copies(p.alloc.steps, 0, p.copies)
	e.advance(step)
	if e.k.interleaved() {
		e.Ins("ADD $%d, %s", step, neonNumber)
	}
	e.Ins("SUBS $%d, %s", step, neonCount)
	e.Ins("BGT loop")
	e.finish()
}

// reduceLoop is the loop of a kernel with results, which has one block of the canonical order: a pass over its elements
// for each part of the partial sums, which then has the registers.
func (e *neonEmitter) reduceLoop(p *plan) {
	k, passes := e.k, e.k.parts(neonTarget, p)
	for pass := range passes {
		e.pass(p, pass)
		if pass == 0 && passes > 1 { // a short row has no elements for the others
			e.Ins("MOVD %s, %s", e.Argument("n"), neonCount)
			e.Ins("CMP $%d, %s", lanes/passes, neonCount)
			e.Ins("BLE done")
		}
		if passes > 1 {
			for i := range k.results {
				e.Ins("FMOVS F%d, %d(%s)", e.accReg[i], e.passesAt+16*i+4*pass, neonLocals)
			}
		}
	}
	for i, r := range k.results {
		if passes > 1 {
			e.Ins("FMOVQ %d(%s), F%d", e.passesAt+16*i, neonLocals, e.accReg[i])
		}
		for h := 1; h < passes; h *= 2 {
			e.pairs(r.kind, e.accReg[i], e.accReg[i], e.accReg[i])
		}
	}
	e.Label("done")
	for i, r := range k.results {
		to := fmt.Sprintf("%d(%s)", 4*i, neonRowOut)
		if !k.rows {
			to = e.Argument(r.name)
		}
		e.Ins("FMOVS F%d, %s", e.accReg[i], to)
	}
	e.finish()
}

// pass is one pass over the elements. The result i is in the first register of accumulator i.
func (e *neonEmitter) pass(p *plan, pass int) {
	k, w := e.k, neonTarget.width
	span := w * p.copies
	if pass > 0 {
		e.Ins("MOVD %s, %s", e.Argument("n"), neonCount)
		e.Ins("SUB $%d, %s", span*pass, neonCount)
	}
	for i := range len(k.outs) + len(k.ins) {
		e.Ins("ADD $%d, %s, %s", 4*span*pass, neonBases[i], pointer(i))
	}
	e.hoist(p)
	for i, r := range k.results {
		e.loadConst(r.kind.neutral, e.accReg[i])
		for j := range p.copies - 1 {
			e.Move(e.accReg[i]+1+j, e.accReg[i])
		}
	}
	e.loop(label("loop", pass), span, lanes, func() {
		for j := 0; j < p.copies; j += p.group {
			e.copies(p.alloc.steps, j, j+p.group)
		}
	})
	e.Ins("BLE %s", label("tree", pass))
	e.rest(p, pass)
	e.Label(label("tree", pass))
	for i, r := range k.results {
		e.tree(r.kind, e.accReg[i], p.copies)
	}
}

// rest is what is left behind the turns of a pass. It adds vector by vector to partial sums in memory.
func (e *neonEmitter) rest(p *plan, pass int) {
	w := neonTarget.width
	sums := func(format string, copies int) {
		for i := range e.k.results {
			for j := range copies {
				e.Ins(format, 16*(i*p.copies+j), neonSums, e.accReg[i]+j)
			}
		}
	}
	const load, save = "FMOVQ %[1]d(%[2]s), F%[3]d", "FMOVQ F%[3]d, %[1]d(%[2]s)"
	vector := func() {
		sums(load, 1)
		e.copies(p.alloc.steps, 0, 1)
		sums(save, 1)
	}
	e.Ins("ADD $%d, %s, %s", e.sumsAt, neonLocals, neonSums)
	sums(save, p.copies)
	e.loop(label("single", pass), w, w, func() {
		vector()
		e.Ins("ADD $16, %s", neonSums)
	})
	e.Ins("BEQ %s", label("whole", pass))
	e.tail()
	const ones = 0xffffffff
	e.Ins("ADD $%d, %s, %s", e.Constant(ones, ones, ones, ones, 0, 0, 0, 0)+16, neonPool, neonMask)
	e.Ins("SUB %s<<2, %s", neonCount, neonMask)
	e.masked = true
	vector()
	e.masked = false
	e.Label(label("whole", pass))
	e.Ins("ADD $%d, %s, %s", e.sumsAt, neonLocals, neonSums)
	sums(load, p.copies)
}

// tree joins the partial sums in n vectors from register first on, neighbours first, in lane 0 of the first.
func (e *neonEmitter) tree(r *reduction, first, n int) {
	for ; n > 1; n /= 2 {
		for j := 0; j < n; j += 2 {
			e.pairs(r, first+j/2, first+j, first+j+1)
		}
	}
	e.pairs(r, first, first, first)
	e.pairs(r, first, first, first)
}

// pairs joins the neighbours of x, then those of y.
func (e *neonEmitter) pairs(r *reduction, to, x, y int) {
	if name := map[*reduction]string{sum: "FADDP", maximum: "FMAXP", minimum: "FMINP"}[r]; name != "" {
		e.Op(name, to, x, y)
		return
	}
	e.Op("UZP1", 0, x, y)
	e.Op("UZP2", 1, x, y)
	e.Op("FMUL", to, 0, 1)
}

// finish is the end of the kernel, or of a row.
func (e *neonEmitter) finish() {
	k := e.k
	if k.rows {
		if len(k.results) > 0 {
			e.Ins("MOVD %s, %s", e.Argument("n"), neonCount)
			for i := range len(k.outs) + len(k.ins) {
				e.Ins("ADD %s<<2, %s", neonCount, neonBases[i])
			}
		}
		if len(k.uniforms) > 0 {
			e.Ins("ADD $%d, %s", 4*len(k.uniforms), neonUniforms)
		}
		e.Ins("ADD $%d, %s", 4*len(k.results), neonRowOut)
		e.Ins("SUBS $1, %s", neonRowsLeft)
		e.Ins("BNE row")
	}
	e.Ins("RET")
}
