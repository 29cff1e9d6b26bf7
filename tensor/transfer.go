package tensor

import (
	"errors"
	"runtime"

	"github.com/weft-ml/weft/kernels/cpu"
)

// local is t in memory that the step's device can use. Host data are copied to devices with memory of their own, once
// in a step: they do not change while a step uses them.
func (s *Scope) local(op string, t *Tensor) *Tensor {
	if t.blk.dev != nil || s.dev.inHostMemory() {
		return t
	}
	if v := s.uploads[t]; v != nil {
		return v
	}
	if s.uploads == nil {
		s.uploads = map[*Tensor]*Tensor{}
	}
	v := s.upload(op, t)
	s.uploads[t] = v
	return v
}

// upload copies the elements of host data to the step's device. The copy lives as long as the step.
func (s *Scope) upload(op string, t *Tensor) *Tensor {
	c := t.Detach().Contiguous()
	blk := s.dev.deviceBlock(op, c.Len()*c.dtype.Size())
	bottom := s.top
	for bottom.up != nil {
		bottom = bottom.up
	}
	bottom.owned = append(bottom.owned, blk)
	s.dev.shared.backend.CopyIn(0, blk.buf, 0, bytesOf(c))
	runtime.KeepAlive(c)
	v := newTensor(blk, t.dtype, t.layout.Shape, s)
	v.root = t.root
	return v
}

// download is t as host data, with the same strides. It waits for the device.
func (t *Tensor) download() *Tensor {
	if t.scope != nil {
		t = t.Contiguous() // on the device, so that no gaps are copied
	}
	lo, hi := t.extent()
	size := t.dtype.Size()
	data := make([]byte, (hi-lo)*size)
	dev := t.blk.dev
	dev.shared.backend.CopyOut(0, data, t.blk.buf, lo*size)
	if err := dev.Synchronize(); err != nil {
		kind := ErrDevice
		var e *Error
		if errors.As(err, &e) {
			kind = e.Kind
		}
		Fail(kind, "to_slice", "%v", err)
	}
	runtime.KeepAlive(t)
	h := newTensor(hostBlock(cpu.Wrap(data), "to_slice"), t.dtype, t.layout.Shape, nil)
	copy(h.layout.Strides, t.layout.Strides)
	h.layout.Offset = t.layout.Offset - lo
	return h
}

// extent is the range of positions that the elements of t take in its memory; empty if there are none.
func (t *Tensor) extent() (lo, hi int) {
	if t.Len() == 0 {
		return 0, 0
	}
	lo, hi = t.layout.Offset, t.layout.Offset+1
	for i, n := range t.layout.Shape {
		reach := (n - 1) * t.layout.Strides[i]
		lo += min(0, reach)
		hi += max(0, reach)
	}
	return lo, hi
}
