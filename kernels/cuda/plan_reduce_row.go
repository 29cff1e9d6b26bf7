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
		c.startResults(name, l)
		c.pointer(&l.Out[len(l.Out)-1])
		if len(l.Out) == 2 {
			c.result(&l.Out[0])
		} else {
			structure(c, &result{})
		}
		c.operand(l)
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
