package kernels_test

import (
	"errors"
	"fmt"

	"github.com/weft-ml/weft/kernels"
	_ "github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr"
)

// An op call is data: the operation, its operands with their layouts, and its attributes.
func Example() {
	dev, err := kernels.Open("cpu")
	if err != nil {
		panic(err)
	}
	x, _ := dev.Alloc(8)
	y, _ := dev.Alloc(8)
	dev.CopyIn(0, x, 0, []byte{0, 0, 128, 63, 0, 0, 0, 64}) // 1 and 2 as float32
	pair := kernels.Layout{Shape: []int{2}, Strides: []int{1}}
	err = dev.Run(&kernels.Launch{
		Op:     &kernels.Op{Name: "affine", Expr: expr.Must("a*x + 1", []string{"x"}, []string{"a"})},
		In:     []kernels.Arg{{Buf: x, Layout: pair}},
		Out:    []kernels.Arg{{Buf: y, Layout: pair}},
		Floats: []float64{3},
	})
	out := make([]byte, 8)
	dev.CopyOut(0, out, y, 0)
	fmt.Println(out, err) // 4 and 7
	// Output: [0 0 128 64 0 0 224 64] <nil>
}

func ExampleError() {
	err := error(kernels.Errorf(kernels.ErrShape, "matmul",
		"inner sizes differ: a [2 3] has 3 on axis 1, b [4 5] has 4 on axis 0"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, kernels.ErrShape))
	// Output:
	// matmul: inner sizes differ: a [2 3] has 3 on axis 1, b [4 5] has 4 on axis 0
	// true
}

func ExampleLayout() {
	column := kernels.Layout{Shape: []int{3}, Strides: []int{4}, Offset: 1} // of a row-major [3 4] matrix
	fmt.Println(column.Len(), column.Contiguous())
	// Output: 3 false
}
