// Command gencuda writes kernels/cuda/src/z_lane.cuh, the instructions of expressions in CUDA C. Run it in the root of
// the module:
//
//	go run ./internal/tools/gencuda
package main

import (
	"fmt"
	"os"

	"github.com/weft-ml/weft/internal/tools/gencuda/cudatext"
)

func main() {
	if err := os.WriteFile("kernels/cuda/src/z_lane.cuh", []byte(cudatext.Header()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gencuda:", err)
		os.Exit(1)
	}
}
