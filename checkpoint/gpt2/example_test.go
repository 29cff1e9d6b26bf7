package gpt2_test

import (
	"fmt"
	"log"

	"github.com/weft-ml/weft/checkpoint/gpt2"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func Example() {
	dev, err := tensor.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	model, err := gpt2.Load(dev, "testdata/one")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(nn.CountParameters(model))
	err = dev.Eval(func(s *tensor.Scope) error {
		logits := model.Forward(s.In(tensor.FromSlice([]int64{3, 1, 4}, 1, 3)))
		fmt.Println(logits.Shape())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 27808
	// [1 3 61]
}
