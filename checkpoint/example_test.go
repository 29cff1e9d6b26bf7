package checkpoint_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func Example() {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	trained, model := nn.NewLinear(3, 2), nn.NewLinear(3, 2)
	if err := nn.Init(dev, trained); err != nil {
		log.Fatal(err)
	}
	if err := checkpoint.SaveModel(path, trained); err != nil {
		log.Fatal(err)
	}
	if err := nn.Init(dev, model, nn.DType(tensor.BFloat16)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(checkpoint.Load(model, path, checkpoint.Convert()))

	other := nn.NewLinear(3, 4, nn.NoBias())
	if err := nn.Init(dev, other); err != nil {
		log.Fatal(err)
	}
	err = checkpoint.Load(other, path)
	fmt.Println(err.(*checkpoint.MatchError).Wrong, err.(*checkpoint.MatchError).Extra)
	// Output:
	// <nil>
	// [weight has shape [2 3] in the file, want [4 3]] [bias]
}

// A run that is stopped after three steps, and goes on in new objects.
func ExampleManager() {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	train := func(until int) string {
		dev, err := tensor.Open("cpu", tensor.Seed(1))
		if err != nil {
			log.Fatal(err)
		}
		defer dev.Close()
		model := nn.NewLinear(3, 2)
		if err := nn.Init(dev, model); err != nil {
			log.Fatal(err)
		}
		opt := optim.New(optim.AdamW(0.1), model)
		ck, err := checkpoint.Open(dir, checkpoint.Keep(2))
		if err != nil {
			log.Fatal(err)
		}
		st := &checkpoint.State{Device: dev, Model: model, Optimizer: opt}
		step, err := ck.Resume(st)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("from step", step)
		for step < until {
			if err := dev.Step(func(s *tensor.Scope) error {
				x := s.Uniform(-1, 1, 4, 3)
				autograd.Backward(nn.MSE(model.Forward(x), x.Slice(1, 0, 2)))
				return opt.Step(s)
			}); err != nil {
				log.Fatal(err)
			}
			step++
			if err := ck.Save(step, st, nil); err != nil {
				log.Fatal(err)
			}
		}
		if err := ck.Close(); err != nil {
			log.Fatal(err)
		}
		return opt.Hash()
	}
	train(3)
	hash := train(5)
	info, err := checkpoint.Verify(dir)
	fmt.Println(err, info.Step, info.Hash["optimizer"] == hash)
	// Output:
	// from step 0
	// from step 3
	// <nil> 5 true
}
