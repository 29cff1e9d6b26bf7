package tensor

import (
	"math"
	"slices"
)

// Multinomial draws n classes from each row of weights [.. classes], with probabilities in proportion to the weights,
// which need not add up to 1; the result is int64 [.. n]. It is computed in float32, and no gradient flows to the
// weights. A class of weight 0 is never drawn.
//
// With replacement, a class is where the running sum of the weights passes a uniform number; that takes n*classes bytes
// for each row. Without, classes are drawn one after the other: the first arrivals of exponential times whose rates are
// the weights (Efraimidis and Spirakis 2006).
//
// Weights that are negative, infinite or NaN, and rows that have too few of them, are an error of kind [ErrValue]: with
// replacement one above 0 is needed, without it n above 1e-37 of the largest. To see that, Multinomial waits for the
// device.
func (s *Scope) Multinomial(weights *Tensor, n int, replacement bool) *Tensor {
	const op = "multinomial"
	w := s.given(op).In(weights.given(op)).Detach()
	if w.Rank() == 0 || n < 0 {
		fail(ErrShape, op, "%d classes cannot be drawn from %v; the classes are along the last axis", n, weights)
	}
	if w.layout.Shape[w.Rank()-1] == 0 {
		fail(ErrValue, op, "%v has no classes along its last axis", weights)
	}
	drawn := slices.Clone(w.layout.Shape)
	drawn[len(drawn)-1] = n
	if sizeOf(op, drawn) == 0 {
		return s.newFull(w, 0, Int64, drawn...)
	}
	return s.Region("", func() []*Tensor {
		w := w.To(Float32)
		negative, finite := w.LessScalar(0).Sum(), w.IsFinite().Sum()
		w = w.Div(w.Max(-1, KeepDims))
		least := w.GreaterScalar(1e-37).Sum(-1).Min()
		want := 1
		if !replacement {
			want = n
		}
		v := ToSlice[int64](Stack(0, negative, finite, least))
		if v[0] > 0 || v[1] < int64(w.Len()) {
			fail(ErrValue, op, "weights of %v are negative, infinite or NaN", weights)
		}
		if v[2] < int64(want) {
			fail(ErrValue, op, "a row of %v has %d weights above 0, too few to draw %d classes", weights, v[2], want)
		}
		if replacement {
			return []*Tensor{s.drawAgain(w, drawn)}
		}
		return []*Tensor{s.drawOnce(w, n)}
	})[0]
}

// drawAgain draws classes with replacement. A uniform number is at most 1 - 2^-24, so its product with the sum of the
// weights rounds to less than that sum: the last class that can be drawn has a weight.
func (s *Scope) drawAgain(w *Tensor, drawn []int) *Tensor {
	sums := w.CumSum(-1)
	at := s.beside(w, func() *Tensor { return s.Uniform(0, 1, drawn...) }).Mul(sums.Slice(-1, -1, End))
	return sums.SearchSorted(at, true)
}

// drawOnce draws n classes without replacement. Times are finite for weights above 1e-37.
func (s *Scope) drawOnce(w *Tensor, n int) *Tensor {
	times := s.beside(w, func() *Tensor { return s.Uniform(0, 1, w.layout.Shape...) }).Neg().Log1p().Neg().Div(w)
	times = times.MaskedFill(w.EqualScalar(0), math.Inf(1))
	classes := make([]*Tensor, n)
	for i := range classes {
		classes[i] = times.ArgMin(-1)
		times = times.MaskedFill(classes[i].OneHot(w.Dim(-1)).To(Bool), math.Inf(1))
	}
	return Stack(-1, classes...)
}
