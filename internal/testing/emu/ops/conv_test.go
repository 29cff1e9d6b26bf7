//go:build emu && cuda && cgo && linux

package ops

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestConv: convolutions and transposed ones with a bias, with their gradients, of contiguous and of transposed
// operands, with NaN and infinities: more than a chunk of terms in each of the three products, groups, phases of the
// stride without elements of the window, and more images than are unfolded at once.
func TestConv(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	of := func(n ...int) []int { return n }
	for name, s := range map[string]struct {
		x, weight []int
		transpose bool
		w         tensor.Window
	}{
		"one axis": {of(2, 4, 300), of(3, 4, 5), false, tensor.Window{Stride: of(2), Padding: of(2)}},
		"many terms": {of(2, 33, 9, 11), of(40, 33, 3, 3), false,
			tensor.Window{Padding: of(1, 2), Stride: of(2, 1), Dilation: of(1, 2)}},
		"groups":      {of(3, 6, 9, 10), of(9, 2, 3, 2), false, tensor.Window{Groups: 3, Padding: of(2)}},
		"three axes":  {of(1, 2, 5, 6, 7), of(4, 2, 2, 3, 1), false, tensor.Window{Stride: of(1, 2, 3)}},
		"phases":      {of(2, 3, 10, 11), of(4, 3, 2, 2), false, tensor.Window{Stride: of(3), Dilation: of(2)}},
		"same phases": {of(1, 2, 13), of(3, 2, 3), false, tensor.Window{Stride: of(4), Dilation: of(2)}},
		"transposed":  {of(2, 6, 5, 4), of(6, 2, 3, 2), true, tensor.Window{Stride: of(2, 3), Groups: 2}},
		"apart":       {of(1, 40, 9), of(40, 9, 4), true, tensor.Window{Padding: of(2), Dilation: of(3)}},
		"pieces":      {of(7, 600, 90, 1), of(2, 600, 41, 1), false, tensor.Window{Padding: of(25, 0)}},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
			large := name == "pieces"
			if large && dt == tensor.Float64 {
				continue
			}
			for _, transposed := range some(2, false, true) {
				if large && transposed {
					continue
				}
				x := tensor.Uniform(tensor.Seed(1), -2, 2, s.x...)
				weight := tensor.Uniform(tensor.Seed(2), -2, 2, s.weight...)
				channels := s.weight[0]
				if s.transpose {
					channels = s.weight[1] * max(s.w.Groups, 1)
				}
				bias := tensor.Uniform(tensor.Seed(3), -2, 2, channels)
				if transposed { // with NaN and infinities
					x = tensor.Uniform(tensor.Seed(4), 0, 1, s.x...).LessScalar(0.05).
						Where(tensor.Of(float32(math.NaN())), x)
					weight = tensor.Uniform(tensor.Seed(5), 0, 1, s.weight...).LessScalar(0.01).
						Where(tensor.Of(float32(math.Inf(1))), weight)
				}
				swap := func(x *tensor.Tensor) *tensor.Tensor { return x }
				if last := len(s.x) - 1; transposed {
					swap = func(x *tensor.Tensor) *tensor.Tensor { return x.Transpose(0, last) }
				}
				in := []*tensor.Tensor{swap(x).Contiguous().To(dt), swap(weight).Contiguous().To(dt), bias.To(dt)}
				what := fmt.Sprint(name, " of ", dt, ", transposed ", transposed)
				same(t, cpu, gpu, what, in, func(in []*tensor.Tensor) []*tensor.Tensor {
					for i := range in {
						in[i] = autograd.Watch(in[i].Scope(), in[i])
					}
					call := swap(in[0]).Conv
					if s.transpose {
						call = func(weight, bias *tensor.Tensor, w tensor.Window) *tensor.Tensor {
							return swap(in[0]).ConvTranspose(weight, bias, w)
						}
					}
					y := call(swap(in[1]), in[2], s.w)
					g := y.Scope().In(tensor.Uniform(tensor.Seed(6), -1, 1, y.Shape()...).To(dt))
					return append(one(y), autograd.Grad(y, in, autograd.GradOutput(g))...)
				})
			}
		}
	}
}
