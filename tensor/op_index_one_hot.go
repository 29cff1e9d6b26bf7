package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of one_hot is the number of classes.
var oneHot Op

func init() {
	define(&oneHot, entry{
		Op:     kernels.Op{Name: "one_hot", CPU: cpu.OneHot, Types: []DType{Int64, Int32, Uint8}, Ref: oneHotRef},
		Doc:    "y[.., k] is 1 where k = indices[..], else 0",
		Args:   []string{"indices"},
		Ints:   []string{"classes"},
		NoGrad: "the operand holds integers",
		Shape: func(c *ctx) {
			c.wantIndices(0)
			c.result(Int64, append(c.In[0].Shape(), c.Ints[0])...)
		},
		Samples: func() []opSample {
			sample := func(name string, classes int, shape []int, indices ...float64) opSample {
				return opSample{Name: name, In: []seam.Arg{indexArg(shape, indices...)},
					Call: func(x []*Tensor) *Tensor { return x[0].OneHot(classes) }}
			}
			return []opSample{
				sample("vector", 4, []int{3}, 2, 0, 3), sample("matrix", 3, []int{2, 2}, 0, 0, 1, 2),
				sample("rank 0", 2, nil, 1), sample("size 1", 1, []int{1}, 0), sample("empty", 3, []int{0}),
			}
		},
	})
}

// OneHot is int64 [.. classes]: along the new last axis 1 at the index given by t, 0 elsewhere. Indices outside
// [0, classes) are refused.
func (t *Tensor) OneHot(classes int) *Tensor {
	return applyIndexed(&oneHot, []*Tensor{t}, classes)
}

func oneHotRef(l *kernels.Launch) {
	indices := indicesOf(l, 0, l.Ints[0])
	y := cpu.Slice[int64](l.Out[0])
	eachIndex(l.Out[0].Shape, func(i int, index []int) {
		y[i] = 0
		if indices[i/l.Ints[0]] == index[len(index)-1] {
			y[i] = 1
		}
	})
}
