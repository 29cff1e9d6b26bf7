//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

// Operations with operands of indices. An index outside its axis is an error that the host learns of later: see
// index_error.go.
func init() {
	plans["embedding"] = planIndexSelect
	plans["index_select"] = planIndexSelect
	plans["gather"] = planGather
	plans["index_add"] = planIndexAdd
	plans["scatter_add"] = planScatterAdd
	plans["one_hot"] = planOneHot
}

// indices is the struct Indices of index.cu.
type indices struct {
	data        uint64
	errors      indexErrors
	bytes, size uint64
	axes        kernels.Dims
}

// indexedAxis is the struct IndexedAxis of index.cu.
type indexedAxis struct {
	bytes, size uint64
	stride      int64
	errors      indexErrors
}

// lineStrides is the struct LineStrides of index.cu.
type lineStrides struct{ y, x, indices, inner uint64 }

// indices appends the struct Indices of index.cu: indices of an axis of the given size, with the given dimensions.
func (c *call) indices(a *kernels.Arg, size int, axes kernels.Dims) {
	structure(c, &indices{c.address(a), c.report(a, indexed{size: size}), uint64(a.DType.Size()), uint64(size), axes})
}

// planIndexSelect takes, along axis l.Ints[0] of the first operand, the entries with the indices of the second.
func planIndexSelect(c *call, l *kernels.Launch) {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	behind := axis + len(chosen.Shape)
	var from, at, number [kernels.MaxDims]int
	copy(from[:], x.Strides[:axis])
	copy(from[behind:], x.Strides[axis+1:])
	copy(at[axis:], chosen.Strides)
	kernels.RowMajor(number[axis:], chosen.Shape)
	c.gather(y, x, chosen, axis, from[:len(y.Shape)], at[:len(y.Shape)], number[:len(y.Shape)])
}

// planGather takes the elements of the first operand whose index along axis l.Ints[0] the second one gives.
func planGather(c *call, l *kernels.Launch) {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	var from, number [kernels.MaxDims]int
	copy(from[:], x.Strides)
	from[axis] = 0
	c.gather(y, x, chosen, axis, from[:len(y.Shape)], chosen.Strides, kernels.RowMajor(number[:], chosen.Shape))
}

// gather takes the elements of x that indices select along an axis. By the axes of y, `from` are the strides of x
// without that axis, `at` those of the indices, and `number` those of their numbers in row-major order.
func (c *call) gather(y, x, chosen *kernels.Arg, axis int, from, at, number []int) {
	if y.Len() == 0 {
		return
	}
	along := func(strides []int) kernels.Arg { return kernels.Arg{Layout: kernels.Layout{Strides: strides}} }
	var w stridedCopy
	w.set(y.Shape, y.DType.Size(), *y, along(from), along(at), along(number))
	w.begin[0], w.begin[1], w.begin[2] = c.address(y), c.address(x), c.address(chosen)
	w.scale[2] = chosen.DType.Size()
	size, stride := x.Shape[axis], x.Strides[axis]
	stride /= w.vectorise(uint64(stride * w.elementBytes))
	chosenAxis := indexedAxis{uint64(chosen.DType.Size()), uint64(size), int64(stride), indexErrors{}}
	if chosenAxis.bytes < 8 {
		chosenAxis.size = min(chosenAxis.size, 1<<31)
	}
	c.stridedCopy("gather", &w, func([kernels.MaxDims]int) {
		chosenAxis.errors = c.report(chosen, indexed{size: size})
		structure(c, &chosenAxis)
	})
}

// Constants of index.cu: the columns of a warp of index_add, and the warps of a block.
const addColumns, addWarps = 256, 4

// planIndexAdd copies the first operand and adds to it, at the indices of the second along axis l.Ints[0], the entries
// of the third.
func planIndexAdd(c *call, l *kernels.Launch) {
	y, added, axis := &l.Out[0], &l.In[2], l.Ints[0]
	if c.relayout(y, &l.In[0]); added.Len() == 0 {
		return
	}
	n, rank := l.In[1].Len(), len(l.In[1].Shape)
	columns, width := added.Len()/n, kernels.Count(y.Shape[axis+1:])
	warps := n * ceilDiv(columns, addColumns)
	c.start("index_add_"+suffixes[y.DType], blocks(warps, addWarps), 32*addWarps)
	c.pointer(y)
	c.pointer(added)
	arg(c, uint64(n))
	arg(c, uint64(columns))
	arg(c, uint64(width))
	var chosen, others, entries kernels.Dims
	chosen.PushAll(l.In[1].Shape, l.In[1].Strides)
	c.indices(&l.In[1], y.Shape[axis], chosen)
	others.PushAll(added.Shape[:axis], added.Strides[:axis])
	others.PushAll(added.Shape[axis+rank:], added.Strides[axis+rank:])
	entries.PushAll(added.Shape[axis:axis+rank], added.Strides[axis:axis+rank])
	structure(c, &others)
	structure(c, &entries)
}

// planScatterAdd copies the first operand and adds to it the elements of the third, where the second gives the index
// along axis l.Ints[0].
func planScatterAdd(c *call, l *kernels.Launch) {
	y, chosen, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	if c.relayout(y, &l.In[0]); added.Len() == 0 {
		return
	}
	n := added.Shape[axis]
	lines := added.Len() / n
	var sums uint64 // in float32
	if y.DType.IsHalf() {
		sums = c.scratch(4 * lines * y.Shape[axis])
	}
	c.startEach("scatter_add_"+suffixes[y.DType], lines)
	c.pointer(y)
	c.pointer(added)
	arg(c, sums)
	arg(c, uint64(lines))
	arg(c, uint64(n))
	c.indices(chosen, y.Shape[axis],
		kernels.Dims{Rank: 1, Shape: [kernels.MaxDims]int{1}, Strides: [kernels.MaxDims]int{1}})
	inner := kernels.Count(added.Shape[axis+1:])
	strides := lineStrides{uint64(y.Strides[axis]), uint64(added.Strides[axis]), uint64(chosen.Strides[axis]),
		uint64(inner)}
	structure(c, &strides)
	var shape [kernels.MaxDims]int
	copy(shape[:], added.Shape)
	shape[axis] = 1
	var others space
	others.collapse([]kernels.Arg{*chosen, *y, *added}, shape[:len(added.Shape)])
	others.shape64(c)
}

// planOneHot sets 1 where the index along the new last axis, of size l.Ints[0], is the operand's value.
func planOneHot(c *call, l *kernels.Launch) {
	y := &l.Out[0]
	if y.Len() == 0 {
		return
	}
	c.startEach("one_hot", y.Len())
	c.pointer(y)
	arg(c, uint64(y.Len()))
	var axes kernels.Dims
	axes.PushAll(l.In[0].Shape, l.In[0].Strides)
	c.indices(&l.In[0], l.Ints[0], axes)
}
