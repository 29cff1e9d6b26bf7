//go:build cuda && cgo && linux

package cuda

import (
	"slices"
	"unsafe"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// A call is what one operation launches: one kernel, or several that follow each other. It is submitted in one call
// of C and used again for the next operation, so that nothing is allocated. Arguments are packed: see [driver.Launch].
type call struct {
	b        *Backend
	op       string
	step     uint64 // as [kernels.Launch.Step]
	launches []driver.Launch
	names    []string          // of the kernels
	values   []byte            // packed arguments; those of a launch begin at a multiple of 16
	offsets  []uint32          // of each argument, from where its launch begins
	spare    kernels.Buffer    // of scratch
	stream   *stream           // where it is submitted
	reports  bool              // its kernels report indices outside their axis
	parts    [2]kernels.Launch // of a sum and its norm
	together together
}

// dim is the size of a grid, in blocks, or of a block, in threads.
type dim struct{ X, Y, Z uint32 }

// reset begins the call of an operation.
func (c *call) reset(op string) {
	c.op, c.reports = op, false
	c.launches, c.names, c.values, c.offsets = c.launches[:0], c.names[:0], c.values[:0], c.offsets[:0]
}

// launch begins a launch; arguments follow. shared is dynamic shared memory in bytes.
func (c *call) launch(f *function, grid, block dim, shared int) {
	c.extend(roundUp(len(c.values), driver.ArgAlignment))
	c.names = append(c.names, f.name)
	c.launches = append(c.launches,
		f.Launch(driver.Dim(grid), driver.Dim(block), shared, len(c.values), len(c.offsets)))
}

// start begins a launch of a kernel without dynamic shared memory; arguments follow.
func (c *call) start(symbol string, grid dim, threads uint32) {
	c.startShared(symbol, grid, threads, 0)
}

// startShared is start with so many bytes of dynamic shared memory.
func (c *call) startShared(symbol string, grid dim, threads uint32, shared int) {
	c.launch(must(c.b.images.function(c.b, symbol)), grid, dim{threads, 1, 1}, shared)
}

// refuse ends a plan for operands that the kernels do not take.
func (c *call) refuse(format string, args ...any) {
	panic(kernels.Errorf(kernels.ErrDevice, c.op, format, args...))
}

// scratch is n bytes of device memory for the launches of this call. It is the stream's own: the next call, which
// runs later, uses it again. A call asks once.
func (c *call) scratch(n int) uint64 {
	if n == 0 {
		return 0
	}
	if c.spare == nil || c.spare.Bytes() < n {
		m := must(c.b.scratch(c.op, max(n, 1<<20)))
		if c.spare != nil {
			c.b.Free(c.spare)
		}
		c.spare = m
	}
	return uint64(c.b.at(c.op, c.spare, 0, n))
}

// arg appends a scalar to the last launch.
func arg[T int32 | uint32 | int64 | uint64 | float32 | float64](c *call, v T) {
	p := c.space(unsafe.Sizeof(v), unsafe.Alignof(v))
	copy(p, bytesOf(&v))
}

// structure appends a struct to the last launch, which is laid out as the kernel's parameter.
func structure[T any](c *call, v *T) {
	copy(c.space(unsafe.Sizeof(*v), unsafe.Alignof(*v)), bytesOf(v))
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// space extends the last launch by an argument.
func (c *call) space(size, alignment uintptr) []byte {
	l := &c.launches[len(c.launches)-1]
	at := roundUp(len(c.values), int(alignment))
	end := at + int(size)
	if int(l.Count) == driver.MaxArgs || end-int(l.Values) > driver.MaxArgBytes {
		panic("cuda: too many arguments for " + c.names[len(c.names)-1])
	}
	c.extend(end)
	c.offsets = append(c.offsets, uint32(at)-l.Values)
	l.Count++
	l.Bytes = uint32(end) - l.Values
	return c.values[at:end]
}

// extend makes the packed arguments n bytes long; what is new has any content.
func (c *call) extend(n int) {
	if n > cap(c.values) {
		c.values = slices.Grow(c.values, n-len(c.values))
	}
	c.values = c.values[:n]
}

// blocks is a grid of one dimension with at least n threads.
func blocks(n, threads int) dim { return dim{uint32(ceilDiv(n, threads)), 1, 1} }

// ceilDiv is how many times size it takes to reach n.
func ceilDiv(n, size int) int { return (n + size - 1) / size }

// roundUp is the smallest multiple of a power of two that is not less than n.
func roundUp(n, power int) int { return (n + power - 1) &^ (power - 1) }

// pointer appends the address of an operand's first element.
func (c *call) pointer(a *kernels.Arg) { arg(c, c.address(a)) }

// address is where an operand's first element lies.
func (c *call) address(a *kernels.Arg) uint64 {
	return uint64(c.b.at(c.op, a.Buf, a.Offset*a.DType.Size(), 0))
}

// submit queues the launches of the call on its stream, in synchronous mode one by one, each of which it waits for. The
// stream's mu is held.
func (c *call) submit() error {
	n, s := len(c.launches), c.stream
	if !s.b.sync || s.capturing {
		return c.queue(0, n)
	}
	for i := range n {
		if err := c.queue(i, i+1); err != nil {
			return err
		}
		if rc := s.b.ctx.Synchronize(s.handle); rc != driver.Success {
			return s.b.failed(c.op, "running "+c.names[i], rc)
		}
		s.log.confirm(s.log.queued())
	}
	return s.indexError()
}

// queue gives launches [from, to) of the call to the driver. The stream's mu is held.
func (c *call) queue(from, to int) error {
	if from == to {
		return nil
	}
	s := c.stream
	site := caller.Site()
	if c.reports {
		s.reports.operands[(s.reports.next-1)%reportCount].site = site
	}
	mark, due := s.log.add(c.op, site, c.names[from:to])
	var progress driver.Ptr
	if due && !s.capturing {
		progress = s.log.markAddr
	}
	n, rc := s.b.ctx.Launch(s.handle, c.launches[from:to], c.values, c.offsets, progress, uint32(mark))
	done := from + int(n)
	if rc != driver.Success && done == to {
		s.log.dropMarks() // the mark alone failed; what is wrong with the device, the next call tells
		rc = driver.Success
	}
	if rc != driver.Success {
		s.log.drop(to - done - 1) // those after the refused one, which stays: it may be suspect
		return s.b.failed(c.op, "launching "+c.names[done], rc)
	}
	return nil
}
