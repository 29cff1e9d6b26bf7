// Cnn trains a convolutional network on images of handwritten digits, which are built in, or with -data DIR on
// Fashion-MNIST or MNIST in IDX files. It ends with the accuracy on images it has not seen.
//
//	go run ./examples/cnn
//	go run ./examples/cnn -data /usr/share/datasets/fashion-mnist -epochs 8
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
	os.Exit(train.Main(train.Options{Epochs: 12, Seed: 42, AMP: true, Checkpoints: true, Halves: true,
		Data: "directory of the four IDX files of Fashion-MNIST or MNIST (default: built-in digits)"}, learn))
}

// network classifies images of size x size pixels. Two of its convolutions halve the size.
func network(size, width int, dropout float64) nn.Module {
	conv := func(in, out, stride int) *nn.Conv2d {
		return nn.NewConv2d(in, out, 3, nn.Padding(1), nn.Stride(stride))
	}
	images := nn.Func(func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(x.Dim(0), 1, size, size) })
	return nn.Sequential(images,
		conv(1, width, 1), nn.ReLU, conv(width, width, 2), nn.ReLU,
		conv(width, 2*width, 1), nn.ReLU, conv(2*width, 2*width, 2), nn.ReLU,
		nn.Flatten, nn.NewDropout(dropout), nn.NewLinear(2*width*(size/4)*(size/4), 128), nn.ReLU,
		nn.NewDropout(dropout), nn.NewLinear(128, 10))
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()

	trainSet, testSet, err := data.Digits(r.Seed)
	model, batch, rule := network(8, 16, 0.4), 32, optim.AdamW(3e-3, optim.WeightDecay(0.05))
	if r.Data != "" {
		trainSet, testSet, err = data.FashionMNIST(r.Data)
		model, batch, rule = network(28, 32, 0.25), 128, optim.AdamW(2e-3, optim.WeightDecay(0.05))
	}
	if err != nil {
		return err
	}
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	r.Printf("%d parameters, %d images to train with, %d to test",
		nn.CountParameters(model), trainSet.Len(), testSet.Len())

	loader := &data.Loader{Dataset: trainSet, BatchSize: batch, Shuffle: true, Seed: r.Seed, Epochs: r.Epochs,
		Device: dev}
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
				return nn.CrossEntropy(model.Forward(x), y)
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
	var matrix train.ConfusionMatrix
	for b, err := range (&data.Loader{Dataset: testSet, BatchSize: 500}).Batches(ctx) {
		if err != nil {
			return err
		}
		err = r.EvalStep(b.X.Dim(0), func(s *tensor.Scope, lo, hi int) error {
			matrix.Add(model.Forward(s.In(b.X.Slice(0, lo, hi))), b.Y.Slice(0, lo, hi))
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.Metric("test_accuracy", matrix.Accuracy())
	if r.Hash {
		r.Metric("hash", opt.Hash())
	}
	return nil
}
