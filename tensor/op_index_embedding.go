package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of embedding is the axis, always 0, so that it shares the kernels of index_select; those of
// embedding_bag are the axis and the number of bags.
var embedding, embeddingBag Op

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

func init() {
	define(&embeddingBag, entry{
		Op:   kernels.Op{Name: "embedding_bag", CPU: cpu.EmbeddingBag, Ref: embeddingBagRef},
		Doc:  "y[b, c] = sum of weight[indices[k], c] over bags[k] = b, k ascending",
		Args: []string{"weight", "indices", "bags"},
		Ints: []string{"axis", "count"},
		Shape: func(c *ctx) {
			c.wantFloat(0)
			c.wantIndices(1)
			c.wantIndices(2)
			if c.In[0].Rank() != 2 || c.In[1].Rank() != 1 || !sameShape(c.In[1], c.In[2]) {
				c.fail(ErrShape, "weight %v must be [entries width], indices %v and bags %v [n]", c.In[0], c.In[1],
					c.In[2])
			}
			c.result(c.In[0].dtype, c.Ints[1], c.shape(0)[1])
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			rows := apply(&indexSelect, []*Tensor{g, c.In[2]}, []int{0}, nil)
			return []*Tensor{apply(&indexAdd, []*Tensor{c.zeros(0), c.In[1], rows}, []int{0}, nil), nil, nil}
		},
		Saves: []saves{saveIn(1, 2)},
		Samples: func() []opSample {
			bags := make([]float64, 20)
			for k := range bags {
				bags[k] = float64(k / 9)
			}
			sample := func(name string, indices, bags []float64) opSample {
				n := []int{len(bags)}
				in := append(randomArgs([]int{4, 3}), indexArg(n, indices...), indexArg(n, bags...))
				return opSample{Name: name, In: in,
					Call: func(x []*Tensor) *Tensor { return apply(&embeddingBag, x, []int{0, 3}, nil) }}
			}
			return []opSample{sample("in turn", []float64{2, 0, 2}, []float64{0, 2, 0}), sample("long", bags, bags)}
		},
		CPUOnly: "a GPU runs the operations that it is composed of",
	})
}

func embeddingBagRef(l *kernels.Launch) {
	x, y, width := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0]), l.In[0].Shape[1]
	clear(y[:l.Out[0].Len()])
	ofResult := kernels.Launch{Op: l.Op, In: []kernels.Arg{l.Out[0], l.In[2]}, Ints: l.Ints} // for errors
	indices, bags := indicesOf(l, 1, l.In[0].Shape[0]), indicesOf(&ofResult, 1, l.Out[0].Shape[0])
	for k, bag := range bags {
		for c := range width {
			y[bag*width+c] += x[indices[k]*width+c]
		}
	}
}

// Embedding is row i of the matrix t [entries width] for every index i: indices [..] give [.. width]. Indices are
// int64, int32 or uint8; all outside [0, entries) are refused.
func (t *Tensor) Embedding(indices *Tensor) *Tensor {
	return applyIndexed(&embedding, []*Tensor{t, indices}, 0)
}
