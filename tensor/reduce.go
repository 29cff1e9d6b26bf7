package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// What operations that reduce axes have in common. Their attributes Ints are the reduced axes, ascending.

// reduce applies op over the given axes, all axes if there are none; negative axes count from the end.
func (t *Tensor) reduce(op *Op, axes []int, floats ...float64) *Tensor {
	return Apply(op, []*Tensor{t}, t.axes(op.Name, axes), floats)
}

// axes makes a list of axes ascending indices of the shape; an empty list stands for all axes.
func (t *Tensor) axes(op string, axes []int) []int {
	t.alive(op)
	var sorted []int
	for _, a := range axes {
		a = t.axis(op, a)
		if slices.Contains(sorted, a) {
			Fail(ErrShape, op, "axis %d of %v is named twice in %v", a, t, axes)
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

// keep gives y, the result of reducing t over axes, these axes back with size 1.
func (t *Tensor) keep(y *Tensor, axes []int) *Tensor {
	return y.Reshape(keptShape(t.layout.Shape, t.axes("keep", axes))...)
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
func (c *Ctx) unreduce(y *Tensor) *Tensor {
	shape := c.Shape(0)
	return y.Reshape(keptShape(shape, c.Ints)...).Expand(shape...)
}

// count is the number of elements that become one.
func (c *Ctx) count() int {
	n := 1
	for _, a := range c.Ints {
		n *= c.Shape(0)[a]
	}
	return n
}

// reduced adds an output that lacks the reduced axes.
func (c *Ctx) reduced(dt DType) {
	var buf [kernels.MaxDims]int
	shape := buf[:0]
	for a, d := range c.Shape(0) {
		if !slices.Contains(c.Ints, a) {
			shape = append(shape, d)
		}
	}
	c.result(dt, shape)
}

// accumulated is the type of sums and products: integers and truth values add up to int64.
func accumulated(dt DType) DType {
	if dt.IsFloat() {
		return dt
	}
	return Int64
}

// averaged is the type of means: float32 for integers and truth values.
func averaged(dt DType) DType {
	if dt.IsFloat() {
		return dt
	}
	return Float32
}

// eachReduced calls f for each element i of the first operand, in row-major order, with the element o of the
// result that it belongs to. Reference kernels use it.
func eachReduced(l *kernels.Launch, f func(i, o int)) {
	shape := l.In[0].Shape
	var index, step [kernels.MaxDims]int
	width := 1
	for a := len(shape) - 1; a >= 0; a-- {
		if !slices.Contains(l.Ints, a) {
			step[a] = width
			width *= shape[a]
		}
	}
	o := 0
	for i := range kernels.Count(shape) {
		f(i, o)
		for a := len(shape) - 1; a >= 0; a-- {
			o += step[a]
			if index[a]++; index[a] < shape[a] {
				break
			}
			o -= index[a] * step[a]
			index[a] = 0
		}
	}
}

// reductionSamples are shapes and axes on which reductions are tested.
func reductionSamples(lo, hi float64, empty bool, call func(x *Tensor, axes ...int) *Tensor) []Sample {
	var all []Sample
	sample := func(name string, shape []int, axes ...int) {
		all = append(all, Sample{Name: name, In: []Arg{{Shape: shape, Lo: lo, Hi: hi}},
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
		sample("of nothing", []int{2, 0}, 1)
	}
	return all
}
