//go:build emu && cuda && cgo && linux

package train

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestLayers: layers that are made of many operations give the CPU's bits: results in training and evaluation,
// gradients and running statistics.
func TestLayers(t *testing.T) {
	forward := func(model any, x *tensor.Tensor) *tensor.Tensor {
		if r, ok := model.(*nn.Recurrent); ok {
			y, _ := r.Run(x, nn.RecurrentState{}, []int{2, 5, 1, 3})
			return y
		}
		return model.(nn.Module).Forward(x)
	}
	for name, c := range map[string]struct {
		make  func() any
		shape []int
	}{
		"batch":      {func() any { return nn.NewBatchNorm2d(3) }, []int{4, 3, 5, 7}},
		"cumulative": {func() any { return nn.NewBatchNorm1d(3, nn.CumulativeAverage()) }, []int{9, 3}},
		"instance":   {func() any { return nn.NewInstanceNorm1d(3, nn.Affine(true)) }, []int{4, 3, 5}},
		"group":      {func() any { return nn.NewGroupNorm(3, 6) }, []int{4, 6, 5}},
		"lstm":       {func() any { return nn.NewLSTM(6, 5, nn.Bidirectional(), nn.Projection(4)) }, []int{5, 4, 6}},
		"gru":        {func() any { return nn.NewGRU(6, 5, nn.Layers(2)) }, []int{5, 4, 6}},
		"rnn":        {func() any { return nn.NewRNN(6, 5, nn.WithReLU()) }, []int{5, 4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(device string) (all []float32) {
				dev := open(t, device)
				model := c.make()
				must(t, nn.Init(dev, model))
				keep := func(x *tensor.Tensor) { all = append(all, tensor.ToSlice[float32](x)...) }
				x := tensor.Uniform(tensor.Seed(1), -2, 2, c.shape...)
				for range 2 {
					must(t, dev.Step(func(s *tensor.Scope) error {
						xs := autograd.Watch(s, s.In(x))
						y := forward(model, xs)
						keep(y)
						for _, g := range autograd.Grad(y.Square().Sum(), append(nn.Parameters(model), xs)) {
							keep(g)
						}
						return nil
					}))
				}
				must(t, dev.Eval(func(s *tensor.Scope) error { keep(forward(model, s.In(x))); return nil }))
				nn.Walk(model, func(_ string, p *tensor.Tensor) { keep(p) })
				return all
			}
			if got, want := run("cuda"), run("cpu"); !slices.Equal(got, want) {
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("number %d of %d is %v, on the CPU %v", i, len(want), got[i], want[i])
					}
				}
			}
		})
	}
}
