package fft_test

import (
	"fmt"

	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/tensor"
)

// The moving average of a signal, as a product of transforms.
func Example() {
	signal := tensor.FromSlice([]float64{0, 0, 4, 0, 0, 8, 0, 0}, 8)
	window := tensor.FromSlice([]float64{0.5, 0.5, 0, 0, 0, 0, 0, 0}, 8)
	smooth := fft.IRFFT(fft.Mul(fft.RFFT(signal), fft.RFFT(window)))
	fmt.Printf("%.1f\n", smooth)
	// Output: float64[8] [0.0 0.0 2.0 2.0 0.0 4.0 4.0 0.0]
}
