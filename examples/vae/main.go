// Vae trains a variational autoencoder (Kingma and Welling 2014) on images of handwritten digits and then invents
// digits of its own. The encoder maps an image x to the mean and the logarithm of the variance of 8 normal numbers z,
// the decoder maps numbers z to the logits of pixels. The loss of an image is an upper bound of -log p(x):
//
//	cross-entropy of x and the decoded pixels + KL(N(mean, variance), N(0, 1))
//
//	go run ./examples/vae
package main

import (
	"context"
	"os"
	"strings"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

func main() { os.Exit(train.Main(train.Options{Epochs: 100, Seed: 42, Halves: true}, learn)) }

const pixels, latent = 64, 8

type vae struct{ Encoder, Decoder *nn.Chain }

// loss is the mean over images x [B pixels] of the bound above.
func (v *vae) loss(x *tensor.Tensor) *tensor.Tensor {
	code := v.Encoder.Forward(x).Split(1, latent, latent)
	mean, logVar := code[0], code[1]
	z := mean.Add(logVar.Scale(0.5).Exp().Mul(x.Scope().Randn(mean.Shape()...)))
	kl := mean.Square().Add(logVar.Exp()).Sub(logVar).AddScalar(-1).Sum().Scale(0.5)
	bits := nn.BCEWithLogits(v.Decoder.Forward(z), x, nn.ReduceSum())
	return bits.Add(kl).Scale(1 / float64(x.Dim(0)))
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	images, unseen, err := data.Digits(r.Seed)
	if err != nil {
		return err
	}
	model := &vae{
		Encoder: nn.Sequential(nn.NewLinear(pixels, 128), nn.GELU, nn.NewLinear(128, 2*latent)),
		Decoder: nn.Sequential(nn.NewLinear(latent, 128), nn.GELU, nn.NewLinear(128, pixels)),
	}
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	loader := &data.Loader{Dataset: images, BatchSize: 32, Shuffle: true, Seed: r.Seed, Epochs: r.Epochs,
		Device: dev}
	opt := optim.New(optim.AdamW(2e-3, optim.WeightDecay(0)), model)
	r.Expect(r.Epochs*loader.BatchesPerEpoch(), "images")
	for b, err := range loader.Batches(ctx) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		var loss float64
		err = r.TrainStep(b.X.Dim(0), func(s *tensor.Scope) error {
			loss = r.Backward(s, b.X, b.Y, func(x, _ *tensor.Tensor) *tensor.Tensor { return model.loss(x) }).Item()
			return opt.Step(s)
		})
		if err != nil {
			return err
		}
		r.Step(loss, b.X.Dim(0))
	}
	b, err := (&data.Loader{Dataset: unseen, BatchSize: unseen.Len()}).Batch(0, 0)
	if err != nil {
		return err
	}
	return dev.Eval(func(s *tensor.Scope) error {
		x := s.In(b.X)
		r.Metric("test_loss", model.loss(x).Item())
		// Without a model: pixels that do not depend on each other, with the mean of the images each.
		mean := x.Mean(0, tensor.KeepDims).Clamp(1e-3, 1-1e-3).Expand(x.Shape()...)
		r.Metric("mean_image_loss", nn.BCE(mean, x, nn.ReduceSum()).Item()/float64(x.Dim(0)))
		if r.Hash {
			r.Metric("hash", opt.Hash())
		}
		r.Printf("%s", draw(model.Decoder.Forward(s.Randn(6, latent)).Sigmoid().Reshape(6, 8, 8)))
		return nil
	})
}

// draw shows images [count height width], values from 0 to 1, side by side.
func draw(images *tensor.Tensor) string {
	var b strings.Builder
	v, count, height, width := tensor.ToSlice[float32](images), images.Dim(0), images.Dim(1), images.Dim(2)
	for row := range height {
		for image := range count {
			for _, x := range v[(image*height+row)*width:][:width] {
				b.WriteString(strings.Repeat(string(" .:*#"[max(0, min(int(x*5), 4))]), 2))
			}
			b.WriteString("  ")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
