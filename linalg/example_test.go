package linalg_test

import (
	"fmt"

	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/tensor"
)

// A line through points, by least squares, and what is left of them.
func Example() {
	a := tensor.FromSlice([]float64{0, 1, 1, 1, 2, 1, 3, 1}, 4, 2) // x and 1
	b := tensor.FromSlice([]float64{1, 3, 5, 7}, 4, 1)
	line := linalg.Lstsq(a, b)
	fmt.Printf("y = %.3f x + %.3f\n", line.Select(0, 0).Item(), line.Select(0, 1).Item())
	rest := linalg.MatrixNorm(a.MatMul(line).Sub(b), linalg.Frobenius)
	fmt.Println(rest.Item() < 1e-12)
	// Output:
	// y = 2.000 x + 1.000
	// true
}

// Scores of heads: a product for each batch and head, without a transposition by hand.
func ExampleEinsum() {
	q := tensor.Full(1, tensor.Float32, 2, 5, 3, 4) // batch, time, head, width
	k := tensor.Full(2, tensor.Float32, 2, 6, 3, 4)
	scores := linalg.Einsum("bqhd,bkhd->bhqk", q, k)
	fmt.Println(scores.Shape(), scores.Max().Item())
	// Output:
	// [2 3 5 6] 8
}
