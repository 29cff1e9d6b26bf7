//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	plans["var"] = planVar
	plans["argmax"] = planArgExtreme("argmax")
	plans["argmin"] = planArgExtreme("argmin")
	plans["max_index"] = planArgExtreme("argmax")
	plans["min_index"] = planArgExtreme("argmin")
	plans["prod_grad"] = planProdGrad
}

// planVar divides by the number of elements less the correction.
func planVar(c *call, l *kernels.Launch) {
	c.startResults("var", l)
	c.result(&l.Out[0])
	n := c.operand(l)
	arg(c, max(0, float64(n)-l.Floats[0]))
}

// planArgExtreme finds indices, the last result, and if there are two the elements there, the first.
func planArgExtreme(name string) plan {
	return func(c *call, l *kernels.Launch) {
		var r kernels.Reduction
		r.Set(&l.In[0].Layout, l.Ints)
		last := r.Kept.Rank - 1
		if last >= 0 && r.Kept.Strides[last] == 1 && r.Kept.Shape[last] > 1 && r.Reduced.Rank <= 1 {
			c.argColumns(name, l, &r)
			return
		}
		c.startResults(name, l)
		c.argResults(l)
		c.operand(l)
	}
}

// argResults appends the indices and, if somebody wants them, the elements there.
func (c *call) argResults(l *kernels.Launch) {
	c.pointer(&l.Out[len(l.Out)-1])
	if len(l.Out) == 2 {
		c.result(&l.Out[0])
	} else {
		structure(c, &result{})
	}
}

// A part of columns has argRows rows for each thread at least. A block that finds extremes among parts has 2^argLanes
// columns at most, so that there are more blocks.
const (
	argRows  = 8
	argLanes = 2
)

// argBlocks is how many blocks a launch has where columns are long, nearly 8 on each multiprocessor of an H200; a
// variable for tests.
var argBlocks = 1024

// argColumns finds the extremes of columns, first those of parts of them where these fill the GPU.
func (c *call) argColumns(name string, l *kernels.Launch, r *kernels.Reduction) {
	results, wide := r.Results(), uint32(0)
	if results == 0 {
		return
	}
	x, count := folded{at: c.address(&l.In[0]), dtype: l.In[0].DType}, results
	if v := copyBytes / x.dtype.Size(); vectors(name, x, v) && vectorise(&r.Kept, &r.Reduced, v) {
		wide, count = 1, count/v
	}
	launch := func(count, lanes, each int, to, from uint64, r *kernels.Reduction) {
		s := columnShape{count: count, each: each, lanes: lanes, tiles: ceilDiv(count, 1<<lanes)}
		grid := s.tiles * ceilDiv(r.N, each)
		if max(r.N, grid) > math.MaxInt32 {
			c.refuse("too many elements for one launch")
		}
		c.start(name+"_columns_"+typeSuffix(x.dtype), blocks(grid, 1), columnThreads)
		c.argResults(l)
		arg(c, to)
		arg(c, from)
		arg(c, x.at)
		arg(c, uint32(x.dtype.Code()))
		c.columnArgs(&s, r)
		arg(c, wide)
	}
	lanes := columnLanes(count)
	each := max(argRows*columnThreads>>lanes, ceilDiv(r.N, max(1, argBlocks/ceilDiv(count, 1<<lanes))))
	parts := ceilDiv(r.N, each)
	if parts == 1 {
		launch(count, lanes, each, 0, 0, r)
		return
	}
	found := c.scratch(2 * computeType(x.dtype).Size() * parts * results)
	launch(count, lanes, each, found, 0, r)
	among := ofMatrix(parts, results, true)
	launch(results, min(argLanes, columnLanes(results)), parts, 0, found, &among)
}

// prodColumns is kColumns of reduce_row.cu.
const prodColumns = 16

// planProdGrad has a thread for each row of x that makes a product, and keeps a product for each tile of columns. The
// operands are x and g.
func planProdGrad(c *call, l *kernels.Launch) {
	x := &l.In[0]
	count, n := extent(x, l.Ints)
	if count*n == 0 {
		return
	}
	front := c.scratch(8 * count * ceilDiv(n, prodColumns))
	c.startRows("prod_grad", x.DType, count, n)
	c.rows(&l.Out[0], l.Ints)
	c.rows(x, l.Ints)
	c.rows(&l.In[1], nil)
	arg(c, front)
	c.extent(count, n)
}
