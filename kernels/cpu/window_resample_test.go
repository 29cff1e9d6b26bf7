package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// Resample has the bits of its definition, whichever axis it is along.
func TestResample(t *testing.T) {
	bounds := newTensor(kernels.Int64, 6, 2)
	copy(Slice[int64](bounds), []int64{0, 1, 0, 2, 1, 4, 3, 3, 2, 5, 4, 5})
	r := rand.New(rand.NewPCG(1, 2))
	weights := random(r, newTensor(kernels.Float32, 6, 3))
	w := Slice[float32](weights)
	w[0], w[15] = 1, 1
	var jobs []job
	for _, shape := range [][]int{{5}, {3, 5}, {5, 7}, {300, 5, 2}, {2, 5, 15}, {2, 5, 16}, {2, 5, 33}, {40, 5, 7}} {
		axis := len(shape) - 1
		if shape[axis] != 5 {
			axis--
		}
		for i, corners := range []bool{false, true} {
			x := normal(r, layout(i, shape), corners)
			out := append([]int{}, shape...)
			out[axis] = 6
			y := newTensor(kernels.Float32, out...)
			inner, in := kernels.Count(shape[axis+1:]), elements(x)
			var want []float64
			for at := range y.Len() {
				o, first := at/inner%6, at/inner/6*5*inner+at%inner
				var sum float32
				from, to := int(Slice[int64](bounds)[2*o]), int(Slice[int64](bounds)[2*o+1])
				for k := from; k < to; k++ {
					p := float32(w[3*o+k-from] * float32(in[first+k*inner]))
					if k == from {
						sum = p
					} else {
						sum += p
					}
				}
				want = append(want, float64(sum))
			}
			l := &kernels.Launch{Op: &kernels.Op{Name: "test"}, In: []kernels.Arg{x, bounds, weights},
				Out: []kernels.Arg{y}, Ints: []int{axis}}
			jobs = append(jobs, job{Resample, l, [][]float64{want}})
		}
	}
	runJobs(t, jobs)
}
