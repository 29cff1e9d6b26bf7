package nn_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func TestGoldenWeightNorms(t *testing.T) {
	var cases []moduleCase
	add := func(name string, f func() any) { cases = append(cases, moduleCase{name, f, layer}) }
	linear := func(opts ...nn.LayerOption) *nn.Linear { return nn.NewLinear(4, 3, opts...) }
	add("weight linear", func() any { return nn.NewWeightNorm(linear()) })
	add("weight linear axis 1", func() any { return nn.NewWeightNorm(linear(), nn.NormAxis(-1)) })
	add("weight conv", func() any { return nn.NewWeightNorm(nn.NewConv2d(2, 3, 2)) })
	add("weight transposed", func() any { return nn.NewWeightNorm(nn.NewConvTranspose1d(2, 3, 2, nn.NoBias())) })
	add("spectral linear", func() any { return nn.NewSpectralNorm(linear()) })
	add("spectral conv", func() any { return nn.NewSpectralNorm(nn.NewConv2d(2, 3, 2)) })
	add("spectral conv axis 2", func() any { return nn.NewSpectralNorm(nn.NewConv2d(2, 3, 2), nn.NormAxis(2)) })
	add("spectral transposed", func() any { return nn.NewSpectralNorm(nn.NewConvTranspose1d(2, 3, 2)) })
	add("spectral iterations", func() any {
		return nn.NewSpectralNorm(linear(nn.NoBias()), nn.PowerIterations(3), nn.Eps(1e-3))
	})
	normalize := func(name string, p float64, axis int, eps float64) {
		add(name, func() any {
			return nn.Func(func(x *tensor.Tensor) *tensor.Tensor { return nn.Normalize(x, p, axis, eps) })
		})
	}
	normalize("normalize", 2, 1, 1e-12)
	normalize("normalize 1", 1, 0, 1e-12)
	normalize("normalize 3", 3, -1, 1e-12)
	normalize("normalize inf", math.Inf(1), 1, 1e-12)
	normalize("normalize eps", 2, 1, 2)
	goldenModules(t, "weight_norms.json.gz", cases)
}

// The first weight of a normed layer is that of the layer: the lengths are those of the directions, also on a second
// Init, and a clone computes the same.
func TestWeightNormBegins(t *testing.T) {
	dev := open(t)
	for axis := range 3 {
		model := nn.NewWeightNorm(nn.NewConv1d(2, 3, 4), nn.NormAxis(axis))
		for range 2 {
			initialize(t, dev, model)
			others := []int{tensor.KeepDims}
			for i := range 3 {
				if i != axis {
					others = append(others, i)
				}
			}
			err := dev.Eval(func(s *tensor.Scope) error {
				if !s.In(model.V).Norm(2, others...).AllClose(model.G, 1e-6, 0) {
					t.Errorf("axis %d: the lengths are not those of the directions", axis)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	model := nn.Sequential(nn.NewSpectralNorm(nn.NewLinear(3, 2)), nn.NewWeightNorm(nn.NewLinear(2, 2)))
	initialize(t, dev, model)
	clone, err := nn.Clone(dev, model)
	if err != nil {
		t.Fatal(err)
	}
	err = dev.Eval(func(s *tensor.Scope) error {
		x := s.In(tensor.Randn(tensor.Seed(1), 4, 3))
		if !model.Forward(x).AllEqual(clone.Forward(x)) {
			t.Error("a clone differs")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two calls in one step iterate once, and a step that fails not at all.
func TestSpectralNormState(t *testing.T) {
	dev, x := open(t), tensor.Randn(tensor.Seed(1), 4, 5)
	once, twice := nn.NewSpectralNorm(nn.NewLinear(5, 3)), nn.NewSpectralNorm(nn.NewLinear(5, 3))
	initialize(t, dev, once, nn.Named("m"))
	initialize(t, dev, twice, nn.Named("m"))
	before := tensor.ToSlice[float32](once.U)
	run := func(end error) error {
		return dev.Step(func(s *tensor.Scope) error {
			a := nn.Call("a", once, s.In(x))
			b := nn.Call("b", twice, s.In(x)).Add(nn.Call("b", twice, s.In(x)))
			autograd.Backward(a.Sum().Add(b.Sum()))
			return end
		})
	}
	if err := run(tensor.ErrValue); err == nil {
		t.Fatal("the step did not fail")
	}
	if !once.U.AllEqual(tensor.FromSlice(before, 3)) {
		t.Error("a step that failed has moved u")
	}
	if err := run(nil); err != nil {
		t.Fatal(err)
	}
	if once.U.AllEqual(tensor.FromSlice(before, 3)) {
		t.Error("u has not moved")
	}
	if !once.U.AllEqual(twice.U) || !once.V.AllEqual(twice.V) {
		t.Error("the second call has moved u or v")
	}
}

func TestWeightNormMistakes(t *testing.T) {
	dev := open(t)
	placed := nn.NewLinear(2, 2)
	initialize(t, dev, placed)
	for name, f := range map[string]func(){
		"function":   func() { nn.NewWeightNorm(nn.GELU) },
		"no weight":  func() { nn.NewSpectralNorm(nn.NewDropout(0.5)) },
		"one axis":   func() { nn.NewWeightNorm(nn.NewLayerNorm(3)) },
		"axis":       func() { nn.NewSpectralNorm(nn.NewLinear(2, 2), nn.NormAxis(2)) },
		"has values": func() { nn.NewWeightNorm(placed) },
		"normed":     func() { nn.NewWeightNorm(nn.NewWeightNorm(nn.NewLinear(2, 2))) },
		"no step":    func() { nn.NewSpectralNorm(nn.NewLinear(2, 2)).Forward(tensor.Zeros(tensor.Float32, 1, 2)) },
		"iterations": func() { nn.PowerIterations(0) },
		"option":     func() { nn.NewWeightNorm(nn.NewLinear(2, 2), nn.PowerIterations(2)) },
		"eps":        func() { nn.Normalize(tensor.Zeros(tensor.Float32, 1, 2), 2, 1, -1) },
		"axis of x":  func() { nn.Normalize(tensor.Zeros(tensor.Float32, 1, 2), 2, 2, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := recover().(*tensor.Error); !ok {
					t.Error("no *tensor.Error")
				}
			}()
			f()
		})
	}
	for name, m := range map[string]nn.Module{"function": nn.GELU, "chain": nn.Sequential(), "nothing": nil} {
		err := dev.Eval(func(s *tensor.Scope) error {
			x := s.In(tensor.Ones(tensor.Float32, 2, 3))
			(&nn.WeightNorm{Module: m, G: x, V: x}).Forward(x)
			return nil
		})
		if !errors.Is(err, tensor.ErrValue) {
			t.Errorf("%s, without the constructor: %v", name, err)
		}
	}
}
