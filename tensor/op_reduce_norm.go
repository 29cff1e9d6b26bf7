package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
)

// The terms and the root of norms. Where x is 0 they have their limit and no derivative: the chain rule would multiply
// an infinite one by 0.
var (
	normTermOp = pointwise{
		name: "norm_term", expr: "where(x == 0, zero, pow(abs(where(x == 0, 1, x)), p))", scalars: "p zero",
		lo: 0.2, hi: 3, cast: seam.CastFull,
	}.op()
	normRootOp = pointwise{
		name: "norm_root", expr: "where(x == 0, zero, pow(where(x == 0, 1, x), 1/p))", scalars: "p zero",
		lo: 0.2, hi: 3, cast: seam.CastFull,
	}.op()
)

// Norm is the p-norm sum(|x|^p)^(1/p) over the given axes, which disappear, or over all axes if none are given: for
// p = +Inf the largest |x|, for -Inf the smallest, for 0 the number of elements that are not 0. Negative axes count
// from the end. The gradient at 0 is 0; elements that tie for an infinite norm share it. The norm of float16 and
// bfloat16 is float32; that of no elements is 0, and an error for infinite p.
func (t *Tensor) Norm(p float64, axes ...int) *Tensor {
	const op = "norm"
	t.given(op)
	if !t.dtype.IsFloat() {
		fail(ErrDType, op, "%v must be of a floating type; x.To(tensor.Float32) converts", t)
	}
	if math.IsNaN(p) {
		fail(ErrValue, op, "p is NaN")
	}
	x := t.To(statistic(t.dtype))
	switch {
	case p == 2:
		return apply1(rootOp, x.SumSquares(nil, axes...))
	case p == 1:
		return x.Abs().Sum(axes...)
	case p == 0:
		return x.NotEqualScalar(0).To(x.dtype).Sum(axes...)
	case math.IsInf(p, 1):
		return x.Abs().Max(axes...)
	case math.IsInf(p, -1):
		return x.Abs().Min(axes...)
	}
	zero, root := 0.0, 0.0
	if p < 0 { // 0^p is infinite, and a sum of 0 has only infinities
		zero, root = math.Inf(1), math.Inf(1)
	}
	return x.scalar(normTermOp, p, zero).Sum(axes...).scalar(normRootOp, p, root)
}

// CosineSimilarity is the cosine of the angle between vectors along an axis, which disappears: x·y over the product of
// their norms, each held above eps, which is 1e-8 in PyTorch; x is t. Operands broadcast.
func (t *Tensor) CosineSimilarity(y *Tensor, axis int, eps float64) *Tensor {
	const op = "cosine_similarity"
	t.given(op)
	shape := broadcast(op, t.layout.Shape, y.given(op).layout.Shape)
	x, y := t.Expand(shape...), y.Expand(shape...)
	axis = x.axis(op, axis)
	unit := func(v *Tensor) *Tensor { return v.Div(v.Norm(2, axis, KeepDims).Clamp(eps, math.Inf(1))) }
	return unit(x).Mul(unit(y)).Sum(axis)
}

// PairwiseDistance is the p-norm of x - y + eps over the last axis, which disappears, or with [KeepDims] has size 1; x
// is t. PyTorch has p = 2 and eps = 1e-6. Operands broadcast.
func (t *Tensor) PairwiseDistance(y *Tensor, p, eps float64, keep ...int) *Tensor {
	const op = "pairwise_distance"
	t, y = t.given(op).To(statistic(t.dtype)), y.given(op).To(statistic(y.dtype))
	return t.Sub(y).AddScalar(eps).Norm(p, append([]int{-1}, keep...)...)
}

// Cdist is the distance, the p-norm of the difference, of each row of t, [... P M], from each of y, [... R M]: [... P
// R]. Leading axes broadcast. The gradient between equal rows is 0.
//
// For p = 2 and more than 25 rows on a side it is a matrix product, of rows less their mean: the error of a squared
// distance is then relative to the squares of both distances from the mean. Otherwise all differences are formed.
func (t *Tensor) Cdist(y *Tensor, p float64) *Tensor {
	const op = "cdist"
	t.given(op)
	y.given(op)
	if t.Rank() < 2 || y.Rank() < 2 || t.Dim(-1) != y.Dim(-1) {
		fail(ErrShape, op, "x %v and y %v must be [... rows width] with one width", t, y)
	}
	if !(p >= 0) {
		fail(ErrValue, op, "p is %v, must be 0 or more", p)
	}
	t, y = t.To(statistic(t.dtype)), y.To(statistic(y.dtype))
	if p != 2 || t.Dim(-2) <= 25 && y.Dim(-2) <= 25 {
		return t.Unsqueeze(-2).Sub(y.Unsqueeze(-3)).Norm(p, -1)
	}
	centre := y.Detach().Mean(-2, KeepDims)
	x, y := t.Sub(centre), y.Sub(centre)
	squares := x.SumSquares(nil, -1).Unsqueeze(-1).Add(y.SumSquares(nil, -1).Unsqueeze(-2))
	return apply1(rootOp, squares.Sub(x.MatMul(y.Transpose(-1, -2)).Scale(2)).Clamp(0, math.Inf(1)))
}

// Renorm scales each part of t along an axis whose p-norm is above maxNorm down to it; rank is at least 2 and p
// positive.
func (t *Tensor) Renorm(p float64, axis int, maxNorm float64) *Tensor {
	const op = "renorm"
	axis = t.axis(op, axis)
	if t.Rank() < 2 || !(p > 0 && maxNorm >= 0) {
		fail(ErrValue, op, "%v must have 2 axes or more, p %v be positive, and the norm %v not be negative", t, p,
			maxNorm)
	}
	others := []int{KeepDims}
	for a := range t.Rank() {
		if a != axis {
			others = append(others, a)
		}
	}
	norm := t.Norm(p, others...)
	within := norm.GreaterScalar(maxNorm).Not()
	return t.Mul(norm.AddScalar(1e-7).DivInto(maxNorm).MaskedFill(within, 1)).To(t.dtype)
}
