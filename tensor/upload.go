package tensor

// upload copies plain host data into the memory of the step's device, which is not the host's. The innermost region owns
// the copy.
func (s *Scope) upload(op string, t *Tensor) *Tensor {
	c := t.Contiguous()
	y := newTensor(&block{}, t.dtype, t.layout.Shape, s)
	s.dev.fillBlock(y.blk, op, y.Len()*y.dtype.Size())
	s.top.owned = append(s.top.owned, y.blk)
	s.dev.shared.backend.CopyIn(0, y.blk.buf, 0, bytesOf(c))
	return y
}

// onHost tells whether the device works on host data as it is.
func (d *Device) onHost() bool { return d.shared.name == "cpu" || d.shared.name == "null" }
