//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

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
		if last := r.Kept.Rank - 1; last >= 0 && r.Kept.Strides[last] == 1 && r.Kept.Shape[last] > 1 {
			c.argColumns(name+"_columns_"+typeSuffix(l.In[0].DType), l)
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

// Constants of reduce_row.cu: warps of a block for 32 columns. A launch has argBlocks blocks where columns are long, 8
// on each multiprocessor of an H200; a variable for tests.
const argWarps = 8

var argBlocks = 1056

// argColumns finds the extremes of columns, first those of parts of them where these fill the GPU.
func (c *call) argColumns(symbol string, l *kernels.Launch) {
	count, n := extent(&l.In[0], l.Ints)
	if count == 0 {
		return
	}
	tiles := ceilDiv(count, 32)
	each := max(8*argWarps, ceilDiv(n, max(1, argBlocks/tiles)))
	parts, found := ceilDiv(n, each), uint64(0)
	if parts > 1 {
		found = c.scratch(2 * computeType(l.In[0].DType).Size() * parts * count)
	}
	launch := func(parts int, to, from uint64, n, each int) {
		c.start(symbol, blocks(tiles*parts, 1), 32*argWarps)
		c.argResults(l)
		arg(c, to)
		arg(c, from)
		c.rows(&l.In[0], l.Ints)
		c.extent(count, n)
		arg(c, uint32(each))
	}
	launch(parts, found, 0, n, each)
	if parts > 1 {
		launch(1, 0, found, parts, parts)
	}
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
