package autograd_test

import (
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	does(map[string]call{
		"scatter": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Scatter(c.Int("axis"), x[1], x[2]))
		},
		"scatter_reduce": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].ScatterReduce(c.Int("axis"), x[1], x[2], c.Text("reduction"), c.Bool("include_self")))
		},
		"index_put": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].IndexPut(x[2:], x[1], c.Bool("accumulate")))
		},
		"index_by": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].IndexBy(x[1:]...)) },
		"nonzero":  unary((*tensor.Tensor).Nonzero), "masked_select": binary((*tensor.Tensor).MaskedSelect),
		"bincount": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			x = append(x, nil)
			return one(x[0].BinCount(x[1], int(bound(c, "minlength", 0))))
		},
		"histc": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Histc(c.Int("bins"), c.Float("min"), c.Float("max")))
		},
		"roll": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Roll(c.Int("axis"), c.Int("places")))
		},
		"tile": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].Tile(c.Ints("times")...)) },
		"repeat_interleave": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].RepeatInterleave(c.Int("axis"), c.Int("n")))
		},
		"diagonal": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Diagonal(c.Int("k"), c.Int("rows"), c.Int("columns")))
		},
		"diag_embed": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].DiagEmbed(c.Int("k")))
		},
		"embedding_padding": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one((&nn.Embedding{Weight: x[0], Padded: []int{c.Int("padding")}}).Forward(x[1]))
		},
		"embedding_bag": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			bag := &nn.EmbeddingBag{Weight: x[0], Mode: c.Text("mode")}
			if c.Has("padding") {
				bag.Padded = []int{c.Int("padding")}
			}
			if len(x) == 2 {
				return one(bag.Forward(x[1]))
			}
			x = append(x, nil)
			return one(bag.Bags(x[1], x[2], x[3]))
		},
		"trace": unary((*tensor.Tensor).Trace),
		"meshgrid": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return x[0].Meshgrid(x[1:]...)
		},
	})
}
