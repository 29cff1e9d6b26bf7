package amp_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A batch in parts of unequal size gives the update of the whole batch, with clipping, autocast and scaling as without.
func TestAccumulate(t *testing.T) {
	const rows, classes = 13, 5
	bounds := []int{0, 1, 6, 6, 13} // one part is empty
	x, targets := make([]float32, rows*4), make([]int64, rows)
	for i := range x {
		x[i] = float32(math.Sin(float64(3 * i)))
	}
	counted := 0
	for i := range targets {
		if targets[i] = int64(i % classes); i%4 == 1 {
			targets[i] = -100 // ignored
		} else {
			counted++
		}
	}
	for _, c := range []struct {
		name      string
		lower     tensor.DType
		tolerance float64 // relative to the largest change of a weight
	}{
		{"float32", tensor.Float32, 1e-5},
		{"float16", tensor.Float16, 2e-3}, // parts round the weights' half gradients one by one
		{"bfloat16", tensor.BFloat16, 1e-2},
	} {
		t.Run(c.name, func(t *testing.T) {
			train := func(bounds []int) (weights []float64, loss float64) {
				dev, err := tensor.Open("cpu", tensor.Seed(7))
				must(t, err)
				defer dev.Close()
				model := nn.Sequential(nn.NewLinear(4, 8), nn.GELU, nn.NewLinear(8, classes))
				must(t, nn.Init(dev, model))
				opt := optim.New(optim.SGD(1, optim.Momentum(0.9)), model, optim.Clip(0.1))
				scaler := amp.NewGradScaler(amp.Enabled(c.lower == tensor.Float16))
				for range 3 {
					must(t, dev.Step(func(s *tensor.Scope) error {
						in, want := s.In(tensor.FromSlice(x, rows, 4)), s.In(tensor.FromSlice(targets, rows))
						l := autograd.Accumulate(s, len(bounds)-1, float64(counted), func(i int) *tensor.Tensor {
							lo, hi := bounds[i], bounds[i+1]
							return nn.CrossEntropy(model.Forward(in.Slice(0, lo, hi)), want.Slice(0, lo, hi),
								nn.ReduceSum())
						}, scaler.Scale)
						loss = l.Item()
						return scaler.Step(s, opt)
					}, amp.Autocast(c.lower)))
				}
				for _, p := range nn.Parameters(model) {
					weights = append(weights, tensor.ToSlice[float64](p)...)
				}
				return append(weights, loss), loss
			}
			whole, loss := train([]int{0, rows})
			parts, _ := train(bounds)
			if !(loss > 0) {
				t.Fatalf("the loss is %v", loss)
			}
			for i := range whole {
				if d := math.Abs(whole[i] - parts[i]); !(d <= c.tolerance*0.3) { // three steps of norm 0.1
					t.Fatalf("number %d: %v in parts, %v as a whole", i, parts[i], whole[i])
				}
			}
		})
	}
}

// The mean over each part, and then over the parts, is another gradient; this is what Accumulate avoids.
func TestMeanOfMeans(t *testing.T) {
	dev, err := tensor.Open("cpu")
	must(t, err)
	defer dev.Close()
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{1}, 1))
	terms := []float64{1, 2, 30}
	must(t, dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.FromSlice(terms, 3))
		mean := autograd.Accumulate(s, 2, 3, func(i int) *tensor.Tensor {
			return x.Slice(0, 2*i, 2+i).Mul(w).Sum() // two terms, then one
		})
		if mean.Item() != 11 {
			t.Errorf("the mean loss is %v", mean.Item())
		}
		return nil
	}))
	if g := w.Grad().Item(); g != 11 {
		t.Errorf("the gradient is %v, want 11", g)
	}
	for _, total := range []float64{0, -1, math.NaN()} {
		if err := dev.Step(func(s *tensor.Scope) error {
			autograd.Accumulate(s, 1, total, func(int) *tensor.Tensor { return s.In(w).Sum() })
			return nil
		}); err == nil {
			t.Errorf("a total of %v is taken", total)
		}
	}
}
