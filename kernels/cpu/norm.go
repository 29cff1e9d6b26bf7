package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Var computes sum((x - mean)^2) / max(0, n - correction) along the axes l.Ints; the correction is l.Floats[0].
func Var(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(o int, x []float32) {
		mean := sumOf(x) / float32(len(x))
		y[o] = squaredDistance(x, mean) / float32(max(0, float64(len(x))-l.Floats[0]))
	})
}

// squaredDistance is the canonical sum of (x - c)^2.
func squaredDistance(x []float32, c float32) float32 {
	return sumMapped(len(x), func(dst []float32, from, to int) []float32 {
		for i, v := range x[from:to] {
			dst[i] = (v - c) * (v - c)
		}
		return dst
	})
}

// The norms work on rows: the last l.Ints[0] axes of x together. Every operation is rounded by itself:
//
//	mean = sum(x) / n
//	rstd = 1 / sqrt(sum((x - mean)^2) / n + eps)
//	h    = (x - mean) * rstd
//	y    = h * weight + bias
//
// RMSNorm is the same without the mean.

// lastAxes lists the last k of n axes.
func lastAxes(n, k int) []int {
	axes := make([]int, k)
	for i := range axes {
		axes[i] = n - k + i
	}
	return axes
}

// LayerNorm normalises rows. The operands are x and, if present, weight and bias; the results y, mean and rstd.
func LayerNorm(l *kernels.Launch) {
	means, rstds := Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	normalize(l, rstds, func(r int, x []float32) float32 {
		means[r] = sumOf(x) / float32(len(x))
		return means[r]
	})
}

// RMSNorm scales rows. The operands are x and, if present, weight; the results y and rstd.
func RMSNorm(l *kernels.Launch) {
	normalize(l, Slice[float32](l.Out[1]), func(int, []float32) float32 { return 0 })
}

func normalize(l *kernels.Launch, rstds []float32, center func(r int, x []float32) float32) {
	x := l.In[0]
	rows := reductionOf(x, lastAxes(len(x.Shape), l.Ints[0]))
	weight, bias := parameter(l, 1), parameter(l, 2)
	in, out := Slice[float32](x), Slice[float32](l.Out[0])
	eps := float32(l.Floats[0])
	n := rows.n
	par.For(rows.results(), 1+rowGrain/max(1, n), func(lo, hi int) {
		buf := borrow(rows.gathered(n))
		defer giveBack(buf)
		for r := lo; r < hi; r++ {
			row := rows.elements(*buf, in, r, 0, n)
			c := center(r, row)
			rstd := inverseRoot(squaredDistance(row, c)/float32(n) + eps)
			rstds[r] = rstd
			y := out[r*n : (r+1)*n]
			for i, v := range row {
				y[i] = (v - c) * rstd
			}
			if weight != nil {
				for i, w := range weight {
					y[i] *= w
				}
			}
			if bias != nil {
				for i, b := range bias {
					y[i] += b
				}
			}
		}
	})
}

// inverseRoot is 1/sqrt(x) by an IEEE root and an IEEE division.
func inverseRoot(x float32) float32 { return 1 / float32(math.Sqrt(float64(x))) }

// parameter is operand k with its elements side by side, nil if it is missing.
func parameter(l *kernels.Launch, k int) []float32 {
	if k >= len(l.In) {
		return nil
	}
	a := l.In[k]
	r := reductionOf(a, lastAxes(len(a.Shape), len(a.Shape)))
	return r.elements(make([]float32, r.gathered(r.n)), Slice[float32](a), 0, 0, r.n)
}

// LayerNormGrad computes the gradients of LayerNorm, each only if its result has elements:
//
//	dx      = ((gw - sum(gw)/n) - h * (sum(gw*h)/n)) * rstd, with gw = g * weight
//	dweight = the sum of g * h over the rows
//	dbias   = the sum of g over the rows
//
// The operands are g, x, mean, rstd and, if present, weight.
func LayerNormGrad(l *kernels.Launch) {
	normGradients(l, newReader(l.In[2]), newReader(l.In[3]), parameter(l, 4), true)
}

// RMSNormGrad is LayerNormGrad without the mean. The operands are g, x, rstd and, if present, weight.
func RMSNormGrad(l *kernels.Launch) {
	normGradients(l, nil, newReader(l.In[2]), parameter(l, 3), false)
}

func normGradients(l *kernels.Launch, mean, rstd *reader, weight []float32, centred bool) {
	g, x := l.In[0], l.In[1]
	axes := lastAxes(len(x.Shape), l.Ints[0])
	gRows, xRows := reductionOf(g, axes), reductionOf(x, axes)
	gIn, xIn := Slice[float32](g), Slice[float32](x)
	n, rows := xRows.n, xRows.results()
	center := func(r int) float32 {
		if mean == nil {
			return 0
		}
		return mean.at(r)
	}
	wantX, wantW := l.Ints[1] == 1, l.Ints[2] == 1
	dx := Slice[float32](l.Out[0])
	products := borrow(0) // g*h, whose columns are summed
	if wantW {
		giveBack(products)
		products = borrow(rows * n)
	}
	defer func() { giveBack(products) }()
	par.For(rows, 1+rowGrain/max(1, n), func(lo, hi int) {
		scratch := borrow(gRows.gathered(n) + xRows.gathered(n) + 3*n)
		defer giveBack(scratch)
		free := *scratch
		h, gw, ghw, free := free[:n], free[n:2*n], free[2*n:3*n], free[3*n:]
		for r := lo; r < hi; r++ {
			gRow := gRows.elements(free, gIn, r, 0, n)
			xRow := xRows.elements(free[gRows.gathered(n):], xIn, r, 0, n)
			c, s := center(r), rstd.at(r)
			for i, v := range xRow {
				h[i] = (v - c) * s
			}
			if wantW {
				p := (*products)[r*n : (r+1)*n]
				for i, v := range gRow {
					p[i] = v * h[i]
				}
			}
			if !wantX {
				continue
			}
			copy(gw, gRow)
			if weight != nil {
				for i, w := range weight {
					gw[i] *= w
				}
			}
			for i, v := range gw {
				ghw[i] = v * h[i]
			}
			var a float32
			if centred {
				a = sumOf(gw) / float32(n)
			}
			b := sumOf(ghw) / float32(n)
			d := dx[r*n : (r+1)*n]
			for i := range d {
				d[i] = float32(float32(gw[i]-a)-float32(h[i]*b)) * s
			}
		}
	})
	if wantW {
		sumFold.run(Slice[float32](l.Out[1])[:n], *products, columnsOf(rows, n))
	}
	if len(l.Out) > 2 && l.Ints[3] == 1 {
		leading := make([]int, len(g.Shape)-l.Ints[0])
		for i := range leading {
			leading[i] = i
		}
		sumFold.run(Slice[float32](l.Out[2])[:n], gIn, reductionOf(g, leading))
	}
}

// columnsOf is the reduction of a contiguous matrix along its rows.
func columnsOf(rows, n int) *reduction {
	r := &reduction{n: rows}
	r.reduced.push(rows, n)
	r.kept.push(n, 1)
	return r
}
