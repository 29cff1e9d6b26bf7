package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// The activations with numbers, in evaluation, against PyTorch's modules.
func TestActivationModules(t *testing.T) {
	dev := open(t)
	x := tensor.FromNested([][]float64{{-2, -0.6, 0.3, 1.5}, {7, -0.2, 0, -1}})
	for _, c := range []struct {
		m    nn.Module
		tree string
		want []float64
	}{
		{nn.NewLeakyReLU(0.2), "LeakyReLU  slope 0.2", []float64{-0.4, -0.12, 0.3, 1.5, 7, -0.04, 0, -0.2}},
		{nn.NewRReLU(0.1, 0.3), "RReLU  lower 0.1, upper 0.3", []float64{-0.4, -0.12, 0.3, 1.5, 7, -0.04, 0, -0.2}},
		{nn.NewELU(1.5), "ELU  alpha 1.5", []float64{-1.297, -0.676783, 0.3, 1.5, 7, -0.271904, 0, -0.948181}},
		{nn.NewCELU(1.5), "CELU  alpha 1.5", []float64{-1.1046, -0.49452, 0.3, 1.5, 7, -0.18724, 0, -0.729874}},
		{nn.NewHardtanh(-0.5, 1), "Hardtanh  min -0.5, max 1", []float64{-0.5, -0.5, 0.3, 1, 1, -0.2, 0, -0.5}},
		{nn.NewHardshrink(0.5), "Hardshrink  bound 0.5", []float64{-2, -0.6, 0, 1.5, 7, 0, 0, -1}},
		{nn.NewSoftshrink(0.5), "Softshrink  bound 0.5", []float64{-1.5, -0.1, 0, 1, 6.5, 0, 0, -0.5}},
		{nn.NewThreshold(0.2, -3), "Threshold  threshold 0.2, value -3", []float64{-3, -3, 0.3, 1.5, 7, -3, -3, -3}},
		{nn.NewGLU(-1), "GLU  axis -1", []float64{-1.14889, -0.490545, 3.5, -0.0537883}},
		{nn.NewGLU(0), "GLU", []float64{-1.99818, -0.2701, 0.15, 0.403412}},
		{nn.NewSoftmax(0), "Softmax",
			[]float64{0.000123395, 0.401312, 0.574443, 0.924142, 0.999877, 0.598688, 0.425557, 0.0758582}},
		{nn.NewSoftmin(1), "Softmin  axis 1",
			[]float64{0.726188, 0.179076, 0.0728068, 0.021929, 0.000184569, 0.247218, 0.202405, 0.550193}},
		{nn.NewLogSoftmax(1), "LogSoftmax  axis 1",
			[]float64{-3.87421, -2.47421, -1.57421, -0.374214, -0.00199195, -7.20199, -7.00199, -8.00199}},
	} {
		if got := fmt.Sprint(c.m); got != c.tree {
			t.Errorf("%q, want %q", got, c.tree)
		}
		err := dev.Eval(func(s *tensor.Scope) error {
			y := tensor.ToSlice[float64](nn.Sequential(c.m).Forward(s.In(x)))
			if len(y) != len(c.want) {
				t.Fatalf("%v: %d elements, want %d", c.m, len(y), len(c.want))
			}
			for i, want := range c.want {
				if math.Abs(y[i]-want) > 1e-5*max(1e-3, math.Abs(want)) {
					t.Errorf("%v, element %d: %v, want %v", c.m, i, y[i], want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The weights of PReLU are parameters: [channels], called weight, 0.25 at first.
func TestPReLUModule(t *testing.T) {
	dev := open(t)
	m := nn.Sequential(nn.NewPReLU(3))
	initialize(t, dev, m)
	if got := fmt.Sprint(names(m), m); got != "[0.weight] Chain                   3 parameters\n"+
		"  0: PReLU  weight [3]  3 parameters" {
		t.Errorf("got %s", got)
	}
	err := dev.Eval(func(s *tensor.Scope) error {
		x := s.In(tensor.Full(-2, tensor.Float32, 2, 3, 4))
		if y := m.Forward(x); !y.AllEqual(x.Scale(0.25)) {
			t.Errorf("got %v", y)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
