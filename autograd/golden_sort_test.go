package autograd_test

import (
	"encoding/json"

	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/tensor"
)

func both(v, i *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{v, i} }

func init() {
	accuracies["logcumsumexp"] = accuracy{limit: 1.5, why: "sums of 40 terms are 6 logarithms of sums of two"}
	does(map[string]call{
		"sort": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].Sort(c.Int("axis"), c.Bool("descending")))
		},
		"argsort": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].ArgSort(c.Int("axis"), c.Bool("descending")))
		},
		"topk": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].TopK(c.Int("k"), c.Int("axis"), c.Bool("largest")))
		},
		"kthvalue": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].KthValue(c.Int("k"), c.Int("axis"), keepDims(c)...))
		},
		"median": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return both(x[0].Median(c.Int("axis"), keepDims(c)...))
		},
		"quantile": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			var q []float64
			if err := json.Unmarshal(c.Attrs["q"], &q); err != nil {
				panic(err)
			}
			return one(x[0].Quantile(q, c.Int("axis"), c.Text("interpolation")))
		},
		"searchsorted": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].SearchSorted(x[1], c.Bool("right")))
		},
		"unique": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			var axis []int
			if c.Has("axis") {
				axis = []int{c.Int("axis")}
			}
			v, inverse, counts := x[0].Unique(axis...)
			return []*tensor.Tensor{v, inverse, counts}
		},
		"cumprod": axis((*tensor.Tensor).CumProd), "logcumsumexp": axis((*tensor.Tensor).LogCumSumExp),
		"cummax": along((*tensor.Tensor).CumMax), "cummin": along((*tensor.Tensor).CumMin),
	})
}

// along is a function along one axis that gives values and indices.
func along(f func(x *tensor.Tensor, axis int) (v, i *tensor.Tensor)) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return both(f(x[0], c.Int("axis"))) }
}
