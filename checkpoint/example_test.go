package checkpoint_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/nn"
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
