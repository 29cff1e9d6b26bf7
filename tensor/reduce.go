package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// This file has what operations that reduce axes share. Their attributes Ints are the reduced axes, ascending.

// KeepDims among the axes of a reduction makes the result keep the reduced axes, with size 1: x.Mean(-1, KeepDims) has
// the rank of x and broadcasts against it.
const KeepDims = math.MinInt

// reduce applies op over the given axes, all axes if there are none; negative axes count from the end.
func (t *Tensor) reduce(op *Op, axes []int, floats ...float64) *Tensor {
	return reduce(op, []*Tensor{t}, axes, floats)
}

// reduce applies op to in, over axes of the first.
func reduce(op *Op, in []*Tensor, axes []int, floats []float64) *Tensor {
	keep := slices.Contains(axes, KeepDims)
	if keep {
		axes = slices.DeleteFunc(slices.Clone(axes), func(a int) bool { return a == KeepDims })
	}
	var buf [kernels.MaxDims]int
	axes = in[0].appendAxes(buf[:0], op.Name, axes)
	y := apply(op, in, axes, floats)
	if keep {
		y = y.Reshape(keptShape(in[0].layout.Shape, axes)...)
	}
	return y
}

// axes makes a list of axes ascending and not negative; an empty list stands for all axes.
func (t *Tensor) axes(op string, axes []int) []int { return t.appendAxes(nil, op, axes) }

// appendAxes is axes, appended to sorted.
func (t *Tensor) appendAxes(sorted []int, op string, axes []int) []int {
	t.given(op)
	for _, a := range axes {
		a = t.axis(op, a)
		if slices.Contains(sorted, a) {
			fail(ErrShape, op, "axis %d of %v is named twice in %v", a, t, slices.Clone(axes))
		}
		sorted = append(sorted, a)
	}
	if len(axes) == 0 {
		for a := range t.layout.Shape {
			sorted = append(sorted, a)
		}
	}
	slices.Sort(sorted)
	return sorted
}

// keptShape is shape with size 1 at the given axes.
func keptShape(shape, axes []int) []int {
	kept := slices.Clone(shape)
	for _, a := range axes {
		kept[a] = 1
	}
	return kept
}

// unreduce repeats y, which has the shape of a result of c, over the reduced axes.
func (c *ctx) unreduce(y *Tensor) *Tensor {
	shape := c.shape(0)
	return y.Reshape(keptShape(shape, c.Ints)...).Expand(shape...)
}

// count is the number of elements that are reduced to one.
func (c *ctx) count() int {
	n := 1
	for _, a := range c.Ints {
		n *= c.shape(0)[a]
	}
	return n
}

// reduced adds an output that lacks the reduced axes.
func (c *ctx) reduced(dt DType) {
	c.wantAxes()
	var buf [kernels.MaxDims]int
	shape := buf[:0]
	for a, d := range c.shape(0) {
		if !slices.Contains(c.Ints, a) {
			shape = append(shape, d)
		}
	}
	c.result(dt, shape...)
}

// wantAxes fails unless Ints are axes of the first operand, ascending.
func (c *ctx) wantAxes() {
	after := -1
	for _, a := range c.Ints {
		if a <= after || a >= c.In[0].Rank() {
			c.fail(ErrShape, "%v are not axes of %v in ascending order", c.Ints, c.In[0])
		}
		after = a
	}
}

// wantElements fails if a result has no elements to be made from.
func (c *ctx) wantElements() {
	if c.count() == 0 && c.Out[0].Len() > 0 {
		c.fail(ErrShape, "%v has no elements along axes %v; %s needs at least one", c.In[0], c.Ints, c.Op.Name)
	}
}

// accumulated is the type of sums and products: int64 for integers and bools.
func accumulated(dt DType) DType {
	if dt.IsFloat() {
		return dt
	}
	return Int64
}

// averaged is the type of means: float32 for integers and bools.
func averaged(dt DType) DType {
	if dt.IsFloat() {
		return dt
	}
	return Float32
}

// perElement counts n operations for each element of the first operand.
func perElement(n float64) func(c *ctx) float64 {
	return func(c *ctx) float64 { return n * float64(c.In[0].Len()) }
}

// eachReduced calls f for each element i of the first operand, in row-major order, with the element o of the result to
// which it is reduced. References use it.
func eachReduced(l *kernels.Launch, f func(i, o int)) {
	shape := l.In[0].Shape
	var index, stride [kernels.MaxDims]int // stride: of the result, 0 along reduced axes
	width := 1
	for a := len(shape) - 1; a >= 0; a-- {
		if !slices.Contains(l.Ints, a) {
			stride[a] = width
			width *= shape[a]
		}
	}
	o := 0
	for i := range kernels.Count(shape) {
		f(i, o)
		for a := len(shape) - 1; a >= 0; a-- {
			o += stride[a]
			if index[a]++; index[a] < shape[a] {
				break
			}
			o -= index[a] * stride[a]
			index[a] = 0
		}
	}
}

// valuesOf is the elements of an operand of any type.
func valuesOf(a kernels.Arg) []float64 {
	if a.DType.IsFloat() {
		return cpu.Slice[float64](a)[:a.Len()]
	}
	return convert[float64](integersOf(a))
}

// integersOf is the elements of an operand of integers or bools.
func integersOf(a kernels.Arg) []int64 {
	switch a.DType {
	case kernels.Int64:
		return cpu.Slice[int64](a)[:a.Len()]
	case kernels.Int32:
		return convert[int64](cpu.Slice[int32](a)[:a.Len()])
	}
	return convert[int64](cpu.Slice[uint8](a)[:a.Len()])
}

func convert[To, From int64 | float64 | int32 | uint8](v []From) []To {
	converted := make([]To, len(v))
	for i := range v {
		converted[i] = To(v[i])
	}
	return converted
}

// storeIntegers writes v to the result y of an integer type or Bool, whose range holds v.
func storeIntegers(y kernels.Arg, v []int64) {
	switch y.DType {
	case kernels.Int64:
		copy(cpu.Slice[int64](y), v)
	case kernels.Int32:
		copy(cpu.Slice[int32](y), convert[int32](v))
	case kernels.Uint8:
		copy(cpu.Slice[uint8](y), convert[uint8](v))
	case kernels.Bool:
		for i, k := range v {
			cpu.Slice[bool](y)[i] = k != 0
		}
	}
}

// foldRef is the reference of an operation that combines first with one element after the other: floats, or integers
// and bools.
func foldRef(
	first float64, float func(a, b float64) float64, firstInteger int64, integer func(a, b int64) int64,
) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		n := l.Out[0].Len()
		if !l.In[0].DType.IsFloat() {
			y := slices.Repeat([]int64{firstInteger}, n)
			v := integersOf(l.In[0])
			eachReduced(l, func(i, o int) { y[o] = integer(y[o], v[i]) })
			storeIntegers(l.Out[0], y)
			return
		}
		x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
		copy(y, slices.Repeat([]float64{first}, n))
		eachReduced(l, func(i, o int) { y[o] = float(y[o], x[i]) })
	}
}

// eachLine calls f for each line along an axis of a contiguous array, with the offset of its first element, its stride
// and its length n.
func eachLine(shape []int, axis int, f func(start, stride, n int)) {
	n, stride := shape[axis], kernels.Count(shape[axis+1:])
	for outer := range kernels.Count(shape[:axis]) {
		for inner := range stride {
			f(outer*n*stride+inner, stride, n)
		}
	}
}

// reductionSamples are shapes and axes on which reductions are tested.
func reductionSamples(lo, hi float64, empty bool, call func(x *Tensor, axes ...int) *Tensor) []opSample {
	var all []opSample
	sample := func(name string, shape []int, axes ...int) {
		all = append(all, opSample{Name: name, In: []seam.Arg{{Shape: shape, Lo: lo, Hi: hi}},
			Call: func(x []*Tensor) *Tensor { return call(x[0], axes...) }})
	}
	sample("all", []int{2, 3, 4})
	sample("last", []int{3, 5}, -1)
	sample("first", []int{5, 3}, 0)
	sample("middle", []int{2, 3, 4}, 1)
	sample("outer", []int{2, 3, 4}, 2, 0)
	sample("size 1", []int{2, 1, 3}, 1)
	sample("rank 0", nil)
	sample("no results", []int{0, 3}, 1)
	if empty {
		sample("no elements", []int{2, 0}, 1)
	}
	return all
}

// axisSamples are shapes and axes on which operations along one axis are tested.
func axisSamples(lo, hi float64, call func(x *Tensor, axis int) *Tensor) []opSample {
	var all []opSample
	sample := func(name string, axis int, shape ...int) {
		all = append(all, opSample{Name: name, In: []seam.Arg{{Shape: shape, Lo: lo, Hi: hi}},
			Call: func(x []*Tensor) *Tensor { return call(x[0], axis) }})
	}
	sample("rank 1", 0, 5)
	sample("last", -1, 3, 5)
	sample("first", 0, 5, 3)
	sample("middle", 1, 2, 4, 3)
	sample("size 1", 1, 3, 1)
	sample("empty", 1, 0, 4)
	sample("empty axis", 1, 3, 0)
	return all
}
