package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of cat and stack is the axis.
var cat, stack Op

func init() {
	define(&cat, entry{
		Op:    kernels.Op{Name: "cat", CPU: cpu.Cat, Types: kernels.DTypes(), Ref: catRef},
		Cast:  seam.CastWidest,
		Doc:   "the operands joined along an axis",
		Args:  []string{"first", "others..."},
		Ints:  []string{"axis"},
		Shape: catShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			axis, start := c.Ints[0], 0
			grads := make([]*Tensor, len(c.In))
			for i := range c.In {
				n := c.shape(i)[axis]
				if c.needs(i) {
					grads[i] = g.slice(axis, start, 1, n)
				}
				start += n
			}
			return grads
		},
		Samples: func() []opSample {
			sample := func(name string, axis int, in ...[]int) opSample {
				return opSample{Name: name, In: randomArgs(in...),
					Call: func(x []*Tensor) *Tensor { return Cat(axis, x...) }}
			}
			return []opSample{
				sample("rows", 0, []int{2, 3}, []int{1, 3}, []int{3, 3}),
				sample("columns", -1, []int{2, 3}, []int{2, 2}),
				sample("middle", 1, []int{2, 1, 2}, []int{2, 2, 2}), sample("one", 0, []int{2, 3}),
				sample("size 1", 0, []int{1}, []int{1}), sample("empty operand", 0, []int{2, 2}, []int{0, 2}),
				sample("empty", 1, []int{0, 2}, []int{0, 3}),
			}
		},
	})
	define(&stack, entry{
		Op:    kernels.Op{Name: "stack", CPU: cpu.Stack, Types: kernels.DTypes(), Ref: stackRef},
		Cast:  seam.CastWidest,
		Doc:   "the operands joined along a new axis",
		Args:  []string{"first", "others..."},
		Ints:  []string{"axis"},
		Shape: stackShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			grads := make([]*Tensor, len(c.In))
			for i := range c.In {
				if c.needs(i) {
					grads[i] = g.Select(c.Ints[0], i)
				}
			}
			return grads
		},
		Samples: func() []opSample {
			sample := func(name string, axis int, in ...[]int) opSample {
				return opSample{Name: name, In: randomArgs(in...),
					Call: func(x []*Tensor) *Tensor { return Stack(axis, x...) }}
			}
			return []opSample{
				sample("first", 0, []int{2, 3}, []int{2, 3}),
				sample("middle", 1, []int{2, 3}, []int{2, 3}, []int{2, 3}),
				sample("last", -1, []int{2, 3}, []int{2, 3}), sample("one", 0, []int{3}), sample("rank 0", 0, nil, nil),
				sample("size 1", 1, []int{1, 2}, []int{1, 2}), sample("empty", 1, []int{0, 2}, []int{0, 2}),
			}
		},
	})
}

// Cat joins tensors of one type along an axis. The sizes of their other axes are equal.
func Cat(axis int, tensors ...*Tensor) *Tensor {
	wantTensors("cat", tensors)
	return apply(&cat, tensors, []int{tensors[0].axis("cat", axis)}, nil)
}

// Stack joins tensors of one type and shape along a new axis; -1 is the last axis of the result.
func Stack(axis int, tensors ...*Tensor) *Tensor {
	wantTensors("stack", tensors)
	return apply(&stack, tensors, []int{tensors[0].newAxis("stack", axis)}, nil)
}

// wantTensors fails unless there is a first tensor.
func wantTensors(op string, tensors []*Tensor) {
	if len(tensors) == 0 {
		fail(ErrValue, op, "at least one tensor is needed")
	}
	tensors[0].given(op)
}

// sameTypes fails unless all operands have the type of the first.
func (c *ctx) sameTypes() {
	for i, x := range c.In {
		if x.dtype != c.In[0].dtype {
			c.fail(ErrDType, "operand 0 is %v, operand %d is %v; x.To(...) converts", c.In[0], i, x)
		}
	}
}

func catShape(c *ctx) {
	c.sameTypes()
	var buf [kernels.MaxDims]int
	shape := append(buf[:0], c.shape(0)...)
	axis := c.Ints[0]
	for i := 1; i < len(c.In); i++ {
		s := c.shape(i)
		if len(s) != len(shape) {
			c.fail(ErrShape, "operand 0 %v has %d axes, operand %d %v has %d", c.shape(0), len(shape), i, s, len(s))
		}
		for d, size := range s {
			if d != axis && size != shape[d] {
				c.fail(ErrShape, "only axis %d may differ: operand 0 %v has %d on axis %d, operand %d %v has %d",
					axis, c.shape(0), shape[d], d, i, s, size)
			}
		}
		shape[axis] = min(shape[axis]+s[axis], kernels.MaxLen+1)
	}
	c.result(c.In[0].dtype, shape...)
}

func stackShape(c *ctx) {
	c.sameTypes()
	first := c.shape(0)
	for i := range c.In {
		if !slices.Equal(first, c.shape(i)) {
			c.fail(ErrShape, "shapes differ: operand 0 has %v, operand %d has %v", first, i, c.shape(i))
		}
	}
	c.result(c.In[0].dtype, slices.Insert(slices.Clone(first), c.Ints[0], len(c.In))...)
}

func catRef(l *kernels.Launch) {
	axis := l.Ints[0]
	copyRef(l, nil, func(index []int) (operand, offset int) {
		index = slices.Clone(index)
		for index[axis] >= l.In[operand].Shape[axis] {
			index[axis] -= l.In[operand].Shape[axis]
			operand++
		}
		return operand, offsetOf(l.In[operand].Shape, index)
	})
}

func stackRef(l *kernels.Launch) {
	axis := l.Ints[0]
	copyRef(l, nil, func(index []int) (operand, offset int) {
		rest := slices.Delete(slices.Clone(index), axis, axis+1)
		return index[axis], offsetOf(l.In[0].Shape, rest)
	})
}
