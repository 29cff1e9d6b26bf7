package autograd_test

import (
	"encoding/json"

	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// windowOf reads the window of a case.
func windowOf(c *golden.Case) (w tensor.Window) {
	for name, to := range map[string]*[]int{
		"kernel_size": &w.Size, "stride": &w.Stride, "padding": &w.Padding, "dilation": &w.Dilation,
	} {
		if c.Has(name) {
			*to = c.Ints(name)
		}
	}
	w.Ceil = c.Has("ceil_mode") && c.Bool("ceil_mode")
	w.ExcludePadding = c.Has("count_include_pad") && !c.Bool("count_include_pad")
	if c.Has("divisor_override") {
		w.Divisor = c.Int("divisor_override")
	}
	return w
}

// interpolated is how nn.Interpolate does a case.
func interpolated(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	opts := []nn.LayerOption{nn.Mode(c.Text("mode"))}
	if c.Has("size") {
		opts = append(opts, nn.Size(c.Ints("size")...))
	} else {
		var factors []float64
		if err := json.Unmarshal(c.Attrs["scale_factor"], &factors); err != nil {
			panic(err)
		}
		opts = append(opts, nn.ScaleFactor(factors...))
	}
	if c.Has("align_corners") && c.Bool("align_corners") {
		opts = append(opts, nn.AlignCorners())
	}
	if c.Has("antialias") {
		opts = append(opts, nn.Antialias())
	}
	return one(nn.Interpolate(x[0], opts...))
}

func init() {
	does(map[string]call{
		"max_pool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].MaxPoolIndices(windowOf(c)))
		},
		"adaptive_max_pool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].AdaptiveMaxPoolIndices(c.Ints("output_size")...))
		},
		"avg_pool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].AvgPool(windowOf(c)))
		},
		"adaptive_avg_pool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].AdaptiveAvgPool(c.Ints("output_size")...))
		},
		"max_unpool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one((&nn.MaxUnpool{Window: windowOf(c)}).Forward(x[0], x[1], c.Ints("output_size")...))
		},
		"interpolate": interpolated,
		"pad_mode": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			layer := nn.NewPad(c.Text("mode"), c.Ints("pads")...)
			if c.Has("value") {
				layer.Value = c.Float("value")
			}
			return one(layer.Forward(x[0]))
		},
		"pixel_shuffle": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(nn.NewPixelShuffle(c.Int("factor")).Forward(x[0]))
		},
		"pixel_unshuffle": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(nn.NewPixelUnshuffle(c.Int("factor")).Forward(x[0]))
		},
		"unfold": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Unfold(c.Int("axis"), c.Int("size"), c.Int("step")))
		},
		"im2col": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one((&nn.Unfold{Window: windowOf(c)}).Forward(x[0]))
		},
		"col2im": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one((&nn.Fold{Output: c.Ints("output_size"), Window: windowOf(c)}).Forward(x[0]))
		},
		"local_response_norm": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			layer := nn.NewLocalResponseNorm(c.Int("size"))
			layer.Alpha, layer.Beta, layer.K = c.Float("alpha"), c.Float("beta"), c.Float("k")
			return one(layer.Forward(x[0]))
		},
		"lp_pool": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			size, opts := c.Ints("kernel_size"), []nn.LayerOption{}
			if c.Has("stride") {
				opts = append(opts, nn.Stride(c.Int("stride")), nn.CeilMode())
			}
			if len(size) == 1 {
				return one(nn.NewLPPool1d(c.Float("p"), size[0], opts...).Forward(x[0]))
			}
			return one(nn.NewLPPool2d(c.Float("p"), size[0], opts...).Forward(x[0]))
		},
	})
}
