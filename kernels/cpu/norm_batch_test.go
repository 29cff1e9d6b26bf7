package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// Batch norm and its gradient have the bits of what they are composed of.
func TestBatchNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const eps = 1e-5
	op := &kernels.Op{Name: "test"}
	var jobs []job
	for i, shape := range [][]int{
		{1, 1, 2}, {3, 4, 5}, {1, 2, 5000}, {5, 3, 49}, {50, 2, 7, 7}, {3, 2, 30, 70}, {2, 3, 2047},
		{2, 3, 2048}, {300, 1, 4100}, {7, 40, 3, 5, 2},
	} {
		axes := []int{0}
		for a := 2; a < len(shape); a++ {
			axes = append(axes, a)
		}
		c := []int{shape[1]}
		x, g := normal(r, layout(i, shape), false), normal(r, layout(i+4, shape), false)
		w, b := normal(r, layout(i+1, c), false), normal(r, layout(i+2, c), false)
		weight, bias := grouped(w, []int{0})[0], grouped(b, []int{0})[0]
		means, variances := make([]float32, c[0]), make([]float32, c[0])
		dweight, dbias := make([]float32, c[0]), make([]float32, c[0])
		y, dx := make([][]float32, c[0]), make([][]float32, c[0])
		xs, gs := grouped(x, axes), grouped(g, axes)
		for k, xc := range xs {
			n := float32(len(xc))
			mean := canonical(xc) / n
			_, squares := deviationsOf(xc)
			variance := squares / n
			rstd := 1 / float32(math.Sqrt(float64(variance+eps)))
			scale := rstd * weight[k]
			means[k], variances[k] = mean, variance
			y[k] = mapped(xc, func(v float32) float32 { return float32((v-mean)*scale) + bias[k] })
			gc := gs[k]
			dbias[k] = canonical(gc)
			dweight[k] = canonical(zipped(gc, xc, func(g, v float32) float32 { return g * (v - mean) })) * rstd
			share := float32(1 / float64(len(xc)))
			shift, slope := float32(dbias[k]*share), dweight[k]*rstd*share
			dx[k] = zipped(gc, xc, func(g, v float32) float32 {
				return ((g - shift) - float32((v-mean)*slope)) * scale
			})
		}
		out := func(shape ...int) kernels.Arg { return newTensor(kernels.Float32, shape...) }
		jobs = append(jobs, job{BatchNorm,
			&kernels.Launch{Op: op, In: []kernels.Arg{x, w, b}, Out: []kernels.Arg{out(shape...), out(c...), out(c...)},
				Floats: []float64{eps}},
			[][]float64{inPlanes(y, shape), wide(means), wide(variances)}})
		in := []kernels.Arg{x, g, floats32(means, c...), floats32(variances, c...), w}
		for forX, dxOut := range []kernels.Arg{out(0), out(shape...)} {
			jobs = append(jobs, job{BatchNormGrad,
				&kernels.Launch{Op: op, In: in, Out: []kernels.Arg{dxOut, out(c...), out(c...)}, Ints: []int{forX},
					Floats: []float64{eps}},
				[][]float64{inPlanes(dx, shape), wide(dweight), wide(dbias)}})
		}
	}
	runJobs(t, jobs)
}

// inPlanes are the elements of channels in the order of the shape [N C ...].
func inPlanes(channels [][]float32, shape []int) (all []float64) {
	plane := kernels.Count(shape[2:])
	for n := range shape[0] {
		for _, c := range channels {
			all = append(all, wide(c[n*plane:(n+1)*plane])...)
		}
	}
	return all
}
