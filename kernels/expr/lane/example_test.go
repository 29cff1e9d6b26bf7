package lane_test

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// SiLU is x times the sigmoid of x.
func Example() {
	b := lane.NewBuilder()
	x := b.In(0)
	silu := b.Program(b.Mul(x, lane.Sigmoid(b, x)))
	for _, v := range []float32{-1, 0, 1, 10} {
		fmt.Printf("%.6f\n", silu.Eval([]float32{v}, nil, nil)[0])
	}
	// Output:
	// -0.268941
	// 0.000000
	// 0.731059
	// 9.999546
}
