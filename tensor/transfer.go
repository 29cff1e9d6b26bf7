package tensor

import (
	"errors"
	"runtime"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// An upload is host data in a step, on one of its devices.
type upload struct {
	of *Tensor
	on *sharedDevice
}

// local is t in memory that the step's device can use. Host data are copied to a device with memory of its own, once in
// a step: they do not change while a step uses them.
func (s *Scope) local(op string, t *Tensor) *Tensor {
	if t.blk.dev != nil || t.scope != nil || s.dev.inHostMemory() && s.home.inHostMemory() {
		return t
	}
	key := upload{t, s.dev.shared}
	if v := s.uploads[key]; v != nil {
		return v
	}
	if s.uploads == nil {
		s.uploads = map[upload]*Tensor{}
	}
	v := s.upload(op, t)
	s.uploads[key] = v
	return v
}

// upload is host data in memory of the device. On the CPU that is their own, which counts as the CPU's in a step of
// another device.
func (s *Scope) upload(op string, t *Tensor) *Tensor {
	if s.dev.inHostMemory() {
		v := t.alias(s)
		v.blk = &block{buf: t.blk.buf, dev: s.dev, refs: 1, shared: true, op: t.blk.op}
		return v
	}
	c := t.Detach().Contiguous()
	blk := s.dev.deviceBlock(op, c.Len()*c.dtype.Size(), kernels.Data)
	s.outermost.owned = append(s.outermost.owned, blk)
	s.dev.copyIn(op, blk, 0, bytesOf(c))
	runtime.KeepAlive(c)
	v := newTensor(blk, t.dtype, t.layout.Shape, s)
	v.root = t.root
	return v
}

// download is t as host data, with the same strides. It waits for the device.
func (t *Tensor) download() *Tensor {
	if t.scope != nil {
		t = t.Contiguous() // on the device, so that only its own elements are copied
	}
	lo, hi := t.extent()
	size := t.dtype.Size()
	data := makeHost[byte]("to_slice", (hi-lo)*size)
	t.blk.dev.read("to_slice", data, t.blk.buf, lo*size)
	runtime.KeepAlive(t)
	h := newTensor(hostBlock(cpu.Wrap(data), "to_slice"), t.dtype, t.layout.Shape, nil)
	copy(h.layout.Strides, t.layout.Strides)
	h.layout.Offset = t.layout.Offset - lo
	return h
}

// read copies bytes of memory, from offset off on, to the host. It waits for them, and not for the work that other
// goroutines queue.
func (d *Device) read(op string, to []byte, m kernels.Buffer, off int) {
	copied(op, d.shared.backend.Read(0, to, m, off))
}

// copyIn queues a copy of host memory to b, from byte off of b on.
func (d *Device) copyIn(op string, b *block, off int, from []byte) {
	copied(op, d.shared.backend.CopyIn(0, b.buf, off, from))
}

// zero queues copies of zeros to all of b.
func (d *Device) zero(op string, b *block) {
	zeros := make([]byte, min(b.mem.Size(), 1<<20))
	for at := 0; at < b.mem.Size(); at += len(zeros) {
		d.copyIn(op, b, at, zeros[:min(len(zeros), b.mem.Size()-at)])
	}
}

// copied fails with the error of a copy, if there is one.
func copied(op string, err error) {
	if err == nil {
		return
	}
	kind := ErrDevice
	var e *Error
	if errors.As(err, &e) {
		kind = e.Kind
	}
	fail(kind, op, "%v", err)
}

// setDevice makes d the device of the results that follow.
func (s *Scope) setDevice(d *Device) {
	if d != s.dev {
		s.countLaunches()
		s.dev = d
	}
}

// countLaunches adds the op calls since the last time to those of the device. They are not counted one by one, since an
// atomic addition is as expensive as all checks of an operation.
func (s *Scope) countLaunches() {
	s.dev.launches.Add(s.launches)
	s.launches = 0
}

// beside is f(), in which results without operands, and host data that are taken in, are on the device of x.
func (s *Scope) beside(x *Tensor, f func() *Tensor) *Tensor {
	defer s.setDevice(s.dev)
	if d := x.where(); d != nil {
		s.setDevice(d)
	}
	return f()
}

// newFull is all elements equal to v, on the device of x.
func (s *Scope) newFull(x *Tensor, v float64, dt DType, shape ...int) *Tensor {
	return s.beside(x, func() *Tensor { return s.Full(v, dt) }).Expand(shape...)
}

// deviceOf is the device on which an operation on ts runs: that of the first tensor which is not host data.
func (s *Scope) deviceOf(ts []*Tensor) *Device {
	for _, t := range ts {
		if t == nil {
			break // refused later
		}
		if d := t.where(); d != nil && d.shared != s.dev.shared {
			return d
		} else if d != nil {
			break
		}
	}
	return s.dev
}

// wantOneDevice fails unless all tensors are on the device of the operation.
func (s *Scope) wantOneDevice(op string, ts []*Tensor) {
	for _, t := range ts {
		if d := t.where(); d != nil && d.shared != s.dev.shared {
			fail(ErrStep, op, "operands on two devices: %v is on %s, another one on %s; x.To(dev) moves x",
				t, d.Name(), s.dev.Name())
		}
	}
}

// toDevice is t on another device.
func (t *Tensor) toDevice(d *Device) (y *Tensor) {
	t.usable("to")
	d.usable("to")
	if from := t.Device(); from == nil && d.inHostMemory() || from != nil && from.shared == d.shared {
		return t
	}
	if t.scope == nil && t.needs {
		fail(ErrStep, "to", "%v belongs to no step, so none would record this; "+
			"take it in with s.In, or use Detach for values alone", t)
	}
	if t.scope == nil {
		home := t.blk.dev
		if home == nil {
			home = d
		}
		home.do(func(s *Scope) { y = s.In(t).To(d).Keep() })
		return y
	}
	s := t.scope
	s.alone(func() {
		x := t.Contiguous()
		blk := d.deviceBlock("to", x.Len()*x.dtype.Size(), kernels.Data)
		s.top.owned = append(s.top.owned, blk)
		x.copyTo(blk)
		y = s.recordCustom(&toDevice, []*Tensor{x}, newTensor(blk, x.dtype, x.layout.Shape, s), nil)
	})
	return y
}

var toDevice Op

func init() {
	toDevice = Op{entry{
		Op:    kernels.Op{Name: "to"},
		Args:  []string{"x"},
		VJP:   func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.To(c.In[0].Device())} },
		Saves: []saves{0},
	}}
}

// copyTo queues the copy of t, which is contiguous, to the memory of another device. It waits if the bytes go through
// the host.
func (t *Tensor) copyTo(b *block) {
	size := t.dtype.Size()
	from, n := t.device(), t.Len()*size
	if n == 0 {
		return
	}
	if from.inHostMemory() {
		b.dev.copyIn("to", b, 0, bytesOf(t))
		return
	}
	if peer, ok := b.dev.shared.backend.(kernels.Peer); ok {
		done, err := peer.CopyPeer(0, b.buf, 0, t.blk.buf, t.layout.Offset*size, n)
		if copied("to", err); done {
			return
		}
	}
	if m, ok := b.buf.(*cpu.Mem); ok {
		from.read("to", m.Data()[:n], t.blk.buf, t.layout.Offset*size)
		return
	}
	data := makeHost[byte]("to", n)
	from.read("to", data, t.blk.buf, t.layout.Offset*size)
	b.dev.copyIn("to", b, 0, data)
	runtime.KeepAlive(t)
}

// extent is the range of offsets [lo, hi) of the elements of t in its memory, in elements; empty if there are none.
func (t *Tensor) extent() (lo, hi int) {
	if t.Len() == 0 {
		return 0, 0
	}
	lo, hi = t.layout.Offset, t.layout.Offset+1
	for i, n := range t.layout.Shape {
		last := (n - 1) * t.layout.Strides[i]
		lo += min(0, last)
		hi += max(0, last)
	}
	return lo, hi
}
