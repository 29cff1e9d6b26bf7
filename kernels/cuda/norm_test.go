//go:build cuda && cgo && linux

package cuda

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestNorms: norms with and without parameters, and all combinations of their gradients.
func TestNorms(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(14)
	for i := range cases(40) {
		d, shape := singleTypes[i%3], r.rowShape()
		switch {
		case i%2 == 0:
			shape = []int{2, 3, 1 + r.IntN(70)} // rows, or their elements, along two axes
		case i%10 == 3:
			// several blocks of the sums for parameters; rows long or short
			shape = []int{65 + r.IntN(140), []int{1028, 1025, 1020}[i/10%3]}
		case i%10 == 5:
			shape = []int{16500, 3}
		case i%10 == 7:
			shape = []int{65 + r.IntN(70), 4 * (1 + r.IntN(18))}
		}
		k := 1 + r.IntN(min(3, len(shape)))
		if i%10 == 3 || i%10 == 5 || i%10 == 7 { // else it may be one row
			k = 1
		}
		last, rows := shape[len(shape)-k:], shape[:len(shape)-k]
		x, weight, bias := r.moderate(d, shape...), r.moderate(d, last...), r.moderate(d, last...)
		if i%10 == 7 { // cached, and several rows share the parameters in shared memory
			x, weight, bias = r.contiguous(d, shape...), r.contiguous(d, last...), r.contiguous(d, last...)
		}
		in := [][]value{{x}, {x, weight}, {x, weight, bias}}[i/3%3]
		y, mean, rstd := r.result(d, shape...), r.result(kernels.Float32, rows...), r.result(kernels.Float32, rows...)
		l := &kernels.Launch{Ints: []int{k}, Floats: []float64{1e-5}}
		l.Op = hostOp("layer_norm", cpu.LayerNorm)
		sameAsWidened(t, b, l, in, []value{y, mean, rstd})
		l.Op = hostOp("rms_norm", cpu.RMSNorm)
		sameAsWidened(t, b, l, in[:min(2, len(in))], []value{y, rstd})

		g := r.moderate(d, shape...)
		cached := i%10 == 3 || i%10 == 7 // where the length allows it
		if cached {
			x, g, weight = r.contiguous(d, shape...), r.contiguous(d, shape...), r.contiguous(d, last...)
		}
		mean, rstd = r.moderate(kernels.Float32, rows...), r.moderate(kernels.Float32, rows...)
		wanted := []int{r.IntN(2), r.IntN(2), r.IntN(2)}
		switch i % 10 {
		case 3, 7:
			wanted = []int{1, 1, 1}
		case 5:
			wanted = []int{0, 1, 1}
		case 9:
			wanted = []int{1, r.IntN(2), 1}
		}
		if !slices.Contains(wanted, 1) {
			wanted[i%3] = 1
		}
		out := []value{r.result(d, 0), r.result(d, 0), r.result(d, 0)}
		for j, shape := range [][]int{shape, last, last} {
			if wanted[j] == 1 {
				out[j] = r.result(d, shape...)
			}
		}
		if cached {
			out[0].Offset = 0
		}
		l = &kernels.Launch{Op: hostOp("layer_norm_grad", cpu.LayerNormGrad), Ints: append([]int{k}, wanted...)}
		in = []value{g, x, mean, rstd, weight}
		sameAsWidened(t, b, l, in[:4+(i+i/10)%2], out)
		l = &kernels.Launch{Op: hostOp("rms_norm_grad", cpu.RMSNormGrad), Ints: append([]int{k}, wanted[:2]...)}
		in = []value{g, x, rstd, weight}
		sameAsWidened(t, b, l, in[:3+(i+i/10)%2], out[:2])
	}
}
