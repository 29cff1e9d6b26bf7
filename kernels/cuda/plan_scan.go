//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	reverse := func(l *kernels.Launch) uint32 { return uint32(l.Ints[1]) }
	constant := func(v uint32) func(l *kernels.Launch) uint32 { return func(*kernels.Launch) uint32 { return v } }
	plans["cumsum"] = scanPlan("cumsum", reverse)
	plans["cumprod"] = scanPlan("cumprod", nil)
	plans["recurrence"] = scanPlan("recurrence", reverse)
	plans["cummax"] = scanPlan("cumextreme", constant(1))
	plans["cummin"] = scanPlan("cumextreme", constant(0))
}

// scanPlan has a thread for each row of the operands along an axis. The kernel takes results, operands, sizes, and the
// flag, if there is one.
func scanPlan(kernel string, flag func(l *kernels.Launch) uint32) plan {
	return func(c *call, l *kernels.Launch) {
		axes := l.Ints[:1]
		count, n := extent(&l.In[0], axes)
		if count*n == 0 {
			return
		}
		c.startRows(kernel, l.In[0].DType, count, n)
		for i := range l.Out {
			c.rows(&l.Out[i], axes)
		}
		for i := range l.In {
			c.rows(&l.In[i], axes)
		}
		c.extent(count, n)
		if flag != nil {
			arg(c, flag(l))
		}
	}
}
