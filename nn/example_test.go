package nn_test

import (
	"fmt"
	"log"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A model is declared, placed on a device, and trained in steps: here it learns exclusive or.
func Example() {
	dev, err := tensor.Open("cpu", tensor.Seed(42))
	check(err)
	defer dev.Close()
	model := nn.Sequential(nn.NewLinear(2, 8), nn.Tanh, nn.NewLinear(8, 2))
	check(nn.Init(dev, model))
	opt := optim.New(optim.AdamW(0.05), model)

	x := tensor.FromSlice([]float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)
	y := tensor.FromSlice([]int64{0, 1, 1, 0}, 4)
	for range 200 {
		check(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), y))
			return opt.Step(s)
		}))
	}
	check(dev.Eval(func(s *tensor.Scope) error {
		fmt.Println(tensor.ToSlice[int64](model.Forward(s.In(x)).ArgMax(-1)))
		return nil
	}))
	// Output:
	// [0 1 1 0]
}

// residual is a layer made of layers: exported fields are parameters or parts, and name them.
type residual struct {
	Norm *nn.LayerNorm
	FC   *nn.Linear `weft:"dense"`
}

func (r *residual) Forward(x *tensor.Tensor) *tensor.Tensor {
	return x.Add(nn.Call("fc", r.FC, nn.Call("norm", r.Norm, x)).GELU())
}

func ExampleModule() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	model := nn.Sequential(&residual{nn.NewLayerNorm(4), nn.NewLinear(4, 4)}, nn.NewLinear(4, 2, nn.NoBias()))
	check(nn.Init(dev, model))
	for _, p := range nn.Parameters(model) {
		fmt.Printf("%s\n", p)
	}
	// Output:
	// 0.norm.weight float32[4]
	// 0.norm.bias float32[4]
	// 0.dense.weight float32[4 4]
	// 0.dense.bias float32[4]
	// 1.weight float32[2 4]
}

func ExampleSummary() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	model := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 10))
	check(nn.Init(dev, model))
	report, err := nn.Summary(dev, model, tensor.Zeros(tensor.Float32, 128, 784))
	check(err)
	for _, l := range report.Layers {
		fmt.Println(l.Path, l.Output, l.Parameters, l.FLOPs)
	}
	fmt.Println("parameters:", report.Total.Parameters, "in", report.Total.Bytes, "bytes")
	// Output:
	// 0 [128 256] 200960 5.1380224e+07
	// 0/linear [128 256] 200960 5.1380224e+07
	// 1 [128 256] 0 32768
	// 2 [128 10] 2570 655360
	// 2/linear [128 10] 2570 655360
	// parameters: 203530 in 814120 bytes
}

func ExampleNewGPT() {
	g := nn.NewGPT(nn.GPTConfig{Vocab: 96, Context: 64, Width: 128, Heads: 4, Layers: 4})
	fmt.Println(nn.CountParameters(g), "parameters")
	g.Head.Weight = g.Tok.Weight // the output layer uses the token embedding
	fmt.Println(nn.CountParameters(g), "parameters")
	// Output:
	// 826112 parameters
	// 813824 parameters
}
