package cpu

import (
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
)

// A kernel computes dst[i] from a[i], b[i] and c[i]. Operands that the instruction does not have are nil; dst may be an
// operand.
type kernel[T register] func(dst, a, b, c []T)

// A fusedKernel computes the results from the arguments that are not uniform, and the scalars: the parameters and then
// the uniform arguments.
type fusedKernel[T register] func(results, args [][]T, scalars []T)

// An instruction runs on the values of a chunk. Its operands and result are slots of a workspace; a missing operand is
// the slot that is always nil.
type instruction[T register] struct {
	run     kernel[T]
	dst     int
	operand [3]int
	stream  int // for rand, which has no kernel
}

// A program is a function compiled for one register type and one set of uniform operands.
//
// It works on slots, each the values of one node over a chunk:
//
//	0                 nil
//	1 ...             arguments
//	then              uniform values: constants, parameters, uniform arguments and what follows from them
//	then              results
//	then              registers
//
// Uniform values are computed once a run. The others live in registers, which are free again after their last use, and
// the instruction that computes a result writes it to its memory at once.
//
// If package vec has a kernel of the whole function, with the same bits, it replaces the instructions. It reads the
// arguments, the random numbers, which are then the registers, and the scalars, which are the uniform values and have
// no slots, and writes the results.
type program[T register] struct {
	uniforms []uniformValue[T]
	fused    fusedKernel[T]
	reads    int   // arguments that it takes
	streams  []int // random streams that it takes after them
	code     []instruction[T]
	roots    []root
	single   bool   // one kernel does everything, without the chunks of uniform values
	only     string // the name of the only instruction, if that makes the first result; "" if there are more

	firstUniform, firstResult, firstRegister, slots int

	cost   int       // of an element, in about a tenth of a nanosecond
	frames sync.Pool // of *workspace[T]
}

// A uniformValue is one value of a run: a constant, a parameter, an argument or an instruction on those before it.
type uniformValue[T register] struct {
	node    *expr.Node
	run     kernel[T] // of an instruction
	operand [3]int    // indices of uniform values; -1 if missing
	spread  bool      // used by an instruction: its slot is filled
}

func isSpread[T register](u uniformValue[T]) bool { return u.spread }

// A root says where a result comes from.
type root struct {
	slot    int
	at      int // index of the instruction that computes it; -1 if none does
	uniform int // index of a uniform value; -1 if it is not one
}

// programOf is the program of f where the arguments in uniforms are one element: bit k is argument k. It is made at the
// first call.
func programOf[T register](op string, f *expr.Func, uniforms uint64) *program[T] {
	if p := expr.Compiled[program[T]](f, uniforms); p != nil {
		return p
	}
	return expr.Compile(f, uniforms, compile[T](op, f, uniforms))
}

// compile translates the nodes in order.
func compile[T register](op string, f *expr.Func, uniforms uint64) *program[T] {
	if _, ok := any(T(0)).(int64); ok {
		f = onIntegers(f)
	}
	c := compiler[T]{
		op: op, f: f, uniform: uniforms, p: &program[T]{},
		uniforms: map[*expr.Node]int{}, slots: map[*expr.Node]int{}, last: map[*expr.Node]int{},
	}
	c.p.fused, c.p.reads = fused[T](f, uniforms)
	if c.p.fused != nil {
		c.p.streams = c.f.Streams()
		c.scalars()
	} else {
		c.scan()
	}
	c.p.firstUniform = 1 + len(c.f.Args)
	c.p.firstResult = c.p.firstUniform
	if c.p.fused == nil { // which has scalars, not slots
		c.p.firstResult += len(c.p.uniforms)
	}
	c.p.firstRegister = c.p.firstResult + len(c.f.Roots)
	c.p.slots = c.p.firstRegister + len(c.p.streams)
	if c.p.fused != nil {
		c.wire()
	} else {
		c.emit()
	}
	if len(c.p.code) == 1 && c.p.code[0].run != nil {
		c.p.only = f.Roots[0].Op.String()
	}
	c.p.single = c.p.fused != nil && c.p.streams == nil ||
		c.p.only != "" && !slices.ContainsFunc(c.p.uniforms, isSpread[T])
	return c.p
}

// fused is the kernel of the whole function and how many arguments it reads; nil if there is none. Further
// arguments are not used.
func fused[T register](f *expr.Func, uniforms uint64) (run fusedKernel[T], reads int) {
	fusion := f.Fusion(uniforms)
	if fusion == nil {
		return nil, 0
	}
	k := vec.Pointwise(fusion.Name)
	if k == nil {
		return nil, 0
	}
	run, _ = any(k.Run).(func(results, args [][]T, scalars []T)) // nil unless T is float32
	return run, k.Ins - len(f.Streams())
}

type compiler[T register] struct {
	op      string // for errors
	f       *expr.Func
	uniform uint64
	p       *program[T]

	uniforms map[*expr.Node]int // indices of the uniform nodes
	slots    map[*expr.Node]int // of the others
	last     map[*expr.Node]int // position in the order of the last use
	free     []int              // registers
}

// scalars makes the uniform values of a fused kernel.
func (c *compiler[T]) scalars() {
	add := func(op expr.Op, k int) {
		c.p.uniforms = append(c.p.uniforms, c.uniformValue(&expr.Node{Op: op, K: k}))
	}
	for k := range c.f.Params {
		add(expr.Param, k)
	}
	for k := range c.f.Args {
		if c.uniform>>k&1 == 1 {
			add(expr.Arg, k)
		}
	}
}

// wire says that a fused kernel writes all results.
func (c *compiler[T]) wire() {
	for k := range c.f.Roots {
		c.p.roots = append(c.p.roots, root{slot: c.p.firstResult + k, uniform: -1})
	}
	for _, n := range c.f.Order() {
		c.p.cost += costOf(n.Op)
	}
}

// scan finds the uniform nodes and the last uses.
func (c *compiler[T]) scan() {
	for i, n := range c.f.Order() {
		for _, x := range n.Operands() {
			c.last[x] = i
		}
		if c.isUniform(n) {
			c.uniforms[n] = len(c.p.uniforms)
			c.p.uniforms = append(c.p.uniforms, c.uniformValue(n))
		}
	}
}

func (c *compiler[T]) isUniform(n *expr.Node) bool {
	switch n.Op {
	case expr.Arg:
		return n.K < 64 && c.uniform>>n.K&1 == 1
	case expr.Param, expr.Const:
		return true
	case expr.Rand:
		return false
	}
	for _, x := range n.Operands() {
		if _, ok := c.uniforms[x]; !ok {
			return false
		}
	}
	return true
}

func (c *compiler[T]) uniformValue(n *expr.Node) uniformValue[T] {
	u := uniformValue[T]{node: n, operand: [3]int{-1, -1, -1}}
	if n.Op.Arity() > 0 {
		u.run = kernelOf[T](c.op, n.Op)
		for i, x := range n.Operands() {
			u.operand[i] = c.uniforms[x]
		}
	}
	return u
}

// emit makes the instructions.
func (c *compiler[T]) emit() {
	results := map[*expr.Node]int{}
	for k := len(c.f.Roots) - 1; k >= 0; k-- {
		results[c.f.Roots[k]] = c.p.firstResult + k
	}
	at := map[*expr.Node]int{}
	for i, n := range c.f.Order() {
		if _, ok := c.uniforms[n]; ok {
			continue
		}
		if n.Op == expr.Arg {
			c.slots[n] = 1 + n.K
			continue
		}
		s := instruction[T]{stream: n.K}
		if n.Op != expr.Rand {
			s.run = kernelOf[T](c.op, n.Op)
		}
		for j, x := range n.Operands() {
			s.operand[j] = c.slotOf(x)
		}
		c.release(n, i)
		if slot, ok := results[n]; ok {
			s.dst = slot
		} else {
			s.dst = c.register()
		}
		c.slots[n] = s.dst
		at[n] = len(c.p.code)
		c.p.code = append(c.p.code, s)
		c.p.cost += costOf(n.Op)
	}
	for i, n := range c.f.Roots {
		r := root{at: -1, uniform: -1}
		if k, ok := c.uniforms[n]; ok {
			r.uniform, r.slot = k, c.p.firstResult+i
		} else {
			r.slot = c.slots[n]
			if i, ok := at[n]; ok {
				r.at = i
			}
		}
		c.p.roots = append(c.p.roots, r)
	}
}

// slotOf is the slot of an operand of an instruction.
func (c *compiler[T]) slotOf(n *expr.Node) int {
	if k, ok := c.uniforms[n]; ok {
		c.p.uniforms[k].spread = true
		return c.p.firstUniform + k
	}
	return c.slots[n]
}

// release frees the registers of the operands that node n, at index i, is the last to use: n itself may have them.
func (c *compiler[T]) release(n *expr.Node, i int) {
	for j, x := range n.Operands() {
		repeated := j > 0 && x == n.X[0] || j > 1 && x == n.X[1]
		if slot := c.slots[x]; slot >= c.p.firstRegister && c.last[x] == i && !repeated {
			c.free = append(c.free, slot)
		}
	}
}

func (c *compiler[T]) register() int {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot
	}
	c.p.slots++
	return c.p.slots - 1
}

// lastRead is the index of the last instruction that reads a slot: len(code) if it is a result, -1 if none does.
func (p *program[T]) lastRead(slot int) int {
	for _, r := range p.roots {
		if r.uniform < 0 && r.slot == slot {
			return len(p.code)
		}
	}
	for i := len(p.code) - 1; i >= 0; i-- {
		for _, o := range p.code[i].operand {
			if o == slot {
				return i
			}
		}
	}
	return -1
}

// costOf is about the time of an instruction in tenths of a nanosecond.
func costOf(op expr.Op) int {
	if op.Integer() {
		return 1
	}
	return 4
}
