package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

var permute Op

func init() {
	define(&permute, entry{
		Op:   kernels.Op{Name: "permute"},
		Doc:  "axis i of the result is axis p[i] of x",
		Ints: []string{"axes..."},
		Shape: func(c *ctx) {
			c.wantInts(c.In[0].Rank())
			var shape [kernels.MaxDims]int
			for i, a := range c.Ints {
				shape[i] = c.shape(0)[a]
			}
			c.result(c.In[0].dtype, shape[:len(c.Ints)]...)
		},
		View: func(c *ctx, l *kernels.Layout) {
			for i, a := range c.Ints {
				l.Strides[i] = c.In[0].layout.Strides[a]
			}
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			inverse := make([]int, len(c.Ints))
			for i, a := range c.Ints {
				inverse[a] = i
			}
			return []*Tensor{g.Permute(inverse...)}
		},
		Samples: func() []opSample {
			sample := func(name string, shape []int, p ...int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Permute(p...) })
			}
			return []opSample{
				sample("transpose", []int{2, 3}, 1, 0), sample("cycle", []int{2, 3, 4}, 2, 0, 1),
				sample("negative", []int{2, 1, 3}, -1, 0, 1), sample("rank 0", nil), sample("empty", []int{0, 3}, 1, 0),
			}
		},
	})
}

// Permute reorders the axes: axis i of the result is axis axes[i] of t. It shares the memory.
func (t *Tensor) Permute(axes ...int) *Tensor {
	t.given("permute")
	n := t.Rank()
	if len(axes) != n {
		fail(ErrShape, "permute", "%d axes given, %v has %d", len(axes), t, n)
	}
	p := make([]int, n)
	for i, a := range axes {
		a = t.axis("permute", a)
		if slices.Contains(p[:i], a) {
			fail(ErrShape, "permute", "axis %d is named twice in %v", a, axes)
		}
		p[i] = a
	}
	return apply(&permute, []*Tensor{t}, p, nil)
}

// Transpose exchanges two axes. It shares the memory.
func (t *Tensor) Transpose(a, b int) *Tensor {
	t.given("transpose")
	p := make([]int, t.Rank())
	for i := range p {
		p[i] = i
	}
	a, b = t.axis("transpose", a), t.axis("transpose", b)
	p[a], p[b] = b, a
	return apply(&permute, []*Tensor{t}, p, nil)
}

// T exchanges the last two axes: the transpose of a matrix, or of each matrix of a batch.
func (t *Tensor) T() *Tensor {
	t.given("transpose")
	if t.Rank() < 2 {
		fail(ErrShape, "transpose", "%v has %d axes, a matrix has two", t, t.Rank())
	}
	return t.Transpose(-1, -2)
}
