package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// kernel is one generated loop: for every element the program reads the inputs and
// writes the outputs, and accumulates into the 128 partial sums of its results.
type kernel struct {
	name        string // unexported Go name
	instr       string // the instruction it is, if any
	piece       *piece // what is different in a kernel that takes whole vectors only
	nonTemporal int    // of its first outputs, which are aligned, whole vectors have non-temporal stores
	rows        bool   // it runs on many rows, each with its own scalars and results
	doc         string // what it does, after its name
	outs        []string
	ins         []string
	uniforms    []string
	results     []result
	prog        *lane.Program // outputs first, then the new values of the accumulators
}

// piece describes a kernel that package vec calls with whole vectors only: a multiple of
// 64 elements, or of 16 if it is interleaved. It has one vector of elements of another
// type, or interleaved outputs.
type piece struct {
	in, out     elem
	interleaved bool // the outputs are one vector: output k of element i is its element 4*i + k
}

// elem is the type of the elements of a vector in memory.
type elem int

const (
	single elem = iota // float32
	half               // IEEE half precision
	brain              // bfloat16, the upper half of a float32
	octet              // uint8, the number
)

func (t elem) size() int { return []int{4, 2, 2, 1}[t] }

func (t elem) goName() string { return []string{"float32", "uint16", "uint16", "uint8"}[t] }

// vectors are the names of its outputs and inputs, once each: an input may be an output, too.
func (k *kernel) vectors() []string {
	return append(slices.Clone(k.outs), slices.DeleteFunc(slices.Clone(k.ins), k.isOutput)...)
}

func (k *kernel) isOutput(name string) bool { return slices.Contains(k.outs, name) }

// types are those of the inputs and of the outputs in memory.
func (k *kernel) types() (in, out elem) {
	if k.piece == nil {
		return single, single
	}
	return k.piece.in, k.piece.out
}

func (k *kernel) interleaved() bool { return k.piece != nil && k.piece.interleaved }

// result is a reduction over all elements.
type result struct {
	name string
	kind *reduction
}

// reduction is an operation on accumulators with its neutral element.
type reduction struct {
	name    string
	combine func(b *lane.Builder, x, y lane.Value) lane.Value
	neutral uint32
}

var (
	sum     = &reduction{"sum", (*lane.Builder).Add, 0}
	product = &reduction{"prod", (*lane.Builder).Mul, 0x3f800000}
	maximum = &reduction{"max", lane.Max, 0xff800000}
	minimum = &reduction{"min", lane.Min, 0x7f800000}
)

// lanes is the number of partial sums of a block of the canonical order: element i goes to partial sum i mod 128.
const lanes = 128

// direct reports whether each pointer is a parameter.
func (k *kernel) direct() bool { return k.instr != "" || k.piece != nil }

// signature is the Go signature of the assembly function. Those of instructions and of
// pieces take their pointers one by one; the others take an array of pointers, outputs
// first, and an array of scalars. For rows, the scalars and the results r of a row follow
// those of the row before.
func (k *kernel) signature() string {
	if k.direct() {
		in, out := k.types()
		sig := "func("
		for _, x := range k.outs {
			sig += x + " *" + out.goName() + ", "
		}
		for _, x := range k.ins {
			sig += x + " *" + in.goName() + ", "
		}
		if len(k.uniforms) > 0 {
			sig += "u *uint32, "
		}
		return sig + "n int)"
	}
	if k.rows {
		return "func(p **float32, u, r *float32, rows, n int)"
	}
	var r []string
	for _, x := range k.results {
		r = append(r, x.name)
	}
	sig := "func(p **float32, u *float32, n int)"
	if len(r) > 0 {
		sig += " (" + strings.Join(r, ", ") + " float32)"
	}
	return sig
}

// general are the registers for pointers.
var general = []reg.Register{reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R14}

// A kernel for rows has fewer pointers.
var (
	rowsLeft = reg.R11
	rowOut   = reg.R12 // where the results of the row go
)

var (
	scratch = reg.R13
	count   = reg.RCX // elements left
	index   = reg.RAX // byte offset
	scalars = reg.RBX // argument array
	masks   = reg.R15 // address of AVX2 masks, or the bits of AVX-512 masks
)

// plan decides how many copies of the body run interleaved and what stays in
// registers.
type plan struct {
	copies   int // vectors of one turn of the loop
	group    int // of them interleaved
	resident int // of a kernel with results: vectors whose partial sums have registers
	extra    int // and those behind them that have some in the loop, if its body is short
	hoist    map[int]int
	alloc    *alloc
}

// parts is into how many the partial sums of a kernel with results are divided: those of a part have registers at the
// same time.
func (k *kernel) parts(t *target, p *plan) int { return lanes / (p.resident * t.width) }

func (k *kernel) plan(t *target, s *split) *plan {
	p := &plan{copies: 1}
	avail := t.free(s)
	if len(k.results) > 0 {
		p.copies = lanes / t.width
		for p.resident = p.copies; len(k.results)*p.resident > t.regs/2; {
			p.resident /= 2
		}
		if t == neonTarget {
			p.copies = p.resident
		}
		avail -= len(k.results) * p.resident
	}
	sumsInMemory := p.copies > p.resident && len(k.results) > 0
	probe := newAlloc(t, s, &s.loop, 256, nil)
	probe.sums = sumsInMemory
	k.run(probe, t)

	if sumsInMemory && len(k.results) == 1 && len(probe.steps) <= 12 {
		p.extra = max(0, avail-2*probe.peak-len(hoist(s, t, 0, avail)))
		avail -= p.extra
	}
	p.group = unroll(len(probe.steps), len(k.ins)+len(k.outs), avail-4*probe.peak)
	if k.interleaved() {
		p.group = 2 // a long chain
	}
	if len(k.results) > 0 {
		p.group = min(p.group, p.resident)
	}
	p.group = max(1, min(p.group, avail/probe.peak))
	if probe.kpeak > 0 {
		p.group = min(p.group, s.masks/probe.kpeak)
	}
	if p.group == 3 {
		p.group = 2 // which divides the copies
	}
	if len(k.results) == 0 {
		p.copies = p.group
	}
	regs := min(probe.peak, avail)
	p.hoist = hoist(s, t, regs*p.group, avail)
	p.alloc = newAlloc(t, s, &s.loop, regs, p.hoist)
	p.alloc.sums = sumsInMemory
	k.run(p.alloc, t)
	return p
}

// unroll is the number of interleaved copies for a body of n instructions. Four hide more latency, if they leave some
// registers for constants, and if the vectors in memory are few: AdamW's seven are faster with two copies.
func unroll(n, vectors, left int) int {
	switch {
	case n <= 12, n <= 60 && vectors <= 4 && left >= 4:
		return 4
	case n <= 60:
		return 2
	}
	return 1
}

// hoist gives the registers from first up to limit to the fixed values used most.
func hoist(s *split, t *target, first, limit int) map[int]int {
	var order []int
	for i, f := range s.fixed {
		if f.uses > 0 && !(t != avx512 && f.kind == fixedTable) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return s.fixed[j].uses - s.fixed[i].uses })
	m := map[int]int{}
	for _, i := range order {
		if first == limit {
			break
		}
		m[i] = first
		first++
	}
	return m
}

// run selects the loop body: outputs are stored and accumulators updated at its end,
// after every input was loaded, so that a destination may be an operand.
func (k *kernel) run(a *alloc, t *target) {
	a.run(func(i int, x place) {
		spare := x
		if t == avx2 && k.piece == nil || t == neonTarget && i >= len(k.outs) {
			spare = place{inReg, a.take(temp)} // for the mask
		}
		if len(k.results) == 0 || i < len(k.outs) {
			a.steps = append(a.steps, func(m machine, j int) { m.store(i, j, x, spare) })
			return
		}
		i -= len(k.outs)
		a.steps = append(a.steps, func(m machine, j int) { m.accumulate(i, j, x, spare) })
	})
}

func (e *emitter) accumulate(k, j int, from, spare place) {
	r, mask := e.vec(from, j), e.vec(spare, j)
	if e.inMemory(j) {
		e.call(move, r, e.sumAt(k, j))
		return
	}
	acc := e.vec(place{inAcc, k}, j)
	switch {
	case !e.masked:
		e.call("VMOVAPS", r, acc)
	case e.t == avx512:
		e.call("VMOVAPS", r, opmask[tailMask], acc)
	default:
		e.call("VMOVDQU", e.tailAt(j), mask)
		e.call("VBLENDVPS", mask, r, acc, acc)
	}
}

// emit writes the assembly function of the kernel for target t.
func (k *kernel) emit(c *build.Context, t *target, pool *pool) {
	s := prepare(k.prog, t, k.interleaved())
	p := k.plan(t, s)
	c.Function(k.name + t.name)
	c.SignatureExpr(k.signature())
	if k.doc != "" {
		c.Doc(k.name + t.name + " " + k.doc)
	}
	c.Pragma("noescape")

	e := &emitter{c: c, t: t, s: s, pool: pool, group: p.group, regs: p.alloc.regs, masks: p.alloc.kpeak,
		spills: p.alloc.slots, uniforms: scalars, index: index, tail: masks, interleaved: k.interleaved(),
		nonTemporal: k.nonTemporal, resident: p.resident, extra: p.extra}
	e.inType, e.outType = k.types()
	e.unit = min(e.inType.size(), e.outType.size())
	k.params(e)
	before := newAlloc(t, s, &s.before, t.regs, nil)
	before.run(func(i int, x place) {
		before.steps = append(before.steps, func(m machine, j int) { m.storeSlot(i, x) })
	})
	k.frame(e, p, before)

	if s.masks == evenMask && t == avx512 {
		c.MOVL(operand.U32(0x5555), scratch.As32())
		c.KMOVW(scratch.As32(), opmask[evenMask])
	}
	if k.rows {
		c.Label("row")
		c.Load(c.Param("n"), count)
		c.XORQ(index, index)
	}
	setup := *e
	setup.group, setup.regs, setup.masks, setup.spills = 1, t.regs, before.kpeak, before.slots
	setup.copies(before.steps, 0, 1)
	for _, i := range sortedKeys(p.hoist) {
		e.loadFixed(i, 0, place{pinned, p.hoist[i]})
	}
	switch {
	case k.piece != nil:
		k.pieceLoop(e, p)
	case len(k.results) > 0:
		k.reduceLoop(e, p)
	default:
		k.mapLoop(e, p)
	}
}

func sortedKeys(m map[int]int) []int {
	var keys []int
	for i := range m {
		keys = append(keys, i)
	}
	slices.Sort(keys)
	return keys
}

// params loads the arguments.
func (k *kernel) params(e *emitter) {
	c, free := e.c, general
	n := 0
	if !k.direct() {
		c.Load(c.Param("p"), index)
	}
	ptr := func(name string) reg.Register {
		r := free[n]
		if k.direct() {
			c.Load(c.Param(name), r)
		} else {
			c.MOVQ(operand.Mem{Base: index, Disp: 8 * n}, r)
		}
		n++
		return r
	}
	for _, s := range k.outs {
		e.outputs = append(e.outputs, ptr(s))
	}
	for _, s := range k.ins {
		if at := slices.Index(k.outs, s); at >= 0 {
			e.inputs = append(e.inputs, e.outputs[at])
		} else {
			e.inputs = append(e.inputs, ptr(s))
		}
	}
	if len(k.uniforms) > 0 {
		c.Load(c.Param("u"), scalars)
	}
	if k.rows {
		c.Load(c.Param("r"), rowOut)
		c.Load(c.Param("rows"), rowsLeft)
		return
	}
	c.Load(c.Param("n"), count)
	c.XORQ(index, index)
}

// finish is the end of the kernel, or of a row.
func (k *kernel) finish(e *emitter) {
	c := e.c
	if k.rows {
		c.Load(c.Param("n"), count)
		for _, r := range slices.Concat(e.outputs, e.inputs) {
			c.LEAQ(operand.Mem{Base: r, Index: count, Scale: 4}, r)
		}
		if len(k.uniforms) > 0 {
			c.ADDQ(operand.U32(4*len(k.uniforms)), scalars)
		}
		c.ADDQ(operand.U32(4*len(k.results)), rowOut)
		c.DECQ(rowsLeft)
		c.JNZ(operand.LabelRef("row"))
	}
	if k.nonTemporal > 0 {
		c.SFENCE()
	}
	c.VZEROUPPER()
	c.RET()
}

// frame lays out the stack: spilled values, slots, partial sums and the results of parts.
func (k *kernel) frame(e *emitter, p *plan, before *alloc) {
	t, size := e.t, 0
	local := func(n int) operand.Mem {
		n = (n + 7) &^ 7
		size += n
		return e.c.AllocLocal(n)
	}
	if n := 4 * t.width * max(p.alloc.slots*p.group, before.slots); n > 0 {
		e.spill = local(n)
	}
	if e.s.slots > 0 {
		e.slots = local(t.slotSize() * e.s.slots)
	}
	if len(k.results) > 0 && k.parts(t, p) > 1 {
		e.sums = local(4 * t.width * len(k.results) * (p.copies - p.resident))
		e.partSums = local(4 * len(k.results) * k.parts(t, p))
	}
	if size <= smallFrame {
		e.c.Attributes(attr.NOSPLIT)
	}
	for i := range k.results {
		e.accReg = append(e.accReg, t.regs-(len(k.results)-i)*p.resident)
	}
}

// smallFrame is a frame for which there is always room on the stack. A kernel with a larger
// one begins with a check.
const smallFrame = 640

// storeSlot keeps one lane where it will be broadcast.
func (e *emitter) storeSlot(i int, from place) {
	r := e.vecIndex(from, 0)
	if e.t == avx512 {
		e.call("VMOVSS", xmm[r], e.slots.Offset(4*i))
		return
	}
	e.call("VMOVUPS", ymm[r], e.slots.Offset(32*i))
}

// copies emits the steps for the copies from lo to hi-1, interleaved.
func (e *emitter) copies(steps []step, lo, hi int) {
	for _, s := range steps {
		for j := lo; j < hi; j++ {
			s(e, j)
		}
	}
}

// mapLoop is the loop of a kernel without results: whole groups of vectors, then
// single ones, the last one masked.
func (k *kernel) mapLoop(e *emitter, p *plan) {
	c, w := e.c, e.t.width
	step := w * p.copies
	c.SUBQ(operand.U32(step), count)
	c.JL(operand.LabelRef("rest"))
	c.Label("loop")
	e.copies(p.alloc.steps, 0, p.copies)
	c.ADDQ(operand.U32(4*step), index)
	c.SUBQ(operand.U32(step), count)
	c.JGE(operand.LabelRef("loop"))
	c.Label("rest")
	c.ADDQ(operand.U32(step), count)
	c.JLE(operand.LabelRef("done"))
	if e.t == avx512 {
		c.Label("tail")
		k.bits(e)
		c.KMOVW(reg.R15L, opmask[tailMask])
	} else {
		if p.copies > 1 {
			c.SUBQ(operand.U32(w), count)
			c.JL(operand.LabelRef("tail"))
			c.Label("single")
			e.copies(p.alloc.steps, 0, 1)
			c.ADDQ(operand.U32(4*w), index)
			c.SUBQ(operand.U32(w), count)
			c.JGE(operand.LabelRef("single"))
			c.Label("tail")
			c.ADDQ(operand.U32(w), count)
			c.JLE(operand.LabelRef("done"))
		}
		k.tailAddress(e)
	}
	e.masked = true
	e.copies(p.alloc.steps, 0, 1)
	if e.t == avx512 && p.copies > 1 {
		c.ADDQ(operand.U32(4*w), index)
		c.SUBQ(operand.U32(w), count)
		c.JG(operand.LabelRef("tail"))
	}
	c.Label("done")
	k.finish(e)
}

// pieceLoop is the loop of a kernel that takes whole turns only.
func (k *kernel) pieceLoop(e *emitter, p *plan) {
	c, step := e.c, e.t.width*p.copies
	c.Label("loop")
	e.copies(p.alloc.steps, 0, p.copies)
	c.ADDQ(operand.U32(e.unit*step), index)
	c.SUBQ(operand.U32(step), count)
	c.JG(operand.LabelRef("loop"))
	k.finish(e)
}

// bits sets the mask bits of the elements left, or of the next 64.
func (k *kernel) bits(e *emitter) {
	e.c.MOVQ(operand.I32(-1), masks)
	e.c.BZHIQ(count, masks, masks)
}

// tailAddress points at the AVX2 masks of the elements left: ones for those below
// count, then zeros.
func (k *kernel) tailAddress(e *emitter) {
	c := e.c
	c.LEAQ(e.pool.tails().Offset(4*tailWords), masks)
	c.NEGQ(count)
	c.LEAQ(operand.Mem{Base: masks, Index: count, Scale: 4}, masks)
	c.NEGQ(count)
}

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
