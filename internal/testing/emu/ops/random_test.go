//go:build emu && cuda && cgo && linux

package ops

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// Random numbers of a step on a GPU are those of the CPU, to the bit.
func TestRandom(t *testing.T) {
	draw := func(dev *tensor.Device) (all []float64) {
		if err := dev.Step(func(s *tensor.Scope) error {
			weights := s.Uniform(0, 1, 4, 9)
			for _, x := range []*tensor.Tensor{weights, s.Randn(101), s.RandInt(-3, 1000, 33), s.Bernoulli(0.5, 33),
				s.Multinomial(weights, 20, true), s.Multinomial(weights, 5, false)} {
				all = append(all, tensor.ToSlice[float64](x)...)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	got, want := draw(open(t, "cuda")), draw(open(t, "cpu"))
	if !slices.Equal(got, want) || len(got) != 36+101+33+33+80+20 {
		t.Errorf("drew %v, the CPU %v", got, want)
	}
}
