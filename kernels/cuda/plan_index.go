//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

// Operations with operands of indices. An index outside its axis is an error that the host learns of later: see
// badindex.go.
func init() {
	plans["embedding"] = planIndexSelect
	plans["index_select"] = planIndexSelect
	plans["gather"] = planGather
	plans["index_add"] = planIndexAdd
	plans["scatter_add"] = planScatterAdd
	plans["one_hot"] = planOneHot
}

// indices appends the struct Indices of gather.cu: indices of an axis of the given size.
func (c *call) indices(a *kernels.Arg, size int) {
	var d dimensions
	d.pushAll(a.Shape, a.Strides)
	c.indicesAlong(a, size, &d)
}

func (c *call) indicesAlong(a *kernels.Arg, size int, d *dimensions) {
	structure(c, &struct {
		data        uint64
		report      reporting
		bytes, size uint64
		axes        shape64
	}{c.address(a), c.report(a, indexed{size: size}), uint64(a.DType.Size()), uint64(size), d.shape64()})
}

// planIndexSelect takes, along axis l.Ints[0] of the first operand, the entries with the indices of the second.
func planIndexSelect(c *call, l *kernels.Launch) error {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	behind := axis + len(chosen.Shape)
	var from, at, number [kernels.MaxDims]int
	copy(from[:], x.Strides[:axis])
	copy(from[behind:], x.Strides[axis+1:])
	copy(at[axis:], chosen.Strides)
	kernels.RowMajor(number[axis:], chosen.Shape)
	return c.gather(y, x, chosen, axis, from[:len(y.Shape)], at[:len(y.Shape)], number[:len(y.Shape)])
}

// planGather takes the elements of the first operand whose index along axis l.Ints[0] the second one gives.
func planGather(c *call, l *kernels.Launch) error {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	var from, number [kernels.MaxDims]int
	copy(from[:], x.Strides)
	from[axis] = 0
	return c.gather(y, x, chosen, axis, from[:len(y.Shape)], chosen.Strides, kernels.RowMajor(number[:], chosen.Shape))
}

// gather takes elements of x whose index along the axis is chosen. Along the axes of y, `from` leads through the places in x
// where its axis begins, `at` through the indices and `number` through their numbers in row-major order.
func (c *call) gather(y, x, chosen *kernels.Arg, axis int, from, at, number []int) error {
	if y.Len() == 0 {
		return nil
	}
	along := func(strides []int) kernels.Arg { return kernels.Arg{Layout: kernels.Layout{Strides: strides}} }
	var w walk
	w.over(y.Shape, y.DType.Size(), *y, along(from), along(at), along(number))
	w.begin[0], w.begin[1], w.begin[2] = c.address(y), c.address(x), c.address(chosen)
	w.size[2] = chosen.DType.Size()
	size, step := x.Shape[axis], x.Strides[axis]
	step /= w.widen(uint64(step * w.unit))
	entries := struct {
		bytes, size uint64
		step        int64
		report      reporting
	}{uint64(chosen.DType.Size()), uint64(size), int64(step), reporting{}}
	if entries.bytes < 8 {
		entries.size = min(entries.size, 1<<31)
	}
	return c.walk("gather", &w, func([kernels.MaxDims]int) {
		entries.report = c.report(chosen, indexed{size: size})
		structure(c, &entries)
	})
}

// Of gather.cu: what a warp of index_add adds up, and warps of a block.
const addColumns, addWarps = 256, 4

// planIndexAdd copies the first operand and adds to it, at the indices of the second along axis l.Ints[0], the entries
// of the third.
func planIndexAdd(c *call, l *kernels.Launch) error {
	y, added, axis := &l.Out[0], &l.In[2], l.Ints[0]
	if err := c.relayout(y, &l.In[0]); err != nil || added.Len() == 0 {
		return err
	}
	n, rank := l.In[1].Len(), len(l.In[1].Shape)
	columns, width := added.Len()/n, kernels.Count(y.Shape[axis+1:])
	warps := n * ceilDiv(columns, addColumns)
	if err := c.start("index_add_"+suffixes[y.DType], blocks(warps, addWarps), 32*addWarps); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(added)
	arg(c, uint64(n))
	arg(c, uint64(columns))
	arg(c, uint64(width))
	c.indices(&l.In[1], y.Shape[axis])
	var others, entries dimensions
	others.pushAll(added.Shape[:axis], added.Strides[:axis])
	others.pushAll(added.Shape[axis+rank:], added.Strides[axis+rank:])
	entries.pushAll(added.Shape[axis:axis+rank], added.Strides[axis:axis+rank])
	c.axes(&others)
	c.axes(&entries)
	return nil
}

// planScatterAdd copies the first operand and adds to it the elements of the third, where the second gives the index
// along axis l.Ints[0].
func planScatterAdd(c *call, l *kernels.Launch) error {
	y, indices, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	if err := c.relayout(y, &l.In[0]); err != nil || added.Len() == 0 {
		return err
	}
	n := added.Shape[axis]
	lines := added.Len() / n
	var room uint64 // for sums in float32
	if y.DType.IsHalf() {
		var err error
		if room, err = c.scratch(4 * lines * y.Shape[axis]); err != nil {
			return err
		}
	}
	if err := c.each("scatter_add_"+suffixes[y.DType], lines); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(added)
	arg(c, room)
	arg(c, uint64(lines))
	arg(c, uint64(n))
	c.indicesAlong(indices, y.Shape[axis], &dimensions{rank: 1, shape: [kernels.MaxDims]int{1}, strides: [kernels.MaxDims]int{1}})
	inner := kernels.Count(added.Shape[axis+1:])
	steps := [4]uint64{uint64(y.Strides[axis]), uint64(added.Strides[axis]), uint64(indices.Strides[axis]), uint64(inner)}
	structure(c, &steps)
	var shape [kernels.MaxDims]int
	copy(shape[:], added.Shape)
	shape[axis] = 1
	var others space
	others.collapse([]kernels.Arg{*indices, *y, *added}, shape[:len(added.Shape)])
	others.shape64(c)
	return nil
}

// planOneHot sets 1 where the index along the new last axis, of size l.Ints[0], is the operand's value.
func planOneHot(c *call, l *kernels.Launch) error {
	y := &l.Out[0]
	if y.Len() == 0 {
		return nil
	}
	if err := c.each("one_hot", y.Len()); err != nil {
		return err
	}
	c.pointer(y)
	arg(c, uint64(y.Len()))
	c.indices(&l.In[0], l.Ints[0])
	return nil
}
