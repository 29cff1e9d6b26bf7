package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var sum Op

func init() {
	define(&sum, entry{
		Op:      kernels.Op{Name: "sum", CPU: cpu.Sum, Types: cpu.Folded, Ref: foldRef(0, add[float64], 0, add[int64])},
		Cast:    seam.CastFull,
		Doc:     "the sum of x over axes",
		Ints:    []string{"axes..."},
		Shape:   func(c *ctx) { c.reduced(accumulated(c.In[0].dtype)) },
		VJP:     func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{c.unreduce(g)} },
		Flops:   perElement(1),
		Samples: func() []opSample { return reductionSamples(-2, 2, true, (*Tensor).Sum) },
		Bench: func() []benchmark {
			bench := func(name string, shape []int, axes ...int) benchmark {
				n := float64(kernels.Count(shape))
				return benchmark{Name: name, In: []seam.Arg{{Shape: shape, Lo: -1, Hi: 1}}, Flops: n, Bytes: 4 * n,
					Call: func(x []*Tensor) *Tensor { return x[0].Sum(axes...) }}
			}
			return []benchmark{
				bench("all", []int{1000, 1000}), bench("rows", []int{1024, 1024}, 1),
				bench("columns", []int{1024, 512}, 0),
			}
		},
	})
}

// Sum is the sum over the given axes, which disappear, or over all axes if none are given. Negative axes count from the
// end. The sum of integers and bools is int64; the sum of no elements is 0.
func (t *Tensor) Sum(axes ...int) *Tensor { return t.reduce(&sum, axes) }

func add[T float64 | int64](a, b T) T { return a + b }
