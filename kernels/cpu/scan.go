package cpu

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// CumSum adds along the axis l.Ints[0], one element after the other from +0, from the end if l.Ints[1] is 1. Sums of
// float32 are kept in float64, each is rounded once. The sums of integers and bools are int64.
func CumSum(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Int64:
		cumSumIntegers[int64](l)
		return
	case kernels.Int32:
		cumSumIntegers[int32](l)
		return
	case kernels.Uint8, kernels.Bool:
		cumSumIntegers[uint8](l)
		return
	}
	abreast := cumSumAbreast
	if l.Ints[1] == 1 {
		abreast = cumSumFromEndAbreast
	}
	eachRow(l, func(y []float32, in [][]float32) {
		x := in[0]
		var sum float64
		if l.Ints[1] == 0 {
			for i, v := range x {
				sum += float64(v)
				y[i] = float32(sum)
			}
			return
		}
		for i := len(x) - 1; i >= 0; i-- {
			sum += float64(x[i])
			y[i] = float32(sum)
		}
	}, nil, abreast)
}

func cumSumAbreast(w *abreastJob, _ int) {
	var sums [abreastMost]float64
	for i, x := range w.rows[0] {
		addToAll(w.rows[1][i], sums[:], x)
	}
}

func cumSumFromEndAbreast(w *abreastJob, _ int) {
	var sums [abreastMost]float64
	for i, x := range slices.Backward(w.rows[0]) {
		addToAll(w.rows[1][i], sums[:], x)
	}
}

// addToAll adds an element of each row to its sum.
func addToAll(y []float32, sums []float64, x []float32) {
	sums, y = sums[:len(x)], y[:len(x)]
	for k, v := range x {
		sums[k] += float64(v)
		y[k] = float32(sums[k])
	}
}

func cumSumIntegers[T int64 | int32 | uint8](l *kernels.Launch) {
	a, b, axis := l.In[0], l.Out[0], l.Ints[0]
	in, out := reductionOf(a, l.Ints[:1]), reductionOf(b, l.Ints[:1])
	x, y := view[T](bytesOf(a)), Slice[int64](b)
	first, step := 0, 1
	if l.Ints[1] == 1 {
		first, step = out.N-1, -1
	}
	from, to := a.Strides[axis], b.Strides[axis]
	parRows(out.Results(), out.N, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			i, k := in.Kept.Offset(row)+first*from, out.Kept.Offset(row)+first*to
			var sum int64
			for range out.N {
				sum += int64(x[i])
				y[k] = sum
				i, k = i+step*from, k+step*to
			}
		}
	})
}

// CumProd multiplies along the axis l.Ints[0], one element after the other from 1, as CumSum adds.
func CumProd(l *kernels.Launch) {
	eachRow(l, func(y []float32, in [][]float32) {
		product := 1.0
		for i, v := range in[0] {
			product *= float64(v)
			y[i] = float32(product)
		}
	}, nil, nil)
}

// Recurrence is y[i] = a[i]*y[i-1] + b[i] along the axis l.Ints[0], from y[-1] = 0, or y[i] = a[i]*y[i+1] + b[i] from
// the end if l.Ints[1] is 1. The operands are a and b; the product is rounded.
func Recurrence(l *kernels.Launch) {
	eachRow(l, func(y []float32, in [][]float32) {
		a, b := in[0], in[1]
		var v float32
		if l.Ints[1] == 0 {
			for i := range y {
				v = float32(a[i]*v) + b[i]
				y[i] = v
			}
			return
		}
		for i := len(y) - 1; i >= 0; i-- {
			v = float32(a[i]*v) + b[i]
			y[i] = v
		}
	}, nil, nil)
}

// CumMax finds the largest element so far along the axis l.Ints[0] and its index, the last of equal ones. From a NaN on
// the largest is NaN, the latest.
func CumMax(l *kernels.Launch) { cumExtreme(l, true) }

// CumMin is CumMax for the smallest element.
func CumMin(l *kernels.Launch) { cumExtreme(l, false) }

func cumExtreme(l *kernels.Launch, largest bool) {
	axis, first := l.Ints[:1], float32(math.Inf(1))
	if largest {
		first = -first
	}
	x, y, at := reductionOf(l.In[0], axis), reductionOf(l.Out[0], axis), reductionOf(l.Out[1], axis)
	indices, stride := Slice[int64](l.Out[1]), l.Out[1].Strides[axis[0]]
	parRows(y.Results(), y.N, func(lo, hi int) {
		in, out := newRowAccess(x, l.In[0], hi), newRowAccess(y, l.Out[0], hi)
		for row := lo; row < hi; row++ {
			values, index := out.write(row), indices[at.Kept.Offset(row):]
			best, k := first, 0
			for i, v := range in.read(row) {
				if largest && v >= best || !largest && v <= best || v != v { // no number takes the place of a NaN
					best, k = v, i
				}
				values[i], index[i*stride] = best, int64(k)
			}
		}
		out.flush()
		out.close()
		in.close()
	})
}
