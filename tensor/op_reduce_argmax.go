package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var argmax, argmin, maxIndex, minIndex Op

func init() {
	argExtreme(&argmax, "argmax", "the index of the largest element of x along an axis", true, false, cpu.ArgMax)
	argExtreme(&argmin, "argmin", "the index of the smallest element of x along an axis", false, false, cpu.ArgMin)
	argExtreme(&maxIndex, "max_index", "the largest element of x along an axis, and its index", true, true, cpu.ArgMax)
	argExtreme(&minIndex, "min_index", "the smallest element of x along an axis, and its index", false, true,
		cpu.ArgMin)
}

// argExtreme defines an operation that finds the index of an extreme, and the extreme itself if values is set.
func argExtreme(o *Op, name, doc string, largest, values bool, k func(l *kernels.Launch)) {
	op := entry{
		Op:     kernels.Op{Name: name, CPU: k, Ref: argRef(largest)},
		Doc:    doc,
		Ints:   []string{"axis"},
		Flops:  perElement(1),
		NoGrad: "the result is an index",
		Shape: func(c *ctx) {
			if values {
				c.reduced(c.In[0].dtype)
			}
			c.reduced(Int64)
			c.wantElements()
		},
		Samples: func() []opSample {
			return alongSamples(func(x *Tensor, axis int) *Tensor { return x.reduce(o, []int{axis}) })
		},
	}
	if values {
		op.NoGrad, op.Saves = "", []saves{saveOut(1)}
		op.VJP = func(c *ctx, g *Tensor) []*Tensor {
			axis := c.Ints[0]
			zeros := c.scope.newFull(g, 0, g.dtype, c.shape(0)...)
			return []*Tensor{zeros.Scatter(axis, c.Out[1].Unsqueeze(axis), g.Unsqueeze(axis))}
		}
	}
	define(o, op)
}

// alongSamples are the samples of reductions that reduce a single axis.
func alongSamples(call func(x *Tensor, axis int) *Tensor) []opSample {
	one := func(x *Tensor, axes ...int) *Tensor { return call(x, axes[0]) }
	return slices.DeleteFunc(reductionSamples(-2, 2, false, one), func(s opSample) bool {
		return s.Name == "all" || s.Name == "outer" || s.Name == "rank 0"
	})
}

// indexAlong is host data: the indices along an axis of a shape, with size 1 on the other axes.
func indexAlong(shape []int, axis int) *Tensor {
	line := slices.Repeat([]int{1}, len(shape))
	line[axis] = shape[axis]
	numbers := makeHost[int64]("arange", shape[axis])
	for i := range numbers {
		numbers[i] = int64(i)
	}
	return FromSlice(numbers, len(numbers)).Reshape(line...)
}

// ArgMax is the index of the largest element along an axis, which disappears, or with [KeepDims] has size 1: int64, the
// first of equal elements. A NaN counts as larger than any number.
func (t *Tensor) ArgMax(axis int, keep ...int) *Tensor { return t.alongOne(&argmax, axis, keep)[0] }

// ArgMin is the index of the smallest element along an axis, which disappears, or with [KeepDims] has size 1: int64,
// the first of equal elements. A NaN counts as smaller than any number.
func (t *Tensor) ArgMin(axis int, keep ...int) *Tensor { return t.alongOne(&argmin, axis, keep)[0] }

// MaxIndex is the largest element along an axis, which disappears, or with [KeepDims] has size 1, and its index as of
// [Tensor.ArgMax]. The gradient goes to that element alone.
func (t *Tensor) MaxIndex(axis int, keep ...int) (values, indices *Tensor) {
	out := t.alongOne(&maxIndex, axis, keep)
	return out[0], out[1]
}

// MinIndex is the smallest element along an axis, which disappears, or with [KeepDims] has size 1, and its index as of
// [Tensor.ArgMin]. The gradient goes to that element alone.
func (t *Tensor) MinIndex(axis int, keep ...int) (values, indices *Tensor) {
	out := t.alongOne(&minIndex, axis, keep)
	return out[0], out[1]
}

// alongOne applies op, which reduces one axis; keep is KeepDims or nothing.
func (t *Tensor) alongOne(op *Op, axis int, keep []int) []*Tensor {
	t.given(op.Name)
	axis = t.axis(op.Name, axis)
	out := applyAll(op, []*Tensor{t}, []int{axis}, nil)
	if keeps(op.Name, axis, keep) {
		for o := range out {
			out[o] = out[o].Unsqueeze(axis)
		}
	}
	return out
}

// keeps tells whether keep is KeepDims and not nothing, for an operation that reduces one axis.
func keeps(op string, axis int, keep []int) bool {
	if len(keep) > 1 || len(keep) == 1 && keep[0] != KeepDims {
		fail(ErrValue, op, "takes one axis, and KeepDims; got %v behind axis %d", slices.Clone(keep), axis)
	}
	return len(keep) == 1
}

// argRef finds the indices and, if there are two results, the elements.
func argRef(largest bool) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		switch l.In[0].DType {
		case kernels.Float64:
			argRefOf[float64](l, largest)
		case kernels.Int64:
			argRefOf[int64](l, largest)
		case kernels.Int32:
			argRefOf[int32](l, largest)
		default: // Uint8 and Bool
			argRefOf[uint8](l, largest)
		}
	}
}

func argRefOf[T float64 | int64 | int32 | uint8](l *kernels.Launch, largest bool) {
	x := cpu.Slice[T](l.In[0])
	out := l.Out[len(l.Out)-1]
	index := cpu.Slice[int64](out)[:out.Len()]
	best := make([]int, len(index)) // the offset of that element in x
	next := make([]int64, len(index))
	eachReduced(l, func(i, o int) {
		a, b := x[i], x[best[o]]
		if next[o] == 0 || b == b && (a != a || largest && a > b || !largest && a < b) {
			best[o], index[o] = i, next[o]
		}
		next[o]++
	})
	if len(l.Out) == 2 {
		y := cpu.Slice[T](l.Out[0])
		for o, i := range best {
			y[o] = x[i]
		}
	}
}
