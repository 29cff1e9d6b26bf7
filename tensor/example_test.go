package tensor_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/weft-ml/weft/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Work happens in steps. Nothing is freed by hand; Keep makes a tensor outlive its step.
func Example() {
	dev, err := tensor.Open("cpu", tensor.Seed(42))
	check(err)
	defer dev.Close()
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	w := tensor.FromSlice([]float32{1, 0, 0, 1, 1, 1}, 3, 2)

	var y *tensor.Tensor
	check(dev.Eval(func(s *tensor.Scope) error {
		y = s.In(x).MatMul(w).ReLU().Keep()
		return nil
	}))
	fmt.Println(y)
	// Output:
	// float32[2 2]
	// [[ 4.  5.]
	//  [10. 11.]]
}

// Operands broadcast: axes are aligned at the end, and those of size 1 repeat.
func ExampleTensor_Add() {
	column := tensor.FromSlice([]float64{10, 20}, 2, 1)
	row := tensor.FromSlice([]float64{1, 2, 3}, 3)
	y := column.Add(row)
	fmt.Println(y.Shape(), tensor.ToSlice[float64](y))
	// Output:
	// [2 3] [11 12 13 21 22 23]
}

// Views share the memory of their operand; nothing is copied.
func Example_views() {
	x := tensor.Arange(tensor.Int64, 0, 12, 1).Reshape(3, 4)
	fmt.Println(tensor.ToSlice[int64](x.Slice(0, 1, tensor.End).Slice(1, 0, 4, 2)))
	fmt.Println(tensor.ToSlice[int64](x.T().Select(0, -1)))
	// Output:
	// [4 6 8 10]
	// [3 7 11]
}

func ExampleTensor_Sum() {
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	fmt.Println(x.Sum(0), x.Sum(-1), x.Sum())
	fmt.Println(x.Sub(x.Mean(-1, tensor.KeepDims)))
	v, i := x.MaxIndex(1)
	fmt.Println(v, i)
	// Output:
	// float32[3] [5. 7. 9.] float32[2] [ 6. 15.] float32[] 21.
	// float32[2 3]
	// [[-1.  0.  1.]
	//  [-1.  0.  1.]]
	// float32[2] [3. 6.] int64[2] [2 2]
}

// A line of mathematics becomes an operation with its derivatives.
func ExamplePointwise() {
	swish, err := tensor.Pointwise("swish", "x*sigmoid(beta*x)", []string{"x"}, "beta")
	check(err)
	x := tensor.FromSlice([]float64{-1, 0, 1}, 3)
	y := swish.Call(x, 2)
	for _, v := range tensor.ToSlice[float64](y) {
		fmt.Printf("%.4f ", v)
	}
	fmt.Println()
	// Output:
	// -0.1192 0.0000 0.8808
}

// Misuse inside a step comes back from it as one error, with the line of the caller and the enclosing layers.
func ExampleDevice_Step() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	err = dev.Step(func(s *tensor.Scope) error {
		a := s.Full(1, tensor.Float32, 64, 768)
		a.MatMul(s.Full(1, tensor.Float32, 3072, 768))
		return nil
	})
	var e *tensor.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op + ": " + e.Msg)
	}
	fmt.Println(errors.Is(err, tensor.ErrShape))
	// Output:
	// matmul: inner sizes differ: a [64 768] has 768 on axis 1, b [3072 768] has 3072 on axis 0; b transposed would fit
	// true
}

// An operation of several operands, which broadcast.
func ExampleTensor_Apply() {
	mix := tensor.MustPointwise("mix", "a*x + (1-a)*y", []string{"x", "y"}, "a")
	x := tensor.FromSlice([]float64{1, 2, 3}, 3)
	fmt.Println(x.Apply(mix, []*tensor.Tensor{tensor.Of(9.0)}, 0.5))
	// Output:
	// float64[3] [5.  5.5 6. ]
}
