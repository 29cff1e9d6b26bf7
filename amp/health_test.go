package amp_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func TestNonFinite(t *testing.T) {
	dev := open(t)
	layers := []*nn.Linear{nn.NewLinear(3, 4), nn.NewLinear(4, 2), nn.NewLinear(2, 2)}
	model := nn.Sequential(layers[0], layers[1], layers[2])
	must(t, nn.Init(dev, model))
	all := nn.Parameters(model)
	for _, c := range []struct {
		bad  float32
		want []string
	}{{1, nil}, {float32(math.Inf(1)), []string{"1.weight", "1.bias"}}} {
		must(t, dev.Step(func(s *tensor.Scope) error {
			x := s.In(tensor.FromSlice([]float32{1, 2, 3}, 1, 3))
			h := layers[0].Forward(x).Detach() // the first layer has no gradient, the last one a finite one
			y := layers[1].Forward(h)
			slope := s.In(tensor.FromSlice([]float32{c.bad, 1}, 2))
			autograd.Backward(layers[2].Forward(y.Detach()).Sum().Add(y.Mul(slope).Sum()))
			if got := amp.NonFinite(s, all); !slices.Equal(got, c.want) {
				t.Errorf("a factor of %v: %v, want %v", c.bad, got, c.want)
			}
			return nil
		}))
		all[0].ClearGrads()
	}
}
