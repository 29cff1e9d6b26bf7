//go:build emu && cuda && cgo && linux

package ops

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// The gradient of cross-entropy has the same bits in the memory of the logits as in memory of its own.
func TestCrossEntropyGradInPlace(t *testing.T) {
	dev := open(t, "cuda")
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		for i, shape := range [][]int{{9, 70}, {2, 2, 1100}} {
			w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(uint64(i)), shape...).To(dt))
			rows := shape[:len(shape)-1]
			targets := tensor.Uniform(tensor.Seed(7), 0, float64(shape[len(shape)-1]), rows...).To(tensor.Int64)
			ignore := nn.IgnoreIndex(int(tensor.ToSlice[int64](targets)[1]))
			for r, reduction := range []nn.LossOption{nn.ReduceMean(), nn.ReduceSum(), nn.ReduceNone()} {
				gradient := func(opts ...autograd.Option) (g []uint64, blocks int) {
					err := dev.Step(func(s *tensor.Scope) error {
						x := s.In(w)
						autograd.Hook(x, func(d *tensor.Tensor) *tensor.Tensor { g = bits(d); return nil })
						loss := s.Region("loss", func() []*tensor.Tensor {
							return []*tensor.Tensor{nn.CrossEntropy(x.Scale(2), targets, reduction,
								nn.LabelSmoothing(0.1), ignore)}
						})[0]
						seed := tensor.Uniform(tensor.Seed(3), 0.5, 1.5, loss.Shape()...).To(dt)
						before := dev.Stats().Memory.Allocs
						autograd.Backward(loss, append(opts, autograd.GradOutput(seed))...)
						blocks = dev.Stats().Memory.Allocs - before
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					w.ClearGrads()
					return g, blocks
				}
				want, own := gradient(autograd.Retain())
				got, inPlace := gradient()
				if !slices.Equal(got, want) {
					t.Errorf("%v%v, reduction %d: the gradient is another one in the memory of the logits", dt, shape,
						r)
				}
				if inPlace != own-2 { // that of the operation before takes the same memory
					t.Errorf("%v%v, reduction %d: backward takes %d blocks from the pool, %d with Retain, "+
						"want two less", dt, shape, r, inPlace, own)
				}
			}
		}
	}
}
