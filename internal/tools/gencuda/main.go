// Command gencuda writes the headers z_*.cuh of kernels/cuda/src, instructions of expressions in CUDA C. Run it in the
// root of the module:
//
//	go run ./internal/tools/gencuda
package main

import (
	"fmt"
	"os"

	"github.com/weft-ml/weft/internal/tools/gencuda/cudatext"
)

func main() {
	for name, text := range cudatext.Headers() {
		if err := os.WriteFile("kernels/cuda/src/"+name, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gencuda:", err)
			os.Exit(1)
		}
	}
}
