//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() { plans["cumsum"] = planCumSum }

// planCumSum has a thread for each row.
func planCumSum(c *call, l *kernels.Launch) {
	axes := l.Ints[:1]
	count, n := extent(&l.In[0], axes)
	if count*n == 0 {
		return
	}
	c.startRows("cumsum", l.In[0].DType, count, n)
	c.rows(&l.Out[0], axes)
	c.rows(&l.In[0], axes)
	c.extent(count, n)
	arg(c, uint32(l.Ints[1]))
}
