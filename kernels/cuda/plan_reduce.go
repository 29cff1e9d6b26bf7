//go:build cuda && cgo && linux

package cuda

import (
	"math"
	"math/bits"
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
	plans["sums"] = planSums
}

// Constants of reduce.cuh and reduce.cu.
const (
	foldBlock     = 2048 // elements
	foldWarps     = 4    // of a block of threads
	foldShared    = 64   // elements of the longest rows that share a warp
	columnBlock   = 64   // elements
	columnThreads = 256
	columnSide    = 32 // columns of a block of threads, at most
	shortLevel    = 8  // blocks that one block of threads may take one after the other
	maxSums       = 64
	sumsWidth     = 4 // elements that a thread of sums reads at once
)

// result is the struct Result of element.cuh: where kernels put results, divided by divisor if that is not 0.
type result struct {
	to, divisor uint64
	dtype       uint64
}

// resultOf is operand a as a result.
func (c *call) resultOf(a *kernels.Arg) result {
	return result{to: c.address(a), dtype: uint64(a.DType.Code())}
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
	switch name {
	case "any", "all":
		compute = kernels.Int64
		fallthrough
	case "max", "min": // in any order: that which suits the layout
		last := r.Kept.Rank - 1
		r.Columns = last >= 0 && r.Kept.Strides[last] == 1
	}
	c.levels(name, y, x, &r, compute, c.scratch(levelBytes(&r, compute)))
}

// sumOf adds up elements as ofMatrix describes them; scratch has levelBytes.
func (c *call) sumOf(y result, x folded, r kernels.Reduction, scratch uint64) {
	switch {
	case r.Results() == 0:
	case r.N == 0:
		c.fill(y, 0, r.Results())
	default:
		c.levels("sum", y, x, &r, computeType(x.dtype), scratch)
	}
}

// ofMatrix is the reduction of a contiguous matrix of n elements for each result: of its columns, or else of its rows.
func ofMatrix(n, results int, columns bool) kernels.Reduction {
	r := kernels.Reduction{N: n, Columns: columns}
	if columns {
		r.Reduced.Push(n, results)
		r.Kept.Push(results, 1)
	} else {
		r.Kept.Push(results, n)
		r.Reduced.Push(n, 1)
	}
	return r
}

// levelBytes is the memory for the results of blocks, unrounded, of a reduction.
func levelBytes(r *kernels.Reduction, compute kernels.DType) (size int) {
	block := foldBlock
	if r.Columns {
		block = columnBlock
	}
	for n := r.N; n > block; {
		n = ceilDiv(n, block)
		size += compute.Size() * r.Results() * n
	}
	return size
}

// levels reduces x, an operand that r describes, to y: first blocks of its elements, then their results, unrounded,
// until one is left. Those in between follow each other in scratch, which has levelBytes.
func (c *call) levels(name string, y result, x folded, r *kernels.Reduction, compute kernels.DType, scratch uint64) {
	results, columns := r.Results(), r.Columns
	next := *r
	for {
		var n int // results of blocks, of each result
		to := result{to: scratch, dtype: uint64(compute.Code())}
		if columns {
			n = c.foldColumns(name, to, y, x, &next)
		} else {
			n = c.foldRows(name, to, y, x, &next)
		}
		if n == 1 {
			return
		}
		scratch += uint64(compute.Size() * results * n)
		x, next = folded{at: to.to, dtype: compute}, ofMatrix(n, results, columns)
		if name == "sum_squares" {
			name = "sum"
		}
	}
}

// fill sets n results to a value.
func (c *call) fill(y result, value float64, n int) {
	d := kernels.DTypeOf(int(y.dtype))
	c.startEach(sized("fill", d.Size()), (n*d.Size()+15)/16)
	arg(c, y.to)
	c.element(d, value, d.Size())
	arg(c, uint64(n))
}

// fold begins a launch of a kernel of a family that folds x some way; sizes follow.
func (c *call) fold(name, way string, grid, threads int, y result, x folded) {
	suffix := typeSuffix(x.dtype)
	if name == "any" || name == "all" {
		suffix = "bool"
	}
	if grid > math.MaxInt32 {
		c.refuse("too many elements for one launch")
	}
	c.start(name+way+suffix, dim{uint32(grid), 1, 1}, uint32(threads))
	structure(c, &y)
	arg(c, x.at)
	if name == "sum_squares" {
		arg(c, x.factor)
	} else {
		arg(c, uint32(x.dtype.Code()))
	}
}

// foldRows reduces blocks of x, in the order of rows, and returns how many results that leaves of each: in y if it is
// one, else in partial [results blocks].
func (c *call) foldRows(name string, partial, y result, x folded, r *kernels.Reduction) int {
	results, n := r.Results(), ceilDiv(r.N, foldBlock)
	if n > 1 {
		y = partial
	}
	lanes, groups := 32, results*n
	if r.N <= foldShared {
		for lanes = 1; 4*lanes < r.N; {
			lanes *= 2
		}
	}
	last, way, wide := r.Reduced.Rank-1, "_strided_rows_", uint32(0)
	if vectors(name, x, 4) && last >= 0 && r.Reduced.Strides[last] == 1 && multiples(r.Reduced.Strides[:last], 4) &&
		multiples(r.Kept.Strides[:r.Kept.Rank], 4) {
		switch {
		case last == 0:
			way = "_rows_"
		case r.Reduced.Shape[last]%4 == 0:
			wide = 1
		}
	}
	c.fold(name, way, ceilDiv(groups*lanes, 32*foldWarps), 32*foldWarps, y, x)
	arg(c, uint64(results))
	arg(c, uint64(r.N))
	arg(c, uint32(lanes))
	structure(c, &r.Kept)
	if way != "_rows_" {
		structure(c, &r.Reduced)
		arg(c, wide)
	}
	return n
}

// foldColumns reduces blocks of x, in the order of columns, and returns how many results that leaves of each: in y if
// it is one, else in partial [blocks results].
func (c *call) foldColumns(name string, partial, y result, x folded, r *kernels.Reduction) int {
	count, n := r.Results(), ceilDiv(r.N, columnBlock)
	way, wide := "_strided_columns_", uint32(0)
	if v := copyBytes / x.dtype.Size(); vectors(name, x, v) && vectorise(&r.Kept, &r.Reduced, v) {
		wide, count = 1, count/v
		if r.Reduced.Rank <= 1 {
			way = "_columns_"
		}
	}
	s := c.columnShape(count, n, columnBlocks(count, ceilDiv(n, columnBlock)))
	if s.n > 1 {
		y = partial
	}
	c.fold(name, way, s.grid, columnThreads, y, x)
	c.columnArgs(&s, r)
	if way != "_columns_" {
		arg(c, wide)
	}
	return s.n
}

// columnShape is how columns are shared out to blocks of threads.
type columnShape struct{ count, each, lanes, tiles, grid, n int }

// columnShape is that of so many columns of n blocks each, of which it leaves s.n results, in a launch that has so many
// blocks of threads if each takes the second level, too.
func (c *call) columnShape(count, n, second int) columnShape {
	lanes := columnLanes(count)
	// A block of threads takes the second level, if that is short, or if there are enough of them even so.
	each := 1
	if n > 1 && (n <= shortLevel || second >= 2*c.b.gpu.SMs) {
		each, n = columnBlock, ceilDiv(n, columnBlock)
	}
	return columnShape{count, each, lanes, ceilDiv(count, 1<<lanes), columnBlocks(count, n), n}
}

// columnLanes is the logarithm of how many threads side by side have columns.
func columnLanes(count int) int { return min(5, bits.Len(uint(count-1))) }

// columnBlocks is the number of blocks of threads for so many columns of so many units.
func columnBlocks(count, units int) int {
	lanes := columnLanes(count)
	return ceilDiv(count, 1<<lanes) * ceilDiv(units, columnSide>>lanes)
}

// columnArgs appends what kernels of columns take behind the operand.
func (c *call) columnArgs(s *columnShape, r *kernels.Reduction) {
	arg(c, uint64(s.count))
	arg(c, uint64(r.N))
	arg(c, uint32(s.each))
	arg(c, uint32(s.lanes))
	arg(c, uint32(s.tiles))
	structure(c, &r.Kept)
	structure(c, &r.Reduced)
}

// oneSum is the struct OneSum of reduce.cu, manySums the struct Sums.
type oneSum struct {
	to, from                                              uint64
	toType, fromType, first, count, n, each, lanes, tiles uint32
}
type manySums struct {
	sum   [maxSums]oneSum
	count uint32
}

// matrixSum is sums of the columns of a matrix.
type matrixSum struct {
	y result
	x folded
	r kernels.Reduction
}

// together tells whether the kernel that has many such sums can have s: it takes contiguous matrices.
func (s *matrixSum) together() bool {
	r, columns := &s.r, s.r.Results()
	return computeType(s.x.dtype) == kernels.Float32 && columns%sumsWidth == 0 && vectors("sum", s.x, sumsWidth) &&
		r.Columns && r.N > 0 && r.N*columns <= 1<<30 && r.Kept.Rank == 1 && r.Kept.Strides[0] == 1 &&
		(r.Reduced.Rank == 0 || r.Reduced.Rank == 1 && r.Reduced.Strides[0] == columns)
}

// bytes is the scratch memory of s. What follows it is aligned.
func (s *matrixSum) bytes() int { return roundUp(levelBytes(&s.r, computeType(s.x.dtype)), copyBytes) }

// sums makes the sums of all, which it uses up: by one launch for each level, or for 64 of them. scratch has their
// bytes.
func (c *call) sums(all []matrixSum, scratch uint64) {
	rest := all[:0]
	for _, s := range all {
		if s.together() {
			rest = append(rest, s)
			continue
		}
		c.sumOf(s.y, s.x, s.r, scratch)
		scratch += uint64(s.bytes())
	}
	for len(rest) > 0 {
		level := rest
		rest = level[:0]
		for some := range slices.Chunk(level, maxSums) {
			var many manySums
			second, blocks := 0, 0 // blocks of threads: if each takes the second level, too, and as it is
			for i := range some {
				r := &some[i].r
				second += columnBlocks(r.Results()/sumsWidth, ceilDiv(r.N, columnBlock*columnBlock))
			}
			for _, s := range some {
				columns := s.r.Results()
				shape, to := c.columnShape(columns/sumsWidth, ceilDiv(s.r.N, columnBlock), second), s.y
				if shape.n > 1 {
					to = result{to: scratch, dtype: uint64(kernels.Float32.Code())}
					scratch += uint64(shape.n * columns * kernels.Float32.Size())
					rest = append(rest, matrixSum{s.y, folded{at: to.to, dtype: kernels.Float32},
						ofMatrix(shape.n, columns, true)})
				}
				many.sum[many.count] = oneSum{to: to.to, from: s.x.at, toType: uint32(to.dtype),
					fromType: uint32(s.x.dtype.Code()), first: uint32(blocks), count: uint32(shape.count),
					n: uint32(s.r.N), each: uint32(shape.each), lanes: uint32(shape.lanes),
					tiles: uint32(shape.tiles)}
				many.count++
				blocks += shape.grid
			}
			c.start("sums", dim{uint32(blocks), 1, 1}, columnThreads)
			structure(c, &many)
		}
	}
}

// planSums has the sums along axis 0 of each operand, a matrix.
func planSums(c *call, l *kernels.Launch) {
	all, size := make([]matrixSum, len(l.In)), 0
	for i := range l.In {
		s := &all[i]
		s.y, s.x = c.resultOf(&l.Out[i]), folded{at: c.address(&l.In[i]), dtype: l.In[i].DType}
		s.r.Set(&l.In[i].Layout, []int{0})
		size += s.bytes()
	}
	c.sums(all, c.scratch(size))
}

// vectors tells whether x has kernels for vectors of v elements, and begins with one.
func vectors(name string, x folded, v int) bool {
	return x.dtype.IsFloat() && name != "any" && name != "all" &&
		x.at%uint64(min(copyBytes, v*x.dtype.Size())) == 0
}
