package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of sort are the axis and descending (0 or 1), those of topk the axis, k, and largest (0 or 1).
var sortOp, topK Op

func init() {
	define(&sortOp, entry{
		Op:   kernels.Op{Name: "sort", CPU: cpu.Sort, Types: kernels.DTypes(), Ref: sortRef(1)},
		Doc:  "the elements of x along an axis in ascending or descending order, and their indices; stable",
		Ints: []string{"axis", "descending"},
		Shape: func(c *ctx) {
			c.result(c.In[0].dtype, c.shape(0)...)
			c.result(Int64, c.shape(0)...)
		},
		VJP:   takenVJP,
		Saves: []saves{saveOut(1)},
		Samples: func() []opSample {
			values := func(x *Tensor, axis int) *Tensor { v, _ := x.Sort(axis, false); return v }
			descending := func(x *Tensor, axis int) *Tensor { v, _ := x.Sort(axis, true); return v }
			all := append(axisSamples(-2, 2, values), axisSamples(-2, 2, descending)[1])
			all = append(all, sortSamples(func(x *Tensor) (v, i *Tensor) { return x.Sort(1, false) })...)
			return append(all, sortSamples(func(x *Tensor) (v, i *Tensor) { return x.Sort(0, true) })...)
		},
		Bench: func() []benchmark {
			return sortBenchmarks(func(x *Tensor) *Tensor { v, _ := x.Sort(-1, false); return v })
		},
	})
	define(&topK, entry{
		Op:   kernels.Op{Name: "topk", CPU: cpu.TopK, Types: kernels.DTypes(), Ref: sortRef(2)},
		Doc:  "the k smallest or largest elements of x along an axis, in order, and their indices",
		Ints: []string{"axis", "k", "largest"},
		Shape: func(c *ctx) {
			axis, k := c.Ints[0], c.Ints[1]
			if n := c.shape(0)[axis]; k < 0 || k > n {
				c.fail(ErrValue, "k is %d, axis %d of %v has %d elements", k, axis, c.In[0], n)
			}
			var buf [kernels.MaxDims]int
			shape := append(buf[:0], c.shape(0)...)
			shape[axis] = k
			c.result(c.In[0].dtype, shape...)
			c.result(Int64, shape...)
		},
		VJP:   takenVJP,
		Saves: []saves{saveOut(1)},
		Samples: func() []opSample {
			least := func(k int) func(x *Tensor) (v, i *Tensor) {
				return func(x *Tensor) (v, i *Tensor) { return x.TopK(k, 1, false) }
			}
			first := axisSamples(-2, 2, func(x *Tensor, axis int) *Tensor {
				v, _ := x.TopK(min(3, x.Dim(axis)), axis, true)
				return v
			})
			return append(append(first, sortSamples(least(2))...), sortSamples(least(0))...)
		},
		Bench: func() []benchmark {
			return sortBenchmarks(func(x *Tensor) *Tensor { v, _ := x.TopK(10, -1, true); return v })
		},
	})
}

// sortSamples are samples of a function on matrices of at least two columns, of its values and of its indices.
func sortSamples(call func(x *Tensor) (values, indices *Tensor)) []opSample {
	var all []opSample
	sample := func(name string, dt DType, values ...float64) {
		in := seam.Arg{Shape: []int{2, len(values) / 2}, DType: dt, Values: values}
		all = append(all,
			opSample{Name: name, In: []seam.Arg{in}, Call: func(x []*Tensor) *Tensor { v, _ := call(x[0]); return v }},
			opSample{Name: name + " indices", In: []seam.Arg{in},
				Call: func(x []*Tensor) *Tensor { _, i := call(x[0]); return i }})
	}
	sample("numbers", Float32, 0.5, -2, 1.5, -0.25, 3, 2.5, 1, -1, 0.75, -3)
	sample("ties", Int64, 2, -1, 2, 0, -1, 2, 7, 7, 7, 7, -7, 7)
	return all
}

// sortBenchmarks are one long row, and rows of 1000.
func sortBenchmarks(call func(x *Tensor) *Tensor) []benchmark {
	bench := func(name string, shape ...int) benchmark {
		return benchmark{Name: name, In: []seam.Arg{{Shape: shape, Lo: -1, Hi: 1}},
			Call: func(x []*Tensor) *Tensor { return call(x[0]) }}
	}
	return []benchmark{bench("a row of 1000000", 1000000), bench("1000 rows of 1000", 1000, 1000)}
}

// takenVJP is the gradient of elements of the first operand, taken along axis Ints[0] at the indices of the second
// output: it adds the gradients to zeros there.
func takenVJP(c *ctx, g *Tensor) []*Tensor {
	return []*Tensor{apply(&scatterAdd, []*Tensor{c.zeros(0), c.Out[1], g}, c.Ints[:1], nil)}
}

// Sort is the elements along an axis in ascending or descending order, and their indices (int64). Equal elements stay
// in their order. A NaN counts as larger than any number: it is last, and first in descending order. The gradient goes
// back to where the elements come from.
func (t *Tensor) Sort(axis int, descending bool) (values, indices *Tensor) {
	t.given("sort")
	out := applyAll(&sortOp, []*Tensor{t}, []int{t.axis("sort", axis), toInt(descending)}, nil)
	return out[0], out[1]
}

// ArgSort is the indices of [Tensor.Sort].
func (t *Tensor) ArgSort(axis int, descending bool) *Tensor {
	_, indices := t.Sort(axis, descending)
	return indices
}

// TopK is the k largest elements along an axis in descending order, or the k smallest in ascending order, and their
// indices (int64): what [Tensor.Sort] begins with, found without sorting the others.
func (t *Tensor) TopK(k, axis int, largest bool) (values, indices *Tensor) {
	return t.topK(&topK, k, axis, largest)
}

func (t *Tensor) topK(op *Op, k, axis int, largest bool) (values, indices *Tensor) {
	t.given(op.Name)
	out := applyAll(op, []*Tensor{t}, []int{t.axis(op.Name, axis), k, toInt(largest)}, nil)
	return out[0], out[1]
}

// KthValue is the k-th smallest element along an axis, k from 1 on, and its index, that of [Tensor.Sort]. The axis
// disappears, or with [KeepDims] has size 1.
func (t *Tensor) KthValue(k, axis int, keep ...int) (values, indices *Tensor) {
	const op = "kthvalue"
	axis = t.axis(op, axis)
	kept := keeps(op, axis, keep)
	if n := t.layout.Shape[axis]; k < 1 || k > n {
		fail(ErrValue, op, "k is %d, outside [1, %d]: axis %d of %v", k, n, axis, t)
	}
	values, indices = t.topK(topK.under(op), k, axis, false)
	last := func(x *Tensor) *Tensor {
		if x = x.Slice(axis, k-1, k); kept {
			return x
		}
		return x.Squeeze(axis)
	}
	return last(values), last(indices)
}

// Median is the median along an axis, the lower of both for an even number of elements, and its index. A NaN makes the
// result NaN. The axis disappears, or with [KeepDims] has size 1.
func (t *Tensor) Median(axis int, keep ...int) (values, indices *Tensor) {
	const op = "median"
	axis = t.axis(op, axis)
	kept := keeps(op, axis, keep)
	n := t.layout.Shape[axis]
	if n == 0 {
		fail(ErrShape, op, "%v has no elements along axis %d", t, axis)
	}
	_, indices = t.topK(topK.under(op), (n+1)/2, axis, false)
	indices = indices.Slice(axis, -1, End)
	if t.dtype.IsFloat() { // argmax finds a NaN
		top := t.ArgMax(axis, KeepDims)
		indices = t.Gather(axis, top).IsNaN().Where(top, indices)
	}
	if values = t.Gather(axis, indices); !kept {
		values, indices = values.Squeeze(axis), indices.Squeeze(axis)
	}
	return values, indices
}

// interpolations say what lies a fraction of the way from the lower neighbour to the upper one: another fraction.
var interpolations = map[string]func(fraction float64) float64{
	"linear":   func(f float64) float64 { return f },
	"lower":    func(float64) float64 { return 0 },
	"higher":   math.Ceil,
	"midpoint": func(f float64) float64 { return math.Ceil(f) / 2 },
}

// Quantile is, for each number of q from 0 to 1, the element along an axis at the place q*(n-1) of n sorted ones.
// Between two elements the interpolation decides: "linear", "lower", "higher", "midpoint" or "nearest", where half a
// place rounds to even. A NaN makes the result NaN. The numbers of q are the leading axis of the result; the given axis
// disappears.
func (t *Tensor) Quantile(q []float64, axis int, interpolation string) *Tensor {
	const op = "quantile"
	axis = t.axis(op, axis)
	n, between := t.layout.Shape[axis], interpolations[interpolation]
	switch {
	case !t.dtype.IsFloat():
		fail(ErrDType, op, "%v must hold floating numbers; x.To(tensor.Float32) converts", t)
	case n == 0:
		fail(ErrShape, op, "%v has no elements along axis %d", t, axis)
	case len(q) == 0:
		fail(ErrValue, op, "q is empty")
	case between == nil && interpolation != "nearest":
		fail(ErrValue, op, "interpolation %q is none of linear, lower, higher, midpoint, nearest", interpolation)
	}
	sorted, _ := t.Sort(axis, false)
	quantiles := make([]*Tensor, len(q))
	for i, p := range q {
		if !(p >= 0 && p <= 1) {
			fail(ErrValue, op, "q %g is outside [0, 1]", p)
		}
		place := p * float64(n-1)
		if interpolation == "nearest" {
			place = math.RoundToEven(place)
		}
		below := math.Floor(place)
		y := sorted.Select(axis, int(below))
		if place > below {
			above := sorted.Select(axis, int(below)+1)
			switch f := between(place - below); f {
			case 0:
			case 1:
				y = above
			default:
				y = y.Lerp(above, Full(f, t.dtype))
			}
		}
		quantiles[i] = y
	}
	last := sorted.Select(axis, n-1) // NaN, if there is one
	return last.IsNaN().Where(last, Stack(0, quantiles...))
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sortRef sorts lines; attribute `order` says whether in descending order.
func sortRef(order int) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		switch descending := l.Ints[order] == 1; l.In[0].DType {
		case kernels.Float64:
			sortRefOf[float64](l, descending)
		case kernels.Int64:
			sortRefOf[int64](l, descending)
		case kernels.Int32:
			sortRefOf[int32](l, descending)
		default: // Uint8 and Bool
			sortRefOf[uint8](l, descending)
		}
	}
}

func sortRefOf[T float64 | int64 | int32 | uint8](l *kernels.Launch, descending bool) {
	x, y, at := cpu.Slice[T](l.In[0]), cpu.Slice[T](l.Out[0]), cpu.Slice[int64](l.Out[1])
	axis := l.Ints[0]
	k := l.Out[0].Shape[axis]
	eachLine(l.In[0].Shape, axis, func(start, stride, n int) {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			a, b := x[start+i*stride], x[start+j*stride]
			if descending {
				a, b = b, a
			}
			return toInt(nanLess(b, a)) - toInt(nanLess(a, b))
		})
		first := start/(n*stride)*k*stride + start%stride
		for i, from := range order[:k] {
			y[first+i*stride], at[first+i*stride] = x[start+from*stride], int64(from)
		}
	})
}

// nanLess is a < b, where NaN is larger than any number.
func nanLess[T float64 | int64 | int32 | uint8](a, b T) bool { return a < b || a == a && b != b }
