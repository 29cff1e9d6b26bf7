package autograd_test

import (
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	does(map[string]call{
		"conv": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			x = append(x, nil)
			return one(x[0].Conv(x[1], x[2], window(c, x[1])))
		},
		"conv_transpose": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			x = append(x, nil)
			return one(x[0].ConvTranspose(x[1], x[2], window(c, x[1]), ints(c, "output_padding")...))
		},
	})
}

// ints is an attribute that is a list; nil if the case has none.
func ints(c *golden.Case, key string) []int {
	if !c.Has(key) {
		return nil
	}
	return c.Ints(key)
}

// window says how the window of a case moves. PyTorch's padding "same" is that of a layer for each axis.
func window(c *golden.Case, weight *tensor.Tensor) tensor.Window {
	w := tensor.Window{Stride: ints(c, "stride"), Dilation: ints(c, "dilation"), Groups: 1}
	if c.Has("groups") {
		w.Groups = c.Int("groups")
	}
	switch {
	case !c.Has("padding") || string(c.Attrs["padding"]) == `"valid"`:
	case string(c.Attrs["padding"]) == `"same"`:
		for d, size := range weight.Shape()[2:] {
			opts := []nn.LayerOption{nn.SamePadding()}
			if w.Dilation != nil {
				opts = append(opts, nn.Dilation(w.Dilation[d]))
			}
			axis := nn.NewConv1d(1, 1, size, opts...).Window
			w.Padding, w.PaddingEnd = append(w.Padding, axis.Padding...), append(w.PaddingEnd, axis.PaddingEnd...)
		}
	default:
		w.Padding = c.Ints("padding")
	}
	return w
}
