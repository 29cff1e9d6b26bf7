package cpu

import "github.com/weft-ml/weft/kernels/expr"

// pitch is the distance of the slots of a workspace: a chunk, and a cache line so that the same elements of all slots
// do not compete for the same sets of a cache.
const pitch = chunk + alignment/4

// A workspace is the working memory of one goroutine that runs a program.
type workspace[T register] struct {
	slots   [][]T    // operands of instructions
	memory  []T      // of uniform values, results and registers
	loaded  [][]T    // the present block of each operand that is not read in place
	buffers [][]byte // and the memory of such blocks
	args    [][]T    // the operands of a fused kernel
	scalars []T      // its scalars for a row
	rows    []rowScalar[T]
	whole   [][]T  // what rows are pieces of
	raw     []byte // gathered elements before conversion
	starts  []int  // of the rows of a block
}

// workspace returns working memory for p, and putWorkspace takes it back.
func (p *program[T]) workspace() *workspace[T] {
	if f, ok := p.frames.Get().(*workspace[T]); ok {
		return f
	}
	operands := p.firstUniform - 1
	f := &workspace[T]{
		slots:   make([][]T, p.slots),
		memory:  make([]T, (p.slots-p.firstUniform)*pitch),
		loaded:  make([][]T, operands),
		buffers: make([][]byte, operands),
		starts:  make([]int, chunk),
	}
	for slot := p.firstUniform; slot < p.slots; slot++ {
		f.slots[slot] = f.own(p, slot)
	}
	for k, u := range p.uniforms {
		if u.node.Op == expr.Const {
			fill(f.slots[p.firstUniform+k], T(u.node.C))
		}
	}
	return f
}

func (p *program[T]) putWorkspace(f *workspace[T]) {
	clear(f.slots[1:p.firstUniform]) // the memory of tensors
	clear(f.slots[p.firstResult:p.firstRegister])
	clear(f.loaded)
	clear(f.args)
	p.frames.Put(f)
}

// vectors are the slots of the operands that are not uniform.
func (f *workspace[T]) vectors(operands []operand) [][]T {
	f.args = f.args[:0]
	for k := range operands {
		if operands[k].mode != uniform {
			f.args = append(f.args, f.slots[1+k])
		}
	}
	return f.args
}

// own is the memory of a slot.
func (f *workspace[T]) own(p *program[T], slot int) []T {
	at := (slot - p.firstUniform) * pitch
	return f.memory[at : at+chunk : at+chunk]
}

// buffer is memory for n elements of operand k.
func (f *workspace[T]) buffer(k, n int) []byte {
	var t T
	f.buffers[k] = enough(f.buffers[k], n*sizeOf(t))
	return f.buffers[k]
}

// enough is b, or new memory if b has less than n bytes.
func enough(b []byte, n int) []byte {
	if len(b) >= n {
		return b
	}
	return mustMem(n).data
}
