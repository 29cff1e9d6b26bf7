package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// Results with non-temporal stores, where they begin with a cache line, have the bits of others: of operands in any
// layouts, behind unaligned rows, in place.
func TestNonTemporal(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	run := func(l *kernels.Launch) { mustRun(t, l) }
	var jobs []job
	add := func(kernel func(*kernels.Launch), l *kernels.Launch) {
		kernel(l)
		j := job{kernel: kernel, l: l}
		for _, y := range l.Out {
			j.want = append(j.want, elements(y))
		}
		jobs = append(jobs, j)
	}
	names := []string{"x", "y", "z"}
	for i, src := range []string{"x + y", "x - y", "x*y", "x/y", "-x", "abs(x)", "min(x, y)", "max(x, y)", "exp(x)",
		"sqrt(x)", "where(x, y, z)", "max(x, 0)", "x*y + z", "x*y; x"} {
		f := expr.Must(src, names, nil)
		for j, shape := range shapes {
			var in []kernels.Arg
			for k := range names {
				in = append(in, random(r, layout((i+j)*k, shape)))
			}
			out := newTensor(kernels.Float32, shape...)
			if j%3 == 2 { // not on a line
				out = newTensor(kernels.Float32, out.Len()+3)
				out.Layout = kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape),
					Offset: 3}
			}
			l := launch(f, in, out)
			for range f.Roots[1:] {
				l.Out = append(l.Out, newTensor(kernels.Float32, shape...))
			}
			add(run, l)
		}
	}
	for i, shape := range [][]int{{3, 1024}, {5, 1000}, {2, 640, 3}, {4, 513}} {
		y, g := normal(r, layout(i, shape), false), normal(r, layout(i+1, shape), false)
		add(SoftmaxGrad, &kernels.Launch{Ints: []int{1}, In: []kernels.Arg{y, g},
			Out: []kernels.Arg{newTensor(kernels.Float32, shape...)}})
	}
	defer func(n int) { nonTemporalFrom = n }(nonTemporalFrom)
	nonTemporalFrom = 1
	runJobs(t, jobs)

	x, y := random(r, newTensor(kernels.Float32, 5000)), random(r, newTensor(kernels.Float32, 5000))
	f := expr.Must("x + y", names[:2], nil)
	apart := launch(f, []kernels.Arg{x, y}, newTensor(kernels.Float32, 5000))
	mustRun(t, apart)
	mustRun(t, launch(f, []kernels.Arg{x, y}, y))
	if !slices.EqualFunc(elements(y), elements(apart.Out[0]), same) {
		t.Error("a sum in place differs")
	}
}
