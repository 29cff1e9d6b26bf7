// Images trains a small convolutional network on a folder of pictures: flowers/rose/1.jpg and so on, a folder for each
// class. Without -data it draws such a folder, of discs, squares, triangles and crosses. Every fifth picture is for the
// test; the others are cut and flipped at random each time.
//
//	go run ./examples/images
//	go run ./examples/images -data flowers -size 64 -epochs 30 -workers 2
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

var (
	size  = flag.Int("size", 24, "width and height in pixels that pictures are brought to; a multiple of 4")
	width = flag.Int("width", 16, "channels of the first layers")
	batch = flag.Int("batch", 32, "pictures in a step")
)

func main() {
	os.Exit(train.Main(train.Options{Epochs: 10, Seed: 42, AMP: true, Workers: true, Checkpoints: true, Halves: true,
		Check: check, Data: "folder with a folder of pictures for each class (default: shapes that are drawn)"}, learn))
}

// check reports flags that make no model.
func check() error {
	if *size < 4 || *size > 1024 || *size%4 != 0 || *width < 1 || *width > 1024 || *batch < 1 || *batch > 1<<16 {
		return fmt.Errorf("-size must be a multiple of 4 from 4 to 1024, -width from 1 to 1024, -batch from 1 to 65536")
	}
	return nil
}

// mean and std of each colour, as those who train on ImageNet use them.
var mean, std = []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}

// part is some of the pictures of a folder.
type part struct {
	*data.Pictures
	indices []int
}

func (p part) Len() int                       { return len(p.indices) }
func (p part) At(i int) (data.Picture, error) { return p.Pictures.At(p.indices[i]) }

// split puts every fifth picture into the second part.
func split(all *data.Pictures) (learned, tested part) {
	learned, tested = part{Pictures: all}, part{Pictures: all}
	for i := range all.Len() {
		p := &learned
		if i%5 == 4 {
			p = &tested
		}
		p.indices = append(p.indices, i)
	}
	return learned, tested
}

// network classifies pictures. Two of its convolutions halve the size.
func network(classes int) nn.Module {
	conv := func(in, out, stride int) *nn.Conv2d {
		return nn.NewConv2d(in, out, 3, nn.Padding(1), nn.Stride(stride))
	}
	w := *width
	return nn.Sequential(
		conv(3, w, 1), nn.ReLU, conv(w, w, 2), nn.ReLU, conv(w, 2*w, 1), nn.ReLU, conv(2*w, 2*w, 2), nn.ReLU,
		nn.Flatten, nn.NewLinear(2*w*(*size/4)*(*size/4), 64), nn.ReLU, nn.NewDropout(0.3), nn.NewLinear(64, classes))
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	folder := r.Data
	if folder == "" {
		dir, err := os.MkdirTemp("", "weft-images-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if folder, err = draw(dir, *size, r.Seed); err != nil {
			return err
		}
	}
	pictures, err := data.ImageFolder(folder)
	if err != nil {
		return err
	}
	learned, tested := split(pictures)
	model := network(len(pictures.Classes()))
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	r.Printf("%d parameters, %d pictures to train with, %d to test, %d classes", nn.CountParameters(model),
		learned.Len(),
		tested.Len(), len(pictures.Classes()))

	changed := data.Map(data.Shuffle(data.From(learned), r.Seed), func(s data.Sample, p data.Picture) (data.Picture,
		error) {
		return p.ResizeShorter(*size).Pad(2).RandomCrop(s.Random, *size, *size).RandomFlip(s.Random), nil
	})
	batches := data.Batches(changed, *batch, data.PictureBatch(mean, std), data.Epochs(r.Epochs),
		data.Workers(r.Workers), data.Prefetch(cmp.Or(r.Prefetch, 2*r.Workers)), data.On(dev))
	steps := r.Epochs * ((learned.Len() + *batch - 1) / *batch)
	rule := optim.AdamW(2e-3, optim.WeightDecay(0.05))
	opt := optim.New(rule, model)
	rate := optim.WarmupCosine(rule.LR, rule.LR/100, steps/20, steps)
	scaler := r.Scaler()
	r.Health(scaler, opt.GradNorm, nn.Parameters(model))
	r.Expect(steps, "pictures")
	step, err := r.Resume(&checkpoint.State{Device: dev, Model: model, Optimizer: opt, Scaler: scaler, Data: batches})
	if err != nil {
		return err
	}
	it, err := batches.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for b, err := range it.All() {
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
	return test(r, model, tested, opt)
}

// test reports how many of the pictures for the test are classified rightly.
func test(r *train.Run, model nn.Module, tested part, opt *optim.Optimizer) error {
	whole := data.Map(data.From(tested), func(_ data.Sample, p data.Picture) (data.Picture, error) {
		return p.ResizeShorter(*size).CenterCrop(*size, *size), nil
	})
	it, err := data.Batches(whole, 200, data.PictureBatch(mean, std)).Start(context.Background(), nil)
	if err != nil {
		return err
	}
	defer it.Close()
	var matrix train.ConfusionMatrix
	for b, err := range it.All() {
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
