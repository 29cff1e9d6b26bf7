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
	// [0.0320586 0.087144315 0.2368828 0.6439142]
	// [-3.4401898 -2.4401898 -1.4401897 -0.44018975]
}
