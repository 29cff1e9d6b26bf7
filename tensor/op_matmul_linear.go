package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var linear Op

func init() {
	define(&linear, Op{
		Op: kernels.Op{Name: "linear", CPU: cpu.Linear, Types: []DType{Float32, Float64}, Ref: linearRef,
			Kernel: "matmul"},
		Cast:  CastLower,
		Doc:   "y[.., o] = (sum over i of x[.., i] weight[o, i]) + bias[o]",
		Args:  []string{"x", "weight", "bias"},
		Shape: linearShape,
		VJP:   linearVJP,
		Saves: []Saves{SaveIn(1), SaveIn(0), 0},
		Flops: func(c *Ctx) float64 { return 2 * float64(c.Out[0].Len()) * float64(c.In[0].Dim(-1)) },
		Samples: func() []Sample {
			sample := func(name string, x []int, in, out int) Sample {
				return Sample{Name: name, In: randomArgs(x, []int{out, in}, []int{out}),
					Call: func(x []*Tensor) *Tensor { return x[0].Linear(x[1], x[2]) }}
			}
			without := func(name string, x []int, in, out int) Sample {
				return Sample{Name: name, In: randomArgs(x, []int{out, in}),
					Call: func(x []*Tensor) *Tensor { return x[0].Linear(x[1], nil) }}
			}
			return []Sample{
				sample("vector", []int{3}, 3, 2), sample("rows", []int{4, 3}, 3, 2),
				sample("batch", []int{2, 2, 3}, 3, 2), sample("size 1", []int{1, 1}, 1, 1),
				sample("no rows", []int{0, 2}, 2, 2), sample("no inner", []int{2, 0}, 0, 2),
				without("no bias", []int{3, 2}, 2, 3), without("batch, no bias", []int{2, 1, 2}, 2, 1),
			}
		},
		Bench: func() []Benchmark {
			bench := func(name string, rows, in, out int) Benchmark {
				return Benchmark{Name: name, In: randomArgs([]int{rows, in}, []int{out, in}, []int{out}),
					Call:  func(x []*Tensor) *Tensor { return x[0].Linear(x[1], x[2]) },
					Flops: 2 * float64(rows*in*out), Bytes: 4 * float64(rows*in+in*out+rows*out)}
			}
			return []Benchmark{
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
	return Apply(&linear, []*Tensor{t, weight, bias}, nil, nil)
}

func linearShape(c *Ctx) {
	c.wantFloat(0, 1)
	c.wantRank(0, 1)
	x, w := c.Shape(0), c.Shape(1)
	if len(w) != 2 {
		c.Fail(ErrShape, "weight %v must have two axes, [out in]", c.In[1])
	}
	last := len(x) - 1
	if x[last] != w[1] {
		fit := ""
		if x[last] == w[0] {
			fit = "; weight transposed would fit"
		}
		c.Fail(ErrShape, "inner sizes differ: x %v has %d on axis %d, weight %v has %d on axis 1%s",
			x, x[last], last, w, w[1], fit)
	}
	if len(c.In) > 2 {
		c.wantFloat(0, 2)
		if b := c.Shape(2); len(b) != 1 || b[0] != w[0] {
			c.Fail(ErrShape, "bias %v must be [%d], one number for each row of weight %v", b, w[0], w)
		}
	}
	var buf [kernels.MaxDims]int
	c.Result(c.In[0].dtype, append(append(buf[:0], x[:last]...), w[0])...)
}

// linearVJP is dx = g W, dW = gᵀ x as one product over the rows of all leading axes, and db = the sum of the rows of g.
func linearVJP(c *Ctx, g *Tensor) []*Tensor {
	grads := make([]*Tensor, len(c.In))
	if c.Needs(0) {
		grads[0] = g.MatMul(c.In[1])
	}
	if c.Needs(1) {
		grads[1] = g.asMatrix().T().MatMul(c.In[0].asMatrix())
	}
	if len(c.In) > 2 && c.Needs(2) {
		grads[2] = g.SumTo(c.Shape(2)...)
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
