package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// This file has what chooses and counts elements by their values, or by several indices. Where the size of a result
// depends on the data, the operation waits for the device.

// Nonzero is the indices of the elements that are not zero, in row-major order: int64 [count rank]. A NaN is not zero.
// It waits for the device, since the count depends on the data.
func (t *Tensor) Nonzero() *Tensor {
	t.given("nonzero")
	rest, shape := t.truths("nonzero"), t.layout.Shape
	if len(shape) == 0 {
		return rest.Reshape(rest.Len(), 1).Slice(1, 0, 0)
	}
	axes := make([]*Tensor, len(shape))
	for axis := range axes {
		axes[axis] = rest
		if size := kernels.Count(shape[axis+1:]); size > 1 { // else all that is left is along this axis
			axes[axis] = rest.scalar(wholes, float64(size))
			rest = rest.Sub(axes[axis].Scale(float64(size)))
		} else if axis+1 < len(axes) {
			rest = t.constant(0, Int64, rest.Len())
		}
	}
	return Stack(1, axes...)
}

// wholes is how many times n is in integers x that are not negative.
var wholes = newPointwise("nonzero", expr.Must("x/n", []string{"x"}, []string{"n"}), sameType)

// truths is the numbers of the elements that are not zero, in row-major order. It waits for the device.
func (t *Tensor) truths(op string) *Tensor {
	n := t.Len()
	numbers := indexAlong([]int{n}, 0)
	if n == 0 {
		return numbers
	}
	chosen := t.Detach().Reshape(n)
	if t.dtype != Bool {
		chosen = chosen.NotEqualScalar(0)
	}
	upTo := chosen.CumSum(0)
	places := chosen.Where(upTo, Of(int64(0))) // those that are not chosen go to the first, which nobody reads
	found := t.constant(0, Int64, n+1).scatter(scatter.under(op), 0, places, numbers)
	return found.Slice(0, 1, 1+int(upTo.Slice(0, -1, End).Item()))
}

// constant is all elements equal to v, or as close as integers can be: in the step and on the device of t, or host data
// as t.
func (t *Tensor) constant(v float64, dt DType, shape ...int) *Tensor {
	x := Of(v).To(dt)
	if s := t.scope; s != nil {
		x = s.beside(t, func() *Tensor { return s.In(x) })
	}
	return x.Expand(shape...)
}

// MaskedSelect is the elements of t where the mask, bools, is true, in row-major order, on one axis. Operands
// broadcast. It waits for the device, since their count depends on the data.
func (t *Tensor) MaskedSelect(mask *Tensor) *Tensor {
	const op = "masked_select"
	t.given(op)
	if mask.given(op).dtype != Bool {
		fail(ErrDType, op, "mask %v must hold bools; comparisons make them", mask)
	}
	shape := broadcast(op, t.layout.Shape, mask.layout.Shape)
	x := t.Expand(shape...)
	return x.Reshape(x.Len()).IndexSelect(0, mask.Expand(shape...).truths(op))
}

// IndexBy is the elements of t at several indices, one tensor for each of the first axes: x[i, j] elsewhere. The
// common shape to which they broadcast replaces these axes. The rules are those of [Tensor.IndexSelect].
func (t *Tensor) IndexBy(indices ...*Tensor) *Tensor {
	flat, at := t.flatIndex("index_by", indices)
	return flat.IndexSelect(0, at)
}

// IndexPut is t with the elements that [Tensor.IndexBy] reads set to y, which broadcasts to them, or with y added to
// them if accumulate is set. Where indices occur several times, the last y stays, and all are added, in row-major
// order.
func (t *Tensor) IndexPut(indices []*Tensor, y *Tensor, accumulate bool) *Tensor {
	const op = "index_put"
	flat, at := t.flatIndex(op, indices)
	rest := flat.layout.Shape[1:]
	y = y.given(op).Expand(slices.Concat(at.layout.Shape, rest)...)
	if accumulate {
		flat = applyIndexed(indexAdd.under(op), []*Tensor{flat, at, y}, 0)
	} else {
		n := at.Len()
		y = y.Reshape(slices.Concat([]int{n}, rest)...)
		at = at.Reshape(append([]int{n}, slices.Repeat([]int{1}, len(rest))...)...).Expand(y.layout.Shape...)
		flat = flat.scatter(scatter.under(op), 0, at, y)
	}
	return flat.Reshape(t.layout.Shape...)
}

// flatIndex makes one axis of the first axes of t, one for each of the indices, and one index along it of these.
func (t *Tensor) flatIndex(op string, indices []*Tensor) (flat, at *Tensor) {
	t.given(op)
	count := len(indices)
	if count < 1 || count > t.Rank() {
		fail(ErrShape, op, "%d tensors of indices are given, %v has %d axes", count, t, t.Rank())
	}
	shape, stride := t.layout.Shape, 1
	for axis := count - 1; axis >= 0; axis-- { // multiples of the stride, which refuse indices outside the axis
		index := indices[axis].given(op)
		lead := min(axis, kernels.MaxDims-index.Rank()) // axes before it, for the name in errors
		multiples := Arange(Int64, 0, float64(shape[axis]), 1).Scale(float64(stride))
		multiples = multiples.Reshape(append(slices.Repeat([]int{1}, lead), shape[axis])...)
		part := applyIndexed(indexSelect.under(op), []*Tensor{multiples, index}, lead)
		part = part.Reshape(index.layout.Shape...)
		if at != nil {
			broadcast(op, part.layout.Shape, at.layout.Shape)
			part = part.Add(at)
		}
		at, stride = part, stride*shape[axis]
	}
	return t.Reshape(slices.Concat([]int{stride}, shape[count:])...), at
}

// Unique is the different elements of t in ascending order on one axis, the index of each element of t among them
// (int64, of t's shape), and how often each occurs (int64). Every NaN is different from the others. No gradient flows.
// It waits for the device, since their number depends on the data.
//
// With an axis it is the different entries along this axis, slices of all others that have elements, ordered by their
// first elements, then by the second ones, and so on; there is one index for each entry.
func (t *Tensor) Unique(axis ...int) (values, inverse, counts *Tensor) {
	const op = "unique"
	t = t.given(op).Detach()
	shape, along, entries := t.layout.Shape, 0, t.Reshape(t.Len())
	keys := entries
	switch {
	case len(axis) > 1:
		fail(ErrValue, op, "takes one axis or none, got %v", axis)
	case len(axis) == 1:
		along = t.axis(op, axis[0])
		entries, keys, shape = t, t.keys(op, along), shape[along:along+1]
	}
	n := keys.Len()
	sorted, order := keys.Sort(0, false)
	first := changes(sorted)
	starts := first.truths(op)
	inverse = t.constant(0, Int64, n).Scatter(0, order, first.CumSum(0).AddScalar(-1)).Reshape(shape...)
	ends := Cat(0, starts.Slice(0, 1, End), t.constant(float64(n), Int64, min(n, 1)))
	return entries.IndexSelect(along, order.IndexSelect(0, starts)), inverse, ends.Sub(starts)
}

// keys is a number for each entry of t along an axis, with the order and equality of the entries. Neighbouring elements
// of an entry become one, their numbers among those of all entries as two digits, until there is one.
func (t *Tensor) keys(op string, axis int) *Tensor {
	n := t.layout.Shape[axis]
	if n > 0 && t.Len() == 0 {
		fail(ErrShape, op, "entries of %v along axis %d have no elements", t, axis)
	}
	axes := []int{axis}
	for i := range t.Rank() {
		if i != axis {
			axes = append(axes, i)
		}
	}
	keys := t.Permute(axes...).Reshape(n, t.Len()/max(n, 1))
	for width := keys.Dim(1); width > 1; width = keys.Dim(1) {
		sorted, order := keys.Sort(0, false)
		numbers := t.constant(0, Int64, n, width).Scatter(0, order, changes(sorted).CumSum(0).AddScalar(-1))
		digits := numbers.Pad(0, [2]int{}, [2]int{0, width % 2}).Reshape(n, (width+1)/2, 2)
		keys = digits.Select(2, 0).Scale(float64(n)).Add(digits.Select(2, 1))
	}
	return keys.Reshape(n)
}

// changes tells of each entry along the first axis of t, which is sorted, whether it differs from the one before it;
// the first does.
func changes(t *Tensor) *Tensor {
	shape := slices.Clone(t.layout.Shape)
	shape[0] = min(shape[0], 1)
	first := t.constant(1, Bool, shape...)
	if t.layout.Shape[0] < 2 {
		return first
	}
	return Cat(0, first, t.Slice(0, 1, End).NotEqual(t.Slice(0, 0, -1)))
}

// BinCount counts the integers 0, 1, ... among the elements of t: int64 with at least minLength elements, and as many
// as the largest integer needs. With weights, of t's shape, it adds these up in place of ones; nil: none. Negative
// integers are refused. It waits for the device, since the length depends on the data.
func (t *Tensor) BinCount(weights *Tensor, minLength int) *Tensor {
	const op = "bincount"
	t.given(op)
	switch {
	case t.dtype.IsFloat() || t.dtype == Bool:
		fail(ErrDType, op, "%v must hold integers", t)
	case minLength < 0:
		fail(ErrValue, op, "the least length is %d", minLength)
	case weights != nil && !sameShape(t, weights):
		fail(ErrShape, op, "%v and the weights %v must have one shape", t, weights)
	}
	n := t.Len()
	if n > 0 {
		minLength = max(minLength, int(min(t.Max().Item(), kernels.MaxLen))+1)
	}
	if weights == nil {
		weights = t.constant(1, Int64, n)
	}
	of := t
	if t.scope == nil {
		of = weights
	}
	counts := of.constant(0, weights.dtype, minLength)
	return applyIndexed(indexAdd.under(op), []*Tensor{counts, t.Reshape(n), weights.Reshape(n)}, 0)
}

// Histc counts the elements of t in bins of equal width from low to high, both included; others, and NaN, are in none:
// [bins] in the type of t, which is floating. If both bounds are 0, those are the smallest and the largest element, for
// which it waits; bounds that are equal are moved 1 apart from their middle.
func (t *Tensor) Histc(bins int, low, high float64) *Tensor {
	const op = "histc"
	t.given(op)
	if !t.dtype.IsFloat() {
		fail(ErrDType, op, "%v must hold floating numbers; x.To(tensor.Float32) converts", t)
	}
	if bins < 1 {
		fail(ErrValue, op, "%d bins", bins)
	}
	x := t.Detach().Reshape(t.Len())
	if low == 0 && high == 0 && x.Len() > 0 {
		low, high = x.Min().Item(), x.Max().Item()
	}
	if low == high {
		low, high = low-1, high+1
	}
	if !(high-low > 0 && high-low <= math.MaxFloat64) {
		fail(ErrValue, op, "bins from %g to %g", low, high)
	}
	inside := x.GreaterEqualScalar(low).And(x.LessEqualScalar(high))
	wide := statistic(t.dtype)
	if wide == Float32 && high-low > math.MaxFloat32 {
		wide = Float64
	}
	place := x.To(wide).AddScalar(-low).Div(Of(high-low).To(wide)).Scale(float64(bins)).Clamp(0, float64(bins-1))
	return t.constant(0, t.dtype, bins).ScatterAdd(0, place.To(Int64), inside.To(t.dtype))
}
