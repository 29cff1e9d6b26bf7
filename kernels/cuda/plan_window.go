//go:build cuda && cgo && linux

package cuda

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// Operations on windows of the last axes have a thread for each element of the result.
func init() {
	plans["max_pool"] = planMaxPool
	plans["resample"] = planResample
	plans["fold"] = planFold
	plans["max_unpool"] = planMaxUnpool
}

const windowThreads = 256

// poolAxis is the struct PoolAxis of window.cu.
type poolAxis struct{ size, stride, before, dilation, count, n, step int64 }

// pooling is the struct Pooling of window.cu.
type pooling struct {
	axis   [3]poolAxis
	planes kernels.Dims
}

// resampling is the struct Resampling of window.cu.
type resampling struct {
	rows, inner, width, step uint64
	others                   kernels.Dims
}

// folding is the struct Folding of window.cu.
type folding struct {
	n, windows, size, apart, inner, windowStep, step uint64
	others                                           kernels.Dims
}

// startWindows begins a launch of a thread for each of n elements.
func (c *call) startWindows(symbol string, n int) {
	grid := ceilDiv(n, windowThreads)
	if grid > math.MaxInt32 {
		c.refuse("%d elements are too many for one launch", n)
	}
	c.start(symbol, dim{uint32(grid), 1, 1}, windowThreads)
}

// planMaxPool completes planes to three axes.
func planMaxPool(c *call, l *kernels.Launch) {
	x, y := &l.In[0], &l.Out[0]
	n := y.Len()
	if n == 0 {
		return
	}
	windows := kernels.WindowAxes(l.Ints)
	lead := len(x.Shape) - len(windows)
	var p pooling
	p.planes.PushAll(x.Shape[:lead], x.Strides[:lead])
	for d := range p.axis {
		p.axis[d] = poolAxis{size: 1, stride: 1, dilation: 1, count: 1, n: 1}
		if k := d + len(windows) - len(p.axis); k >= 0 {
			w := windows[k]
			p.axis[d] = poolAxis{int64(w.Size), int64(w.Stride), int64(w.Before), int64(w.Dilation), int64(w.Count),
				int64(x.Shape[lead+k]), int64(x.Strides[lead+k])}
		}
	}
	c.startWindows("max_pool_"+typeSuffix(x.DType), n)
	c.pointer(y)
	c.pointer(&l.Out[1])
	c.pointer(x)
	arg(c, uint64(n))
	structure(c, &p)
}

// withoutAxes are the dimensions of a without some of its axes.
func withoutAxes(a *kernels.Arg, axes ...int) (d kernels.Dims) {
	for axis, size := range a.Shape {
		if !slices.Contains(axes, axis) {
			d.Push(size, a.Strides[axis])
		}
	}
	return d
}

// planResample has contiguous bounds and weights, which package tensor makes.
func planResample(c *call, l *kernels.Launch) {
	x, y, axis := &l.In[0], &l.Out[0], l.Ints[0]
	n := y.Len()
	if n == 0 {
		return
	}
	r := resampling{uint64(y.Shape[axis]), uint64(kernels.Count(x.Shape[axis+1:])), uint64(l.In[2].Shape[1]),
		uint64(x.Strides[axis]), withoutAxes(x, axis)}
	c.startWindows("resample_"+typeSuffix(x.DType), n)
	c.pointer(y)
	c.pointer(x)
	c.pointer(&l.In[1])
	c.pointer(&l.In[2])
	arg(c, uint64(n))
	structure(c, &r)
}

func planFold(c *call, l *kernels.Launch) {
	x, y, axis := &l.In[0], &l.Out[0], l.Ints[0]
	n, last := y.Len(), len(x.Shape)-1
	if n == 0 {
		return
	}
	f := folding{uint64(y.Shape[axis]), uint64(x.Shape[axis]), uint64(x.Shape[last]), uint64(l.Ints[1]),
		uint64(kernels.Count(x.Shape[axis+1 : last])), uint64(x.Strides[axis]), uint64(x.Strides[last]),
		withoutAxes(x, axis, last)}
	c.startWindows("fold_"+typeSuffix(x.DType), n)
	c.pointer(y)
	c.pointer(x)
	arg(c, uint64(n))
	structure(c, &f)
}

// planMaxUnpool finds which element is the last at each place, and copies those.
func planMaxUnpool(c *call, l *kernels.Launch) {
	x, chosen, y := &l.In[0], &l.In[1], &l.Out[0]
	n, count := y.Len(), x.Len()
	if n == 0 {
		return
	}
	var elements, at kernels.Dims
	elements.PushAll(x.Shape, x.Strides)
	at.PushAll(chosen.Shape, chosen.Strides)
	last := c.scratch(8 * n)
	c.fill(result{to: last, dtype: uint64(kernels.Int64.Code())}, -1, n)
	if plane := kernels.Count(l.Ints); count > 0 {
		c.startWindows("max_unpool_last", count)
		arg(c, last)
		c.pointer(chosen)
		arg(c, uint64(chosen.DType.Size()))
		arg(c, uint64(count))
		arg(c, uint64(kernels.Count(x.Shape[len(x.Shape)-len(l.Ints):])))
		arg(c, uint64(plane))
		errors := c.report(chosen, indexed{size: plane})
		structure(c, &errors)
		structure(c, &at)
	}
	c.startWindows("max_unpool_"+typeSuffix(x.DType), n)
	c.pointer(y)
	c.pointer(x)
	arg(c, last)
	arg(c, uint64(n))
	arg(c, uint64(count))
	structure(c, &elements)
}
