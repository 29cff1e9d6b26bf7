// Package lockstep is a device that does everything twice, on a GPU and on the CPU, and compares after each launch. A
// program whose results differ between the two runs on it as it is, and ends with the first launch that differs:
//
//	dev, err := tensor.Open("lockstep") // beside cuda:0, or the device that WEFT_LOCKSTEP names
//
// Results of integers, float32 and float64 must be equal to the bit, those of half precision within a bound that holds
// for products and sums on tensor cores; float64 functions that CUDA computes itself may stop it
// (docs/adr/0002-double-functions.md). After each launch the CPU goes on with the results of the other device, so that
// small differences do not add up.
package lockstep

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
)

func init() { kernels.Register("lockstep", open) }

func open(int) (kernels.Backend, error) {
	cpu, err := kernels.Open("cpu")
	if err != nil {
		return nil, err
	}
	other, err := kernels.Open(cmp.Or(os.Getenv("WEFT_LOCKSTEP"), "cuda"))
	if err != nil {
		return nil, err
	}
	return &Backend{cpu: cpu, other: other}, nil
}

// Backend is the CPU and another device.
type Backend struct {
	cpu, other kernels.Backend
	launches   atomic.Uint64
}

var _ kernels.Preparer = (*Backend)(nil)

// buffer is memory of both.
type buffer struct{ cpu, other kernels.Buffer }

// Bytes is the size of either.
func (m *buffer) Bytes() int { return m.cpu.Bytes() }

// Slice is a part of both.
func (m *buffer) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	s, _ := old.(*buffer)
	if s == nil {
		s = &buffer{}
	}
	s.cpu, s.other = m.cpu.Slice(s.cpu, off, n), m.other.Slice(s.other, off, n)
	return s
}

// Name is "lockstep".
func (b *Backend) Name() string { return "lockstep" }

// Batches says that copies wait for each other as they do on a GPU.
func (b *Backend) Batches() {}

// Close gives the other device back.
func (b *Backend) Close() error {
	if c, ok := b.other.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// Alloc takes n bytes of each.
func (b *Backend) Alloc(n int) (kernels.Buffer, error) {
	cpu, err := b.cpu.Alloc(n)
	if err != nil {
		return nil, err
	}
	other, err := b.other.Alloc(n)
	if err != nil {
		b.cpu.Free(cpu)
		return nil, err
	}
	return &buffer{cpu, other}, nil
}

// Free gives both back.
func (b *Backend) Free(m kernels.Buffer) {
	d := m.(*buffer)
	b.cpu.Free(d.cpu)
	b.other.Free(d.other)
}

// CopyIn copies to both.
func (b *Backend) CopyIn(id kernels.Stream, dst kernels.Buffer, off int, src []byte) error {
	d := dst.(*buffer)
	return cmp.Or(b.cpu.CopyIn(id, d.cpu, off, src), b.other.CopyIn(id, d.other, off, src))
}

// CopyOut copies from the other device, and waits.
func (b *Backend) CopyOut(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	return b.Read(id, dst, src, off)
}

// Read copies from the other device.
func (b *Backend) Read(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	return b.other.Read(id, dst, src.(*buffer).other, off)
}

// Copy copies within both.
func (b *Backend) Copy(id kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	d, s := dst.(*buffer), src.(*buffer)
	return cmp.Or(b.cpu.Copy(id, d.cpu, off, s.cpu, srcOff, n), b.other.Copy(id, d.other, off, s.other, srcOff, n))
}

// on is the call with memory of one of the two.
func on(l *kernels.Launch, side func(*buffer) kernels.Buffer) *kernels.Launch {
	c := l.Clone()
	for _, args := range [][]kernels.Arg{c.In, c.Out} {
		for i := range args {
			args[i].Buf = side(args[i].Buf.(*buffer))
		}
	}
	return c
}

func onCPU(m *buffer) kernels.Buffer   { return m.cpu }
func onOther(m *buffer) kernels.Buffer { return m.other }

// Prepare is the other device's.
func (b *Backend) Prepare(l *kernels.Launch) error {
	if p, ok := b.other.(kernels.Preparer); ok {
		return p.Prepare(on(l, onOther))
	}
	return nil
}

// Run runs the operation on both, waits, and compares the results. The error names what differs.
func (b *Backend) Run(l *kernels.Launch) error {
	n := b.launches.Add(1)
	err := cmp.Or(b.cpu.Run(on(l, onCPU)), b.cpu.Synchronize(l.Stream), b.other.Run(on(l, onOther)),
		b.other.Synchronize(l.Stream))
	for i := range l.Out {
		if err == nil {
			err = b.compare(l, i, n)
		}
	}
	return err
}

// compare compares result i of launch n, and makes the CPU's that of the other device.
func (b *Backend) compare(l *kernels.Launch, i int, n uint64) error {
	a, size := &l.Out[i], l.Out[i].DType.Size()
	if a.Len() == 0 {
		return nil
	}
	from, to := a.Offset*size, size
	for axis, stride := range a.Strides {
		to += (a.Shape[axis] - 1) * stride * size
	}
	m, want, got := a.Buf.(*buffer), make([]byte, to), make([]byte, to)
	err := cmp.Or(b.cpu.Read(l.Stream, want, m.cpu, from), b.other.Read(l.Stream, got, m.other, from))
	if err != nil || bytes.Equal(want, got) {
		return err
	}
	largest, at := 0.0, make([]int, len(a.Shape))
	each := func(f func(byte int) bool) {
		for range a.Len() {
			k := 0
			for axis, stride := range a.Strides {
				k += at[axis] * stride * size
			}
			if !f(k) {
				return
			}
			for axis := len(at) - 1; axis >= 0; axis-- {
				if at[axis]++; at[axis] < a.Shape[axis] {
					break
				}
				at[axis] = 0
			}
		}
	}
	each(func(k int) bool {
		if x := math.Abs(value(a.DType, want[k:])); x > largest && !math.IsInf(x, 0) {
			largest = x
		}
		return true
	})
	each(func(k int) bool {
		x, y := value(a.DType, want[k:]), value(a.DType, got[k:])
		if !bytes.Equal(want[k:k+size], got[k:k+size]) && !near(a.DType, x, y, largest) {
			err = kernels.Errorf(kernels.ErrDevice, l.Op.Name,
				"launch %d: result %d, %v%v, element %v is %v on %s and %v on the CPU; operands %s",
				n, i, a.DType, a.Shape, at, y, b.other.Name(), x, operands(l))
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return cmp.Or(b.cpu.CopyIn(l.Stream, m.cpu, from, got), b.cpu.Synchronize(l.Stream))
}

// near tells whether a result y may stand for x, where the largest is given.
func near(d kernels.DType, x, y, largest float64) bool {
	switch {
	case x != x || y != y:
		return x != x && y != y // any NaN
	case !d.IsHalf():
		return false
	case math.IsInf(x, 0) || math.IsInf(y, 0):
		return x == y
	}
	return math.Abs(x-y) <= math.Abs(x)/64+largest/256
}

// value is an element as a number.
func value(d kernels.DType, p []byte) float64 {
	switch d {
	case kernels.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(p)))
	case kernels.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(p))
	case kernels.Float16:
		return float64(float16.Frombits(binary.LittleEndian.Uint16(p)).Float32())
	case kernels.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(p)) << 16))
	case kernels.Int64:
		return float64(int64(binary.LittleEndian.Uint64(p)))
	case kernels.Int32:
		return float64(int32(binary.LittleEndian.Uint32(p)))
	}
	return float64(p[0])
}

// operands describes those of a call: "float32[2 3] strides [1 2], int64[4]".
func operands(l *kernels.Launch) (text string) {
	for i := range l.In {
		if i > 0 {
			text += ", "
		}
		a := &l.In[i]
		text += fmt.Sprintf("%v%v strides %v", a.DType, a.Shape, a.Strides)
	}
	return text
}

// done is an event of a device whose calls wait.
type done struct{}

// Done is true.
func (done) Done() (bool, error) { return true, nil }

// Record is an event that has happened.
func (b *Backend) Record(kernels.Stream) kernels.Event { return done{} }

// Wait has nothing to wait for.
func (b *Backend) Wait(kernels.Stream, kernels.Event) {}

// Synchronize waits for both.
func (b *Backend) Synchronize(id kernels.Stream) error {
	return cmp.Or(b.cpu.Synchronize(id), b.other.Synchronize(id))
}
