package autograd_test

import (
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	transform := func(f func(x *tensor.Tensor, opts ...fft.Option) *tensor.Tensor) call {
		return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			opts := []fft.Option{fft.Axes(c.Ints("axes")...)}
			if c.Has("sizes") {
				opts = append(opts, fft.Size(c.Ints("sizes")...))
			}
			if c.Has("norm") {
				switch c.Text("norm") {
				case "forward":
					opts = append(opts, fft.Forward())
				case "ortho":
					opts = append(opts, fft.Ortho())
				}
			}
			return one(f(x[0], opts...))
		}
	}
	does(map[string]call{"fft": transform(fft.FFT), "ifft": transform(fft.IFFT), "rfft": transform(fft.RFFT),
		"irfft": transform(fft.IRFFT)})
}
