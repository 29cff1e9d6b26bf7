//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// Operations with operands of indices. An index outside its axis stops the kernel, which ends the use of the GPU by this
// process: the host does not wait for indices to look at them.
func init() {
	everyType["embedding"] = planIndexSelect
	everyType["index_select"] = planIndexSelect
	everyType["gather"] = planGather
	everyType["index_add"] = planIndexAdd
	everyType["scatter_add"] = planScatterAdd
	everyType["one_hot"] = planOneHot
}

// indices appends the struct Indices of gather.cu: indices of an axis of the given size.
func (c *call) indices(a *kernels.Arg, size int) {
	shape, steps := src.Collapse(a.Shape, a.Strides)
	c.indicesAlong(a, size, shape, steps[0])
}

func (c *call) indicesAlong(a *kernels.Arg, size int, shape, steps []int) {
	head := [3]uint64{c.address(a), uint64(a.DType.Size()), uint64(size)}
	axes := src.AppendShape64(nil, shape, steps)
	p := c.space(uintptr(24+len(axes)), 8)
	for i, v := range head {
		binary.LittleEndian.PutUint64(p[8*i:], v)
	}
	copy(p[24:], axes)
}

// planIndexSelect takes, along axis l.Ints[0] of the first operand, the entries with the indices of the second.
func planIndexSelect(c *call, _ *kernel, l *kernels.Launch) error {
	x, y, axis := l.In[0], l.Out[0], l.Ints[0]
	if y.Len() == 0 {
		return nil
	}
	inner, steps := src.Collapse(x.Shape[axis+1:], x.Strides[axis+1:])
	before := slices.Clone(x.Strides[:axis])
	total, width, step, size := y.Len(), kernels.Count(inner), x.Strides[axis], y.DType.Size()
	// Entries without gaps move 16 bytes at a time, where all addresses allow.
	unit := 16 / size
	wide := len(inner) == 1 && steps[0][0] == 1 && width%unit == 0 && step%unit == 0 && (c.address(&x)|c.address(&y))%16 == 0
	for _, s := range before {
		wide = wide && s%unit == 0
	}
	if wide {
		total, width, step, size = total/unit, width/unit, step/unit, 16
		inner = []int{width}
		for d := range before {
			before[d] /= unit
		}
	}
	if err := c.each(sized("select", size), total); err != nil {
		return err
	}
	c.pointer(&y)
	c.pointer(&x)
	for _, n := range []int{total, l.In[1].Len(), width, step} {
		arg(c, uint64(n))
	}
	c.indices(&l.In[1], x.Shape[axis])
	c.place(x.Shape[:axis], before)
	c.bytes(src.AppendShape64(nil, inner, steps[0]), 8)
	return nil
}

// planGather takes the elements of the first operand whose index along axis l.Ints[0] the second one gives.
func planGather(c *call, _ *kernel, l *kernels.Launch) error {
	x, y, axis := &l.In[0], &l.Out[0], l.Ints[0]
	if y.Len() == 0 {
		return nil
	}
	others := slices.Clone(x.Strides)
	others[axis] = 0
	if err := c.each(sized("gather", y.DType.Size()), y.Len()); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(x)
	arg(c, uint64(y.Len()))
	arg(c, uint64(x.Strides[axis]))
	c.indices(&l.In[1], x.Shape[axis])
	c.place(y.Shape, others)
	return nil
}

// Of gather.cu: what a warp of index_add adds up, and warps of a block.
const addColumns, addWarps = 256, 4

// planIndexAdd copies the first operand and adds to it, at the indices of the second along axis l.Ints[0], the entries
// of the third.
func planIndexAdd(c *call, _ *kernel, l *kernels.Launch) error {
	y, added, axis := &l.Out[0], &l.In[2], l.Ints[0]
	if err := c.relayout(y, &l.In[0]); err != nil || added.Len() == 0 {
		return err
	}
	n, rank := l.In[1].Len(), len(l.In[1].Shape)
	columns, width := added.Len()/n, kernels.Count(y.Shape[axis+1:])
	warps := n * ((columns + addColumns - 1) / addColumns)
	if err := c.start("index_add_"+suffixes[y.DType], blocks(warps, addWarps), 32*addWarps); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(added)
	for _, n := range []int{n, columns, width} {
		arg(c, uint64(n))
	}
	c.indices(&l.In[1], y.Shape[axis])
	c.place(slices.Delete(slices.Clone(added.Shape), axis, axis+rank), slices.Delete(slices.Clone(added.Strides), axis, axis+rank))
	c.place(added.Shape[axis:axis+rank], added.Strides[axis:axis+rank])
	return nil
}

// planScatterAdd copies the first operand and adds to it the elements of the third, where the second gives the index
// along axis l.Ints[0].
func planScatterAdd(c *call, _ *kernel, l *kernels.Launch) error {
	y, indices, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	if err := c.relayout(y, &l.In[0]); err != nil || added.Len() == 0 {
		return err
	}
	n := added.Shape[axis]
	lines := added.Len() / n
	if err := c.each("scatter_add_"+suffixes[y.DType], lines); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(added)
	arg(c, uint64(lines))
	arg(c, uint64(n))
	c.indicesAlong(indices, y.Shape[axis], []int{1}, []int{1})
	steps := [3]uint64{uint64(y.Strides[axis]), uint64(added.Strides[axis]), uint64(indices.Strides[axis])}
	structure(c, &steps)
	without := func(v []int) []int { return slices.Delete(slices.Clone(v), axis, axis+1) }
	shape, strides := src.Collapse(without(added.Shape), without(indices.Strides), without(y.Strides), without(added.Strides))
	c.bytes(src.AppendShape64(nil, shape, strides...), 8)
	return nil
}

// planOneHot sets 1 where the index along the new last axis, of size l.Ints[0], is the operand's value.
func planOneHot(c *call, _ *kernel, l *kernels.Launch) error {
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
