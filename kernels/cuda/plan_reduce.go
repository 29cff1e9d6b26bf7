//go:build cuda && cgo && linux

package cuda

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	families["sum"] = reductionPlan("sum", 0)
	families["prod"] = reductionPlan("prod", 1)
	families["max"] = reductionPlan("max", math.Inf(-1))
	families["min"] = reductionPlan("min", math.Inf(1))
	families["mean"] = planMean
}

// Of reduce.cuh and reduce.cu.
const (
	foldBlock    = 16384
	foldWarps    = 8 // of a block of threads; each reduces one block of elements
	foldColumns  = 32
	foldThreads  = 256
	maxGridOther = 65535 // blocks in the second and third dimension of a grid
)

// reductionPlan reduces the axes l.Ints of the operand; start is the result for no elements.
func reductionPlan(name string, start float64) plan {
	return func(c *call, _ *kernel, l *kernels.Launch) error {
		return c.reduce(name, float32(start), c.address(&l.Out[0]), &l.In[0], l.Ints)
	}
}

// planMean is a sum and a division.
func planMean(c *call, _ *kernel, l *kernels.Launch) error {
	to := c.address(&l.Out[0])
	if err := c.reduce("sum", 0, to, &l.In[0], l.Ints); err != nil {
		return err
	}
	results := l.Out[0].Len()
	return c.divide(to, results, float32(l.In[0].Len()/max(1, results)))
}

// divide divides n numbers by one.
func (c *call) divide(at uint64, n int, by float32) error {
	if n == 0 {
		return nil
	}
	if err := c.start("divide_f32", blocks(n, foldThreads), foldThreads); err != nil {
		return err
	}
	arg(c, at)
	arg(c, uint64(n))
	arg(c, by)
	return nil
}

// named returns a kernel.
func (c *call) named(symbol string) (*function, error) { return c.b.images.function(c.b, symbol) }

// start begins a launch of a kernel without dynamic shared memory; arguments follow.
func (c *call) start(symbol string, grid dim, threads uint32) error {
	f, err := c.named(symbol)
	if err != nil {
		return err
	}
	return c.launch(f, grid, dim{threads, 1, 1}, 0)
}

// scratch is n bytes of device memory for the launches of this call. It is the stream's own: the next call, which
// runs later, uses it again. A call asks once.
func (c *call) scratch(n int) (uint64, error) {
	if c.spare == nil || c.spare.Bytes() < n {
		m, err := c.b.Alloc(max(n, 1<<20))
		if err != nil {
			return 0, err
		}
		if c.spare != nil {
			c.b.Free(c.spare)
		}
		c.spare = m
	}
	return uint64(c.b.at(c.op, c.spare, 0, n)), nil
}

// reduce folds the elements of x along axes into to, which is contiguous; name is that of the kernels' family.
func (c *call) reduce(name string, start float32, to uint64, x *kernels.Arg, axes []int) error {
	var r reduction
	r.describe(x, axes)
	results := r.results()
	switch {
	case results == 0:
		return nil
	case r.n == 0:
		return c.fill(to, math.Float32bits(start), results)
	}
	n := (r.n + foldBlock - 1) / foldBlock
	dst := to
	if n > 1 {
		var err error
		if dst, err = c.scratch(partialBytes(results, r.n)); err != nil {
			return err
		}
	}
	if err := c.firstLevel(name, dst, c.address(x), &r, n); err != nil {
		return err
	}
	return c.upperLevels(name, to, dst, results, n)
}

// upperLevels reduces rows of n results of blocks, at from, until one is left of each; those in between follow them.
func (c *call) upperLevels(name string, to, from uint64, results, n int) error {
	for n > 1 {
		count := n
		n = (n + foldBlock - 1) / foldBlock
		dst := to
		if n > 1 {
			dst = from + uint64(4*results*count)
		}
		if err := c.foldRows(name, dst, from, results, count, count); err != nil {
			return err
		}
		from = dst
	}
	return nil
}

// partialBytes is the memory for the partial results of reductions of n elements each.
func partialBytes(results, n int) (size int) {
	for n > foldBlock {
		n = (n + foldBlock - 1) / foldBlock
		size += 4 * results * n
	}
	return size
}

// fill sets n elements of 4 bytes.
func (c *call) fill(to uint64, bits uint32, n int) error {
	if err := c.start("set_f32", blocks(n, foldThreads), foldThreads); err != nil {
		return err
	}
	arg(c, to)
	arg(c, bits)
	arg(c, uint64(n))
	return nil
}

// firstLevel reduces blocks of the operand at x to y [results blocks].
func (c *call) firstLevel(name string, y, x uint64, r *reduction, n int) error {
	results := r.results()
	columns, matrices, between := r.columns()
	switch {
	case r.inRows() && r.kept.rank <= 1:
		return c.foldRows(name, y, x, results, r.n, r.kept.strides[0])
	case columns > 0 && n <= maxGridOther && matrices <= maxGridOther:
		grid := dim{uint32((columns + foldColumns - 1) / foldColumns), uint32(n), uint32(matrices)}
		if err := c.start(name+"_columns_f32", grid, foldThreads); err != nil {
			return err
		}
		arg(c, y)
		arg(c, x)
		arg(c, uint64(columns))
		arg(c, uint64(r.n))
		arg(c, uint64(r.reduced.strides[0]))
		arg(c, uint64(between))
		return nil
	}
	if err := c.start(name+"_strided64_f32", blocks(results*n, foldWarps), foldThreads); err != nil {
		return err
	}
	arg(c, y)
	arg(c, x)
	arg(c, uint64(results))
	arg(c, uint64(r.n))
	c.axes(&r.kept)
	c.axes(&r.reduced)
	return nil
}

// foldRows reduces blocks of rows of n elements side by side, the rows step apart.
func (c *call) foldRows(name string, y, x uint64, results, n, step int) error {
	if err := c.start(name+"_rows_f32", blocks(results*((n+foldBlock-1)/foldBlock), foldWarps), foldThreads); err != nil {
		return err
	}
	arg(c, y)
	arg(c, x)
	arg(c, uint64(results))
	arg(c, uint64(n))
	arg(c, uint64(step))
	return nil
}

// A reduction is an operand as its results see it: the kept axes count the results, the reduced ones the elements of
// one result, both in row-major order and in as few dimensions as possible.
type reduction struct {
	kept, reduced dimensions
	n             int // elements of a result
}

// describe sets r to the reduction of a along the given axes.
func (r *reduction) describe(a *kernels.Arg, axes []int) {
	*r = reduction{n: 1}
	for i, size := range a.Shape {
		if slices.Contains(axes, i) {
			r.reduced.push(size, a.Strides[i])
			r.n *= size
		} else {
			r.kept.push(size, a.Strides[i])
		}
	}
}

// results is the number of results.
func (r *reduction) results() int { return kernels.Count(r.kept.shape[:r.kept.rank]) }

// inRows tells whether the elements of a result lie side by side.
func (r *reduction) inRows() bool {
	return r.reduced.rank == 0 || r.reduced.rank == 1 && r.reduced.strides[0] == 1
}

// columns tells whether the results are the columns of one matrix or several whose elements lie side by side along a row:
// how many columns, how many matrices, and their distance. Else there are 0.
func (r *reduction) columns() (columns, matrices, between int) {
	last := r.kept.rank - 1
	if last < 0 || last > 1 || r.kept.strides[last] != 1 || r.reduced.rank != 1 || r.reduced.strides[0] < 0 || last == 1 && r.kept.strides[0] < 0 {
		return 0, 0, 0
	}
	if last == 0 {
		return r.kept.shape[0], 1, 0
	}
	return r.kept.shape[1], r.kept.shape[0], r.kept.strides[0]
}

// dimensions are nested loops with their steps through memory.
type dimensions struct {
	rank           int
	shape, strides [kernels.MaxDims]int
}

// push adds an innermost loop, or lengthens the innermost if it goes on evenly.
func (d *dimensions) push(size, stride int) {
	switch last := d.rank - 1; {
	case size == 1:
	case d.rank > 0 && d.strides[last] == stride*size:
		d.shape[last] *= size
		d.strides[last] = stride
	default:
		d.shape[d.rank], d.strides[d.rank] = size, stride
		d.rank++
	}
}

// pushAll adds the axes of a layout.
func (d *dimensions) pushAll(shape, strides []int) {
	for i, size := range shape {
		d.push(size, strides[i])
	}
}

// shape64 is the struct Shape64<1> of index.cuh.
type shape64 struct {
	rank   uint64
	size   [kernels.MaxDims]uint64
	stride [kernels.MaxDims]uint64
}

// axes appends dimensions as a Shape64<1>.
func (c *call) axes(d *dimensions) {
	s := d.shape64()
	structure(c, &s)
}

func (d *dimensions) shape64() shape64 {
	s := shape64{rank: uint64(d.rank)}
	for i := range d.rank {
		s.size[i], s.stride[i] = uint64(d.shape[i]), uint64(d.strides[i])
	}
	return s
}
