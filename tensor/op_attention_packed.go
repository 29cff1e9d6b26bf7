package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes are those of attention, and the number of heads; there are no masks, no dropout and no shared heads.
var attentionPacked, attentionPackedGrad Op

func init() {
	define(&attentionPacked, entry{
		Op:     kernels.Op{Name: "attention_packed", CPU: cpu.AttentionPacked, Ref: attentionPackedRef},
		Cast:   seam.CastLower,
		Doc:    "attention of the thirds q, k and v of the last axis of qkv, and m and r of the rows of scores",
		Args:   []string{"qkv"},
		Ints:   []string{"first", "last", "heads"},
		Floats: []string{"scale"},
		Shape:  attentionPackedShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			if c.scope.recording() {
				return []*Tensor{attentionPackedGradComposed(c, c.In[0], g)}
			}
			in := []*Tensor{c.In[0], c.Out[0], c.Out[1], c.Out[2], g}
			return []*Tensor{apply(&attentionPackedGrad, in, c.Ints, c.Floats)}
		},
		Saves:   attentionSaves(1),
		Flops:   func(c *ctx) float64 { return attentionFlops(c.Out[0].Len(), c.In[0].Dim(1)) },
		Samples: func() []opSample { return attentionPackedSamples((*Tensor).AttentionPacked) },
	})
	define(&attentionPackedGrad, entry{
		Op:     kernels.Op{Name: "attention_packed_grad", CPU: cpu.AttentionPackedGrad, Ref: attentionPackedGradRef},
		Doc:    "the gradient of qkv from the gradient g of attention_packed",
		Args:   []string{"qkv", "y", "m", "r", "g"},
		Ints:   []string{"first", "last", "heads"},
		Floats: []string{"scale"},
		Shape:  func(c *ctx) { c.wantFloat(0, 1, 4); c.result(c.In[0].dtype, c.shape(0)...) },
		Compose: func(c *ctx) *Tensor {
			return attentionPackedGradComposed(c, c.In[0], c.In[4])
		},
		Samples: func() []opSample {
			return attentionPackedSamples(func(qkv *Tensor, heads int, causal bool, scale float64) *Tensor {
				ints, floats := []int{math.MinInt, lastKey(causal, nil, nil), heads}, []float64{scale}
				y := applyAll(&attentionPacked, []*Tensor{qkv}, ints, floats)
				return apply(&attentionPackedGrad, []*Tensor{qkv, y[0], y[1], y[2], y[0]}, ints, floats)
			})
		},
	})
}

// AttentionPacked is [Tensor.Attention] of the three thirds of the last axis of t [B T 3*C]: queries, keys and values,
// each of C = heads*D elements, head by head. The result is [B T C]. The gradient is one tensor, so this is faster than
// slices of t.
func (t *Tensor) AttentionPacked(heads int, causal bool, scale float64) *Tensor {
	ints := []int{math.MinInt, lastKey(causal, nil, nil), heads}
	return apply(&attentionPacked, []*Tensor{t}, ints, []float64{scale})
}

func attentionPackedShape(c *ctx) {
	c.wantFloat(0)
	x, heads := c.shape(0), c.Ints[2]
	if len(x) != 3 {
		c.fail(ErrShape, "qkv %v has %d axes, want three: batch, positions, width", c.In[0], len(x))
	}
	if heads < 1 || x[2]%3 != 0 || x[2]/3%heads != 0 {
		c.fail(ErrShape, "qkv %v has %d on axis 2, no multiple of 3 * %d heads", x, x[2], heads)
	}
	c.result(c.In[0].dtype, x[0], x[1], x[2]/3)
	c.result(statistic(c.In[0].dtype), x[0], heads, x[1])
	c.result(statistic(c.In[0].dtype), x[0], heads, x[1])
}

// attentionPackedGradComposed is the gradient of qkv, given that of the result, in differentiable operations.
func attentionPackedGradComposed(c *ctx, qkv, g *Tensor) *Tensor {
	b, t, heads := qkv.Dim(0), qkv.Dim(1), c.Ints[2]
	d := qkv.Dim(2) / (3 * heads)
	x := qkv.Reshape(b, t, 3, heads, d).Permute(2, 0, 3, 1, 4) // [3 B H T D]
	g = g.Reshape(b, t, heads, d).Transpose(1, 2)
	dx := Stack(0, attentionGradComposed(c, []*Tensor{x.Select(0, 0), x.Select(0, 1), x.Select(0, 2)}, g)...)
	return dx.Permute(1, 3, 0, 2, 4).Reshape(qkv.layout.Shape...)
}

func attentionPackedSamples(call func(qkv *Tensor, heads int, causal bool, scale float64) *Tensor) []opSample {
	sample := func(name string, b, t, heads, d int, causal bool) opSample {
		return opSample{Name: name, In: randomArgs([]int{b, t, 3 * heads * d}),
			Call: func(x []*Tensor) *Tensor { return call(x[0], heads, causal, 0.7) }}
	}
	return []opSample{
		sample("causal", 2, 3, 2, 2, true), sample("full", 1, 3, 1, 2, false),
		sample("one position", 1, 1, 2, 1, true), sample("no batch", 0, 2, 1, 2, true),
		sample("no positions", 1, 0, 1, 2, true),
	}
}

// third is a third of an operand [B T 3*H*D], or all of one [B T H*D], which is third 0, as [B T H D].
func third(l *kernels.Launch, a kernels.Arg, i int) kernels.Arg {
	heads, width := l.Ints[2], l.In[0].Shape[2]/3
	if a.Len() > 0 {
		a.Offset += i * width
	}
	a.Shape = []int{a.Shape[0], a.Shape[1], heads, width / heads}
	a.Strides = []int{a.Strides[0], a.Strides[1], width / heads, 1}
	return a
}

// thirds is an op call on the thirds of qkv, as of attention, with the given further operands and results.
func thirds(l *kernels.Launch, in, out []kernels.Arg) *kernels.Launch {
	of := *l
	of.In, of.Out = nil, out
	for i := range 3 {
		of.In = append(of.In, headsFirst(third(l, l.In[0], i)))
	}
	of.In = append(of.In, in...)
	return &of
}

func attentionPackedRef(l *kernels.Launch) {
	attentionRef(thirds(l, nil, []kernels.Arg{third(l, l.Out[0], 0), l.Out[1], l.Out[2]}))
}

func attentionPackedGradRef(l *kernels.Launch) {
	dx := l.Out[0]
	in := append(l.In[1:4:4], headsFirst(third(l, l.In[4], 0)))
	attentionGradRef(thirds(l, in, []kernels.Arg{third(l, dx, 0), third(l, dx, 1), third(l, dx, 2)}))
}
