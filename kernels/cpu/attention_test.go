package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// attentionOfHead is attention and its gradient for one head, written from their definition: y, dq, dk and dv.
func attentionOfHead(
	q, k, v, g func(row, col int) float32, t, s, d, e int, causal bool, scale float32,
) (y, dq, dk, dv []float32) {
	var ps, dss [][]float32
	for i := range t {
		n := s
		if causal {
			n = i + 1 + s - t
		}
		row := make([]float32, n)
		for j := range row {
			row[j] = dot(d, func(c int) float32 { return q(i, c) }, func(c int) float32 { return k(j, c) }) * scale
		}
		p := softmaxOf(row)
		dp := make([]float32, n)
		for j := range dp {
			dp[j] = dot(e, func(c int) float32 { return g(i, c) }, func(c int) float32 { return v(j, c) })
		}
		sum := canonical(zipped(dp, p, mul))
		ds := zipped(p, dp, func(p, dp float32) float32 { return p * (dp - sum) * scale })
		unseen := make([]float32, s-n)
		ps, dss = append(ps, append(p, unseen...)), append(dss, append(ds, unseen...))
	}
	product := func(rows, columns, n int, a, b func(i, k int) float32) (out []float32) {
		for i := range rows {
			for j := range columns {
				out = append(out, dot(n, func(k int) float32 { return a(i, k) },
					func(k int) float32 { return b(k, j) }))
			}
		}
		return out
	}
	y = product(t, e, s, func(i, j int) float32 { return ps[i][j] }, v)
	dq = product(t, d, s, func(i, j int) float32 { return dss[i][j] }, k)
	dk = product(s, d, t, func(j, i int) float32 { return dss[i][j] }, q)
	dv = product(s, e, t, func(j, i int) float32 { return ps[i][j] }, g)
	return y, dq, dk, dv
}

// The kernels have the bits of the definition, in each tier and for each number of threads.
func TestAttentionCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var forward, backward []job
	for i, c := range []struct {
		b, h, t, s, d, e int
		causal           bool
	}{{2, 3, 5, 5, 4, 3, true}, {1, 2, 70, 75, 5, 2, true}, {1, 2, 3, 20, 2, 4, false}, {1, 1, 270, 280, 2, 2, true}} {
		operand := func(j, rows, cols int) (kernels.Arg, func(head int) func(row, col int) float32) {
			a := normal(r, layout(i+j, []int{c.b, c.h, rows, cols}), false)
			m := matrixOf(a)
			return a, func(head int) func(row, col int) float32 {
				return func(row, col int) float32 { return m.at(head, row, col) }
			}
		}
		q, qOf := operand(0, c.t, c.d)
		k, kOf := operand(1, c.s, c.d)
		v, vOf := operand(2, c.s, c.e)
		g, gOf := operand(3, c.t, c.e)
		// Results are [B rows H cols]; m and r come from the launch itself.
		y, m, norm := newTensor(kernels.Float32, c.b, c.t, c.h, c.e), newTensor(kernels.Float32, c.b, c.h, c.t),
			newTensor(kernels.Float32, c.b, c.h, c.t)
		dq, dk, dv := newTensor(kernels.Float32, c.b, c.t, c.h, c.d), newTensor(kernels.Float32, c.b, c.s, c.h, c.d),
			newTensor(kernels.Float32, c.b, c.s, c.h, c.e)
		want := [4][]float64{make([]float64, y.Len()), make([]float64, dq.Len()), make([]float64, dk.Len()),
			make([]float64, dv.Len())}
		for head := range c.b * c.h {
			var of [4][]float32
			of[0], of[1], of[2], of[3] = attentionOfHead(qOf(head), kOf(head), vOf(head), gOf(head), c.t, c.s, c.d, c.e,
				c.causal, 0.3)
			for w, cols := range []int{c.e, c.d, c.d, c.e} {
				rows := len(of[w]) / cols
				for i, x := range of[w] {
					b, h, row, col := head/c.h, head%c.h, i/cols, i%cols
					want[w][((b*rows+row)*c.h+h)*cols+col] = float64(x)
				}
			}
		}
		last := c.s
		if c.causal {
			last = c.s - c.t
		}
		ints, floats := []int{-c.t, last}, []float64{0.3}
		first := &kernels.Launch{In: []kernels.Arg{q, k, v}, Out: []kernels.Arg{y, m, norm}, Ints: ints, Floats: floats}
		Attention(first)
		forward = append(forward, job{Attention, first, [][]float64{want[0], elements(m), elements(norm)}})
		backward = append(backward,
			job{AttentionGrad, &kernels.Launch{In: []kernels.Arg{q, k, v, y, m, norm, g},
				Out: []kernels.Arg{dq, dk, dv}, Ints: ints, Floats: floats},
				[][]float64{want[1], want[2], want[3]}})
	}
	runJobs(t, forward)
	runJobs(t, backward)
}
