package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of tril and triu is the diagonal k.
var tril, triu Op

func init() {
	shape := func(c *ctx) {
		c.wantRank(0, 2)
		c.result(c.In[0].dtype, c.shape(0)...)
	}
	samples := func(f func(t *Tensor, k int) *Tensor) func() []opSample {
		sample := func(name string, shape []int, k int) opSample {
			return unary(name, shape, func(x *Tensor) *Tensor { return f(x, k) })
		}
		return func() []opSample {
			return []opSample{
				sample("square", []int{3, 3}, 0), sample("wide", []int{2, 4}, 1), sample("high", []int{4, 2}, -1),
				sample("far above", []int{2, 2}, 9), sample("far below", []int{2, 2}, -9),
				sample("batch", []int{2, 2, 3}, 0), sample("size 1", []int{1, 1}, 0),
				sample("empty", []int{0, 2}, 0), sample("no batch", []int{0, 2, 2}, 0),
			}
		}
	}
	define(&tril, entry{
		Op:      kernels.Op{Name: "tril", CPU: cpu.Tril, Types: kernels.DTypes(), Ref: triangle(lower)},
		Doc:     "x[.., i, j] where j <= i+k, zero elsewhere",
		Ints:    []string{"k"},
		Shape:   shape,
		VJP:     func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.Tril(c.Ints[0])} },
		Samples: samples((*Tensor).Tril),
	})
	define(&triu, entry{
		Op:      kernels.Op{Name: "triu", CPU: cpu.Triu, Types: kernels.DTypes(), Ref: triangle(upper)},
		Doc:     "x[.., i, j] where j >= i+k, zero elsewhere",
		Ints:    []string{"k"},
		Shape:   shape,
		VJP:     func(c *ctx, g *Tensor) []*Tensor { return []*Tensor{g.Triu(c.Ints[0])} },
		Samples: samples((*Tensor).Triu),
	})
}

// Tril is the lower triangle of the last two axes: elements above the k-th diagonal become zero. Diagonal 0 is the main
// one, positive ones are above it.
func (t *Tensor) Tril(k int) *Tensor { return apply(&tril, []*Tensor{t}, []int{diagonal(k)}, nil) }

// Triu is the upper triangle of the last two axes: elements below the k-th diagonal become zero.
func (t *Tensor) Triu(k int) *Tensor { return apply(&triu, []*Tensor{t}, []int{diagonal(k)}, nil) }

// diagonal limits k, so that sums with it do not overflow. No tensor is so large.
func diagonal(k int) int { return min(max(k, -1<<50), 1<<50) }

func lower(i, j, k int) bool { return j <= i+k }
func upper(i, j, k int) bool { return j >= i+k }

// triangle is the reference: it copies the elements [.., i, j] that are inside the triangle.
func triangle(inside func(i, j, k int) bool) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		copyRef(l, nil, func(index []int) (operand, offset int) {
			if n := len(index); !inside(index[n-2], index[n-1], l.Ints[0]) {
				return filled, 0
			}
			return 0, offsetOf(l.In[0].Shape, index)
		})
	}
}
