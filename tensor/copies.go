package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// copies converts tensors, each to one of its own, by one launch on a GPU. What a result has more than its operand, the
// gap behind a parameter, becomes 0.
var copies = Op{entry{
	Op:     kernels.Op{Name: "copies", CPU: cpu.Copies, Types: kernels.DTypes(), Kernel: "copies"},
	NoGrad: "it is not in the table",
}}

// A batch is copies of contiguous tensors that wait for each other, all of one device.
type batch struct {
	to, from []*Tensor
	bytes    int // of the operands
}

// add appends a copy, and keeps the operand alive.
func (b *batch) add(to, from *Tensor) {
	from.blk.retain()
	b.to, b.from, b.bytes = append(b.to, to), append(b.from, from), b.bytes+from.Len()*from.dtype.Size()
}

// drop empties b.
func (b *batch) drop() {
	for _, x := range b.from {
		x.blk.release("its copy")
	}
	*b = batch{}
}

// run makes the copies.
func (b *batch) run(s *Scope) {
	if len(b.to) == 0 {
		return
	}
	defer b.drop()
	defer s.setDevice(s.dev)
	s.setDevice(s.deviceOf(b.to))
	c := &ctx{}
	c.set(&copies, s, b.from, nil, nil)
	c.Out = append(c.Out, b.to...)
	s.run(c)
}

// batches tells whether copies on the device wait for each other.
func (d *Device) batches() bool { return d.shared.batches }

// Gradients wait for others until so many bytes have come together: their memory is held meanwhile.
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
		if hi == end {
			return
		}
		to, g = span(flat, hi, end), span(flat, hi, hi)
	}
	if w := s.waiting.from; len(w) > 0 && w[0].Device() != g.Device() {
		s.waiting.run(s)
	}
	s.waiting.add(to, g)
	if s.waiting.bytes >= batchBytes || !s.deviceOf(s.waiting.to).batches() {
		s.waiting.run(s)
	}
}
