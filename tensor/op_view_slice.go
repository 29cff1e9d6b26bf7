package tensor

import (
	"math"
	"slices"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of slice and slice_grad are axis, start and step, and the size of the axis in the result.
var slice, sliceGrad Op

func init() {
	resized := func(c *ctx) {
		var buf [kernels.MaxDims]int
		shape := append(buf[:0], c.shape(0)...)
		shape[c.Ints[0]] = c.Ints[3]
		c.result(c.In[0].dtype, shape...)
	}
	samples := func(sample func(name string, shape []int, axis, start, stop, step int) opSample) []opSample {
		return []opSample{
			sample("rows", []int{4, 3}, 0, 1, 3, 1), sample("columns", []int{2, 5}, 1, 0, 5, 2),
			sample("middle", []int{2, 4, 3}, 1, -3, -1, 1), sample("one", []int{1, 3}, 0, 0, 1, 1),
			sample("nothing", []int{2, 3}, 1, 2, 2, 1), sample("empty", []int{0, 3}, 1, 1, 3, 1),
		}
	}
	define(&slice, entry{
		Op:    kernels.Op{Name: "slice"},
		Doc:   "every step-th element of an axis from start on",
		Ints:  []string{"axis", "start", "step", "size"},
		Shape: resized,
		View: func(c *ctx, l *kernels.Layout) {
			axis, start, step := c.Ints[0], c.Ints[1], c.Ints[2]
			copy(l.Strides, c.In[0].layout.Strides)
			if l.Len() > 0 { // else the offset may be outside the memory
				l.Offset += start * l.Strides[axis]
			}
			l.Strides[axis] *= step
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			axis, start, step := c.Ints[0], c.Ints[1], c.Ints[2]
			return []*Tensor{g.sliceGrad(axis, start, step, c.shape(0)[axis])}
		},
		Samples: func() []opSample {
			return samples(func(name string, shape []int, axis, start, stop, step int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Slice(axis, start, stop, step) })
			})
		},
	})
	define(&sliceGrad, entry{
		Op:    kernels.Op{Name: "slice_grad", CPU: cpu.SliceGrad, Types: kernels.DTypes(), Ref: sliceGradRef},
		Doc:   "the elements of g at every step-th index of an axis from start on, zero elsewhere",
		Args:  []string{"g"},
		Ints:  []string{"axis", "start", "step", "size"},
		Shape: resized,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			axis, start, step := c.Ints[0], c.Ints[1], c.Ints[2]
			return []*Tensor{g.slice(axis, start, step, c.shape(0)[axis])}
		},
		Samples: func() []opSample {
			return samples(func(name string, shape []int, axis, start, stop, step int) opSample {
				start, stop = bound(start, shape[axis]), bound(stop, shape[axis])
				size := shape[axis]
				shape = slices.Clone(shape)
				shape[axis] = (stop - start + step - 1) / step
				return unary(name, shape, func(x *Tensor) *Tensor { return x.sliceGrad(axis, start, step, size) })
			})
		},
	})
}

// End stands for the end of an axis in [Tensor.Slice].
const End = math.MaxInt

// Slice is the elements start, start+step, ... of an axis, as far as they are before stop; the step is 1 if none is
// given. Negative bounds count from the end; bounds outside the axis are clamped; [End] is its end. It shares the
// memory. Steps below 1 are refused: Flip reverses an axis.
func (t *Tensor) Slice(axis, start, stop int, step ...int) *Tensor {
	t.given("slice")
	axis = t.axis("slice", axis)
	stride := 1
	switch {
	case len(step) > 1:
		fail(ErrValue, "slice", "steps %v are given, an axis has one", slices.Clone(step))
	case len(step) == 1:
		stride = step[0]
		t.wantStep("slice", axis, stride)
	}
	size := t.layout.Shape[axis]
	start, stop = bound(start, size), bound(stop, size)
	n := 0
	if start < stop {
		n = (stop-start-1)/stride + 1
	}
	if n == size {
		return t
	}
	return t.slice(axis, start, stride, n)
}

// wantStep fails for steps of a slice below 1.
func (t *Tensor) wantStep(op string, axis, step int) {
	if step < 1 {
		fail(ErrValue, op, "step %d on axis %d of %v; steps are 1 or more, Flip reverses an axis", step, axis, t)
	}
}

// bound makes a bound of a slice one from 0 to size.
func bound(i, size int) int {
	if i < 0 {
		i += size
	}
	return min(max(i, 0), size)
}

func (t *Tensor) slice(axis, start, step, n int) *Tensor {
	return apply(&slice, []*Tensor{t}, []int{axis, start, step, n}, nil)
}

func (t *Tensor) sliceGrad(axis, start, step, size int) *Tensor {
	return apply(&sliceGrad, []*Tensor{t}, []int{axis, start, step, size}, nil)
}

// Split cuts an axis into parts of the given sizes, which must add up to its size; Chunk makes equal parts. The parts
// share the memory.
func (t *Tensor) Split(axis int, sizes ...int) []*Tensor {
	t.given("split")
	axis = t.axis("split", axis)
	sum, size := 0, t.layout.Shape[axis]
	for i, n := range sizes {
		if n < 0 {
			fail(ErrShape, "split", "size %d of part %d is negative", n, i)
		}
		sum = min(sum+min(n, kernels.MaxLen), kernels.MaxLen+1) // does not overflow
	}
	if sum != size {
		more := ""
		if len(sizes) > 16 {
			sizes, more = sizes[:16], " and others"
		}
		if len(sizes) == 1 {
			more = ", those of all parts,"
		}
		fail(ErrShape, "split", "sizes %v%s add up to %d, axis %d of %v has %d", sizes, more, sum, axis, t, size)
	}
	parts := makeParts("split", len(sizes))
	start := 0
	for i, n := range sizes {
		parts[i] = t.slice(axis, start, 1, n)
		start += n
	}
	return parts
}

// Chunk cuts an axis into n parts of equal size, the last one smaller if n does not divide the axis. There are fewer
// parts if n-1 of them are the whole axis. The parts share the memory.
func (t *Tensor) Chunk(axis, n int) []*Tensor {
	t.given("chunk")
	axis = t.axis("chunk", axis)
	if n < 1 {
		fail(ErrValue, "chunk", "%v cannot be cut into %d parts", t, n)
	}
	size, each := t.layout.Shape[axis], 0
	if size > 0 {
		each = (size-1)/min(n, size) + 1
		n = (size-1)/each + 1
	}
	parts := makeParts("chunk", n)
	for i := range parts {
		parts[i] = t.slice(axis, i*each, 1, min(each, size-i*each))
	}
	return parts
}

// makeParts is a slice for n tensors. It fails if there is no room for these, too.
func makeParts(op string, n int) []*Tensor {
	return ofHost(op, func() ([]*Tensor, error) {
		if n > 1000 { // fewer are not worth the question
			if err := cpu.Room(min(n, kernels.MaxLen) * int(unsafe.Sizeof(Tensor{}))); err != nil {
				return nil, err
			}
		}
		return cpu.Make[*Tensor](n)
	})
}

func sliceGradRef(l *kernels.Launch) {
	axis, start, step := l.Ints[0], l.Ints[1], l.Ints[2]
	shape := l.In[0].Shape
	copyRef(l, nil, func(index []int) (operand, offset int) {
		i := index[axis] - start
		if i < 0 || i%step != 0 || i/step >= shape[axis] {
			return filled, 0
		}
		index = slices.Clone(index)
		index[axis] = i / step
		return 0, offsetOf(shape, index)
	})
}
