//go:build emu && cuda && cgo && linux

package ops

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/tensor"
)

// TestFourier: transforms of sizes with all kinds of factors, along any axis, and their gradients, against the CPU.
// Both compute in float64.
func TestFourier(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for dt, bound := range map[tensor.DType]float64{tensor.Float64: 0x1p-44, tensor.Float32: 0x1p-22,
		tensor.Float16: 0x1p-9, tensor.BFloat16: 0x1p-6} {
		for _, n := range []int{1, 2, 3, 4, 7, 8, 12, 30, 49, 64, 97, 120, 256, 1009} {
			if dt.IsHalf() && n > 64 {
				continue
			}
			in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -1, 1, 3, n, 2).Scale(0.25).To(dt)}
			alike(t, cpu, gpu, fmt.Sprint("transforms of ", n, " in ", dt), bound, in,
				func(x []*tensor.Tensor) []*tensor.Tensor {
					v := autograd.Watch(x[0].Scope(), x[0])
					y := fft.FFT(v)
					z := fft.IFFT(v.Transpose(0, 1), fft.Axes(0))
					all := append([]*tensor.Tensor{y, z}, gradients(y.Mul(v).Sum().Add(z.Square().Sum()), v)...)
					return append(all, fft.RFFT(v.Select(2, 1)), fft.FFT(v.Flip(1)))
				})
		}
	}
}
