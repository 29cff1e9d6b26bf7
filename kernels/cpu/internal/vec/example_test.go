package vec_test

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The softmax of a row: the largest element, the exponentials with their sum, and
// the division. Every tier gives these bits.
func Example() {
	x := []float32{1, 2, 3, 4}
	y := make([]float32, len(x))
	sum := vec.ExpSubSum(y, x, vec.Max(x))
	vec.Scale(y, y, 1/sum)
	fmt.Println(y)

	vec.Instr("log")(y, y, nil, nil)
	fmt.Println(y)
	// Output:
	// [0.032058604 0.08714432 0.23688284 0.6439143]
	// [-3.4401896 -2.4401896 -1.4401896 -0.44018966]
}
