package autograd_test

import (
	"fmt"
	"log"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Backward adds gradients to parameters; they are there when the step has succeeded.
func Example() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{3, -1}, 2))

	check(dev.Step(func(s *tensor.Scope) error {
		loss := s.In(w).Square().Sum() // w² has the slope 2w
		autograd.Backward(loss)
		return nil
	}))
	fmt.Println(tensor.ToSlice[float64](w.Grad()))
	// Output:
	// [6 -2]
}

// Gradients of any order: x³ at 2 and its derivatives.
func ExampleGrad() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	check(dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.Of(2.0))
		y := x.PowScalar(3)
		for range 4 {
			fmt.Print(y.Item(), " ")
			y = autograd.Grad(y, []*tensor.Tensor{x}, autograd.CreateGraph())[0]
		}
		fmt.Println()
		return nil
	}))
	// Output:
	// 8 12 12 6
}

// A custom operation comes with a gradient of its own: this one rounds, and lets gradients through.
func ExampleCustom() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	round := func(x *tensor.Tensor) *tensor.Tensor {
		return autograd.Custom("straight_through",
			func(_ *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor { return xs[0].Round() },
			func(_ *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{g} }, x)
	}
	check(dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float32{0.4, 1.7}, 2))
		y := round(x)
		g := autograd.Grad(y.Scale(3).Sum(), []*tensor.Tensor{x})[0]
		fmt.Println(tensor.ToSlice[float32](y), tensor.ToSlice[float32](g))
		return nil
	}))
	// Output:
	// [0 2] [3 3]
}

// A hook sees the whole gradient of a tensor and may replace it.
func ExampleHook() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	check(dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.FromSlice([]float64{1, 2}, 2))
		y := x.Square()
		autograd.Hook(y, func(g *tensor.Tensor) *tensor.Tensor {
			fmt.Println("on its way:", tensor.ToSlice[float64](g))
			return g.Clamp(-1, 1)
		})
		g := autograd.Grad(y.Scale(10).Sum(), []*tensor.Tensor{x})[0]
		fmt.Println("of x:", tensor.ToSlice[float64](g))
		return nil
	}))
	// Output:
	// on its way: [10 10]
	// of x: [2 4]
}

// Gradcheck compares gradients with differences of values.
func ExampleGradcheck() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	f := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].MatMul(x[1]).Tanh() }
	a := tensor.FromSlice([]float64{1, 2, 3, 4}, 2, 2)
	b := tensor.FromSlice([]float64{0.1, -0.2}, 2)
	fmt.Println(autograd.Gradcheck(dev, f, a, b))
	// Output:
	// <nil>
}

// The second derivatives of x[0]² x[1].
func ExampleHessian() {
	dev, _ := tensor.Open("cpu")
	defer dev.Close()
	x := tensor.FromSlice([]float64{3, 2}, 2)
	dev.Step(func(s *tensor.Scope) error {
		fmt.Println(autograd.Hessian(s, func(x *tensor.Tensor) *tensor.Tensor {
			return x.Select(0, 0).Square().Mul(x.Select(0, 1))
		}, x))
		return nil
	})
	// Output:
	// float64[2 2]
	// [[4. 6.]
	//  [6. 0.]]
}

// A deep network in parts: the step keeps what goes from part to part, and makes the rest again when the backward pass
// needs it. Parameters that a part uses get their gradients as ever.
func ExampleCheckpoint() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	w := nn.ParameterOf("w", tensor.FromSlice([]float64{2}, 1))
	calls := 0
	part := func(x *tensor.Tensor) *tensor.Tensor {
		calls++
		return x.Mul(w).Square()
	}

	check(dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.Of(1.0))
		for range 2 {
			x = autograd.Checkpoint(part, x)
		}
		autograd.Backward(x.Sum()) // (w(wx)²)² = w⁶x⁴
		return nil
	}))
	fmt.Println(tensor.ToSlice[float64](w.Grad()), "of", calls, "calls")
	// Output:
	// [192] of 2 calls
}
