//go:build cuda && cgo && linux

package cuda

import (
	"math"

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

// Constants of reduce.cuh and reduce.cu.
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

// computeType is the type that kernels compute with on elements of type d.
func computeType(d kernels.DType) kernels.DType {
	switch {
	case d == kernels.Float64:
		return d
	case d.IsFloat():
		return kernels.Float32
	}
	return kernels.Int64
}

// typeSuffix ends the symbols of kernels that read elements of type d.
func typeSuffix(d kernels.DType) string {
	if d.IsFloat() {
		return suffixes[d]
	}
	return "integer"
}

// reductionPlan reduces the axes l.Ints of the operand; start is the result for no elements.
func reductionPlan(name string, start float64) plan {
	return func(c *call, l *kernels.Launch) { c.reduce(name, start, c.resultOf(&l.Out[0]), l) }
}

// planMean is a sum whose results are divided.
func planMean(c *call, l *kernels.Launch) {
	y := c.resultOf(&l.Out[0])
	y.divisor = uint64(l.In[0].Len() / max(1, l.Out[0].Len()))
	c.reduce("sum", math.NaN(), y, l)
}

// folded is what kernels of reduce.cu read: elements of a type, and for sum_squares the address of their factor, 0 for
// none.
type folded struct {
	at, factor uint64
	dtype      kernels.DType
}

// reduce folds the elements of the first operand along the axes l.Ints into y, which is contiguous; name is that of the
// kernels' family.
func (c *call) reduce(name string, start float64, y result, l *kernels.Launch) {
	var r kernels.Reduction
	r.Set(&l.In[0].Layout, l.Ints)
	results := r.Results()
	switch {
	case results == 0:
		return
	case r.N == 0:
		c.fill(y, start, results)
		return
	}
	x := folded{at: c.address(&l.In[0]), dtype: l.In[0].DType}
	if len(l.In) > 1 {
		x.factor = c.address(&l.In[1])
	}
	compute := computeType(x.dtype)
	if name == "any" || name == "all" {
		compute = kernels.Int64
	}
	c.levels(name, y, x, &r, compute, c.scratch(partialBytes(compute, results, r.N)))
}

// fold begins a launch of a kernel of a family that folds x some way; sizes follow.
func (c *call) fold(name, way string, grid dim, y result, x folded) {
	suffix := typeSuffix(x.dtype)
	if name == "any" || name == "all" {
		suffix = "bool"
	}
	c.start(name+"_"+way+"_"+suffix, grid, foldThreads)
	structure(c, &y)
	arg(c, x.at)
	if name == "sum_squares" {
		arg(c, x.factor)
	} else {
		arg(c, uint32(x.dtype))
	}
}

// sumOf adds up the rows of a matrix of the compute type, [rows columns]; scratch has partialBytes.
func (c *call) sumOf(y result, x uint64, compute kernels.DType, rows, columns int, scratch uint64) {
	if rows == 0 {
		c.fill(y, 0, columns)
		return
	}
	r := kernels.Reduction{N: rows}
	r.Reduced.Push(rows, columns)
	r.Kept.Push(columns, 1)
	c.levels("sum", y, folded{at: x, dtype: compute}, &r, compute, scratch)
}

// levels reduces x, an operand that r describes, to y: first blocks of its elements, then their results, unrounded,
// until one is left. Those in between follow each other in scratch, which has partialBytes.
func (c *call) levels(name string, y result, x folded, r *kernels.Reduction, compute kernels.DType, scratch uint64) {
	results, n := r.Results(), ceilDiv(r.N, foldBlock)
	to := y
	if n > 1 {
		to = result{to: scratch, dtype: uint64(compute)}
	}
	c.firstLevel(name, to, x, r, n)
	if name == "sum_squares" {
		name = "sum"
	}
	for n > 1 {
		from, count := to.to, n
		n = ceilDiv(n, foldBlock)
		to = y
		if n > 1 {
			to = result{to: from + uint64(compute.Size()*results*count), dtype: uint64(compute)}
		}
		c.foldRows(name, to, folded{at: from, dtype: compute}, results, count, count)
	}
}

// partialBytes is the memory for the results of blocks, unrounded, of reductions of n elements each.
func partialBytes(compute kernels.DType, results, n int) (size int) {
	for n > foldBlock {
		n = ceilDiv(n, foldBlock)
		size += compute.Size() * results * n
	}
	return size
}

// fill sets n results to a value.
func (c *call) fill(y result, value float64, n int) {
	d := kernels.DType(y.dtype)
	c.startEach(sized("fill", d.Size()), (n*d.Size()+15)/16)
	arg(c, y.to)
	c.element(d, value, d.Size())
	arg(c, uint64(n))
}

// firstLevel reduces blocks of x, an operand that r describes, to y [results blocks].
func (c *call) firstLevel(name string, y result, x folded, r *kernels.Reduction, n int) {
	results := r.Results()
	columns, matrices, stride := columnsOf(r)
	switch {
	case inRows(r) && r.Kept.Rank <= 1:
		c.foldRows(name, y, x, results, r.N, r.Kept.Strides[0])
		return
	case columns > 0 && n <= maxGridOther && matrices <= maxGridOther:
		grid := dim{uint32(ceilDiv(columns, foldColumns)), uint32(n), uint32(matrices)}
		c.fold(name, "columns", grid, y, x)
		arg(c, uint64(columns))
		arg(c, uint64(r.N))
		arg(c, uint64(r.Reduced.Strides[0]))
		arg(c, uint64(stride))
		return
	}
	c.fold(name, "strided", blocks(results*n, foldWarps), y, x)
	arg(c, uint64(results))
	arg(c, uint64(r.N))
	structure(c, &r.Kept)
	structure(c, &r.Reduced)
}

// foldRows reduces blocks of contiguous rows of n elements.
func (c *call) foldRows(name string, y result, x folded, results, n, stride int) {
	c.fold(name, "rows", blocks(results*((n+foldBlock-1)/foldBlock), foldWarps), y, x)
	arg(c, uint64(results))
	arg(c, uint64(n))
	arg(c, uint64(stride))
}

// inRows tells whether the elements of a result are contiguous.
func inRows(r *kernels.Reduction) bool {
	return r.Reduced.Rank == 0 || r.Reduced.Rank == 1 && r.Reduced.Strides[0] == 1
}

// columnsOf tells whether the results are the columns of one matrix or several with contiguous rows: how many columns,
// how many matrices, and the stride from matrix to matrix. Else there are 0.
func columnsOf(r *kernels.Reduction) (columns, matrices, stride int) {
	kept, reduced := &r.Kept, &r.Reduced
	last := kept.Rank - 1
	if last < 0 || last > 1 || kept.Strides[last] != 1 || reduced.Rank != 1 || reduced.Strides[0] < 0 || last == 1 &&
		kept.Strides[0] < 0 {
		return 0, 0, 0
	}
	if last == 0 {
		return kept.Shape[0], 1, 0
	}
	return kept.Shape[1], kept.Shape[0], kept.Strides[0]
}
