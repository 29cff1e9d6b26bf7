package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// dot is the sum of n products a(k) b(k) in the canonical order, written from its definition.
func dot(n int, a, b func(k int) float32) float32 {
	var sum float32
	for first := 0; first < n; first += 256 {
		var chain float32
		for k := first; k < min(first+256, n); k++ {
			chain = lane.FMA32(a(k), b(k), chain)
		}
		if first == 0 {
			sum = chain
		} else {
			sum += chain
		}
	}
	return sum
}

// matrix reads the operand element by element: value i of the last two axes after the leading index at.
type matrix struct {
	v    []float64
	rows int
	cols int
}

func matrixOf(a kernels.Arg) matrix {
	n := len(a.Shape)
	return matrix{elements(a), a.Shape[n-2], a.Shape[n-1]}
}

func (m matrix) at(i, row, col int) float32 { return float32(m.v[(i*m.rows+row)*m.cols+col]) }

func TestMatMulCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var jobs []job
	for i, c := range []struct{ batch, m, n, k int }{{1, 3, 5, 7}, {3, 4, 6, 1}, {2, 1, 9, 300}, {2, 9, 1, 300},
		{2, 17, 33, 260}, {1, 2, 2, 0}, {4, 30, 20, 40}} {
		for j := range layoutNames {
			a := normal(r, layout(i+j, []int{c.batch, c.m, c.k}), false)
			b := normal(r, layout(3*i+2*j, []int{c.batch, c.k, c.n}), false)
			y := newTensor(kernels.Float32, c.batch, c.m, c.n)
			left, right := matrixOf(a), matrixOf(b)
			var want []float64
			for e := range c.batch * c.m * c.n {
				i, row, col := e/c.n/c.m, e/c.n%c.m, e%c.n
				want = append(want, float64(dot(c.k, func(k int) float32 { return left.at(i, row, k) },
					func(k int) float32 { return right.at(i, k, col) })))
			}
			jobs = append(jobs, job{MatMul, &kernels.Launch{In: []kernels.Arg{a, b}, Out: []kernels.Arg{y}},
				[][]float64{want}})
		}
	}
	runJobs(t, jobs)
}

func TestLinearCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var jobs []job
	for i, c := range []struct{ batch, rows, in, out int }{{1, 3, 5, 7}, {3, 4, 300, 6}, {1, 2, 3, 1100},
		{2, 2, 0, 3}} {
		for j := range layoutNames {
			x := normal(r, layout(i+j, []int{c.batch, c.rows, c.in}), false)
			w := normal(r, layout(2*j, []int{c.out, c.in}), false)
			bias := normal(r, layout(j, []int{c.out}), false)
			y := newTensor(kernels.Float32, c.batch, c.rows, c.out)
			left, right, add := matrixOf(x), matrixOf(w), elements(bias)
			var want []float64
			for e := range c.batch * c.rows * c.out {
				i, row, o := e/c.out/c.rows, e/c.out%c.rows, e%c.out
				sum := dot(c.in, func(k int) float32 { return left.at(i, row, k) },
					func(k int) float32 { return right.at(0, o, k) })
				want = append(want, float64(sum+float32(add[o])))
			}
			jobs = append(jobs, job{Linear, &kernels.Launch{In: []kernels.Arg{x, w, bias}, Out: []kernels.Arg{y}},
				[][]float64{want}})
		}
	}
	runJobs(t, jobs)
}
