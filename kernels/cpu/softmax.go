package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Sums are in the canonical order, every product and difference is rounded, and exp and log are those of pointwise
// operations: each kernel has the bits of its composition.

// Softmax computes e = exp(x - max(x)) and y = e * (1/sum(e)) along the axis l.Ints[0], 1/sum being an IEEE division.
func Softmax(l *kernels.Launch) { eachRange(l, softmaxRows, softmaxBundle) }

// softmaxRows looks for the largest element of the next row before it scales one, as the last additions of a sum take
// long and little of a processor.
func softmaxRows(y, x *rowAccess, lo, hi int) {
	row := x.read(lo)
	largest := vec.Max(row)
	for r := lo; r < hi; r++ {
		e := y.write(r)
		sum := vec.ExpSubSum(e, row, largest)
		if r+1 < hi {
			row = x.read(r + 1)
			largest = vec.Max(row)
		}
		vec.Scale(e, e, 1/sum)
	}
}

func softmaxBundle(y []float32, in [][]float32, n int) {
	var a, b [bundleRows]float32
	rows, x := len(y)/n, in[0]
	largest, scale := a[:rows], b[:rows]
	vec.MaxRows(largest, x, n)
	vec.ExpSubSumRows(y, scale, x, largest, n)
	for i, sum := range scale {
		scale[i] = 1 / sum
	}
	vec.ScaleRows(y, y, scale, n)
}

// SoftmaxGrad computes y * (g - sum(g*y)) along the axis l.Ints[0]. The operands are y and g.
func SoftmaxGrad(l *kernels.Launch) {
	row := softmaxGradRow
	if l.Out[0].Len() >= nonTemporalFrom {
		row = softmaxGradRowNonTemporal
	}
	eachRow(l, row, softmaxGradBundle)
}

func softmaxGradRow(dx []float32, in [][]float32) {
	y, g := in[0], in[1]
	vec.SoftmaxGrad(dx, y, g, vec.Dot(g, y))
}

// softmaxGradRowNonTemporal is softmaxGradRow for a large result.
func softmaxGradRowNonTemporal(dx []float32, in [][]float32) {
	if !onLine(dx) {
		softmaxGradRow(dx, in)
		return
	}
	y, g := in[0], in[1]
	vec.SoftmaxGradNonTemporal(dx, y, g, vec.Dot(g, y))
}

func softmaxGradBundle(dx []float32, in [][]float32, n int) {
	var dots [bundleRows]float32
	y, g := in[0], in[1]
	dot := dots[:len(dx)/n]
	vec.DotRows(dot, g, y, n)
	vec.SoftmaxGradRows(dx, y, g, dot, n)
}

// LogSoftmax computes (x - m) - log(sum(exp(x - m))), m = max(x), along the axis l.Ints[0].
func LogSoftmax(l *kernels.Launch) {
	eachRow(l, func(y []float32, in [][]float32) {
		x := in[0]
		m := vec.Max(x)
		vec.SubSub(y, x, m, logOf(vec.SumExpSub(x, m)))
	}, nil)
}

// LogSoftmaxGrad computes g - exp(y)*sum(g) along the axis l.Ints[0]. The operands are y and g.
func LogSoftmaxGrad(l *kernels.Launch) {
	eachRow(l, func(dx []float32, in [][]float32) {
		y, g := in[0], in[1]
		vec.LogSoftmaxGrad(dx, y, g, vec.Sum(g))
	}, nil)
}

// LogSumExp computes m + log(sum(exp(x - m))) along the axes l.Ints, m being max(x), or 0 if that is infinite.
func LogSumExp(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(row int, x []float32) {
		m := vec.Max(x)
		if math.IsInf(float64(m), 0) {
			m = 0
		}
		y[row] = m + logOf(vec.SumExpSub(x, m))
	})
}

var vecLog = vec.Instr("log")

// logOf is the logarithm of a scalar.
func logOf(x float32) float32 {
	v := borrow(1)
	defer giveBack(v)
	(*v)[0] = x
	vecLog(*v, *v, nil, nil)
	return (*v)[0]
}
