package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

func init() {
	kernels.Register("cpu", func(ordinal int) (kernels.Backend, error) {
		if ordinal != 0 {
			return nil, kernels.Errorf(kernels.ErrDevice, "open", "there is one cpu device, cpu:0, not cpu:%d", ordinal)
		}
		if err := vec.ChoiceError(); err != nil {
			return nil, kernels.Errorf(kernels.ErrDevice, "open", "%v", err)
		}
		return Backend{}, nil
	})
}

// Backend is the CPU as a device. All values of the type are the same device.
type Backend struct{}

var _ kernels.Backend = Backend{}

// Name is "cpu".
func (Backend) Name() string { return "cpu" }

// Alloc returns a [*Mem] of n bytes, or an error of kind [kernels.ErrMemory] if the process has no [Room] for them and
// what was given back: who asks has a cache to give back, and runs [Collect] as the last resort.
func (Backend) Alloc(n int) (kernels.Buffer, error) {
	m, err := newMem(n, false)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Free gives the memory to the garbage collector; using b after it panics.
func (Backend) Free(b kernels.Buffer) {
	b.(*Mem).data = nil
	givenBack.Store(true)
}

// CopyIn copies src to dst from byte off on.
func (Backend) CopyIn(_ kernels.Stream, dst kernels.Buffer, off int, src []byte) error {
	copy(dst.(*Mem).data[off:off+len(src)], src)
	return nil
}

// CopyOut copies from byte off of src to dst.
func (Backend) CopyOut(_ kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	copy(dst, src.(*Mem).data[off:off+len(dst)])
	return nil
}

// Read is CopyOut.
func (b Backend) Read(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	return b.CopyOut(id, dst, src, off)
}

// Copy copies n bytes, in several goroutines if they are many.
func (Backend) Copy(_ kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	to, from := dst.(*Mem).data[off:off+n], src.(*Mem).data[srcOff:srcOff+n]
	par.ForAligned(n, 128<<10, 4<<10, func(lo, hi int) { copy(to[lo:hi], from[lo:hi]) })
	return nil
}

// Memory is the most that the process may have.
func (Backend) Memory() int { return leastLimit().bytes }

// FreeMemory is how much the process may have beside what it has.
func (Backend) FreeMemory() int { return Free() }

// takes tells whether op has direct loops for elements of type d.
func takes(op *kernels.Op, d kernels.DType) bool {
	if op.CPU == nil {
		return false
	}
	if len(op.Types) == 0 {
		return d == kernels.Float32
	}
	return slices.Contains(op.Types, d)
}

// Run executes an op call. It returns an [*kernels.Error] that a kernel panics with.
func (Backend) Run(l *kernels.Launch) (err error) {
	defer kernels.Catch(&err)
	d := l.DType()
	switch {
	case takes(l.Op, d):
		l.Op.CPU(l)
	case l.Op.Expr != nil:
		pointwise(l)
	case widens(l.Op, d):
		widened(l)
	case l.Op.Ref != nil:
		reference(l)
	default:
		return kernels.Errorf(kernels.ErrDevice, l.Op.Name, "device cpu has no kernel for %v", d)
	}
	return nil
}

// done is the event of a device whose work is finished when Run returns.
type done struct{}

func (done) Done() (bool, error) { return true, nil }

// Record returns an event that has happened.
func (Backend) Record(kernels.Stream) kernels.Event { return done{} }

// Wait returns at once.
func (Backend) Wait(kernels.Stream, kernels.Event) {}

// Synchronize returns at once.
func (Backend) Synchronize(kernels.Stream) error { return nil }
