package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of these operations is the axis.
var scatter, scatterProd, scatterMax, scatterMin Op

func init() {
	scattering(&scatter, "scatter", "x with its element [indices[i, j, ..], j, ..] set to y[i, j, ..] for axis 0, ...",
		kernels.Op{CPU: cpu.Scatter, Types: kernels.DTypes(), Ref: scatterRef(
			func(_, v float64) float64 { return v }, func(_, v int64) int64 { return v })},
		scatterVJP, 0, saveIn(1), saveIn(1))
	scattering(&scatterProd, "scatter_prod", "likewise, with its elements multiplied by y[i, j, ..]",
		kernels.Op{CPU: cpu.ScatterProd, Ref: scatterRef(multiply[float64], multiply[int64])},
		scatterProdVJP, 1, saveIn(0, 1, 2), saveIn(0, 1, 2))
	scattering(&scatterMax, "scatter_max", "likewise, with the larger of it and y[i, j, ..]",
		kernels.Op{CPU: cpu.ScatterMax, Ref: scatterRef(firstLarger[float64], firstLarger[int64])},
		scatterExtremeVJP, 1, saveIn(0, 1, 2)|saveOut(0), saveIn(0, 1, 2)|saveOut(0))
	scattering(&scatterMin, "scatter_min", "likewise, with the smaller of it and y[i, j, ..]",
		kernels.Op{CPU: cpu.ScatterMin, Ref: scatterRef(firstSmaller[float64], firstSmaller[int64])},
		scatterExtremeVJP, 1, saveIn(0, 1, 2)|saveOut(0), saveIn(0, 1, 2)|saveOut(0))
}

// scattering defines an operation that combines elements of x with those of y that have their indices.
func scattering(o *Op, name, doc string, k kernels.Op, vjp func(c *ctx, g *Tensor) []*Tensor, low float64,
	x, y saves) {
	k.Name = name
	define(o, entry{
		Op:    k,
		Cast:  seam.CastWidest,
		Doc:   doc,
		Args:  []string{"x", "indices", "y"},
		Ints:  []string{"axis"},
		Shape: scatterShape,
		VJP:   vjp,
		Saves: []saves{x, 0, y},
		Samples: func() []opSample {
			return gatherSamples(func(name string, x []int, axis int, shape []int, indices ...float64) opSample {
				in := []seam.Arg{{Shape: x, Lo: low - 1, Hi: low + 1}, indexArg(shape, indices...),
					{Shape: shape, Lo: low - 1, Hi: low + 1}}
				if low > 0 { // away from zero, where divisions lose digits
					in[0].Lo, in[2].Lo = 0.5, 0.5
				}
				return opSample{Name: name, In: in,
					Call: func(x []*Tensor) *Tensor { return x[0].scatter(o, axis, x[1], x[2]) }}
			})
		},
	})
}

func scatterShape(c *ctx) {
	c.wantAlong(0, 1)
	if x, y := c.In[0], c.In[2]; x.dtype != y.dtype {
		c.fail(ErrDType, "x %v and y %v must have one type; x.To(...) converts", x, y)
	}
	if !sameShape(c.In[1], c.In[2]) {
		c.fail(ErrShape, "indices %v and y %v must have one shape", c.In[1], c.In[2])
	}
	c.result(c.In[0].dtype, c.shape(0)...)
}

// Scatter is t with its element [indices[i, j, ..], j, ..] set to y[i, j, ..] for axis 0, and so on for other axes. Of
// elements of y that go to one element of t the last in row-major order stays, and it alone gets the gradient. indices
// has the shape of y and the rules of [Tensor.Gather].
func (t *Tensor) Scatter(axis int, indices, y *Tensor) *Tensor {
	return t.scatter(&scatter, axis, indices, y)
}

func (t *Tensor) scatter(op *Op, axis int, indices, y *Tensor) *Tensor {
	return applyIndexed(op, []*Tensor{t, indices, y}, t.axis(op.Name, axis))
}

// ScatterReduce joins, for each element of t, the elements of y whose index along an axis leads to it, as in
// [Tensor.Scatter], by "sum", "prod", "mean", "amax" or "amin", PyTorch's names: in row-major order, the element of t
// first if includeSelf is set. Where none leads to it, an element stays. Equal extremes share the gradient; means of
// integers round down.
func (t *Tensor) ScatterReduce(axis int, indices, y *Tensor, reduction string, includeSelf bool) *Tensor {
	const op = "scatter_reduce"
	axis = t.axis(op, axis)
	indices.given(op)
	identity, ok := map[string]float64{
		"sum": 0, "prod": 1, "mean": 0, "amax": math.Inf(-1), "amin": math.Inf(1)}[reduction]
	switch {
	case !ok:
		fail(ErrValue, op, "reduction %q is none of sum, prod, mean, amax, amin", reduction)
	case t.dtype == Bool && reduction != "amax" && reduction != "amin":
		fail(ErrDType, op, "%v must hold numbers; x.To(...) converts", t)
	}
	if t.dtype == Bool && reduction == "amax" {
		identity = 0 // -Inf is true
	}
	if reduction == "mean" && t.dtype.IsHalf() {
		y.given(op)
		return t.inFloat32(func(wide *Tensor) *Tensor {
			return wide.ScatterReduce(axis, indices, y.To(Float32), reduction, includeSelf)
		})
	}
	x := t
	if !includeSelf {
		x = t.scatter(scatter.under(op), axis, indices, t.constant(identity, t.dtype, indices.layout.Shape...))
	}
	switch reduction {
	case "prod":
		return x.scatter(scatterProd.under(op), axis, indices, y)
	case "amax":
		return x.scatter(scatterMax.under(op), axis, indices, y)
	case "amin":
		return x.scatter(scatterMin.under(op), axis, indices, y)
	}
	sum := x.scatter(scatterAdd.under(op), axis, indices, y)
	if reduction == "sum" {
		return sum
	}
	count := t.constant(float64(toInt(includeSelf)), Int64, t.layout.Shape...).
		ScatterAdd(axis, indices, t.constant(1, Int64, indices.layout.Shape...))
	if count = count.Maximum(Of[int64](1)).To(t.dtype); t.dtype.IsFloat() {
		return sum.Div(count)
	}
	return sum.FloorDiv(count)
}

// scatterVJP gives nothing to elements of x that are set, and to y what reaches the elements that it has set last.
func scatterVJP(c *ctx, g *Tensor) []*Tensor {
	grads, indices := make([]*Tensor, 3), c.In[1]
	if c.needs(0) {
		grads[0] = apply(&scatter, []*Tensor{g, indices, c.zeros(2)}, c.Ints, nil)
	}
	if c.needs(2) {
		number := indexAlong([]int{indices.Len()}, 0).Reshape(indices.Shape()...)
		last := g.constant(0, Int64, g.layout.Shape...).Scatter(c.Ints[0], indices, number)
		overwritten := last.Gather(c.Ints[0], indices).NotEqual(number)
		grads[2] = g.Gather(c.Ints[0], indices).MaskedFill(overwritten, 0)
	}
	return grads
}

// scatterProdVJP multiplies the gradient by the product of the other factors of an element: that of all factors but
// zeros, divided by the factor, or 0 if there is another zero. If this is the only one, the second derivative by it is
// not 0.
func scatterProdVJP(c *ctx, g *Tensor) []*Tensor {
	x, indices, y, axis := c.In[0], c.In[1], c.In[2], c.Ints[0]
	isZero := func(v *Tensor) *Tensor { return v.EqualScalar(0) }
	zeros := isZero(x).To(Int64).ScatterAdd(axis, indices, isZero(y).To(Int64))
	product := x.MaskedFill(isZero(x), 1).scatter(&scatterProd, axis, indices, y.MaskedFill(isZero(y), 1))
	onlyZeros := func(v *Tensor) *Tensor { return v.MaskedFill(isZero(v).Not(), 0) }
	var sum *Tensor // of the zeros: 0, with their derivatives
	if g.scope.recording() {
		sum = onlyZeros(x).ScatterAdd(axis, indices, onlyZeros(y))
	}
	others := func(v *Tensor, at func(t *Tensor) *Tensor) *Tensor { // at finds what belongs to the elements of v
		other, most := at(zeros).Sub(isZero(v).To(Int64)), at(product).Div(v.MaskedFill(isZero(v), 1))
		all := most.MaskedFill(other.GreaterScalar(0), 0)
		if sum == nil {
			return all
		}
		return all.Add(most.MaskedFill(other.NotEqualScalar(1), 0).Mul(at(sum).Sub(onlyZeros(v))))
	}
	grads := make([]*Tensor, 3)
	if c.needs(0) {
		grads[0] = g.Mul(others(x, func(t *Tensor) *Tensor { return t }))
	}
	if c.needs(2) {
		gather := func(t *Tensor) *Tensor { return t.Gather(axis, indices) }
		grads[2] = gather(g).Mul(others(y, gather))
	}
	return grads
}

// scatterExtremeVJP shares the gradient evenly among the elements that equal the result.
func scatterExtremeVJP(c *ctx, g *Tensor) []*Tensor {
	x, indices, y, axis, out := c.In[0], c.In[1], c.In[2], c.Ints[0], c.Out[0]
	inX, inY := x.Equal(out).To(g.dtype), y.Equal(out.Gather(axis, indices)).To(g.dtype)
	share := g.Div(inX.ScatterAdd(axis, indices, inY))
	grads := make([]*Tensor, 3)
	if c.needs(0) {
		grads[0] = share.Mul(inX)
	}
	if c.needs(2) {
		grads[2] = share.Gather(axis, indices).Mul(inY)
	}
	return grads
}

// firstLarger is the larger of two numbers, the first of equal ones; NaN if one is.
func firstLarger[T float64 | int64](a, b T) T {
	if b > a || b != b {
		return b
	}
	return a
}

// firstSmaller is the smaller of two numbers, the first of equal ones; NaN if one is.
func firstSmaller[T float64 | int64](a, b T) T {
	if b < a || b != b {
		return b
	}
	return a
}

// scatterRef combines elements of a copy of the first operand with those of the third, in row-major order: floats, or
// integers and bools.
func scatterRef(float func(a, b float64) float64, integer func(a, b int64) int64) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		offset := offsetAlong(l)
		if !l.In[0].DType.IsFloat() {
			y, v := slices.Clone(integersOf(l.In[0])), integersOf(l.In[2])
			eachIndex(l.In[2].Shape, func(i int, index []int) {
				at := offset(index)
				y[at] = integer(y[at], v[i])
			})
			storeIntegers(l.Out[0], y)
			return
		}
		y, v := cpu.Slice[float64](l.Out[0]), cpu.Slice[float64](l.In[2])
		copy(y, cpu.Slice[float64](l.In[0])[:l.In[0].Len()])
		eachIndex(l.In[2].Shape, func(i int, index []int) {
			at := offset(index)
			y[at] = float(y[at], v[i])
		})
	}
}
