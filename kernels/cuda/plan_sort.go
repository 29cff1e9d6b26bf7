//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	plans["sort"] = sortPlan(1)
	plans["topk"] = sortPlan(2)
	plans["searchsorted"] = planSearchSorted
}

// Constants of sort.cu.
const (
	mergeThreads = 256
	sortChunk    = 1024
)

// elementSuffix ends the symbols of kernels that look at elements of type d as at numbers: bools are bytes.
func elementSuffix(d kernels.DType) string {
	if d == kernels.Bool {
		d = kernels.Uint8
	}
	return suffixes[d]
}

// sortPlan sorts chunks of rows, merges them, and takes as many elements as the results have. Attribute `order` says
// whether in descending order.
func sortPlan(order int) plan {
	return func(c *call, l *kernels.Launch) {
		x, y, at, axes := &l.In[0], &l.Out[0], &l.Out[1], l.Ints[:1]
		rows, n := extent(x, axes)
		k := y.Shape[axes[0]]
		if rows*k == 0 {
			return
		}
		chunks := ceilDiv(n, sortChunk)
		if n >= maxRow || rows*chunks > math.MaxInt32 {
			c.refuse("%d rows of %d elements; kernels on %s take fewer than %d, of fewer than %d",
				rows, n, c.b.Name(), 1<<31, maxRow)
		}
		merge, pair := "sort_merge_b4", 8
		if x.DType.Size() == 8 {
			merge, pair = "sort_merge_b8", 16
		}
		from := c.scratch(2 * pair * rows * n)
		to := from + uint64(pair*rows*n)
		c.start("sort_begin_"+elementSuffix(x.DType), dim{uint32(rows * chunks), 1, 1}, mergeThreads)
		arg(c, from)
		c.rows(x, axes)
		for _, v := range [3]int{n, chunks, l.Ints[order]} {
			arg(c, uint32(v))
		}
		for width := sortChunk; width < n; width *= 2 {
			c.start(merge, blocks(rows*n, mergeThreads), mergeThreads)
			arg(c, to)
			arg(c, from)
			arg(c, uint64(rows*n))
			arg(c, uint32(n))
			arg(c, uint32(width))
			from, to = to, from
		}
		c.start("sort_end_"+elementSuffix(x.DType), blocks(rows*k, mergeThreads), mergeThreads)
		c.rows(y, axes)
		c.rows(at, axes)
		c.rows(x, axes)
		arg(c, from)
		arg(c, uint64(rows*k))
		arg(c, uint32(k))
		arg(c, uint32(n))
	}
}

// planSearchSorted has a thread for each value.
func planSearchSorted(c *call, l *kernels.Launch) {
	x, values, y := &l.In[0], &l.In[1], &l.Out[0]
	total, last := y.Len(), len(x.Shape)-1
	if total == 0 {
		return
	}
	each := total
	if last > 0 {
		each = values.Shape[last]
	}
	n := x.Shape[last]
	if n >= maxRow {
		c.refuse("rows of %d elements; kernels on %s take fewer than %d", n, c.b.Name(), maxRow)
	}
	c.start("searchsorted_"+typeSuffix(x.DType), blocks(total, mergeThreads), mergeThreads)
	c.pointer(y)
	c.rows(x, []int{last})
	c.rows(values, nil)
	arg(c, uint64(total))
	arg(c, uint64(each))
	arg(c, uint32(n))
	arg(c, uint32(l.Ints[0]))
}
