package optim_test

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

// The line y = 2x + 1, found from four points.
func Example() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	slope := nn.ParameterOf("slope", tensor.FromSlice([]float64{0}, 1))
	shift := nn.ParameterOf("shift", tensor.FromSlice([]float64{0}, 1))
	opt := optim.New(optim.SGD(0.05, optim.Momentum(0.9)), []*tensor.Tensor{slope, shift})

	x := tensor.FromSlice([]float64{0, 1, 2, 3}, 4)
	y := tensor.FromSlice([]float64{1, 3, 5, 7}, 4)
	for range 400 {
		check(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(x).Mul(slope).Add(shift).Sub(y).Square().Mean())
			return opt.Step(s)
		}))
	}
	fmt.Printf("y = %.3f x + %.3f\n", slope.Item(), shift.Item())
	// Output:
	// y = 2.000 x + 1.000
}

// A schedule sets the learning rate between steps.
func ExampleWarmupCosine() {
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{0}, 1))
	opt := optim.New(optim.AdamW(1e-3), w, optim.Clip(1), optim.NoDecay(optim.Vectors))
	rate := optim.WarmupCosine(1e-3, 1e-4, 2, 6)
	for step := range 7 {
		opt.LR.Set(rate(step))
		fmt.Printf("%.2e ", opt.LR.Value())
	}
	fmt.Println()
	// Output:
	// 5.00e-04 1.00e-03 1.00e-03 8.68e-04 5.50e-04 2.32e-04 1.00e-04
}

// A rule of one's own: only the sign of the gradient counts.
func ExampleRule() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{1, 1, 1}, 3))
	opt := optim.New(optim.Rule{Name: "sign_sgd", LR: 0.25, Update: "p - lr*sign(g)"}, w)
	check(dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(w).Mul(tensor.FromSlice([]float64{100, -0.01, 0}, 3)).Sum())
		return opt.Step(s)
	}))
	fmt.Println(tensor.ToSlice[float64](w))
	// Output:
	// [0.75 1.25 1]
}

// A copy of the model takes the averages of the weights.
func ExampleEMA() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	w := map[string]*tensor.Tensor{"w": nn.Parameter(nn.Zeros, 1)}
	check(nn.Init(dev, w))
	opt := optim.New(optim.SGD(1), w)
	ema, err := optim.NewEMA(dev, w, 0.5)
	check(err)
	smooth, err := nn.Clone(dev, w)
	check(err)
	for range 3 {
		check(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w["w"]).Neg().Sum())
			if err := opt.Step(s); err != nil {
				return err
			}
			ema.Step(s)
			return nil
		}))
		check(nn.CopyTo(smooth, ema))
		fmt.Println(w["w"].Item(), smooth["w"].Item())
	}
	// Output:
	// 1 0.5
	// 2 1.25
	// 3 2.125
}

// A run goes on in new objects, here after the first of two steps that accumulate gradients.
func ExampleOptimizer_Restore() {
	start := func() (*tensor.Device, *tensor.Tensor, *optim.Optimizer) {
		dev, err := tensor.Open("cpu")
		check(err)
		w := nn.ParameterOf("w", tensor.FromSlice([]float64{5}, 1))
		return dev, w, optim.New(optim.AdamW(0.1), w)
	}
	step := func(dev *tensor.Device, w *tensor.Tensor, update func(*tensor.Scope) error) {
		check(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(w).Square().Sum())
			return update(s)
		}))
	}
	accumulate := func(*tensor.Scope) error { return nil }

	dev, w, opt := start()
	step(dev, w, opt.Step)
	step(dev, w, accumulate)

	newDev, newW, newOpt := start()
	check(newDev.Step(func(s *tensor.Scope) error {
		newW.Assign(s.In(w.Detach()))
		return newOpt.Restore(s, opt.State())
	}))

	step(dev, w, opt.Step)
	step(newDev, newW, newOpt.Step)
	fmt.Println(newOpt.Hash() == opt.Hash())
	// Output:
	// true
}
