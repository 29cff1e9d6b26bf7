// Regression fits a network to 1,000 noisy values of a function of ten variables, of which five do not matter:
//
//	y = 10 sin(π a b) + 20 (c - 0.5)² + 10 d + 5 e + noise,  all variables uniform in [0, 1)
//
// (Friedman 1991, "Multivariate Adaptive Regression Splines"). The noise has deviation 1. Training stops when values
// that are held out are not predicted better any more, and the best weights are tested on new values.
//
//	go run ./examples/regression
package main

import (
	"context"
	"math"
	"math/rand/v2"
	"os"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

func main() { os.Exit(train.Main(train.Options{Epochs: 300, Seed: 42, Halves: true}, learn)) }

// The function's variables, and the mean and deviation of its values.
const variables, mean, deviation = 10, 14.4, 4.9

// friedman is n examples of the function: inputs, and values, both moved and scaled to mean 0 and deviation 1.
func friedman(random *rand.Rand, n int) (*data.Arrays[float32, float32], error) {
	x, y := make([]float32, n*variables), make([]float32, n)
	for i := range y {
		v := make([]float64, variables)
		for k := range v {
			v[k] = random.Float64()
			x[i*variables+k] = float32((v[k] - 0.5) * math.Sqrt(12))
		}
		value := 10*math.Sin(math.Pi*v[0]*v[1]) + 20*(v[2]-0.5)*(v[2]-0.5) + 10*v[3] + 5*v[4] + random.NormFloat64()
		y[i] = float32((value - mean) / deviation)
	}
	return data.NewArrays(x, []int{variables}, y, []int{1})
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	random := rand.New(rand.NewPCG(r.Seed, 0))
	var sets [3]*data.Arrays[float32, float32] // to train with, to stop by, to test with
	for i, n := range []int{1000, 500, 2000} {
		if sets[i], err = friedman(random, n); err != nil {
			return err
		}
	}
	model := nn.Sequential(nn.NewLinear(variables, 64), nn.GELU, nn.NewLinear(64, 64), nn.GELU, nn.NewLinear(64, 1))
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	best, err := nn.Clone(dev, model)
	if err != nil {
		return err
	}
	loader := &data.Loader{Dataset: sets[0], BatchSize: 50, Shuffle: true, Seed: r.Seed}
	opt := optim.New(optim.AdamW(2e-3, optim.WeightDecay(0.1)), model)
	stop := train.EarlyStopping{Patience: 20}
	r.Expect(r.Epochs*loader.BatchesPerEpoch(), "examples")
	for epoch := 0; epoch < r.Epochs && ctx.Err() == nil && !stop.Done(); epoch++ {
		for k := range loader.BatchesPerEpoch() {
			b, err := loader.Batch(epoch, k)
			if err != nil {
				return err
			}
			var loss float64
			err = r.TrainStep(b.X.Dim(0), func(s *tensor.Scope) error {
				loss = r.Backward(s, b.X, b.Y, func(x, y *tensor.Tensor) *tensor.Tensor {
					return nn.MSE(model.Forward(x), y)
				}).Item()
				return opt.Step(s)
			})
			if err != nil {
				return err
			}
			r.Step(loss, b.X.Dim(0))
		}
		rmse, err := test(dev, model, sets[1])
		if err == nil && stop.Better(rmse) {
			err = nn.CopyTo(best, model)
		}
		if err != nil {
			return err
		}
	}
	rmse, err := test(dev, best, sets[2])
	if err != nil {
		return err
	}
	r.Metric("epochs", stop.Count)
	r.Metric("test_rmse", rmse)
	if r.Hash {
		r.Metric("hash", opt.Hash())
	}
	return nil
}

// test is the root of the mean squared error over a set, in units of the noise. No model can go below 1.
func test(dev *tensor.Device, model nn.Module, set *data.Arrays[float32, float32]) (rmse float64, err error) {
	b, err := (&data.Loader{Dataset: set, BatchSize: set.Len()}).Batch(0, 0)
	if err != nil {
		return 0, err
	}
	err = dev.Eval(func(s *tensor.Scope) error {
		rmse = deviation * math.Sqrt(nn.MSE(model.Forward(s.In(b.X)), b.Y).Item())
		return nil
	})
	return rmse, err
}
