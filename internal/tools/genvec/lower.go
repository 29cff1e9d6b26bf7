package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// target is one vector instruction set.
type target struct {
	name  string // suffix of the functions
	width int    // lanes of a vector
	regs  int    // vector registers
}

// slotSize is the size of a value that is the same for all elements.
func (t *target) slotSize() int {
	if t != avx512 {
		return 4 * t.width
	}
	return 4
}

var (
	avx512 = &target{"AVX512", 16, 32}
	avx2   = &target{"AVX2", 8, 16}

	neonTarget = &target{"NEON", 4, 32}
)

// op is a lane operation or one of the operations below, which exist only
// between lowering and emission.
type op uint16

const (
	opFixed   op = 256 + iota // fixed value k
	opPermLo                  // entry x & 7 of the lower half of table k
	opPermHi                  // entry x & 7 of the upper half of table k
	opBlend                   // the sign of x is set ? y : z
	opMulEven                 // the 64-bit products of the even lanes of x and y
	opOdd                     // the odd lanes of x in even lanes, which zeros follow
	opZipLo                   // in each 128 bits: the lower two lanes of x and y, alternating
	opZipHi                   // the upper two
	opJoinLo                  // in each 128 bits: the lower two lanes of x, then those of y
	opJoinHi                  // the upper two
	opXor3                    // x ^ y ^ z
	opHighs                   // the upper halves of the products x of even and y of odd lanes
	opTable                   // the bytes of table k at the positions in x
	opMin                     // lane.Min of x and y
	opMax                     // lane.Max of x and y
)

// inst is an instruction after lowering.
type inst struct {
	op   op
	args [3]int
	n    int   // operands
	k    int32 // as in lane.Inst; the index of a fixed value
	bits uint32
}

func (in *inst) operands() []int { return in.args[:in.n] }

// body is a sequence of instructions and the values it is made for.
type body struct {
	insts []inst
	outs  []int
	known map[inst]int
}

// add appends an instruction, or finds the equal one.
func (b *body) add(in inst) int {
	if b.known == nil {
		b.known = map[inst]int{}
	}
	v, ok := b.known[in]
	if !ok {
		v = len(b.insts)
		b.insts = append(b.insts, in)
		b.known[in] = v
	}
	return v
}

// has reports whether the body has an instruction o.
func (b *body) has(o op) bool {
	return slices.ContainsFunc(b.insts, func(in inst) bool { return in.op == o })
}

func (b *body) op(o lane.Op, args ...int) int {
	in := inst{op: op(o), n: len(args)}
	copy(in.args[:], args)
	return b.add(in)
}

func (b *body) constant(bits uint32) int { return b.add(inst{op: op(lane.OpConst), bits: bits}) }

func (b *body) shift(o lane.Op, x int, n int32) int {
	return b.add(inst{op: op(o), args: [3]int{x}, n: 1, k: n})
}

// expand replaces what target t has no instruction for.
func expand(p *lane.Program, t *target) *body {
	b := &body{}
	at := make([]int, len(p.Insts))
	inner := make([]bool, len(p.Insts)) // part of another instruction
	var extremes map[int]inst
	var zeros, clamps map[int]int // see underflows, and its inverse
	free := map[int]bool{}        // clamps that are not needed
	if t != neonTarget {
		zeros = underflows(p)
		clamps = map[int]int{}
		for v, c := range zeros {
			clamps[c] = v
		}
	}
	switch t {
	case avx512:
		inner = innerXors(p)
		for v, c := range zeros {
			top := int(p.Insts[c].Args[1])
			free[c], free[top] = true, free[top] || overflows(p, v, c, top)
		}
	case neonTarget:
		extremes, inner = minMax(p)
	}
	for v, in := range p.Insts {
		if free[v] {
			at[v] = at[in.Args[1]]
			continue
		}
		if inner[v] {
			continue
		}
		low := inst{op: op(in.Op), n: in.Op.Args(), k: in.K, bits: in.Bits}
		for i := range low.n {
			low.args[i] = int(in.Args[i])
		}
		if x, ok := extremes[v]; ok {
			low = x
		}
		for i, x := range low.operands() {
			low.args[i] = at[x]
		}
		product, ok := clamps[v]
		_, vanishes := zeros[v]
		switch {
		case ok:
			at[v] = b.op(lane.OpGreater, b.constant(math.Float32bits(underflow(p, product, v))), low.args[1])
		case vanishes && t == avx512:
			at[v] = b.vanishing(low.args[0], low.args[1])
		case t != avx512 && in.Op == lane.OpLdexp:
			at[v] = b.ldexp(low.args[0], low.args[1])
		case t == avx2 && in.Op == lane.OpLookup:
			x := low.args[0]
			sel := b.shift(lane.OpShl, x, 28) // bit 3 of the index as a sign
			hi := b.add(inst{op: opPermHi, args: [3]int{x}, n: 1, k: in.K})
			lo := b.add(inst{op: opPermLo, args: [3]int{x}, n: 1, k: in.K})
			at[v] = b.add(inst{op: opBlend, args: [3]int{sel, hi, lo}, n: 3})
		case t == neonTarget && in.Op == lane.OpLookup:
			at[v] = b.add(inst{op: opTable, args: [3]int{b.positions(low.args[0])}, n: 1, k: in.K})
		case in.Op == lane.OpXor && inner[in.Args[0]]:
			x := p.Insts[in.Args[0]].Args
			at[v] = b.add(inst{op: opXor3, args: [3]int{at[x[0]], at[x[1]], at[in.Args[1]]}, n: 3})
		case t != neonTarget && in.Op == lane.OpIMulHi:
			at[v] = b.mulHi(low.args[0], low.args[1])
		default:
			at[v] = b.add(low)
		}
	}
	for _, o := range p.Outs {
		b.outs = append(b.outs, at[o])
	}
	return b
}

// countUses is how often each value is an operand or a result.
func countUses(p *lane.Program) []int {
	uses := make([]int, len(p.Insts))
	for _, in := range p.Insts {
		for _, a := range in.Args[:in.Op.Args()] {
			uses[a]++
		}
	}
	for _, o := range p.Outs {
		uses[o]++
	}
	return uses
}

// innerXors marks each x^y of x^y^z that has no other use.
func innerXors(p *lane.Program) []bool {
	uses := countUses(p)
	inner := make([]bool, len(p.Insts))
	for _, in := range p.Insts {
		x := in.Args[0]
		if in.Op == lane.OpXor && p.Insts[x].Op == lane.OpXor && uses[x] == 1 && !inner[p.Insts[x].Args[0]] {
			inner[x] = true
		}
	}
	return inner
}

// underflows finds each x * 2^n that is made of nothing but a value clamped from below, such as exp of it, and is zero
// at the bound: the index of the clamp for that of the product. Nothing else uses the clamped value.
//
// Intel's processors take some 150 clocks for a result below the normal range, also if it is rounded to zero: exp of
// -Inf, as masks have it, would take 24 times as long. So AVX-512 has factors 0 instead of the clamp; AVX2 clamps where
// the second power of ldexp is 0.
func underflows(p *lane.Program) map[int]int {
	found := map[int]int{}
	for v, in := range p.Insts {
		if in.Op != lane.OpLdexp {
			continue
		}
		clamp, of := -1, map[int]bool{} // those that v is made of
		if !clamped(p, v, &clamp, of) || clamp < 0 {
			continue
		}
		alone := !slices.ContainsFunc(p.Outs, func(o lane.Value) bool { return int(o) != v && of[int(o)] })
		for u, in := range p.Insts {
			for _, a := range in.Args[:in.Op.Args()] {
				alone = alone && (of[u] || int(a) == v || !of[int(a)])
			}
		}
		if alone && vanishes(p, v, clamp) {
			found[v] = clamp
		}
	}
	return found
}

// vanished is the least n for which x * 2^n, x <= sqrt 2, is not always zero.
const vanished = -150

// vanishes tells whether a product is zero at and, without its clamp, near the bound, and wherever n < vanished.
func vanishes(p *lane.Program, v, clamp int) bool {
	bound := constant(p, clamp)
	for i := range 101 {
		x := bound * (1 + float32(i-50)/1000)
		m, n := factors(p, v, clamp, x)
		if (x <= bound || n < vanished) && math.Float32bits(lane.Ldexp32(m, n)) != 0 {
			return false
		}
	}
	return true
}

// clamped tells whether v is made of constants and one clamped value, and adds to of what depends on that.
func clamped(p *lane.Program, v int, clamp *int, of map[int]bool) bool {
	in := p.Insts[v]
	switch {
	case of[v] || in.Op == lane.OpConst:
		return true
	case in.Op == lane.OpGreater && p.Insts[in.Args[0]].Op == lane.OpConst && (*clamp < 0 || *clamp == v):
		*clamp, of[v] = v, true
		return true
	case in.Op.Args() == 0:
		return false
	}
	of[v] = true
	for _, a := range in.Args[:in.Op.Args()] {
		if !clamped(p, int(a), clamp, of) {
			return false
		}
	}
	return true
}

// constant is the bound of a clamp.
func constant(p *lane.Program, clamp int) float32 {
	return math.Float32frombits(p.Insts[p.Insts[clamp].Args[0]].Bits)
}

// valueAt is the value of out where that of the clamp is x.
func valueAt(p *lane.Program, clamp int, out lane.Value, x float32) float32 {
	q := *p
	q.Insts = slices.Clone(p.Insts)
	q.Insts[clamp] = lane.Inst{Op: lane.OpConst, Bits: math.Float32bits(x)}
	q.Outs = []lane.Value{out}
	return q.Eval(make([]float32, p.Ins), make([]float32, p.Uniforms), make([]float32, p.Accs))[0]
}

// factors are those of a product m * 2^n where the value of the clamp is x.
func factors(p *lane.Program, v, clamp int, x float32) (m, n float32) {
	in := &p.Insts[v]
	return valueAt(p, clamp, in.Args[0], x), valueAt(p, clamp, in.Args[1], x)
}

// underflow is the bound at which n, the exponent of a product that underflows finds, is low enough for the second
// power of ldexp to be 0.
func underflow(p *lane.Program, v, clamp int) float32 {
	const low = -254
	n := p.Insts[v].Args[1]
	bound := constant(p, clamp)
	bound *= low / valueAt(p, clamp, n, bound)
	if got := valueAt(p, clamp, n, bound); got != low {
		panic(fmt.Sprintf("the exponent of instruction %d is %v at %v, want %v", v, got, bound, low))
	}
	return bound
}

// overflows tells whether top clamps from above what a product that underflows finds is made of, and this is infinite
// there also without top: any n will do for VSCALEFPS, which makes NaN * 2^Inf infinite.
func overflows(p *lane.Program, v, clamp, top int) bool {
	if p.Insts[top].Op != lane.OpLesser || p.Insts[p.Insts[top].Args[0]].Op != lane.OpConst || countUses(p)[top] != 1 {
		return false
	}
	inf := float32(math.Inf(1))
	const step = 1 << 17 // 64 values of each exponent
	for bits := math.Float32bits(inf); bits >= math.Float32bits(constant(p, top)); bits -= step {
		x := math.Float32frombits(bits)
		m, n := factors(p, v, clamp, x)
		if n != inf && lane.Ldexp32(m, min(n, 1023)) != inf {
			return false
		}
	}
	return true
}

// ldexp is x * 2^n as x * 2^i * 2^(n-i) with i = n/2: both powers are normal, and
// of the two products only the last can be inexact.
func (b *body) ldexp(x, n int) int {
	const magicBits, half, one = 0x4b400000, 0x3f000000, 0x3f800000
	magic := b.constant(magicBits)
	i := b.op(lane.OpFMA, n, b.constant(half), magic) // integers in the low bits
	j := b.op(lane.OpISub, b.op(lane.OpAdd, n, magic), i)
	power := func(k int) int {
		return b.op(lane.OpIAdd, b.shift(lane.OpShl, k, 23), b.constant(one))
	}
	return b.op(lane.OpMul, b.op(lane.OpMul, x, power(i)), power(j))
}

// vanishing is x * 2^n, computed as 0 * 2^n where n < vanished.
func (b *body) vanishing(x, n int) int {
	stays := b.shift(lane.OpSar, b.op(lane.OpSub, b.constant(math.Float32bits(vanished-0.5)), n), 31)
	return b.op(lane.OpLdexp, b.op(lane.OpAnd, stays, x), n)
}

// positions are those of the bytes of entry x & 15 of a table of words.
func (b *body) positions(x int) int {
	entry := b.op(lane.OpAnd, x, b.constant(15))
	return b.op(lane.OpIAdd, b.op(lane.OpIMul, entry, b.constant(0x04040404)), b.constant(0x03020100))
}

// mulHi is the upper half of the product of x and y. There is only a product of the even
// lanes, so that of the odd ones is made apart.
func (b *body) mulHi(x, y int) int {
	product := func(x, y int) int { return b.add(inst{op: opMulEven, args: [3]int{x, y}, n: 2}) }
	odd := func(x int) int {
		if b.insts[x].op == op(lane.OpConst) {
			return x
		}
		return b.add(inst{op: opOdd, args: [3]int{x}, n: 1})
	}
	return b.add(inst{op: opHighs, args: [3]int{product(x, y), product(odd(x), odd(y))}, n: 2})
}

// fixedKind says where a value lives that is the same for all elements.
type fixedKind int

const (
	fixedConst   fixedKind = iota // constant pool
	fixedTable                    // constant pool, a table
	fixedUniform                  // argument array
	fixedSlot                     // stack frame, computed before the loop
)

// fixed is a value that is the same for all elements.
type fixed struct {
	kind fixedKind
	bits uint32
	k    int // which table, uniform or slot
	uses int
}

// split is a program in two parts: before runs once and stores the slots, which
// depend on scalars only; loop runs for every vector.
type split struct {
	before body
	slots  int
	loop   body
	fixed  []fixed
	tables []lane.Table
	masks  int // registers for masks
}

// interleave transposes the four outputs, so that 128 bits of a vector are what one lane
// had in all of them. Vector k takes lanes k, k+4, k+8, ..., which the numbers of the
// lanes make consecutive elements.
func (b *body) interleave() {
	pair := func(o op, x, y int) int { return b.add(inst{op: o, args: [3]int{x, y}, n: 2}) }
	w := b.outs
	lo01, lo23 := pair(opZipLo, w[0], w[1]), pair(opZipLo, w[2], w[3])
	hi01, hi23 := pair(opZipHi, w[0], w[1]), pair(opZipHi, w[2], w[3])
	b.outs = []int{pair(opJoinLo, lo01, lo23), pair(opJoinHi, lo01, lo23), pair(opJoinLo, hi01, hi23),
		pair(opJoinHi, hi01, hi23)}
}

// prepare expands the program for the target and splits it.
func prepare(p *lane.Program, t *target, interleaved bool) *split {
	b := expand(p, t)
	if interleaved {
		b.interleave()
	}
	s := &splitter{
		split: &split{tables: p.Tables, masks: tailMask}, body: b, t: t, uniform: uniforms(b),
		index: map[fixed]int{}, earlyAt: map[int]int{}, lateAt: map[int]int{}, slotOf: map[int]int{},
	}
	if b.has(opHighs) {
		s.masks = evenMask
	}
	// In the order of the source, so that lifetimes stay as its author left them;
	// constants and inputs come with their first use.
	for v, in := range b.insts {
		if !s.uniform[v] && in.n > 0 {
			s.late(v)
		}
	}
	for _, o := range b.outs {
		s.loop.outs = append(s.loop.outs, s.late(o))
	}
	s.countUses()
	return s.split
}

// uniforms tells which instructions give the same for all elements.
func uniforms(b *body) []bool {
	uniform := make([]bool, len(b.insts))
	for v, in := range b.insts {
		switch in.op {
		case op(lane.OpIn), op(lane.OpAcc), op(lane.OpIndex):
		default:
			uniform[v] = true
			for _, a := range in.operands() {
				uniform[v] = uniform[v] && uniform[a]
			}
		}
	}
	return uniform
}

// A splitter divides the instructions of a body between the two parts of a split.
type splitter struct {
	*split
	body    *body
	t       *target
	uniform []bool
	index   map[fixed]int // of fixed values in split.fixed

	earlyAt, lateAt map[int]int // where an instruction of body is in the first and in the second part
	slotOf          map[int]int // by instruction of the first part
}

// fix returns the index of a fixed value.
func (s *splitter) fix(f fixed) int {
	i, ok := s.index[f]
	if !ok {
		i = len(s.fixed)
		s.fixed = append(s.fixed, f)
		s.index[f] = i
	}
	return i
}

func (s *splitter) leaf(to *body, f fixed) int {
	return to.add(inst{op: opFixed, k: int32(s.fix(f))})
}

// early puts instruction v, with its operands, into the first part, and returns where it is there.
func (s *splitter) early(v int) int {
	if at, ok := s.earlyAt[v]; ok {
		return at
	}
	in := s.body.insts[v]
	var at int
	switch in.op {
	case op(lane.OpConst):
		at = s.leaf(&s.before, fixed{kind: fixedConst, bits: in.bits})
	case op(lane.OpUniform):
		at = s.leaf(&s.before, fixed{kind: fixedUniform, k: int(in.k)})
	default:
		for i, a := range in.operands() {
			in.args[i] = s.early(a)
		}
		at = s.before.add(in)
	}
	s.earlyAt[v] = at
	return at
}

// late is early for the second part, which finds in slots what the first part computes for it.
func (s *splitter) late(v int) int {
	if at, ok := s.lateAt[v]; ok {
		return at
	}
	in := s.body.insts[v]
	var at int
	switch {
	case in.op == op(lane.OpConst):
		at = s.leaf(&s.loop, fixed{kind: fixedConst, bits: in.bits})
	case in.op == op(lane.OpUniform) && s.t == avx512:
		at = s.leaf(&s.loop, fixed{kind: fixedUniform, k: int(in.k)})
	case s.uniform[v] && !isMask(in.op):
		at = s.leaf(&s.loop, fixed{kind: fixedSlot, k: s.slot(s.early(v))})
	default:
		for i, a := range in.operands() {
			in.args[i] = s.late(a)
		}
		at = s.loop.add(in)
	}
	s.lateAt[v] = at
	return at
}

// slot returns the slot of an instruction of the first part.
func (s *splitter) slot(early int) int {
	slot, ok := s.slotOf[early]
	if !ok {
		slot = s.slots
		s.slots++
		s.slotOf[early] = slot
		s.before.outs = append(s.before.outs, early)
	}
	return slot
}

// countUses counts the uses of fixed values in the loop.
func (s *splitter) countUses() {
	for _, in := range s.loop.insts {
		for i, a := range in.operands() {
			if f := s.loop.insts[a]; f.op == opFixed {
				// A first operand has to be in a register.
				s.fixed[f.k].uses++
				if i == 0 {
					s.fixed[f.k].uses++
				}
			}
		}
		if in.op == op(lane.OpLookup) {
			s.fixed[s.fix(fixed{kind: fixedTable, k: int(in.k)})].uses++
		}
	}
}

// table returns the fixed value of table k.
func (s *split) table(k int32) int {
	for i, f := range s.fixed {
		if f.kind == fixedTable && f.k == int(k) {
			return i
		}
	}
	panic(fmt.Sprint("no table ", k))
}

func isMask(o op) bool { return o < 256 && lane.Op(o).IsMask() }
