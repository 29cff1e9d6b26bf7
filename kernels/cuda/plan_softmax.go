//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	plans["softmax"] = alongAxis("softmax")
	plans["softmax_grad"] = alongAxis("softmax_grad")
	plans["log_softmax"] = alongAxis("log_softmax")
	plans["log_softmax_grad"] = alongAxis("log_softmax_grad")
	plans["logsumexp"] = planLogSumExp
}

// alongAxis is the plan of kernels with the parameters (result, operands..., rows, n).
func alongAxis(name string) plan {
	return func(c *call, l *kernels.Launch) {
		axes := l.Ints[:1]
		count, n := extent(&l.Out[0], axes)
		if count*n == 0 {
			return
		}
		c.startGroups(name, l.In[0].DType, count, n)
		c.rows(&l.Out[0], axes)
		for k := range l.In {
			c.rows(&l.In[k], axes)
		}
		c.extent(count, n)
	}
}

func planLogSumExp(c *call, l *kernels.Launch) {
	c.startResults("logsumexp", l)
	c.result(&l.Out[0])
	c.operand(l)
}
