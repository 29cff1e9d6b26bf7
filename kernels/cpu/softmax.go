package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

var (
	vecExp = vec.Instr("exp")
	vecLog = vec.Instr("log")
)

// logOf is the logarithm of one number.
func logOf(x float32) float32 {
	v := [1]float32{x}
	vecLog(v[:], v[:], nil, nil)
	return v[0]
}

// expSub sets dst to exp(x - m).
func expSub(dst, x []float32, m float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = x[i] - m
	}
	vecExp(dst, dst, nil, nil)
}

// Softmax computes e = exp(x - max(x)) and y = e * (1/sum(e)) along the axis l.Ints[0], 1/sum being an IEEE division.
func Softmax(l *kernels.Launch) {
	eachRow(l, l.Ints[:1], func(_ int, y []float32, in [][]float32) {
		expSub(y, in[0], maxOf(in[0]))
		scale := 1 / sumOf(y)
		for i := range y {
			y[i] *= scale
		}
	})
}

// SoftmaxGrad computes y * (g - sum(g*y)) along the axis l.Ints[0].
func SoftmaxGrad(l *kernels.Launch) {
	eachRow(l, l.Ints[:1], func(_ int, dx []float32, in [][]float32) {
		y, g := in[0], in[1]
		dot := dotOf(g, y)
		for i := range dx {
			dx[i] = y[i] * (g[i] - dot)
		}
	})
}

// dotOf is the canonical sum of the rounded products of x and y.
func dotOf(x, y []float32) float32 {
	return sumMapped(len(x), func(dst []float32, from, to int) []float32 {
		x, y := x[from:to], y[from:to]
		for i := range dst {
			dst[i] = x[i] * y[i]
		}
		return dst
	})
}

// LogSoftmax computes (x - m) - log(sum(exp(x - m))), m = max(x), along the axis l.Ints[0].
func LogSoftmax(l *kernels.Launch) {
	eachRow(l, l.Ints[:1], func(_ int, y []float32, in [][]float32) {
		m := maxOf(in[0])
		logSum := logOf(sumExp(in[0], m))
		for i, v := range in[0] {
			y[i] = (v - m) - logSum
		}
	})
}

// sumExp is the canonical sum of exp(x - m).
func sumExp(x []float32, m float32) float32 {
	return sumMapped(len(x), func(dst []float32, from, to int) []float32 {
		expSub(dst, x[from:to], m)
		return dst
	})
}

// LogSoftmaxGrad computes g - exp(y)*sum(g) along the axis l.Ints[0].
func LogSoftmaxGrad(l *kernels.Launch) {
	eachRow(l, l.Ints[:1], func(_ int, dx []float32, in [][]float32) {
		y, g := in[0], in[1]
		sum := sumOf(g)
		vecExp(dx, y, nil, nil)
		for i := range dx {
			dx[i] = g[i] - float32(dx[i]*sum)
		}
	})
}

// LogSumExp computes m + log(sum(exp(x - m))) along the axes l.Ints, m being max(x), or 0 if that is infinite.
func LogSumExp(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(o int, x []float32) {
		m := maxOf(x)
		if math.IsInf(float64(m), 0) {
			m = 0
		}
		y[o] = m + logOf(sumExp(x, m))
	})
}
