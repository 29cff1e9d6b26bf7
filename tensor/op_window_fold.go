package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of unfold are the axis, the size of a window and the step between windows, those of fold the axis, the
// step and the size of the axis in the result.
var unfold, fold Op

func init() {
	define(&unfold, entry{
		Op:   kernels.Op{Name: "unfold"},
		Doc:  "y[.., o, .., k] = x[.., o*step + k, ..], with a new last axis",
		Ints: []string{"axis", "size", "step"},
		Shape: func(c *ctx) {
			shape := c.In[0].Shape()
			axis, size, step := c.Ints[0], c.Ints[1], c.Ints[2]
			shape[axis] = (shape[axis]-size)/step + 1
			c.result(c.In[0].dtype, append(shape, size)...)
		},
		View: func(c *ctx, l *kernels.Layout) {
			axis, strides := c.Ints[0], c.In[0].layout.Strides
			copy(l.Strides, strides)
			l.Strides[axis] *= c.Ints[2]
			l.Strides[len(strides)] = strides[axis]
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{g.fold(c.Ints[0], c.Ints[2], c.shape(0)[c.Ints[0]])}
		},
		Samples: func() []opSample {
			return foldSamples(func(name string, shape []int, axis, size, step int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Unfold(axis, size, step) })
			})
		},
	})
	define(&fold, entry{
		Op:   kernels.Op{Name: "fold", CPU: cpu.Fold, Ref: foldWindowsRef},
		Doc:  "y[.., i, ..] = sum of g[.., o, .., k] over o*step + k = i, o ascending",
		Args: []string{"g"},
		Ints: []string{"axis", "step", "size"},
		Shape: func(c *ctx) {
			c.wantFloat(0)
			shape := c.In[0].Shape()
			shape[c.Ints[0]] = c.Ints[2]
			c.result(c.In[0].dtype, shape[:len(shape)-1]...)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			shape := c.shape(0)
			if c.In[0].Len() == 0 {
				return []*Tensor{c.zeros(0)}
			}
			return []*Tensor{g.Unfold(c.Ints[0], shape[len(shape)-1], c.Ints[1]).Slice(c.Ints[0], 0, shape[c.Ints[0]])}
		},
		Flops: func(c *ctx) float64 { return float64(c.In[0].Len()) },
		Samples: func() []opSample {
			return foldSamples(func(name string, shape []int, axis, size, step int) opSample {
				axis, n := (axis+len(shape))%len(shape), shape[(axis+len(shape))%len(shape)]
				shape = append(slices.Clone(shape), size)
				shape[axis] = (n-size)/step + 1
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Fold(axis, step, n) })
			})
		},
	})
}

// foldSamples are samples of unfold and of its gradient: the shape of x, the axis, the size and the step of windows.
func foldSamples(sample func(name string, shape []int, axis, size, step int) opSample) []opSample {
	return []opSample{
		sample("overlapping", []int{2, 7}, 1, 3, 2), sample("first", []int{5, 3}, 0, 2, 1),
		sample("middle", []int{2, 6, 2}, 1, 2, 2), sample("gaps", []int{8}, 0, 2, 3),
		sample("whole", []int{3}, -1, 3, 5),
		sample("size 1", []int{1, 1}, 1, 1, 1), sample("empty", []int{0, 4}, 1, 2, 1),
	}
}

// Unfold is all windows of so many neighbours along an axis, a step apart: a new last axis has the elements of a
// window, and the axis becomes the windows, (n-size)/step + 1 of them, rounded down. It shares the memory.
func (t *Tensor) Unfold(axis, size, step int) *Tensor {
	axis = t.axis("unfold", axis)
	if n := t.layout.Shape[axis]; size < 1 || size > n {
		fail(ErrShape, "unfold", "windows of %d elements on axis %d of %v, which has %d", size, axis, t, n)
	}
	t.wantStep("unfold", axis, step)
	return apply(&unfold, []*Tensor{t}, []int{axis, size, step}, nil)
}

// Fold adds up windows at their places, the gradient of [Tensor.Unfold]: windows [.. k .. size] a step apart along an
// axis give [.. n ..], where n is at least (k-1)*step + size. Elements without a window are 0; windows are added in
// ascending order. Floating types.
func (t *Tensor) Fold(axis, step, n int) *Tensor {
	axis = t.axis("fold", axis)
	last := t.Rank() - 1
	if axis == last {
		fail(ErrShape, "fold", "axis %d of %v has the elements of windows; they are folded along another axis", axis, t)
	}
	t.wantStep("fold", axis, step)
	windows, size := t.layout.Shape[axis], t.layout.Shape[last]
	if n < 0 || windows > 0 && (n < size || (n-size)/step < windows-1) {
		fail(ErrShape, "fold", "%d windows of %d elements, %d apart, do not fit into %d elements of axis %d", windows,
			size, step, n, axis)
	}
	return t.fold(axis, step, n)
}

func (t *Tensor) fold(axis, step, n int) *Tensor {
	return apply(&fold, []*Tensor{t}, []int{axis, step, n}, nil)
}

func foldWindowsRef(l *kernels.Launch) {
	axis, step, shape := l.Ints[0], l.Ints[1], l.In[0].Shape
	g, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	clear(y[:l.Out[0].Len()])
	last := len(shape) - 1
	eachIndex(shape, func(i int, index []int) {
		to := slices.Clone(index[:last])
		to[axis] = index[axis]*step + index[last]
		y[offsetOf(l.Out[0].Shape, to)] += g[i]
	})
}
