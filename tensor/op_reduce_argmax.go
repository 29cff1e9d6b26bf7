package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var argmax, argmin, maxIndex, minIndex Op

func init() {
	arg := func(o *Op, name, doc string, largest bool, k func(l *kernels.Launch)) {
		define(o, Op{
			Op:     kernels.Op{Name: name, CPU: k, Ref: argRef(largest), Kernel: name},
			Doc:    doc,
			Args:   []string{"x"},
			Shape:  func(c *Ctx) { c.indexed(Int64) },
			Flops:  perElement(1),
			NoGrad: "the result is an index",
			Samples: func() []Sample {
				return alongSamples(func(x *Tensor, axis int) *Tensor { return x.reduce(o, []int{axis}) })
			},
		})
	}
	arg(&argmax, "argmax", "the place of the largest element of x along an axis", true, cpu.ArgMax)
	arg(&argmin, "argmin", "the place of the smallest element of x along an axis", false, cpu.ArgMin)

	both := func(o *Op, name, doc string, largest bool, k func(l *kernels.Launch), call func(x *Tensor, axis int) (v, i *Tensor)) {
		define(o, Op{
			Op:    kernels.Op{Name: name, CPU: k, Ref: argRef(largest), Kernel: name},
			Doc:   doc,
			Args:  []string{"x"},
			Shape: func(c *Ctx) { c.indexed(c.In[0].dtype, Int64) },
			VJP: func(c *Ctx, g *Tensor) []*Tensor {
				there := c.unreduce(c.Out[1]).Equal(along(c.Shape(0), c.Ints[0]))
				return []*Tensor{c.unreduce(g).Mul(there.To(g.dtype))}
			},
			Saves: []Saves{SaveOut(1)},
			Flops: perElement(1),
			Samples: func() []Sample {
				return alongSamples(func(x *Tensor, axis int) *Tensor { v, _ := call(x, axis); return v })
			},
		})
	}
	both(&maxIndex, "max_index", "the largest element of x along an axis, and its place", true, cpu.ArgMax, (*Tensor).MaxIndex)
	both(&minIndex, "min_index", "the smallest element of x along an axis, and its place", false, cpu.ArgMin, (*Tensor).MinIndex)
}

// alongSamples are those of reductions that reduce a single axis.
func alongSamples(call func(x *Tensor, axis int) *Tensor) []Sample {
	one := func(x *Tensor, axes ...int) *Tensor { return call(x, axes[0]) }
	return slices.DeleteFunc(reductionSamples(-2, 2, false, one), func(s Sample) bool {
		return s.Name == "all" || s.Name == "outer" || s.Name == "rank 0"
	})
}

// indexed adds outputs of the given types that lack the one reduced axis, which must have elements.
func (c *Ctx) indexed(types ...DType) {
	for _, dt := range types {
		c.reduced(dt)
	}
	if c.count() == 0 && c.Out[0].Len() > 0 {
		c.Fail(ErrShape, "%v has no elements along axis %d, and nothing has no %s", c.In[0], c.Ints[0], c.Op.Name)
	}
}

// along is host data: the index along one axis of a shape, with size 1 on the others.
func along(shape []int, axis int) *Tensor {
	index := make([]int64, shape[axis])
	ones := make([]int, len(shape))
	for a := range ones {
		ones[a] = 1
	}
	for i := range index {
		index[i] = int64(i)
	}
	ones[axis] = shape[axis]
	return FromSlice(index, len(index)).Reshape(ones...)
}

// ArgMax is the place of the largest element along an axis, which disappears: int64, the first of equal elements.
// A NaN counts as larger than any number.
func (t *Tensor) ArgMax(axis int) *Tensor { return t.reduce(&argmax, []int{axis}) }

// ArgMin is the place of the smallest element along an axis, which disappears: int64, the first of equal elements.
// A NaN counts as smaller than any number.
func (t *Tensor) ArgMin(axis int) *Tensor { return t.reduce(&argmin, []int{axis}) }

// MaxIndex is the largest element along an axis, which disappears, and its place as of [Tensor.ArgMax]. The
// gradient goes to that element alone.
func (t *Tensor) MaxIndex(axis int) (values, indices *Tensor) { return t.withIndex(&maxIndex, axis) }

// MinIndex is the smallest element along an axis, which disappears, and its place as of [Tensor.ArgMin]. The
// gradient goes to that element alone.
func (t *Tensor) MinIndex(axis int) (values, indices *Tensor) { return t.withIndex(&minIndex, axis) }

func (t *Tensor) withIndex(op *Op, axis int) (values, indices *Tensor) {
	out := ApplyAll(op, []*Tensor{t}, t.axes(op.Name, []int{axis}), nil)
	return out[0], out[1]
}

// argRef finds places and, if there are two results, the values there.
func argRef(largest bool) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		switch l.In[0].DType {
		case kernels.Float64:
			places[float64](l, largest)
		case kernels.Int64:
			places[int64](l, largest)
		case kernels.Int32:
			places[int32](l, largest)
		default: // Uint8 and Bool
			places[uint8](l, largest)
		}
	}
}

func places[T float64 | int64 | int32 | uint8](l *kernels.Launch, largest bool) {
	x := cpu.Slice[T](l.In[0])
	out := l.Out[len(l.Out)-1]
	at := cpu.Slice[int64](out)[:out.Len()]
	best := make([]int, len(at)) // elements of x
	next := make([]int64, len(at))
	eachReduced(l, func(i, o int) {
		a, b := x[i], x[best[o]]
		if next[o] == 0 || b == b && (a != a || largest && a > b || !largest && a < b) {
			best[o], at[o] = i, next[o]
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
