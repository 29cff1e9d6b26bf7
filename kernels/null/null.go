package null

import (
	"fmt"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	kernels.Register("null", func(ordinal int) (kernels.Backend, error) { return &Backend{ordinal}, nil })
}

// Backend is a null device. Each number has memory of its own.
type Backend struct{ ordinal int }

var (
	_ kernels.Reserver = (*Backend)(nil)
	_ kernels.Pinner   = (*Backend)(nil)
)

// buffer is memory that is only counted.
type buffer struct{ n int }

// Bytes is the size.
func (b *buffer) Bytes() int { return b.n }

// Slice is a part of it.
func (b *buffer) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	s, _ := old.(*buffer)
	if s == nil {
		s = &buffer{}
	}
	s.n = n
	return s
}

// Name is "null" or, with a number other than 0, such as "null:1".
func (b *Backend) Name() string {
	if b.ordinal == 0 {
		return "null"
	}
	return fmt.Sprintf("null:%d", b.ordinal)
}

// Close ends the counting: who opens the device again begins with none.
func (*Backend) Close() error { return nil }

// Alloc counts n bytes.
func (*Backend) Alloc(n int) (kernels.Buffer, error) { return &buffer{n}, nil }

// AllocHost does the same, and takes nothing of the host.
func (*Backend) AllocHost(n int) (kernels.Buffer, error) { return &buffer{n}, nil }

// Free does nothing.
func (*Backend) Free(kernels.Buffer) {}

// Reserve takes addresses of which all can be used.
func (b *Backend) Reserve() (kernels.Range, error) { return addresses{&buffer{1 << 46}}, nil }

// addresses are those that memory is counted at.
type addresses struct{ all *buffer }

// Buffer is the whole range.
func (a addresses) Buffer() kernels.Buffer { return a.all }

// Granularity is that of the CPU, a page; that of a card is little beside its memory.
func (addresses) Granularity() int { return 4 << 10 }

// Divisible is true, as on the CPU.
func (addresses) Divisible() bool { return true }

// Map counts nothing, as the pool does.
func (addresses) Map(off, n int) error { return nil }

// Unmap is its counterpart.
func (addresses) Unmap(off, n int) error { return nil }

// CopyIn drops the data.
func (*Backend) CopyIn(kernels.Stream, kernels.Buffer, int, []byte) error { return nil }

// CopyOut gives zeros.
func (*Backend) CopyOut(_ kernels.Stream, dst []byte, _ kernels.Buffer, _ int) error {
	clear(dst)
	return nil
}

// Read gives zeros.
func (b *Backend) Read(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	return b.CopyOut(id, dst, src, off)
}

// Copy does nothing.
func (*Backend) Copy(kernels.Stream, kernels.Buffer, int, kernels.Buffer, int, int) error { return nil }

// Run checks that operands and results are inside their buffers, and that those of a pointwise operation
// have one shape.
func (*Backend) Run(l *kernels.Launch) error {
	name := l.Op.Name
	for _, args := range [][]kernels.Arg{l.In, l.Out} {
		for i, a := range args {
			if last := end(a.Layout) * a.DType.Size(); a.Offset < 0 || last > a.Buf.Bytes() {
				return kernels.Errorf(kernels.ErrShape, name, "operand %d, %v%v, ends at byte %d of %d",
					i, a.DType, a.Shape, last, a.Buf.Bytes())
			}
			if shape := l.Out[0].Shape; l.Op.Expr != nil && kernels.Count(a.Shape) != kernels.Count(shape) {
				return kernels.Errorf(kernels.ErrShape, name, "operand %d has shape %v, the result %v",
					i, a.Shape, shape)
			}
		}
	}
	if e := l.Op.Expr; e != nil &&
		(len(l.In) != len(e.Args) || len(l.Floats) != len(e.Params) || len(l.Out) != len(e.Roots)) {
		return kernels.Errorf(kernels.ErrValue, name, "%d operands, %d scalars and %d results for %s",
			len(l.In), len(l.Floats), len(l.Out), e)
	}
	return nil
}

// end is one more than the largest offset of a layout, 0 if it has no elements.
func end(l kernels.Layout) int {
	if l.Len() == 0 {
		return 0
	}
	last := l.Offset
	for i, d := range l.Shape {
		last += (d - 1) * max(0, l.Strides[i])
	}
	return last + 1
}

type done struct{}

func (done) Done() (bool, error) { return true, nil }

// Record returns an event that has happened.
func (*Backend) Record(kernels.Stream) kernels.Event { return done{} }

// Wait returns at once.
func (*Backend) Wait(kernels.Stream, kernels.Event) {}

// Synchronize returns at once.
func (*Backend) Synchronize(kernels.Stream) error { return nil }
