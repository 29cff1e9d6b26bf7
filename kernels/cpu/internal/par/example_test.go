package par_test

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Scale a vector on all processors; ranges shorter than 4096 elements are not worth a second one.
func ExampleFor() {
	x := make([]float32, 100_000)
	for i := range x {
		x[i] = float32(i)
	}
	par.For(len(x), 4096, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x[i] *= 2
		}
	})
	fmt.Println(x[1], x[99_999])
	// Output: 2 199998
}
