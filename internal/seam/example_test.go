package seam_test

import (
	"fmt"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// A package of the library opens the engine once. The elements of host data are its memory, not a copy.
func Example() {
	engine := tensor.Engine(seam.Key{})
	x := tensor.FromSlice([]float32{1, 2, 3}, 3)
	seam.Elems[float32](engine.Bytes(x))[1] = 5
	fmt.Println(x)
	err := engine.Try(func() { engine.Fail(tensor.ErrShape, "conv", "the kernel is %v", x) })
	fmt.Println(err.(*tensor.Error).Msg)
	// Output:
	// float32[3] [1. 5. 3.]
	// the kernel is float32[3]
}
