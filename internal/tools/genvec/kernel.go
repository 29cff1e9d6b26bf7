package main

import (
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
		p.extra = max(0, avail-2*probe.peak-len(hoist(s, t, 0, avail))) // two copies interleaved, fixed values
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
