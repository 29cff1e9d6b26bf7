package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

var expand Op

func init() {
	define(&expand, entry{
		Op:   kernels.Op{Name: "expand"},
		Doc:  "x repeated along new axes and axes of size 1",
		Ints: []string{"shape..."},
		Shape: func(c *ctx) {
			c.result(c.In[0].dtype, c.Ints...)
			from := c.shape(0)
			if len(from) > len(c.Ints) || !slices.Equal(broadcast(c.Op.Name, from, c.Ints), c.Ints) {
				c.fail(ErrShape, "%v does not expand to %v", c.In[0], c.Ints)
			}
		},
		View: func(c *ctx, l *kernels.Layout) {
			appendBroadcast(l.Strides[:0], c.In[0].layout, l.Shape)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.SumTo(c.shape(0)...)} },
		Samples: func() []opSample {
			sample := func(name string, from []int, to ...int) opSample {
				return unary(name, from, func(x *Tensor) *Tensor { return x.Expand(to...) })
			}
			return []opSample{
				sample("rows", []int{3}, 2, 3), sample("columns", []int{2, 1}, 2, 4), sample("rank 0", nil, 2, 2),
				sample("both", []int{1, 2, 1}, 3, 2, 4), sample("to empty", []int{1, 2}, 0, 2),
			}
		},
	})
}

// Expand repeats t along new leading axes and along axes of size 1, without copying. A size of -1 keeps the axis.
func (t *Tensor) Expand(shape ...int) *Tensor {
	t.given("expand")
	shape = slices.Clone(shape)
	lead := len(shape) - t.Rank()
	for i, d := range shape {
		if d == -1 && i >= lead && lead >= 0 {
			shape[i] = t.layout.Shape[i-lead]
		}
	}
	checkShape("expand", shape)
	if slices.Equal(t.layout.Shape, shape) {
		return t
	}
	return apply(&expand, []*Tensor{t}, shape, nil)
}
