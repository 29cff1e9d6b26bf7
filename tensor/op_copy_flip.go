package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of flip are the axes.
var flip Op

func init() {
	define(&flip, entry{
		Op:    kernels.Op{Name: "flip", CPU: cpu.Flip, Types: kernels.DTypes(), Ref: flipRef},
		Doc:   "x in reverse order along axes",
		Ints:  []string{"axes..."},
		Shape: func(c *ctx) { c.wantAxes(); c.result(c.In[0].dtype, c.shape(0)...) },
		VJP:   func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.flip(c.Ints)} },
		Samples: func() []opSample {
			sample := func(name string, shape []int, axes ...int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Flip(axes...) })
			}
			return []opSample{
				sample("rows", []int{3, 2}, 0), sample("last", []int{2, 3}, -1), sample("two", []int{2, 3, 2}, 0, 2),
				sample("all", []int{2, 3}), sample("rank 0", nil), sample("size 1", []int{1, 2}, 0),
				sample("empty", []int{0, 2}, 1),
			}
		},
	})
}

// Flip reverses the order of the elements along the given axes, along all axes if there are none.
func (t *Tensor) Flip(axes ...int) *Tensor { return t.flip(t.axes("flip", axes)) }

func (t *Tensor) flip(axes []int) *Tensor { return apply(&flip, []*Tensor{t}, axes, nil) }

func flipRef(l *kernels.Launch) {
	shape := l.In[0].Shape
	copyRef(l, nil, func(index []int) (operand, offset int) {
		index = slices.Clone(index)
		for _, d := range l.Ints {
			index[d] = shape[d] - 1 - index[d]
		}
		return 0, offsetOf(shape, index)
	})
}
