package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Sums are in the canonical order, every product and difference is rounded, and exp and log are those of pointwise
// operations: each kernel has the bits of its composition.

// Softmax computes e = exp(x - max(x)) and y = e * (1/sum(e)) along the axis l.Ints[0], 1/sum being an IEEE division.
func Softmax(l *kernels.Launch) { eachRange(l, softmaxRows, softmaxBundle, softmaxAbreast) }

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

func softmaxAbreast(w *abreastJob, _ int) {
	x, y, largest, sum := w.rows[0], w.rows[1], w.a, w.b
	x.max(largest)
	y.expSub(x, largest)
	y.sum(sum, w.levels)
	scale := w.a
	vec.Fill(scale, 1)
	vecDiv(scale, scale, sum, nil)
	for _, e := range y {
		vecMul(e, e, scale, nil)
	}
}

// SoftmaxGrad computes y * (g - sum(g*y)) along the axis l.Ints[0]. The operands are y and g.
func SoftmaxGrad(l *kernels.Launch) {
	row := softmaxGradRow
	if l.Out[0].Len() >= nonTemporalFrom {
		row = softmaxGradRowNonTemporal
	}
	eachRow(l, row, softmaxGradBundle, softmaxGradAbreast)
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

func softmaxGradAbreast(w *abreastJob, _ int) {
	y, g, dx, dot, rest := w.rows[0], w.rows[1], w.rows[2], w.a, w.b
	for i, product := range w.scratch {
		vecMul(product, g[i], y[i], nil)
	}
	w.scratch.sum(dot, w.levels)
	for i := range dx {
		vecSub(rest, g[i], dot, nil)
		vecMul(dx[i], y[i], rest, nil)
	}
}

// LogSoftmax computes (x - m) - log(sum(exp(x - m))), m = max(x), along the axis l.Ints[0].
func LogSoftmax(l *kernels.Launch) {
	eachRow(l, func(y []float32, in [][]float32) {
		x := in[0]
		m := vec.Max(x)
		vec.SubSub(y, x, m, logOf(vec.SumExpSub(x, m)))
	}, nil, logSoftmaxAbreast)
}

func logSoftmaxAbreast(w *abreastJob, _ int) {
	x, y, largest, log := w.rows[0], w.rows[1], w.a, w.b
	x.max(largest)
	w.scratch.expSub(x, largest)
	w.scratch.sum(log, w.levels)
	vecLog(log, log, nil, nil)
	for i := range y {
		vecSub(y[i], x[i], largest, nil)
		vecSub(y[i], y[i], log, nil)
	}
}

// LogSoftmaxGrad computes g - exp(y)*sum(g) along the axis l.Ints[0]. The operands are y and g.
func LogSoftmaxGrad(l *kernels.Launch) {
	eachRow(l, func(dx []float32, in [][]float32) {
		y, g := in[0], in[1]
		vec.LogSoftmaxGrad(dx, y, g, vec.Sum(g))
	}, nil, logSoftmaxGradAbreast)
}

func logSoftmaxGradAbreast(w *abreastJob, _ int) {
	y, g, dx, sum, e := w.rows[0], w.rows[1], w.rows[2], w.a, w.b
	g.sum(sum, w.levels)
	for i := range dx {
		vecExp(e, y[i], nil, nil)
		vecMul(e, e, sum, nil)
		vecSub(dx[i], g[i], e, nil)
	}
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
	}, func(w *abreastJob, row int) { logSumExpAbreast(w, y, row) })
}

// logSumExpAbreast sets y[row] to the result of each row.
func logSumExpAbreast(w *abreastJob, y []float32, row int) {
	x, largest := w.rows[0], w.a
	x.max(largest)
	for i, m := range largest {
		if math.IsInf(float64(m), 0) {
			largest[i] = 0
		}
	}
	y = y[row:][:len(largest)]
	w.scratch.expSub(x, largest)
	w.scratch.sum(y, w.levels)
	vecLog(y, y, nil, nil)
	vecAdd(y, largest, y, nil)
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
