package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var prod, prodGrad Op

func init() {
	define(&prod, entry{
		Op: kernels.Op{Name: "prod", CPU: cpu.Prod, Types: cpu.Folded,
			Ref: foldRef(1, multiply[float64], 1, multiply[int64])},
		Cast:  seam.CastFull,
		Doc:   "the product of x over axes",
		Ints:  []string{"axes..."},
		Shape: func(c *ctx) { c.reduced(accumulated(c.In[0].dtype)) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{apply(&prodGrad, []*Tensor{c.In[0], g}, c.Ints, nil)}
		},
		Saves:   []saves{saveIn(0)},
		Flops:   perElement(1),
		Samples: prodSamples,
	})
	define(&prodGrad, entry{
		Op:   kernels.Op{Name: "prod_grad", Ref: prodGradRef},
		Doc:  "g times the product of the other elements",
		Args: []string{"x", "g"},
		Ints: []string{"axes..."},
		Shape: func(c *ctx) {
			c.wantAxes()
			if x, g := c.In[0], c.In[1]; g.Rank() != x.Rank()-len(c.Ints) {
				c.fail(ErrShape, "g %v is no gradient of the product of %v over axes %v", g, x, c.Ints)
			}
			c.result(c.In[0].dtype, c.shape(0)...)
		},
		Compose: prodGradCompose,
		Samples: func() []opSample {
			return []opSample{{
				Name: "zeros",
				In: append([]seam.Arg{{Shape: []int{2, 3}, Values: []float64{0, 2, -3, 1.5, 2, 0.5}}},
					randomArgs([]int{2})...),
				Call: func(x []*Tensor) *Tensor { return apply(&prodGrad, x, []int{1}, nil) },
			}}
		},
	})
}

// Prod is the product over the given axes, which disappear, or over all axes if none are given. Negative axes count
// from the end. The product of integers and bools is int64; the product of no elements is 1.
func (t *Tensor) Prod(axes ...int) *Tensor { return t.reduce(&prod, axes) }

func prodSamples() []opSample {
	zeros := opSample{
		Name: "zeros", In: []seam.Arg{{Shape: []int{3, 3}, Values: []float64{0, 2, -3, 0, 1.5, 0, 1, 2, 0.5}}},
		Call: func(x []*Tensor) *Tensor { return x[0].Prod(1) },
	}
	return append(reductionSamples(0.5, 2, true, (*Tensor).Prod), zeros)
}

func multiply[T float64 | int64](a, b T) T { return a * b }

// prodGradRef multiplies the elements before and after each one, which needs no division by an element that may be 0.
func prodGradRef(l *kernels.Launch) {
	x, g, dx := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	var r kernels.Reduction
	r.Set(&l.In[0].Layout, l.Ints)
	for o, before := range g[:l.In[1].Len()] {
		from := r.Kept.Offset(o)
		for k := range r.N {
			i := from + r.Reduced.Offset(k)
			dx[i] = before
			before *= x[i]
		}
		after := 1.0
		for k := r.N - 1; k >= 0; k-- {
			i := from + r.Reduced.Offset(k)
			dx[i] *= after
			after *= x[i]
		}
	}
}

// prodGradCompose multiplies the rows of a square matrix for each result: row i has the elements, with a 1 in place of
// element i.
func prodGradCompose(c *ctx) *Tensor {
	x, g := c.In[0], c.In[1]
	shape := x.Shape()
	n := c.count()
	var order, sizes []int // axes of x, the reduced ones last
	for a := range shape {
		if !slices.Contains(c.Ints, a) {
			order = append(order, a)
		}
	}
	order = append(order, c.Ints...)
	back := make([]int, len(order))
	for i, a := range order {
		back[a] = i
		sizes = append(sizes, shape[a])
	}
	rows := x.Permute(order...).Reshape(g.Len(), 1, n)
	others := rows.Expand(g.Len(), n, n).MaskedFill(Eye(Bool, n), 1).Prod(-1)
	return others.Mul(g.Reshape(g.Len(), 1)).Reshape(sizes...).Permute(back...)
}
