//go:build cuda && cgo && linux

package cuda

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	plans["sum"] = reductionPlan("sum", 0)
	plans["sum_squares"] = reductionPlan("sum_squares", 0)
	plans["prod"] = reductionPlan("prod", 1)
	plans["max"] = reductionPlan("max", math.Inf(-1))
	plans["min"] = reductionPlan("min", math.Inf(1))
	plans["any"] = reductionPlan("any", 0)
	plans["all"] = reductionPlan("all", 1)
	plans["mean"] = planMean
}

// Of reduce.cuh and reduce.cu.
const (
	foldBlock    = 16384
	foldWarps    = 8 // of a block of threads; each reduces one block of elements
	foldColumns  = 32
	foldThreads  = 256
	maxGridOther = 65535 // blocks in the second and third dimension of a grid
)

// result is the struct Result of element.cuh: where kernels put results, divided by divisor if that is not 0.
type result struct {
	to, divisor uint64
	dtype       uint64
}

// resultOf is operand a as a result.
func (c *call) resultOf(a *kernels.Arg) result {
	return result{to: c.address(a), dtype: uint64(a.DType)}
}

// numberOf is the type that reductions of elements of type d compute with.
func numberOf(d kernels.DType) kernels.DType {
	switch {
	case d == kernels.Float64:
		return d
	case d.IsFloat():
		return kernels.Float32
	}
	return kernels.Int64
}

// reader ends the symbols of kernels that read elements of type d.
func reader(d kernels.DType) string {
	if d.IsFloat() {
		return suffixes[d]
	}
	return "integer"
}

// reductionPlan reduces the axes l.Ints of the operand; start is the result for no elements.
func reductionPlan(name string, start float64) plan {
	return func(c *call, l *kernels.Launch) error {
		return c.reduce(name, start, c.resultOf(&l.Out[0]), l)
	}
}

// planMean is a sum whose results are divided.
func planMean(c *call, l *kernels.Launch) error {
	y := c.resultOf(&l.Out[0])
	y.divisor = uint64(l.In[0].Len() / max(1, l.Out[0].Len()))
	return c.reduce("sum", math.NaN(), y, l)
}

// folded is what kernels of reduce.cu read: elements of a type, and for sum_squares where their factor is, 0 for none.
type folded struct {
	at, factor uint64
	dtype      kernels.DType
}

// reduce folds the elements of the first operand along the axes l.Ints into y, which is contiguous; name is that of the
// kernels' family.
func (c *call) reduce(name string, start float64, y result, l *kernels.Launch) error {
	var r reduction
	r.describe(&l.In[0], l.Ints)
	results := r.results()
	switch {
	case results == 0:
		return nil
	case r.n == 0:
		return c.fill(y, start, results)
	}
	x := folded{at: c.address(&l.In[0]), dtype: l.In[0].DType}
	if len(l.In) > 1 {
		x.factor = c.address(&l.In[1])
	}
	n := ceilDiv(r.n, foldBlock)
	number, upper := numberOf(x.dtype), name
	switch name {
	case "any", "all":
		number = kernels.Int64
	case "sum_squares":
		upper = "sum"
	}
	dst := y
	if n > 1 {
		room, err := c.scratch(partialBytes(number, results, r.n))
		if err != nil {
			return err
		}
		dst = result{to: room, dtype: uint64(number)}
	}
	if err := c.firstLevel(name, dst, x, &r, n); err != nil {
		return err
	}
	return c.upperLevels(upper, y, dst.to, number, results, n)
}

// fold begins a launch of a kernel of a family that folds x some way; sizes follow.
func (c *call) fold(name, way string, grid dim, y result, x folded) error {
	suffix := reader(x.dtype)
	if name == "any" || name == "all" {
		suffix = "truth"
	}
	if err := c.start(name+"_"+way+"_"+suffix, grid, foldThreads); err != nil {
		return err
	}
	structure(c, &y)
	arg(c, x.at)
	if name == "sum_squares" {
		arg(c, x.factor)
	} else {
		arg(c, uint32(x.dtype))
	}
	return nil
}

// sumOf adds up the rows of a matrix of numbers [rows columns]; room has partialBytes.
func (c *call) sumOf(y result, x uint64, number kernels.DType, rows, columns int, room uint64) error {
	if rows == 0 {
		return c.fill(y, 0, columns)
	}
	r := reduction{n: rows}
	r.reduced.push(rows, columns)
	r.kept.push(columns, 1)
	n := ceilDiv(rows, foldBlock)
	to := y
	if n > 1 {
		to = result{to: room, dtype: uint64(number)}
	}
	if err := c.firstLevel("sum", to, folded{at: x, dtype: number}, &r, n); err != nil {
		return err
	}
	return c.upperLevels("sum", y, to.to, number, columns, n)
}

// upperLevels reduces rows of n results of blocks, numbers at from, until one is left of each; those in between follow
// them.
func (c *call) upperLevels(name string, y result, from uint64, number kernels.DType, results, n int) error {
	for n > 1 {
		count := n
		n = ceilDiv(n, foldBlock)
		dst := y
		if n > 1 {
			dst = result{to: from + uint64(number.Size()*results*count), dtype: uint64(number)}
		}
		if err := c.foldRows(name, dst, folded{at: from, dtype: number}, results, count, count); err != nil {
			return err
		}
		from = dst.to
	}
	return nil
}

// partialBytes is the memory for the partial results, numbers, of reductions of n elements each.
func partialBytes(number kernels.DType, results, n int) (size int) {
	for n > foldBlock {
		n = ceilDiv(n, foldBlock)
		size += number.Size() * results * n
	}
	return size
}

// fill sets n results to a value.
func (c *call) fill(y result, value float64, n int) error {
	d := kernels.DType(y.dtype)
	if err := c.each(sized("fill", d.Size()), (n*d.Size()+15)/16); err != nil {
		return err
	}
	arg(c, y.to)
	c.element(d, value, d.Size())
	arg(c, uint64(n))
	return nil
}

// firstLevel reduces blocks of x, an operand that r describes, to y [results blocks].
func (c *call) firstLevel(name string, y result, x folded, r *reduction, n int) error {
	results := r.results()
	columns, matrices, between := r.columns()
	switch {
	case r.inRows() && r.kept.rank <= 1:
		return c.foldRows(name, y, x, results, r.n, r.kept.strides[0])
	case columns > 0 && n <= maxGridOther && matrices <= maxGridOther:
		grid := dim{uint32(ceilDiv(columns, foldColumns)), uint32(n), uint32(matrices)}
		if err := c.fold(name, "columns", grid, y, x); err != nil {
			return err
		}
		arg(c, uint64(columns))
		arg(c, uint64(r.n))
		arg(c, uint64(r.reduced.strides[0]))
		arg(c, uint64(between))
		return nil
	}
	if err := c.fold(name, "strided", blocks(results*n, foldWarps), y, x); err != nil {
		return err
	}
	arg(c, uint64(results))
	arg(c, uint64(r.n))
	c.axes(&r.kept)
	c.axes(&r.reduced)
	return nil
}

// foldRows reduces blocks of rows of n elements side by side, the rows step apart.
func (c *call) foldRows(name string, y result, x folded, results, n, step int) error {
	if err := c.fold(name, "rows", blocks(results*((n+foldBlock-1)/foldBlock), foldWarps), y, x); err != nil {
		return err
	}
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
