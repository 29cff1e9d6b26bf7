// Hello learns to read handwritten digits of 8x8 pixels, which are built in, and reads three that it has not seen.
package main

import (
	"context"
	"log"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func main() {
	dev, err := tensor.Open("auto", tensor.Seed(42)) // the fastest device there is
	check(err)
	seen, unseen, err := data.Digits(42)
	check(err)
	model := nn.Sequential(nn.NewLinear(64, 64), nn.GELU, nn.NewLinear(64, 10))
	check(nn.Init(dev, model)) // names, first values, memory on the device
	opt := optim.New(optim.AdamW(3e-3), model)
	loader := &data.Loader{Dataset: seen, BatchSize: 32, Shuffle: true, Epochs: 20}
	for b, err := range loader.Batches(context.Background()) {
		check(err)
		check(dev.Step(func(s *tensor.Scope) error { // one training step: it succeeds, or changes nothing
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(b.X)), s.In(b.Y)))
			return opt.Step(s)
		}))
	}
	b, err := unseen.Batch([]int{7, 70, 300})
	check(err)
	check(dev.Eval(func(s *tensor.Scope) error { log.Print(model.Forward(s.In(b.X)).ArgMax(-1), b.Y); return nil }))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
