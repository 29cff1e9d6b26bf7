package cpu

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// crossEntropyOf is the definition of the losses of rows and of their gradients, with everything the kernels keep.
func crossEntropyOf(rows [][]float32, targets []int, smoothing float32, scale func(r int) float32) (losses, ms, sums,
	dx []float32) {
	for r, x := range rows {
		n := float32(len(x))
		m := largest(x)
		s := canonical(mapped(x, func(v float32) float32 { return exp32(v - m) }))
		ms, sums = append(ms, m), append(sums, s)
		if targets[r] < 0 {
			losses, dx = append(losses, 0), append(dx, make([]float32, len(x))...)
			continue
		}
		loss := log32(s) - (x[targets[r]] - m)
		if smoothing > 0 {
			spread := log32(s) - canonical(mapped(x, func(v float32) float32 { return v - m }))/n
			loss = float32((1-smoothing)*loss) + float32(smoothing*spread)
		}
		losses = append(losses, loss)
		inverse := 1 / s
		for k, v := range x {
			want := smoothing / n
			if k == targets[r] {
				want = (1 - smoothing) + smoothing/n
			}
			dx = append(dx, (float32(exp32(v-m)*inverse)-want)*scale(r))
		}
	}
	return losses, ms, sums, dx
}

// Losses and gradients, for every reduction, type of targets and layout, have the bits of their definitions.
func TestCrossEntropy(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var jobs []job
	for i, shape := range [][]int{{5}, {4, 3}, {128, 10}, {2, 3, 65}, {40, 1000}, {2, 17000}, {20000, 2}, {0, 3}} {
		rank := len(shape)
		classes, lead := shape[rank-1], shape[:rank-1]
		x := normal(r, layout(i, shape), false)
		targets := layouts[layoutNames[(i+3)%len(layoutNames)]]([]kernels.DType{kernels.Int64, kernels.Int32,
			kernels.Uint8}[i%3], lead)
		const ignore = 1
		v := make([]float64, targets.Buf.Bytes()/targets.DType.Size())
		for k := range v {
			v[k] = float64(r.IntN(min(classes, 255)))
		}
		with(targets, v...)
		var of []int
		count := 0
		for _, k := range elements(targets) {
			if k == ignore {
				of = append(of, -1)
			} else {
				of, count = append(of, int(k)), count+1
			}
		}
		for reduction := range 3 {
			for _, smoothing := range []float64{0, 0.25} {
				lossShape := lead
				if reduction != lossNone {
					lossShape = nil
				}
				g := normal(r, newTensor(kernels.Float32, lossShape...), false)
				scale := func(r int) float32 {
					switch reduction {
					case lossNone:
						return Slice[float32](g)[r]
					case lossMean:
						return Slice[float32](g)[0] / float32(count)
					}
					return Slice[float32](g)[0]
				}
				losses, ms, sums, dx := crossEntropyOf(grouped(x, []int{rank - 1}), of, float32(smoothing), scale)
				switch reduction {
				case lossMean:
					losses = []float32{canonical(losses) / float32(count)}
				case lossSum:
					losses = []float32{canonical(losses)}
				}
				op, ints, floats := &kernels.Op{Name: "test"}, []int{ignore, reduction}, []float64{smoothing}
				keep := []kernels.Arg{floats32(ms, lead...), floats32(sums, lead...)}
				out := []kernels.Arg{newTensor(kernels.Float32, lossShape...), newTensor(kernels.Float32, lead...),
					newTensor(kernels.Float32, lead...)}
				results := [][]float64{wide(losses), wide(ms), wide(sums)}
				keep = append(keep, g)
				if reduction == lossMean {
					counts := []float32{float32(count)}
					keep = append(keep, floats32(counts))
					out, results = append(out, newTensor(kernels.Float32)), append(results, wide(counts))
				}
				jobs = append(jobs,
					job{CrossEntropy, &kernels.Launch{Op: op, In: []kernels.Arg{x, targets}, Ints: ints,
						Floats: floats, Out: out}, results},
					job{CrossEntropyGrad, &kernels.Launch{Op: op,
						In: append([]kernels.Arg{x, targets}, keep...), Ints: ints, Floats: floats,
						Out: []kernels.Arg{newTensor(kernels.Float32, shape...)},
					}, [][]float64{wide(dx)}})
			}
		}
	}
	runJobs(t, jobs)
}

// A target that is no class is an error that names it, and nothing is written.
func TestCrossEntropyRefuses(t *testing.T) {
	x := newTensor(kernels.Float32, 2, 3, 4)
	for _, bad := range []float64{4, -1, 1 << 40} {
		targets := with(newTensor(kernels.Int64, 2, 3), 0, 1, 2, 3, bad, 0)
		out := []kernels.Arg{with(newTensor(kernels.Float32), 7), newTensor(kernels.Float32, 2, 3),
			newTensor(kernels.Float32, 2, 3)}
		op := &kernels.Op{Name: "cross_entropy", CPU: CrossEntropy}
		err := Backend{}.Run(&kernels.Launch{Op: op, In: []kernels.Arg{x, targets}, Out: out, Ints: []int{-100, 0},
			Floats: []float64{0}})
		if !errors.Is(err, kernels.ErrIndex) || !strings.Contains(err.Error(), "target [1 1] is ") ||
			!strings.Contains(err.Error(), "[0, 4)") {
			t.Errorf("target %v: error %v", bad, err)
		}
		if elements(out[0])[0] != 7 {
			t.Error("a loss was written in spite of the error")
		}
	}
}
