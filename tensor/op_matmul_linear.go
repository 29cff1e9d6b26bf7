package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var linear Op

func init() {
	define(&linear, entry{
		Op: kernels.Op{Name: "linear", CPU: cpu.Linear, Types: []DType{Float32, Float64}, Ref: linearRef,
			Kernel: "matmul"},
		Cast:  seam.CastLower,
		Doc:   "y[.., o] = (sum over i of x[.., i] weight[o, i]) + bias[o]",
		Args:  []string{"x", "weight", "bias?"},
		Shape: linearShape,
		VJP:   linearVJP,
		Saves: []saves{saveIn(1), saveIn(0), 0},
		Flops: func(c *ctx) float64 { return 2 * float64(c.Out[0].Len()) * float64(c.In[0].Dim(-1)) },
		Samples: func() []opSample {
			sample := func(name string, x []int, in, out int) opSample {
				return opSample{Name: name, In: randomArgs(x, []int{out, in}, []int{out}),
					Call: func(x []*Tensor) *Tensor { return x[0].Linear(x[1], x[2]) }}
			}
			without := func(name string, x []int, in, out int) opSample {
				return opSample{Name: name, In: randomArgs(x, []int{out, in}),
					Call: func(x []*Tensor) *Tensor { return x[0].Linear(x[1], nil) }}
			}
			return []opSample{
				sample("vector", []int{3}, 3, 2), sample("rows", []int{4, 3}, 3, 2),
				sample("batch", []int{2, 2, 3}, 3, 2), sample("size 1", []int{1, 1}, 1, 1),
				sample("no rows", []int{0, 2}, 2, 2), sample("no inner", []int{2, 0}, 0, 2),
				without("no bias", []int{3, 2}, 2, 3), without("batch, no bias", []int{2, 1, 2}, 2, 1),
			}
		},
		Bench: func() []benchmark {
			bench := func(name string, rows, in, out int) benchmark {
				return benchmark{Name: name, In: randomArgs([]int{rows, in}, []int{out, in}, []int{out}),
					Call:  func(x []*Tensor) *Tensor { return x[0].Linear(x[1], x[2]) },
					Flops: 2 * float64(rows*in*out), Bytes: 4 * float64(rows*in+in*out+rows*out)}
			}
			return []benchmark{
				bench("784 to 256", 128, 784, 256), bench("128 to 512", 1024, 128, 512),
				bench("768 to 3072", 1024, 768, 3072),
			}
		},
	})
}

// Linear is t Wᵀ + bias over the last axis of t. weight is [out in]; bias is [out], or nil for none. The bias is added
// to the rounded product, so that the bits are those of MatMul and Add.
func (t *Tensor) Linear(weight, bias *Tensor) *Tensor {
	if bias == nil {
		return apply2(&linear, t, weight)
	}
	return apply(&linear, []*Tensor{t, weight, bias}, nil, nil)
}

func linearShape(c *ctx) {
	c.wantFloat(0, 1)
	c.wantRank(0, 1)
	x, w := c.shape(0), c.shape(1)
	if len(w) != 2 {
		c.fail(ErrShape, "weight %v must have two axes, [out in]", c.In[1])
	}
	last := len(x) - 1
	if x[last] != w[1] {
		fit := ""
		if x[last] == w[0] {
			fit = "; weight transposed would fit"
		}
		c.fail(ErrShape, "inner sizes differ: x %v has %d on axis %d, weight %v has %d on axis 1%s",
			x, x[last], last, w, w[1], fit)
	}
	if len(c.In) > 2 {
		c.wantFloat(0, 2)
		if b := c.shape(2); len(b) != 1 || b[0] != w[0] {
			c.fail(ErrShape, "bias %v must be [%d], one number for each row of weight %v", b, w[0], w)
		}
	}
	var buf [kernels.MaxDims]int
	c.result(c.In[0].dtype, append(append(buf[:0], x[:last]...), w[0])...)
}

// linearVJP is dx = g W, dW = gᵀ x as one product over the rows of all leading axes, and db = the sum of the rows of g.
func linearVJP(c *ctx, g *Tensor) []*Tensor {
	grads := make([]*Tensor, len(c.In))
	if c.needs(0) {
		grads[0] = g.MatMul(c.In[1])
	}
	if c.needs(1) {
		grads[1] = c.gradOf(1, func() *Tensor { return g.asMatrix().T().MatMul(c.In[0].asMatrix()) })
	}
	if len(c.In) > 2 && c.needs(2) {
		grads[2] = c.sumLater(2, g)
	}
	return grads
}

func linearRef(l *kernels.Launch) {
	x, w, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	out, in := l.In[1].Shape[0], l.In[1].Shape[1]
	for i := range l.Out[0].Len() {
		row, o := i/out, i%out
		y[i] = 0
		for k := range in {
			y[i] += float64(x[row*in+k] * w[o*in+k])
		}
		if len(l.In) > 2 {
			y[i] += cpu.Slice[float64](l.In[2])[o]
		}
	}
}
