package main

import (
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/images"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// launches returns the sources of the pointwise kernels that f launches.
func launches(t *testing.T, f func(dev *tensor.Device) error) map[string]*src.Pointwise {
	t.Helper()
	recording.sources, recording.faults = map[string]*src.Pointwise{}, map[string]bool{}
	dev, err := tensor.Open("recorder")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := f(dev); err != nil {
		t.Fatal(err)
	}
	return recording.sources
}

// TestTrainingNeedsNoCompiler trains as the examples do, in all types: every pointwise kernel must have an image.
func TestTrainingNeedsNoCompiler(t *testing.T) {
	shipped := map[string]bool{}
	for _, m := range images.All() {
		shipped[m.Text] = true
	}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		launched := launches(t, func(dev *tensor.Device) error {
			model := nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 4, Width: 8, Heads: 2, Layers: 1, Dropout: 0.1})
			if err := nn.Init(dev, model); err != nil {
				return err
			}
			opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1), optim.NoDecay(optim.Vectors))
			scaler := amp.NewGradScaler(amp.Enabled(dt == tensor.Float16))
			words := tensor.Zeros(tensor.Int64, 2, 4)
			for range 2 {
				err := dev.Step(func(s *tensor.Scope) error {
					autograd.Accumulate(s, 2, 16, func(int) *tensor.Tensor {
						return nn.CrossEntropy(model.Forward(s.In(words)), s.In(words)).Scale(8)
					}, scaler.Scale)
					return scaler.Step(s, opt)
				}, amp.Autocast(dt))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if len(launched) < 10 {
			t.Errorf("%v: %d kernels", dt, len(launched))
		}
		for text, p := range launched {
			if !shipped[src.Sum(text)] {
				t.Errorf("%v: there is no image of %s; run make kernels", dt, p.Name)
			}
		}
	}
}

// TestPointwiseNames: operations of one name have kernels of their own.
func TestPointwiseNames(t *testing.T) {
	name := func(text string, d kernels.DType) string {
		a := kernels.Arg{DType: d}
		return src.PointwiseOf(&kernels.Launch{Op: &kernels.Op{Name: "sgd.1",
			Expr: expr.Must(text, []string{"x"}, nil)}, In: []kernels.Arg{a}, Out: []kernels.Arg{a}}).Name
	}
	a := name("x+1", kernels.Float32)
	if !strings.HasPrefix(a, "pointwise_sgd_1_") || !strings.HasSuffix(a, "_f32_f32") {
		t.Errorf("name %s", a)
	}
	if a == name("x+2", kernels.Float32) || a == name("x+1", kernels.Float16) || a != name("x + 1", kernels.Float32) {
		t.Error("names are not by content and types")
	}
}
