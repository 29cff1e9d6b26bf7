package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of select and select_grad are axis and index; select_grad has the size of the axis in the result, too.
var selectOp, selectGrad Op

func init() {
	define(&selectOp, entry{
		Op:   kernels.Op{Name: "select"},
		Doc:  "the elements at one index of an axis",
		Ints: []string{"axis", "index"},
		Shape: func(c *ctx) {
			var buf [kernels.MaxDims]int
			shape := append(buf[:0], c.shape(0)...)
			c.result(c.In[0].dtype, slices.Delete(shape, c.Ints[0], c.Ints[0]+1)...)
		},
		View: func(c *ctx, l *kernels.Layout) {
			axis, strides := c.Ints[0], c.In[0].layout.Strides
			if l.Len() > 0 {
				l.Offset += c.Ints[1] * strides[axis]
			}
			copy(l.Strides, strides[:axis])
			copy(l.Strides[axis:], strides[axis+1:])
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			axis, index := c.Ints[0], c.Ints[1]
			return []*Tensor{g.selectGrad(axis, index, c.shape(0)[axis])}
		},
		Samples: func() []opSample {
			sample := func(name string, shape []int, axis, index int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Select(axis, index) })
			}
			return []opSample{
				sample("row", []int{3, 2}, 0, 1), sample("column", []int{3, 2}, 1, -1),
				sample("middle", []int{2, 3, 2}, 1, 2), sample("to rank 0", []int{3}, 0, 0),
				sample("size 1", []int{1, 2}, 0, 0), sample("empty", []int{0, 3}, 1, 1),
			}
		},
	})
	define(&selectGrad, entry{
		Op:   kernels.Op{Name: "select_grad", CPU: cpu.SelectGrad, Types: kernels.DTypes(), Ref: selectGradRef},
		Doc:  "g at one index of a new axis, zero elsewhere",
		Args: []string{"g"},
		Ints: []string{"axis", "index", "size"},
		Shape: func(c *ctx) {
			var buf [kernels.MaxDims]int
			c.result(c.In[0].dtype, slices.Insert(append(buf[:0], c.shape(0)...), c.Ints[0], c.Ints[2])...)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.Select(c.Ints[0], c.Ints[1])} },
		Samples: func() []opSample {
			sample := func(name string, shape []int, axis, index, size int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.selectGrad(axis, index, size) })
			}
			return []opSample{
				sample("row", []int{2}, 0, 1, 3), sample("column", []int{3}, 1, 0, 2),
				sample("middle", []int{2, 2}, 1, 2, 3), sample("rank 0", nil, 0, 0, 3),
				sample("size 1", []int{2}, 0, 0, 1), sample("empty", []int{0}, 1, 1, 3),
			}
		},
	})
}

// Select is the elements at one index of an axis, which disappears. Negative indices count from the end. It shares
// the memory.
func (t *Tensor) Select(axis, index int) *Tensor {
	t.given("select")
	axis = t.axis("select", axis)
	return apply(&selectOp, []*Tensor{t}, []int{axis, t.position("select", axis, index)}, nil)
}

// position makes an index along an axis, which may be negative, one that counts from the start.
func (t *Tensor) position(op string, axis, index int) int {
	size := t.layout.Shape[axis]
	if index < -size || index >= size {
		fail(ErrIndex, op, "index %d is outside [%d, %d): axis %d of %v", index, -size, size, axis, t)
	}
	if index < 0 {
		index += size
	}
	return index
}

func (t *Tensor) selectGrad(axis, index, size int) *Tensor {
	return apply(&selectGrad, []*Tensor{t}, []int{axis, index, size}, nil)
}

func selectGradRef(l *kernels.Launch) {
	axis, selected := l.Ints[0], l.Ints[1]
	copyRef(l, nil, func(index []int) (operand, offset int) {
		if index[axis] != selected {
			return filled, 0
		}
		return 0, offsetOf(l.In[0].Shape, slices.Delete(slices.Clone(index), axis, axis+1))
	})
}
