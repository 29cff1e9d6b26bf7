package cpu

import (
	"slices"
	"sync"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
)

// An execution is one run of a program. Executions are used again, so that an op call allocates nothing.
type execution[T register] struct {
	space
	p           *program[T]
	native      kernels.DType // the element type of registers
	results     []result
	params      []float64
	uniforms    []T
	random      kernels.Random
	converted   *operand         // the only result is its elements in the registers' type; nil: no conversion
	unchunked   bool             // a kernel takes any piece at once
	nonTemporal kernel[T]        // in place of the only instruction, with non-temporal stores
	body        func(lo, hi int) // x.runBlocks, made once
	rowBody     func(lo, hi int) // x.runRows, made once
}

// A result of an execution.
type result struct {
	dtype  kernels.DType
	data   []byte // from the first element on
	direct bool   // written by the instruction that computes it
}

var (
	float32Runs = executions[float32](kernels.Float32)
	float64Runs = executions[float64](kernels.Float64)
	int64Runs   = executions[int64](kernels.Int64)
)

func executions[T register](native kernels.DType) *sync.Pool {
	return &sync.Pool{New: func() any {
		x := &execution[T]{native: native}
		x.body, x.rowBody = x.runBlocks, x.runRows
		return x
	}}
}

// run executes an op call in registers of type T.
func run[T register](pool *sync.Pool, l *kernels.Launch) {
	x := pool.Get().(*execution[T])
	x.describe(l.In, l.Out[0].Shape)
	if x.n > 0 {
		x.params, x.random = l.Floats, l.Random
		body, pieces, elements := x.rowBody, x.rows, x.columns
		if !x.setRows(l) {
			x.p = programOf[T](l.Op.Name, l.Op.Expr, x.uniformArgs())
			body, pieces, elements = x.body, x.blocks, x.high*x.wide
		}
		x.setResults(l)
		x.setNonTemporal(l)
		x.converted = x.conversion(l)
		x.setUniforms()
		x.unchunked = x.isUnchunked()
		grain := 100_000 / (1 + x.p.cost*costUnit[T]() + len(x.operands) + len(x.results))
		par.For(pieces, (grain+elements-1)/elements, body)
	}
	x.release()
	pool.Put(x)
}

// release drops the memory of the op call.
func (x *execution[T]) release() {
	x.p, x.params, x.converted = nil, nil, nil
	for i := range x.operands {
		x.operands[i].data = nil
	}
	for i := range x.results {
		x.results[i].data = nil
	}
}

// costUnit is the cost of an instruction, relative to float32.
func costUnit[T register]() int {
	if _, ok := any(T(0)).(float32); ok {
		return 1
	}
	return 10
}

// uniformArgs is the set of operands that are one element.
func (x *execution[T]) uniformArgs() (set uint64) {
	for i := range x.operands {
		if x.operands[i].mode == uniform && i < 64 {
			set |= 1 << i
		} else if x.operands[i].mode == uniform {
			x.operands[i].mode = blocked
		}
	}
	return set
}

// leastRow is the length of rows from which on it pays to run a fused kernel for each of them.
const leastRow = 16

// setRows tells whether a fused kernel takes each row at once: some operands are one element for a row, such as the
// numbers of a channel, there is a kernel that has them as scalars, and all else is read and written in place.
// If so, it sets the program.
func (x *execution[T]) setRows(l *kernels.Launch) bool {
	last := x.Rank - 1
	if last == 0 || x.columns < leastRow || len(x.operands) > 64 {
		return false
	}
	var scalars uint64
	for i := range x.operands {
		o := &x.operands[i]
		switch {
		case o.dtype != x.native || o.dims.Strides[last] != 0 && o.mode != contiguous:
			return false
		case o.dims.Strides[last] == 0:
			scalars |= 1 << i
		}
	}
	for i := range l.Out {
		if l.Out[i].DType != x.native {
			return false
		}
	}
	if scalars == 0 {
		return false
	}
	p := programOf[T](l.Op.Name, l.Op.Expr, scalars)
	if p.fused == nil || len(p.streams) > 0 {
		return false
	}
	x.p = p
	for i := range x.operands {
		if scalars>>i&1 == 1 {
			x.operands[i].mode = uniform
		}
	}
	return true
}

// setResults decides which results are written by the instruction that computes them: those of the registers' own type,
// unless that would overwrite an operand that a later instruction reads.
func (x *execution[T]) setResults(l *kernels.Launch) {
	x.results = slices.Grow(x.results[:0], len(l.Out))[:len(l.Out)]
	for k := range l.Out {
		r, o := &x.results[k], &l.Out[k]
		r.dtype, r.data = o.DType, bytesOf(*o)
		root := x.p.roots[k]
		r.direct = o.DType == x.native && root.at >= 0 && root.slot == x.p.firstResult+k
		if x.p.fused != nil { // it reads an element of all operands before it writes that of a result
			continue
		}
		for j := range l.In {
			if !overlap(&l.In[j], o) {
				continue
			}
			if x.p.lastRead(1+j) > root.at {
				r.direct = false
			}
			if x.operands[j].mode == contiguous && x.isRoot(1+j) { // stored after the chunk
				x.operands[j].mode = blocked
			}
		}
	}
}

// conversion is the operand whose elements the only result is, in the registers' type: they are loaded straight to it.
func (x *execution[T]) conversion(l *kernels.Launch) *operand {
	root := x.p.roots[0]
	if len(x.results) != 1 || x.results[0].dtype != x.native || x.p.fused != nil || root.uniform >= 0 || root.at >= 0 {
		return nil
	}
	k := root.slot - 1
	if o := &x.operands[k]; o.mode == contiguous && o.dtype != x.native && !overlap(&l.In[k], &l.Out[0]) {
		return o
	}
	return nil
}

// isUnchunked tells whether one kernel does everything and finds all elements in place, so that they are not cut into
// chunks.
func (x *execution[T]) isUnchunked() bool {
	for i := range x.operands {
		if o := &x.operands[i]; o.mode != uniform && (o.mode != contiguous || o.dtype != x.native) {
			return false
		}
	}
	for k := range x.results {
		if !x.results[k].direct {
			return false
		}
	}
	return x.p.single && x.Rank == 1
}

// isRoot tells whether a slot is a result as it is.
func (x *execution[T]) isRoot(slot int) bool {
	for _, r := range x.p.roots {
		if r.uniform < 0 && r.slot == slot {
			return true
		}
	}
	return false
}

// overlap tells whether two contiguous operands share memory.
func overlap(a, b *kernels.Arg) bool {
	if a.Buf != b.Buf {
		return false
	}
	aFirst, aSize := a.Offset*a.DType.Size(), a.Len()*a.DType.Size()
	bFirst, bSize := b.Offset*b.DType.Size(), b.Len()*b.DType.Size()
	return aFirst < bFirst+bSize && bFirst < aFirst+aSize
}

// setUniforms computes the uniform values of the op call, each by the kernel that would compute it in a chunk.
func (x *execution[T]) setUniforms() {
	n := len(x.p.uniforms)
	x.uniforms = slices.Grow(x.uniforms[:0], n)[:n]
	for k := range x.p.uniforms {
		u := &x.p.uniforms[k]
		v := x.uniforms[k : k+1 : k+1]
		switch u.node.Op {
		case expr.Const:
			v[0] = T(u.node.C)
		case expr.Param:
			v[0] = T(x.params[u.node.K])
		case expr.Arg:
			o := &x.operands[u.node.K]
			load(v, o.data[o.offset*o.dtype.Size():], o.dtype)
		default:
			var in [3][]T
			for j, from := range u.operand {
				if from >= 0 {
					in[j] = x.uniforms[from : from+1 : from+1]
				}
			}
			u.run(v, in[0], in[1], in[2])
		}
	}
}

// runBlocks computes blocks [lo, hi).
func (x *execution[T]) runBlocks(lo, hi int) {
	f := x.p.workspace()
	x.prepare(f)
	if x.unchunked {
		from := lo * x.wide
		x.runChunk(f, 0, from, min(hi*x.wide, x.n)-from)
		lo = hi
	}
	for i := lo; i < hi; i++ {
		b := x.block(i)
		for k := range x.operands {
			if m := x.operands[k].mode; m == rowwise || m == blocked || m == repeated && i == lo {
				x.fetch(f, k, b)
			}
		}
		if x.across == 1 { // whole rows are a contiguous piece of the results
			x.runPiece(f, 0, b.row*x.columns, b.high*b.wide)
			continue
		}
		for r := range b.high {
			x.runPiece(f, r*b.wide, (b.row+r)*x.columns+b.column, b.wide)
		}
	}
	x.p.putWorkspace(f)
}

// A rowScalar is an operand of one element for each row: the next one, and how far the one after it is.
type rowScalar[T register] struct {
	elements []T
	at, step int
}

// runRows computes rows [lo, hi), each by one call of a fused kernel, after setRows.
func (x *execution[T]) runRows(lo, hi int) {
	f := x.p.workspace()
	params := len(x.p.uniforms) - x.describeRows(f)
	args, results, scalars := f.args, f.slots[x.p.firstResult:x.p.firstRegister], f.scalars
	inner := x.Shape[x.Rank-2] // rows between which the scalars are a step apart
	for row := lo; row < hi; {
		for k := range f.rows {
			o := &x.operands[x.p.uniforms[params+k].node.K]
			f.rows[k].at = o.offset + o.dims.Offset(row*x.columns)
		}
		for end := min(hi, row+inner-row%inner); row < end; row++ {
			for k := range f.rows {
				s := &f.rows[k]
				scalars[params+k] = s.elements[s.at]
				s.at += s.step
			}
			from, to := row*x.columns, (row+1)*x.columns
			for k := range args {
				args[k] = f.whole[k][from:to]
			}
			for k := range results {
				results[k] = f.whole[len(args)+k][from:to]
			}
			x.p.fused(results, args, scalars)
		}
	}
	clear(f.rows)
	clear(f.whole)
	x.p.putWorkspace(f)
}

// describeRows sets f.rows to the operands that are one element for each row, f.whole to the other ones that the kernel
// reads and the results, and returns the number of the first. There is room for the pieces of them in f.args.
func (x *execution[T]) describeRows(f *workspace[T]) int {
	f.rows, f.whole, f.scalars = f.rows[:0], f.whole[:0], append(f.scalars[:0], x.uniforms...)
	for k := range x.operands {
		o := &x.operands[k]
		if o.mode != uniform {
			f.whole = append(f.whole, view[T](o.data)[o.offset:][:x.n])
			continue
		}
		f.rows = append(f.rows, rowScalar[T]{elements: view[T](o.data), step: o.dims.Strides[x.Rank-2]})
	}
	f.whole = f.whole[:x.p.reads]
	f.args = append(f.args[:0], f.whole...)
	for k := range x.results {
		f.whole = append(f.whole, view[T](x.results[k].data)[:x.n])
	}
	return len(f.rows)
}

// prepare fills the slots of uniform values. Those of constants stay filled.
func (x *execution[T]) prepare(f *workspace[T]) {
	n := min(chunk, x.n)
	for k := range x.p.uniforms {
		if u := &x.p.uniforms[k]; u.spread && u.node.Op != expr.Const {
			fill(f.slots[x.p.firstUniform+k][:n], x.uniforms[k])
		}
	}
	for k, root := range x.p.roots {
		if root.uniform >= 0 {
			fill(f.own(x.p, x.p.firstResult+k)[:n], x.uniforms[root.uniform])
		}
	}
}

// fetch sets f.loaded[k] to a block of operand k.
func (x *execution[T]) fetch(f *workspace[T], k int, b block) {
	o := &x.operands[k]
	n, size := b.high*b.wide, o.dtype.Size()
	native := o.dtype == x.native
	if o.mode == rowwise {
		x.offsets(f.starts[:1], o, b)
		from := o.data[f.starts[0]*size:]
		if native {
			f.loaded[k] = view[T](from)[:n]
			return
		}
		f.loaded[k] = view[T](f.buffer(k, n))[:n]
		load(f.loaded[k], from, o.dtype)
		return
	}
	buffer := f.buffer(k, n)
	f.loaded[k] = view[T](buffer)[:n]
	if native {
		x.gather(buffer, o, b, b.wide, f.starts)
		return
	}
	f.raw = enough(f.raw, n*size)
	x.gather(f.raw, o, b, b.wide, f.starts)
	load(f.loaded[k], f.raw, o.dtype)
}

// runPiece computes elements [at, at+n) of the results; the first is element `in` of the loaded blocks.
func (x *execution[T]) runPiece(f *workspace[T], in, at, n int) {
	for done := 0; done < n; done += chunk {
		x.runChunk(f, in+done, at+done, min(chunk, n-done))
	}
}

// runChunk is runPiece for at most one chunk.
func (x *execution[T]) runChunk(f *workspace[T], in, at, n int) {
	if o := x.converted; o != nil {
		load(view[T](x.results[0].data)[at:at+n], o.data[(o.offset+at)*o.dtype.Size():], o.dtype)
		return
	}
	x.setSlots(f, in, at, n)
	if x.p.fused != nil {
		x.runFused(f, at, n)
	} else {
		x.runInstructions(f, at, n)
	}
	for k := range x.results {
		if r := &x.results[k]; !r.direct {
			store(r.data[at*r.dtype.Size():], f.slots[x.p.roots[k].slot][:n], r.dtype)
		}
	}
}

// runFused executes the kernel of the whole function.
func (x *execution[T]) runFused(f *workspace[T], at, n int) {
	args := f.vectors(x.operands)[:x.p.reads]
	for i, stream := range x.p.streams {
		random := f.slots[x.p.firstRegister+i][:n]
		x.draw(random, stream, at)
		args = append(args, random)
	}
	f.args = args
	x.p.fused(f.slots[x.p.firstResult:x.p.firstRegister], args, x.uniforms)
}

// runInstructions executes the instructions of the program.
func (x *execution[T]) runInstructions(f *workspace[T], at, n int) {
	for i := range x.p.code {
		s := &x.p.code[i]
		dst := f.slots[s.dst][:n]
		if s.run == nil {
			x.draw(dst, s.stream, at)
			continue
		}
		run := s.run
		if x.nonTemporal != nil && onLine(dst) {
			run = x.nonTemporal
		}
		run(dst, f.slots[s.operand[0]], f.slots[s.operand[1]], f.slots[s.operand[2]])
	}
}

// setSlots points the slots of the operands and results to a chunk.
func (x *execution[T]) setSlots(f *workspace[T], in, at, n int) {
	for k := range x.operands {
		switch o := &x.operands[k]; {
		case o.mode == uniform:
		case o.mode != contiguous:
			f.slots[1+k] = f.loaded[k][in : in+n]
		case o.dtype == x.native:
			f.slots[1+k] = view[T](o.data)[o.offset+at:][:n]
		default:
			f.slots[1+k] = view[T](f.buffer(k, chunk))[:n]
			load(f.slots[1+k], o.data[(o.offset+at)*o.dtype.Size():], o.dtype)
		}
	}
	for k := range x.results {
		slot := x.p.firstResult + k
		if r := &x.results[k]; r.direct {
			f.slots[slot] = view[T](r.data)[at : at+n]
		} else {
			f.slots[slot] = f.own(x.p, slot)[:n]
		}
	}
}

// draw fills a register with the random numbers of the elements from `at` on. There are none on integers.
func (x *execution[T]) draw(dst []T, stream, at int) {
	s := philox.Source{Key: x.random.Key, Counter: x.random.Counter, Stream: uint32(stream)}
	switch dst := any(dst).(type) {
	case []float32:
		vec.Uniform(dst, s, uint64(at))
	case []float64:
		philox.Uniform(dst, s, uint64(at))
	}
}
