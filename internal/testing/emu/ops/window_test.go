//go:build emu && cuda && cgo && linux

package ops

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestWindows: poolings, resampling and folding with their gradients, of contiguous and of transposed operands with
// ties and NaN.
func TestWindows(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	x := tensor.Uniform(tensor.Seed(1), -3, 3, 2, 3, 9, 11)
	ties := x.Round()
	ties = tensor.Uniform(tensor.Seed(2), 0, 1, ties.Shape()...).LessScalar(0.1).
		Where(tensor.Of(float32(math.NaN())), ties)
	resized := func(mode string, size int, antialias bool) func(x *tensor.Tensor) []*tensor.Tensor {
		return func(x *tensor.Tensor) []*tensor.Tensor {
			return one(x.Resample(2, size, mode, 0, false, antialias).Resample(3, size, mode, 0, false, antialias))
		}
	}
	pooled := func(w tensor.Window) func(x *tensor.Tensor) []*tensor.Tensor {
		return func(x *tensor.Tensor) []*tensor.Tensor {
			y, at := x.MaxPoolIndices(w)
			return []*tensor.Tensor{y, at}
		}
	}
	for name, f := range map[string]func(x *tensor.Tensor) []*tensor.Tensor{
		"max_pool": pooled(tensor.Window{Size: []int{3, 3}, Stride: []int{2}, Padding: []int{1}, Ceil: true}),
		"dilated":  pooled(tensor.Window{Size: []int{2, 3, 2}, Stride: []int{1}, Dilation: []int{1, 3, 5}}),
		"adaptive": func(x *tensor.Tensor) []*tensor.Tensor {
			y, at := x.AdaptiveMaxPoolIndices(4, 5)
			return []*tensor.Tensor{y, at, y.MaxUnpool(at, x.Dim(2), x.Dim(3))}
		},
		"indices twice": func(x *tensor.Tensor) []*tensor.Tensor {
			return one(x.MaxUnpool(x.Abs().To(tensor.Int64), 2, 3))
		},
		"avg_pool": func(x *tensor.Tensor) []*tensor.Tensor {
			return one(x.AvgPool(tensor.Window{Size: []int{3, 2}, Padding: []int{1}, ExcludePadding: true}))
		},
		"nearest": resized("nearest", 20, false), "linear": resized("linear", 13, false),
		"cubic":       resized("cubic", 4, true),
		"overlapping": func(x *tensor.Tensor) []*tensor.Tensor { return one(x.Unfold(3, 4, 3)) },
		"columns": func(x *tensor.Tensor) []*tensor.Tensor {
			return one(x.Im2Col(tensor.Window{Size: []int{3, 2}, Padding: []int{1}, Dilation: []int{2}}))
		},
	} {
		for _, in := range []*tensor.Tensor{x, ties} {
			for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
				for _, transposed := range []bool{false, true} {
					what := fmt.Sprint(name, " of ", dt, ", transposed ", transposed)
					same(t, cpu, gpu, what, []*tensor.Tensor{in.To(dt)}, func(in []*tensor.Tensor) []*tensor.Tensor {
						x := autograd.Watch(in[0].Scope(), in[0])
						y := x
						if transposed {
							y = x.Transpose(2, 3)
						}
						all := f(y)
						g := x.Scope().In(tensor.Uniform(tensor.Seed(3), -1, 1, all[0].Shape()...).To(dt))
						return append(all, autograd.Grad(all[0], []*tensor.Tensor{x}, autograd.GradOutput(g))...)
					})
				}
			}
		}
	}
}
