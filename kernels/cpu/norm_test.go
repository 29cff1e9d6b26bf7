package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// normOf is the definition of a norm of the rows of x, with everything that its kernels compute.
func normOf(rows, gs [][]float32, w, b []float32, eps float32, centred bool) (y, means, rstds, dx, dw, db []float32) {
	size := len(w)
	n := float32(size)
	columns, plain := make([][]float32, size), make([][]float32, size)
	for r, x := range rows {
		g := gs[r]
		mean, squares := float32(0), canonical(zipped(x, x, times))
		if centred {
			mean, squares = deviationsOf(x)
		}
		rstd := 1 / float32(math.Sqrt(float64(squares/n+eps)))
		h := mapped(x, func(v float32) float32 { return (v - mean) * rstd })
		gw := zipped(g, w, mul)
		var p float32
		if centred {
			p = canonical(gw) / n
		}
		q := canonical(zipped(gw, h, mul)) / n
		for i := range x {
			v := float32(h[i] * w[i])
			if b != nil {
				v += b[i]
			}
			y = append(y, v)
			dx = append(dx, (float32(gw[i]-p)-float32(h[i]*q))*rstd)
			columns[i] = append(columns[i], g[i]*h[i])
			plain[i] = append(plain[i], g[i])
		}
		means, rstds = append(means, mean), append(rstds, rstd)
	}
	for i := range columns {
		dw, db = append(dw, byColumns(columns[i], 0, plus)), append(db, byColumns(plain[i], 0, plus))
	}
	return y, means, rstds, dx, dw, db
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i := range v {
		w[i] = float64(v[i])
	}
	return w
}

func floats32(v []float32, shape ...int) kernels.Arg {
	return with(newTensor(kernels.Float32, shape...), wide(v)...)
}

// Both norms and their gradients, with and without parameters, have the bits of their definitions.
func TestNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var jobs []job
	for i, c := range []struct {
		shape []int
		k     int // axes of a row
	}{
		{[]int{7}, 1}, {[]int{3, 1}, 1}, {[]int{5, 64}, 1}, {[]int{70, 33}, 1}, {[]int{3, 4, 5}, 2},
		{[]int{2, 3, 200}, 1},
		{[]int{3, 700}, 1}, {[]int{17000, 3}, 1}, {[]int{2, 17000}, 1}, {[]int{0, 4}, 1}, {[]int{300, 600}, 1},
		{[]int{130, 4200}, 1},
	} {
		x, g := normal(r, layout(i, c.shape), false), normal(r, layout(i+4, c.shape), false)
		jobs = append(jobs, normJobs(r, i, c.k, x, g)...)
	}
	runJobs(t, jobs)
}

// Rows behind each other are taken in pairs, and results have non-temporal stores where they are large and aligned.
func TestNormPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	var jobs []job
	for i, shape := range [][]int{{37, 96}, {2, 71, 48}, {33, 20}} {
		x, g := newTensor(kernels.Float32, shape...), newTensor(kernels.Float32, shape...)
		jobs = append(jobs, normJobs(r, i, 1, normal(r, x, false), normal(r, g, false))...)
	}
	runJobs(t, jobs)
	defer func(n int) { nonTemporalFrom = n }(nonTemporalFrom)
	nonTemporalFrom = 1
	runJobs(t, jobs)
}

// normJobs are both norms of the last k axes of x, and their gradients from g; i chooses the layouts of parameters.
func normJobs(r *rand.Rand, i, k int, x, g kernels.Arg) (jobs []job) {
	const eps = 1e-5
	shape := x.Shape
	rank := len(shape)
	rowShape := shape[rank-k:]
	lead := shape[:rank-k]
	var axes []int
	for a := rank - k; a < rank; a++ {
		axes = append(axes, a)
	}
	w, b := normal(r, layout(i+1, rowShape), false), normal(r, layout(i+2, rowShape), false)
	wv, bv := grouped(w, allAxes(k))[0], grouped(b, allAxes(k))[0]
	one := make([]float32, len(wv))
	for i := range one {
		one[i] = 1
	}
	type choice struct {
		centred bool
		in      []kernels.Arg
		w, b    []float32
	}
	for _, v := range []choice{
		{true, []kernels.Arg{x}, one, nil}, {true, []kernels.Arg{x, w}, wv, nil},
		{true, []kernels.Arg{x, w, b}, wv, bv},
		{false, []kernels.Arg{x}, one, nil}, {false, []kernels.Arg{x, w}, wv, nil},
	} {
		rows, gs := grouped(x, axes), grouped(g, axes)
		y, means, rstds, dx, dw, db := normOf(rows, gs, v.w, v.b, eps, v.centred)
		out := []kernels.Arg{newTensor(kernels.Float32, shape...), newTensor(kernels.Float32, lead...),
			newTensor(kernels.Float32, lead...)}
		want := [][]float64{wide(y), wide(means), wide(rstds)}
		statistics := []kernels.Arg{floats32(means, lead...), floats32(rstds, lead...)}
		forward, backward := LayerNorm, LayerNormGrad
		results := [][]float32{dx, dw, db}
		if !v.centred {
			forward, backward = RMSNorm, RMSNormGrad
			out, want, statistics = out[:2], [][]float64{wide(y), wide(rstds)}, statistics[1:]
			results = results[:2]
		}
		op := &kernels.Op{Name: "test"}
		jobs = append(jobs, job{forward,
			&kernels.Launch{Op: op, In: v.in, Out: out, Ints: []int{k}, Floats: []float64{eps}}, want})
		in := append([]kernels.Arg{g, x}, statistics...)
		in = append(in, v.in[1:min(2, len(v.in))]...)
		for only := -1; only < len(results); only++ { // all gradients, then one at a time
			l := &kernels.Launch{Op: op, In: in, Ints: []int{k}}
			var want [][]float64
			for o, v := range results {
				of := rowShape
				if o == 0 {
					of = shape
				}
				if only >= 0 && only != o {
					l.Out, l.Ints, want = append(l.Out, newTensor(kernels.Float32, 0)), append(l.Ints, 0),
						append(want, nil)
					continue
				}
				l.Out, l.Ints, want = append(l.Out, newTensor(kernels.Float32, of...)), append(l.Ints, 1),
					append(want, wide(v))
			}
			jobs = append(jobs, job{backward, l, want})
		}
	}
	return jobs
}

func allAxes(k int) (axes []int) {
	for i := range k {
		axes = append(axes, i)
	}
	return axes
}
