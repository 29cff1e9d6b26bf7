// Mlp trains a multilayer perceptron on images of handwritten digits, which are built in, or with
// -data DIR on Fashion-MNIST or MNIST in IDX files. It ends with the accuracy on images it has not seen.
//
//	go run ./examples/mlp
//	go run ./examples/mlp -data /usr/share/datasets/fashion-mnist -epochs 5
package main

import (
	"context"
	"os"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

func main() {
	os.Exit(train.Main(train.Options{Epochs: 40, Seed: 42, AMP: true, Workers: true, Checkpoints: true, Halves: true,
		Data: "directory of the four IDX files of Fashion-MNIST or MNIST (default: built-in digits)"}, learn))
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()

	// There are few images: dropout and weight decay prevent overfitting.
	trainSet, testSet, err := data.Digits(r.Seed)
	model := nn.Sequential(
		nn.NewLinear(64, 256), nn.GELU, nn.NewDropout(0.4),
		nn.NewLinear(256, 128), nn.GELU, nn.NewDropout(0.4),
		nn.NewLinear(128, 10))
	batch, rule := 32, optim.AdamW(3e-3, optim.WeightDecay(0.1))
	if r.Data != "" {
		trainSet, testSet, err = data.FashionMNIST(r.Data)
		model = nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 128), nn.GELU, nn.NewLinear(128, 10))
		batch, rule = 128, optim.AdamW(1e-3)
	}
	if err != nil {
		return err
	}
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	r.Printf("%d parameters, %d images to train with, %d to test",
		nn.CountParameters(model), trainSet.Len(), testSet.Len())

	loader := &data.Loader{Dataset: trainSet.Bytes(), BatchSize: batch, Shuffle: true, Seed: r.Seed, Epochs: r.Epochs,
		Workers: r.Workers, Prefetch: r.Prefetch, Device: dev}
	steps := r.Epochs * loader.BatchesPerEpoch()
	opt := optim.New(rule, model)
	rate := optim.WarmupCosine(rule.LR, rule.LR/100, steps/20, steps)
	scaler := r.Scaler()
	r.Health(scaler, opt.GradNorm, nn.Parameters(model))
	r.Expect(steps, "examples")
	step, err := r.Resume(&checkpoint.State{Device: dev, Model: model, Optimizer: opt, Scaler: scaler, Data: loader})
	if err != nil {
		return err
	}
	for b, err := range loader.Batches(ctx) {
		if err != nil && ctx.Err() != nil {
			break // Ctrl-C; a batch that came counts as used, also then
		}
		if err != nil {
			return err
		}
		var loss float64
		opt.LR.Set(rate(step))
		err = r.TrainStep(b.X.Dim(0), func(s *tensor.Scope) error {
			loss = r.Backward(s, b.X, b.Y, func(x, y *tensor.Tensor) *tensor.Tensor {
				return nn.CrossEntropy(model.Forward(trainSet.Scale(x)), y)
			}, scaler.Scale).Item()
			r.Gradients(s)
			return scaler.Step(s, opt)
		})
		if err != nil {
			return err
		}
		step++
		r.Step(loss, b.X.Dim(0))
	}
	if err := r.SaveLast(); err != nil {
		return err
	}
	matrix, err := test(ctx, r, model, testSet)
	if err != nil {
		return err
	}
	r.Printf("%v", matrix)
	r.Metric("test_accuracy", matrix.Accuracy())
	if r.Hash {
		r.Metric("hash", opt.Hash())
	}
	return nil
}

// test counts which digit of a set is taken for which.
func test(ctx context.Context, r *train.Run, model nn.Module, set data.Dataset) (*train.ConfusionMatrix, error) {
	var matrix train.ConfusionMatrix
	loader := &data.Loader{Dataset: set, BatchSize: 500}
	for b, err := range loader.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		err = r.EvalStep(b.X.Dim(0), func(s *tensor.Scope, lo, hi int) error {
			matrix.Add(model.Forward(s.In(b.X.Slice(0, lo, hi))), b.Y.Slice(0, lo, hi))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return &matrix, nil
}
