package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of embedding is the axis, always 0, so that it shares the kernels of index_select.
var embedding Op

func init() {
	define(&embedding, entry{
		Op:   kernels.Op{Name: "embedding", CPU: cpu.IndexSelect, Types: kernels.DTypes(), Ref: indexSelectRef},
		Doc:  "y[.., c] = weight[indices[..], c]",
		Args: []string{"weight", "indices"},
		Ints: []string{"axis"},
		Shape: func(c *ctx) {
			if c.In[0].Rank() != 2 {
				c.fail(ErrShape, "weight %v must have two axes, [entries width]", c.In[0])
			}
			indexSelectShape(c)
		},
		VJP:   indexSelectVJP,
		Saves: []saves{saveIn(1)},
		Samples: func() []opSample {
			sample := func(name string, entries, width int, shape []int, indices ...float64) opSample {
				return opSample{Name: name, In: append(randomArgs([]int{entries, width}), indexArg(shape, indices...)),
					Call: func(x []*Tensor) *Tensor { return x[0].Embedding(x[1]) }}
			}
			return []opSample{
				sample("sequence", 4, 3, []int{3}, 2, 0, 2), sample("batch", 4, 3, []int{2, 2}, 3, 3, 1, 3),
				sample("rank 0", 4, 3, nil, 1), sample("size 1", 1, 1, []int{1}, 0), sample("empty", 4, 3, []int{0}),
				sample("no width", 2, 0, []int{2}, 1, 0),
			}
		},
		Bench: func() []benchmark {
			indices := make([]float64, 1024)
			for i := range indices {
				indices[i] = float64(i * 7919 % 4096)
			}
			return []benchmark{{Name: "1024 of 4096", Bytes: 2 * 4 * 1024 * 768,
				In:   []seam.Arg{{Shape: []int{4096, 768}, Lo: -1, Hi: 1}, indexArg([]int{1024}, indices...)},
				Call: func(x []*Tensor) *Tensor { return x[0].Embedding(x[1]) }}}
		},
	})
}

// Embedding is row i of the matrix t [entries width] for every index i: indices [..] give [.. width]. Indices are
// int64, int32 or uint8; all outside [0, entries) are refused.
func (t *Tensor) Embedding(indices *Tensor) *Tensor {
	return applyIndexed(&embedding, []*Tensor{t, indices}, 0)
}
