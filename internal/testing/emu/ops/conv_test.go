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
		"one by one":  {of(3, 6, 5, 7), of(8, 3, 1, 1), false, tensor.Window{Groups: 2}},
		"ones apart":  {of(3, 6, 5, 7), of(8, 6, 1, 1), false, tensor.Window{Stride: of(2)}},
		"upsampling":  {of(2, 6, 5, 4), of(6, 5, 2, 2), true, tensor.Window{Stride: of(2)}},
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

// TestConvHalf: convolutions in half precision and their gradients, with and without a bias, against float64 on the
// CPU. Each is off by one rounding, and by little of the sum of absolute values that it adds up.
func TestConvHalf(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	of := func(n ...int) []int { return n }
	for name, s := range map[string]struct {
		x, weight []int
		transpose bool
		w         tensor.Window
	}{
		"one axis": {of(2, 4, 300), of(3, 4, 5), false, tensor.Window{Stride: of(2), Padding: of(2)}},
		"many terms": {of(2, 33, 9, 11), of(40, 33, 3, 3), false,
			tensor.Window{Padding: of(1, 2), Dilation: of(1, 2)}},
		"groups":      {of(3, 6, 9, 10), of(9, 2, 3, 2), false, tensor.Window{Groups: 3, Padding: of(2)}},
		"phases":      {of(2, 3, 10, 11), of(4, 3, 2, 2), false, tensor.Window{Stride: of(3), Dilation: of(2)}},
		"transposed":  {of(2, 6, 5, 4), of(6, 2, 3, 2), true, tensor.Window{Stride: of(2, 3), Groups: 2}},
		"upsampling":  {of(2, 6, 5, 4), of(6, 5, 2, 2), true, tensor.Window{Stride: of(2)}},
		"one by one":  {of(3, 16, 6, 8), of(24, 8, 1, 1), false, tensor.Window{Groups: 2}},
		"whole chunk": {of(3, 6, 17, 19), of(8, 6, 1, 1), false, tensor.Window{}},
		"chunks":      {of(9, 3, 40, 40), of(4, 3, 3, 3), false, tensor.Window{Padding: of(1)}},
	} {
		halfTypes(func(d tensor.DType, u, least float64) {
			for _, biased := range []bool{false, true} {
				channels := s.weight[0]
				if s.transpose {
					channels = s.weight[1] * max(s.w.Groups, 1)
				}
				var in []*tensor.Tensor
				shapes := [][]int{s.x, s.weight}
				if biased {
					shapes = append(shapes, of(channels))
				}
				for k, shape := range shapes {
					in = append(in, tensor.Uniform(tensor.Seed(uint64(k)+1), -2, 2, shape...).To(d))
				}
				results := func(dev *tensor.Device, dt tensor.DType,
					prepare func(x *tensor.Tensor) *tensor.Tensor) (all [][]float64) {
					must(t, dev.Step(func(st *tensor.Scope) error {
						var x []*tensor.Tensor
						for _, v := range in {
							x = append(x, autograd.Watch(st, st.In(prepare(v.To(dt)))))
						}
						call, bias := x[0].Conv, (*tensor.Tensor)(nil)
						if s.transpose {
							call = func(weight, bias *tensor.Tensor, w tensor.Window) *tensor.Tensor {
								return x[0].ConvTranspose(weight, bias, w)
							}
						}
						if biased {
							bias = x[2]
						}
						y := call(x[1], bias, s.w)
						g := st.In(prepare(tensor.Uniform(tensor.Seed(6), -1, 1, y.Shape()...).To(d).To(dt)))
						for _, v := range append(one(y), autograd.Grad(y, x, autograd.GradOutput(g))...) {
							all = append(all, tensor.ToSlice[float64](v.To(tensor.Float64)))
						}
						return nil
					}))
					return all
				}
				exact := results(cpu, tensor.Float64, func(x *tensor.Tensor) *tensor.Tensor { return x })
				sizes := results(cpu, tensor.Float64, (*tensor.Tensor).Abs)
				got := results(gpu, d, func(x *tensor.Tensor) *tensor.Tensor { return x })
				for k := range exact {
					for i, want := range exact[k] {
						most := math.Abs(want)*u*(1+0x1p-8) + sizes[k][i]*0x1p-20 + least
						if !(math.Abs(got[k][i]-want) <= most) {
							t.Fatalf("%s of %v, bias %v: element %d of result %d is %v, want %v within %v", name, d,
								biased, i, k, got[k][i], want, most)
						}
					}
				}
			}
		})
	}
}
