package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// copies converts tensors, each to one of its own, by one launch on a GPU. What a result has more than its operand, the
// gap behind a parameter, becomes 0.
var copies = Op{entry{
	Op:     kernels.Op{Name: "copies", CPU: cpu.Copies, Types: kernels.DTypes(), Kernel: "copies"},
	NoGrad: "it is not in the table",
}}

// sums has the sums of the columns of matrices, each in the order of a sum along axis 0, by few launches on a GPU.
var sums = Op{entry{
	Op:     kernels.Op{Name: "sums", CPU: sumsOnCPU, Types: kernels.DTypes(), Kernel: "sums"},
	NoGrad: "it is not in the table",
}}

func sumsOnCPU(l *kernels.Launch) {
	for i := range l.In {
		one := kernels.Launch{Op: &sum.Op, In: l.In[i : i+1], Out: l.Out[i : i+1], Ints: []int{0}}
		if err := (cpu.Backend{}).Run(&one); err != nil {
			panic(err)
		}
	}
}

// A batch is copies of contiguous tensors, or sums of others, that wait for each other, all of one device.
type batch struct {
	op       *Op
	to, from []*Tensor
	bytes    int // of the operands
}

// add appends a copy, and keeps both alive.
func (b *batch) add(to, from *Tensor) {
	to.blk.retain()
	from.blk.retain()
	b.to, b.from, b.bytes = append(b.to, to), append(b.from, from), b.bytes+from.Len()*from.dtype.Size()
}

// drop empties b.
func (b *batch) drop() {
	for i, x := range b.from {
		x.blk.release("its copy")
		y := b.to[i].blk
		y.late = false
		y.release("its copy")
	}
	*b = batch{op: b.op}
}

// run makes the copies, or sums.
func (b *batch) run(s *Scope) {
	if len(b.to) == 0 {
		return
	}
	defer b.drop()
	defer s.setDevice(s.dev)
	s.setDevice(s.deviceOf(b.to))
	c := &ctx{}
	c.set(b.op, s, b.from, nil, nil)
	c.Out = append(c.Out, b.to...)
	s.run(c)
}

// runWaiting makes all that waits: gradients on their way to the arena, and the sums that no such gradient is.
func (s *Scope) runWaiting() {
	s.waiting.run(s)
	s.sums.run(s)
}

// batches tells whether copies on the device wait for each other.
func (d *Device) batches() bool { return d.shared.batches }

// Gradients, and what adds up to some, wait for others until so many bytes have come together: their memory is held
// meanwhile.
const batchBytes = 8 << 20

// copyGrad copies g, the gradient of a parameter, to the elements of flat from lo on, and sets those from hi to end to
// 0. Where each launch takes time, it waits for others.
func (s *Scope) copyGrad(flat, g *Tensor, lo, hi, end int) {
	to := span(flat, lo, end)
	if !g.IsContiguous() {
		dst := span(flat, lo, hi)
		dst.setShape(g.layout.Shape)
		kernels.RowMajor(dst.layout.Strides, dst.layout.Shape)
		s.into(copyOp, []*Tensor{dst}, []*Tensor{g}, nil, nil)
		g = dst
	}
	if g.blk == flat.blk && g.layout.Offset == to.layout.Offset { // as where gradOf has it written
		if hi == end {
			return
		}
		to, g = span(flat, hi, end), span(flat, hi, hi)
	}
	if w := s.waiting.from; len(w) > 0 && w[0].Device() != g.Device() {
		s.waiting.run(s)
	}
	s.waiting.add(to, g)
	if s.waiting.bytes+s.sums.bytes >= batchBytes || !s.deviceOf(s.waiting.to).batches() {
		s.waiting.run(s)
	}
}

// late tells whether the gradient of operand i of c is that of a parameter, which op calls and hooks alone see. An
// observer looks at each result at once.
func (c *ctx) late(i int) bool {
	s, n := c.scope, c.In[i].node
	if s.derived == nil || !s.derived.last || s.top.mode.observe != nil || !s.dev.batches() || n == nil {
		return false
	}
	if n.Op == &cast {
		n = n.In[0].node
	}
	return n.param != nil
}

// sumLater is the sum of g, over the axes that operand i of c lacks: the gradient of that operand. If it is late it is
// computed with others, before an op call reads it.
func (c *ctx) sumLater(i int, g *Tensor) *Tensor {
	s, shape, d := c.scope, c.shape(i), g.dtype
	n, bytes := kernels.Count(shape), g.Len()*d.Size()
	if !c.late(i) || n < 2 || bytes == 0 || bytes > batchBytes || g.Rank() == len(shape) ||
		!(d == Float32 || d.IsHalf()) || !g.IsContiguous() || g.blk.shared || g.blk.grads ||
		!slices.Equal(g.layout.Shape[g.Rank()-len(shape):], shape) {
		return g.SumTo(shape...)
	}
	if s.sums.bytes+s.waiting.bytes+bytes > batchBytes || len(s.sums.to) > 0 && s.sums.to[0].Device() != g.Device() {
		s.sums.run(s)
	}
	y := newTensor(&block{}, d, shape, s)
	s.give(sum.Name, y, s.makes)
	s.top.own(y.blk)
	y.blk.late = true
	s.sums.add(y, g.Reshape(g.Len()/n, n))
	return y
}

// sumFirst makes the sums that wait, if c reads one.
func (s *Scope) sumFirst(c *ctx) {
	if len(s.sums.to) > 0 && slices.ContainsFunc(c.In, func(x *Tensor) bool { return x.blk.late }) {
		s.sums.run(s)
	}
}
