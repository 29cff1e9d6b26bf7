package main

import (
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

var (
	zmm = []reg.Register{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12,
		reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27,
		reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
	ymm = []reg.Register{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12,
		reg.Y13, reg.Y14, reg.Y15,
		reg.Y16, reg.Y17, reg.Y18, reg.Y19, reg.Y20, reg.Y21, reg.Y22, reg.Y23, reg.Y24, reg.Y25, reg.Y26, reg.Y27,
		reg.Y28, reg.Y29, reg.Y30, reg.Y31,
	}
	xmm = []reg.Register{
		reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10, reg.X11, reg.X12,
		reg.X13, reg.X14, reg.X15,
		reg.X16, reg.X17, reg.X18, reg.X19, reg.X20, reg.X21, reg.X22, reg.X23, reg.X24, reg.X25, reg.X26, reg.X27,
		reg.X28, reg.X29, reg.X30, reg.X31,
	}
	opmask = []reg.Register{reg.K1, reg.K2, reg.K3, reg.K4, reg.K5, reg.K6, reg.K7}
)

// The mask registers that no value gets.
const (
	evenMask = 5 // of the even lanes, in kernels that need it
	tailMask = 6 // of the lanes that exist in the last vector
)

// pool collects the constants of a file. AVX-512 broadcasts single words; AVX2
// reads whole vectors.
type pool struct {
	c     *build.Context
	t     *target
	sym   string
	at    map[string]int
	bytes []byte
}

func newPool(c *build.Context, t *target) *pool {
	return &pool{c: c, t: t, sym: "pool" + t.name, at: map[string]int{}}
}

// mem is the address of data, which is stored once.
func (p *pool) mem(data []byte) operand.Mem {
	at, ok := p.at[string(data)]
	if !ok {
		for len(p.bytes)%min(len(data), 64) != 0 {
			p.bytes = append(p.bytes, 0)
		}
		at = len(p.bytes)
		p.bytes = append(p.bytes, data...)
		p.at[string(data)] = at
	}
	return operand.NewDataAddr(operand.NewStaticSymbol(p.sym), at)
}

func (p *pool) constant(bits uint32) operand.Mem {
	n := 1
	if p.t == avx2 {
		n = 8
	}
	var data []byte
	for range n {
		data = binary.LittleEndian.AppendUint32(data, bits)
	}
	return p.mem(data)
}

func (p *pool) table(t lane.Table) operand.Mem {
	var data []byte
	for _, x := range t {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return p.mem(data)
}

// numbers holds first and the numbers after it in the order of the lanes of a vector. That
// of interleaved outputs follows from their transposition; see body.interleave.
func (p *pool) numbers(first int, interleaved bool) operand.Mem {
	var data []byte
	for l := range p.t.width {
		if interleaved {
			l = l%4*(p.t.width/4) + l/4
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(first+l))
	}
	return p.mem(data)
}

// tailWords are more than the elements of any tail.
const tailWords = 64

// tails is a table of words of ones, and as many of zeros: the masks of AVX2.
func (p *pool) tails() operand.Mem {
	data := make([]byte, 8*tailWords)
	for i := range data[:4*tailWords] {
		data[i] = 0xff
	}
	return p.mem(data)
}

// write emits the data section.
func (p *pool) write() {
	if len(p.bytes) == 0 {
		return
	}
	p.c.StaticGlobal(p.sym)
	p.c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := 0; i < len(p.bytes); i += 4 {
		p.c.AddDatum(i, operand.U32(binary.LittleEndian.Uint32(append(p.bytes[i:len(p.bytes):len(p.bytes)], 0, 0,
			0)[:4])))
	}
}

// emitter writes the machine code of one kernel.
type emitter struct {
	c      *build.Context
	t      *target
	s      *split
	pool   *pool
	group  int // copies that are interleaved
	first  int // first vector register of copy 0
	regs   int // vector registers of a copy
	masks  int // mask registers of a copy
	spills int // spill slots of a copy
	masked bool
	width  []reg.Register // narrower registers than those of the target, if set

	inType, outType elem
	interleaved     bool
	nonTemporal     int // first outputs that have non-temporal stores
	unit            int // what an element adds to index

	inputs   []reg.Register // input pointers
	outputs  []reg.Register
	uniforms reg.Register
	index    reg.Register // byte offset of the first vector in the vectors of the smallest elements
	tail     reg.Register // AVX2: address of the masks
	spill    operand.Mem
	slots    operand.Mem
	accReg   []int       // first register of an accumulator
	resident int         // copies whose accumulators are in registers: those of a part
	part     int         // which one
	extra    int         // copies behind them that have registers in the loop
	sums     operand.Mem // accumulators of the copies behind the first part
	partSums operand.Mem // of each result
}

// vec is the vector register of a place.
func (e *emitter) vec(p place, j int) reg.Register { return e.vectors()[e.vecIndex(p, j)] }

// vectors are the registers of the width in use.
func (e *emitter) vectors() []reg.Register {
	switch {
	case e.width != nil:
		return e.width
	case e.t == avx512:
		return zmm
	}
	return ymm
}

func (e *emitter) vecIndex(p place, j int) int {
	switch p.kind {
	case pinned:
		return p.n
	case inAcc:
		if behind := e.own(j) - e.resident; behind >= 0 {
			return e.accReg[0] - e.extra + behind
		}
		return e.accReg[p.n] + e.own(j)
	}
	return e.first + j%e.group*e.regs + p.n
}

// own is the number of copy j in the part whose accumulators are in registers.
func (e *emitter) own(j int) int { return j - e.part*e.resident }

// inMemory tells whether the accumulators of copy j are in memory.
func (e *emitter) inMemory(j int) bool { return e.own(j) >= e.resident+e.extra }

// sumAt is where accumulator k of copy j is kept, which is behind the first part.
func (e *emitter) sumAt(k, j int) operand.Mem {
	others := lanes/e.t.width - e.resident
	return e.sums.Offset(4 * e.t.width * (k*others + j - e.resident))
}

// call emits the instruction of that name.
func (e *emitter) call(name string, ops ...operand.Op) {
	m := reflect.ValueOf(e.c).MethodByName(name)
	if !m.IsValid() {
		panic("no instruction " + name)
	}
	args := make([]reflect.Value, len(ops))
	for i, o := range ops {
		args[i] = reflect.ValueOf(&o).Elem()
	}
	m.Call(args)
}

func (e *emitter) ins(name string, j int, ops ...place) { e.insOps(name, nil, j, ops) }

func (e *emitter) insImm(name string, imm, j int, ops ...place) {
	e.insOps(name, []operand.Op{operand.U8(imm)}, j, ops)
}

func (e *emitter) insOps(name string, args []operand.Op, j int, ops []place) {
	for _, p := range ops {
		switch p.kind {
		case inAcc:
			if e.inMemory(j) {
				args = append(args, e.sumAt(p.n, j))
				continue
			}
			args = append(args, e.vec(p, j))
		case inReg, pinned:
			args = append(args, e.vec(p, j))
		case inMask:
			args = append(args, opmask[j%e.group*e.masks+p.n])
		case constMask:
			args = append(args, opmask[p.n])
		default:
			m, broadcast := e.memory(p, j)
			if broadcast {
				name += "_BCST"
			}
			args = append(args, m)
		}
	}
	e.call(name, args...)
}

// address is where copy j of a stream with elements of the given size lies.
func (e *emitter) address(base reg.Register, j, size int) operand.Mem {
	return operand.Mem{Base: base, Index: e.index, Scale: uint8(size / e.unit), Disp: size * e.t.width * j}
}

// outputAt is where copy j of output k lies.
func (e *emitter) outputAt(k, j int) operand.Mem {
	if e.interleaved {
		return e.address(e.outputs[0], j, 16).Offset(4 * e.t.width * k)
	}
	return e.address(e.outputs[k], j, e.outType.size())
}

// number sets a register to the numbers of the elements of copy j.
func (e *emitter) number(j int, to place) {
	r := e.vecIndex(to, j)
	c, v := e.c, e.vectors()[r]
	c.MOVQ(e.index, scratch)
	c.SHRQ(operand.Imm(uint64(bits.TrailingZeros(uint(e.unit)))), scratch)
	if e.t == avx512 {
		e.call("VPBROADCASTD", scratch.As32(), v)
	} else {
		e.call("VMOVD", scratch.As32(), xmm[r])
		e.call("VPBROADCASTD", xmm[r], v)
	}
	e.call("VPADDD", e.pool.numbers(e.t.width*j, e.interleaved), v, v)
}

// tailAt is the AVX2 mask of copy j.
func (e *emitter) tailAt(j int) operand.Mem {
	return operand.Mem{Base: e.tail, Disp: 32 * e.own(j)}
}

func (e *emitter) loadIn(k, j int, to place) {
	r := e.vec(to, j)
	m := e.address(e.inputs[k], j, e.inType.size())
	switch {
	case e.inType == half:
		e.call("VCVTPH2PS", m, r)
	case e.inType == brain:
		e.call("VPMOVZXWD", m, r)
		e.call("VPSLLD", operand.U8(16), r, r)
	case e.inType == octet:
		e.call("VPMOVZXBD", m, r)
		e.call("VCVTDQ2PS", r, r)
	case !e.masked:
		e.call("VMOVUPS", m, r)
	case e.t == avx512:
		e.call("VMOVUPS_Z", m, opmask[tailMask], r)
	default:
		e.call("VMOVDQU", e.tailAt(j), r)
		e.call("VMASKMOVPS", m, r, r)
	}
}

// store writes a register to output k.
func (e *emitter) store(k, j int, from, spare place) {
	n, t := e.vecIndex(from, j), e.vec(spare, j)
	m, r := e.outputAt(k, j), e.vectors()[n]
	switch {
	case e.outType == half:
		e.call("VCVTPS2PH", operand.U8(0), r, m) // 0: ties to even
	case e.outType == brain:
		e.storeUpper(n, m)
	case k < e.nonTemporal && !e.masked:
		e.call("VMOVNTPS", r, m)
	case !e.masked:
		e.call("VMOVUPS", r, m)
	case e.t == avx512:
		e.call("VMOVUPS", r, opmask[tailMask], m)
	default:
		e.call("VMOVDQU", e.tailAt(j), t)
		e.call("VMASKMOVPS", r, t, m)
	}
}

// storeUpper writes the upper halves of the lanes of register n.
func (e *emitter) storeUpper(n int, m operand.Mem) {
	r := e.vectors()[n]
	e.call("VPSRLD", operand.U8(16), r, r)
	if e.t == avx512 {
		e.call("VPMOVDW", r, m)
		return
	}
	e.call("VPACKUSDW", r, r, r) // each half of the vector twice
	e.call("VPERMQ", operand.U8(0x08), r, r)
	e.call("VMOVDQU", xmm[n], m)
}

// memory turns a fixed value or a slot into a machine operand.
func (e *emitter) memory(p place, j int) (m operand.Mem, broadcast bool) {
	if p.kind == inSlot {
		return e.spill.Offset(4 * e.t.width * (p.n + j%e.group*e.spills)), false
	}
	f := e.s.fixed[p.n]
	small := e.t == avx512
	switch f.kind {
	case fixedTable:
		return e.pool.table(e.s.tables[f.k]), false
	case fixedConst:
		return e.pool.constant(f.bits), small
	case fixedUniform:
		return operand.Mem{Base: e.uniforms, Disp: 4 * f.k}, true
	}
	if small {
		return e.slots.Offset(4 * f.k), true
	}
	return e.slots.Offset(32 * f.k), false
}

// lookup takes the entries of half a table.
func (e *emitter) lookup(op op, table lane.Table, j int, x, to place) {
	e.call("VPERMPS", e.pool.table(table).Offset(32*int(op-opPermLo)), e.vec(x, j), e.vec(to, j))
}

// loadFixed brings a fixed value into a register.
func (e *emitter) loadFixed(k, j int, to place) {
	f, r := e.s.fixed[k], e.vec(to, j)
	m, broadcast := e.memory(place{inFixed, k}, 0)
	switch {
	case f.kind == fixedConst && f.bits == 0:
		e.call("VXORPS", r, r, r)
	case broadcast:
		e.call("VBROADCASTSS", m, r)
	default:
		e.call("VMOVUPS", m, r)
	}
}
