package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Resample adds elements of the first operand along the axis l.Ints[0]: those of row o in [bounds[o, 0], bounds[o, 1]),
// times weights[o], in ascending order from the first product on. Bounds and weights are the next two operands.
func Resample(l *kernels.Launch) {
	axis, shape, width := l.Ints[0], l.In[0].Shape, l.In[2].Shape[1]
	x, y, weights := contiguousElements(l.In[0]), Slice[float32](l.Out[0]), contiguousElements(l.In[2])
	bounds := make([]int, 2*l.In[1].Shape[0])
	readIntegers(bounds, l.In[1])
	n, rows, inner := shape[axis], len(bounds)/2, kernels.Count(shape[axis+1:])
	row := func(o int) (from, to int, w []float32) {
		return bounds[2*o], bounds[2*o+1], weights[o*width : (o+1)*width]
	}
	add := func(out, in []float32, o, inner int) {
		from, to, w := row(o)
		if from == to {
			clear(out)
		}
		for k := from; k < to; k++ {
			if k == from {
				vec.Scale(out, in[k*inner:][:inner], w[0])
			} else {
				vec.Axpy(out, in[k*inner:][:inner], out, w[k-from])
			}
		}
	}
	outer := kernels.Count(shape[:axis])
	if inner < resampleShort && outer >= resampleLeast {
		par.For(outer, 1+rowGrain/max(1, rows*width*inner), func(lo, hi int) {
			a, b := n*inner, rows*inner
			most := max(resampleLeast, min(resampleMost, resampleSize/max(1, a+b)))
			buf := borrow((a + b) * most)
			for i := lo; i < hi; i += most {
				lines := min(most, hi-i)
				in, out := (*buf)[:a*lines], (*buf)[a*lines:]
				matmul.Transpose(in, lines, matmul.Matrix{Data: x[i*a:], RowStride: a, ColStride: 1}, lines, a)
				for o := range rows {
					add(out[o*inner*lines:][:inner*lines], in, o, inner*lines)
				}
				matmul.Transpose(y[i*b:], b, matmul.Matrix{Data: out, RowStride: lines, ColStride: 1}, b, lines)
			}
			giveBack(buf)
		})
		return
	}
	if inner == 1 {
		par.For(outer, 1+rowGrain/max(1, rows*width), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				in, out := x[i*n:(i+1)*n], y[i*rows:(i+1)*rows]
				for o := range out {
					from, to, w := row(o)
					out[o] = weighted(in[from:to], w)
				}
			}
		})
		return
	}
	par.For(outer*rows, 1+rowGrain/max(1, inner*width), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			add(y[i*inner:(i+1)*inner], x[i/rows*n*inner:], i%rows, inner)
		}
	})
}

// Where few elements behind the axis are neighbours, many lines are transposed, so that elements of theirs are.
const (
	resampleShort = 16    // neighbours that need no more
	resampleLeast = 8     // lines that are worth it
	resampleMost  = 64    // lines at a time
	resampleSize  = 32768 // elements at a time, for the cache
)

// weighted is the sum of the products of x and w, one after the other.
func weighted(x, w []float32) (sum float32) {
	if len(x) == 0 {
		return 0
	}
	sum = float32(w[0] * x[0])
	for k, v := range x[1:] {
		sum += float32(w[k+1] * v)
	}
	return sum
}
