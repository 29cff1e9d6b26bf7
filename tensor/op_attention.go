package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

// The attributes are causal (0 or 1), for the packed operations also the number of heads, and the scale. Results have
// the layout [B T H E], so that merging the heads needs no copy. The largest score m of each row and r =
// 1/sum(exp(score - m)) are saved for the gradient, which computes the probabilities p again. The result y is saved,
// too: sum(dp*p) of a row is sum(g*y), which kernels in half precision use.
var attention, attentionGrad, attentionPacked, attentionPackedGrad Op

func init() {
	define(&attention, entry{
		Op:      kernels.Op{Name: "attention", CPU: cpu.Attention, Ref: attentionRef},
		Cast:    seam.CastLower,
		Doc:     "softmax(scale q kᵀ) v, and m and r of the rows of scores",
		Args:    []string{"q", "k", "v"},
		Ints:    []string{"causal"},
		Floats:  []string{"scale"},
		Shape:   attentionShape,
		VJP:     attentionVJP,
		Saves:   attentionSaves(3),
		Flops:   func(c *ctx) float64 { return attentionFlops(c.In[0].Len(), c.In[1].Dim(2)) },
		Samples: func() []opSample { return attentionSamples((*Tensor).Attention) },
		Bench: func() []benchmark {
			return []benchmark{
				attentionBenchmark("64 heads, T=64, D=32", 16, 4, 64, 32),
				attentionBenchmark("12 heads, T=1024, D=64", 1, 12, 1024, 64),
			}
		},
	})
	define(&attentionGrad, entry{
		Op:     kernels.Op{Name: "attention_grad", CPU: cpu.AttentionGrad, Ref: attentionGradRef},
		Doc:    "the gradients of q, k and v from the gradient g of attention",
		Args:   []string{"q", "k", "v", "y", "m", "r", "g"},
		Ints:   []string{"causal"},
		Floats: []string{"scale"},
		Shape:  attentionGradShape,
		Compose: func(c *ctx) *Tensor {
			return attentionGradComposed(c, c.In[0], c.In[1], c.In[2], c.In[6])[0].Transpose(1, 2)
		},
		Samples: func() []opSample {
			return attentionSamples(func(q, k, v *Tensor, causal bool, scale float64) *Tensor {
				ints, floats := []int{flag(causal)}, []float64{scale}
				y := applyAll(&attention, []*Tensor{q, k, v}, ints, floats)
				return apply(&attentionGrad, []*Tensor{q, k, v, y[0], y[1], y[2], y[0].Transpose(1, 2)}, ints, floats)
			})
		},
	})
	define(&attentionPacked, entry{
		Op:     kernels.Op{Name: "attention_packed", CPU: cpu.AttentionPacked, Ref: attentionPackedRef},
		Cast:   seam.CastLower,
		Doc:    "attention of the thirds q, k and v of the last axis of qkv, and m and r of the rows of scores",
		Args:   []string{"qkv"},
		Ints:   []string{"causal", "heads"},
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
		Ints:   []string{"causal", "heads"},
		Floats: []string{"scale"},
		Shape:  func(c *ctx) { c.wantFloat(0, 1, 4); c.result(c.In[0].dtype, c.shape(0)...) },
		Compose: func(c *ctx) *Tensor {
			return attentionPackedGradComposed(c, c.In[0], c.In[4])
		},
		Samples: func() []opSample {
			return attentionPackedSamples(func(qkv *Tensor, heads int, causal bool, scale float64) *Tensor {
				ints, floats := []int{flag(causal), heads}, []float64{scale}
				y := applyAll(&attentionPacked, []*Tensor{qkv}, ints, floats)
				return apply(&attentionPackedGrad, []*Tensor{qkv, y[0], y[1], y[2], y[0]}, ints, floats)
			})
		},
	})
}

// attentionSaves says that each of n gradients reads all operands and results.
func attentionSaves(n int) []saves {
	saves := make([]saves, n)
	for i := range saves {
		saves[i] = saveOut(0, 1, 2)
		for k := range n {
			saves[i] |= saveIn(k)
		}
	}
	return saves
}

// Attention is softmax(scale t kᵀ) v for each head of each batch entry: queries t [B H T D], keys k [B H S D] and
// values v [B H S E] give [B H T E]; a usual scale is 1/sqrt(D). If it is causal, a query does not see later keys; the
// last query has the position of the last key, so that new queries see all older keys. Operands of any strides are read
// without a copy. In memory the result is [B T H E], so that Transpose(1, 2) and merging the last two axes do not copy.
func (t *Tensor) Attention(k, v *Tensor, causal bool, scale float64) *Tensor {
	return apply(&attention, []*Tensor{t, k, v}, []int{flag(causal)}, []float64{scale}).Transpose(1, 2)
}

// AttentionPacked is [Tensor.Attention] of the three thirds of the last axis of t [B T 3*C]: queries, keys and values,
// each of C = heads*D elements, head by head. The result is [B T C]. The gradient is one tensor, so this is faster than
// slices of t.
func (t *Tensor) AttentionPacked(heads int, causal bool, scale float64) *Tensor {
	return apply(&attentionPacked, []*Tensor{t}, []int{flag(causal), heads}, []float64{scale})
}

// attentionFlops counts the two products of queries of n elements with keys and values at the given number of
// positions, as if none were masked.
func attentionFlops(n, positions int) float64 { return 4 * float64(n) * float64(positions) }

// flag is 1 for true, 0 for false.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func attentionShape(c *ctx) {
	c.wantFloat(0, 1, 2)
	for i := range c.In {
		if r := c.In[i].Rank(); r != 4 {
			c.fail(ErrShape, "%s %v has %d axes, want four: batch, heads, positions, width",
				c.argName(i), c.In[i], r)
		}
	}
	q, k, v := c.shape(0), c.shape(1), c.shape(2)
	for d, axis := range []string{"batch sizes", "heads"} {
		if q[d] != k[d] || q[d] != v[d] {
			c.fail(ErrShape, "%s differ: q %v, k %v and v %v have %d, %d and %d on axis %d",
				axis, q, k, v, q[d], k[d], v[d], d)
		}
	}
	if q[3] != k[3] {
		c.fail(ErrShape, "widths differ: q %v has %d on axis 3, k %v has %d", q, q[3], k, k[3])
	}
	if k[2] != v[2] {
		c.fail(ErrShape, "positions differ: k %v has %d on axis 2, v %v has %d", k, k[2], v, v[2])
	}
	if c.Ints[0] != 0 && q[2] > k[2] {
		c.fail(ErrShape, "causal attention with more queries than keys: q %v has %d on axis 2, k %v has %d",
			q, q[2], k, k[2])
	}
	c.result(c.In[0].dtype, q[0], q[2], q[1], v[3])
	c.result(statistic(c.In[0].dtype), q[:3]...)
	c.result(statistic(c.In[0].dtype), q[:3]...)
}

func attentionGradShape(c *ctx) {
	c.wantFloat(0, 1, 2, 3, 6)
	for i := range 3 {
		s := c.shape(i)
		c.result(c.In[0].dtype, s[0], s[2], s[1], s[3])
	}
}

func attentionPackedShape(c *ctx) {
	c.wantFloat(0)
	x, heads := c.shape(0), c.Ints[1]
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

func attentionVJP(c *ctx, g *Tensor) []*Tensor {
	g = g.Transpose(1, 2)
	if c.scope.recording() {
		return attentionGradComposed(c, c.In[0], c.In[1], c.In[2], g)
	}
	in := []*Tensor{c.In[0], c.In[1], c.In[2], c.Out[0], c.Out[1], c.Out[2], g}
	d := applyAll(&attentionGrad, in, c.Ints, c.Floats)
	return []*Tensor{d[0].Transpose(1, 2), d[1].Transpose(1, 2), d[2].Transpose(1, 2)}
}

// attentionGradComposed is the gradient in differentiable operations. g is [B H T E], and results have the same order
// of axes.
func attentionGradComposed(c *ctx, q, k, v, g *Tensor) []*Tensor {
	scale := c.Floats[0]
	s := q.MatMul(k.T()).Scale(scale)
	if c.Ints[0] != 0 {
		t, n := q.Dim(2), k.Dim(2)
		masked := c.scope.Full(1, Bool, t, n).Triu(1 + n - t)
		s = s.MaskedFill(masked, math.Inf(-1))
	}
	p := s.Softmax(-1)
	dp := g.MatMul(v.T())
	ds := p.Mul(dp.Sub(dp.Mul(p).Sum(-1, KeepDims))).Scale(scale)
	return []*Tensor{ds.MatMul(k), ds.T().MatMul(q), p.T().MatMul(g)}
}

// attentionPackedGradComposed is the gradient of qkv, given that of the result, in differentiable operations.
func attentionPackedGradComposed(c *ctx, qkv, g *Tensor) *Tensor {
	b, t, heads := qkv.Dim(0), qkv.Dim(1), c.Ints[1]
	d := qkv.Dim(2) / (3 * heads)
	x := qkv.Reshape(b, t, 3, heads, d).Permute(2, 0, 3, 1, 4) // [3 B H T D]
	g = g.Reshape(b, t, heads, d).Transpose(1, 2)
	dx := Stack(0, attentionGradComposed(c, x.Select(0, 0), x.Select(0, 1), x.Select(0, 2), g)...)
	return dx.Permute(1, 3, 0, 2, 4).Reshape(qkv.layout.Shape...)
}

func attentionSamples(call func(q, k, v *Tensor, causal bool, scale float64) *Tensor) []opSample {
	sample := func(name string, b, h, t, s, d, e int, causal bool) opSample {
		return opSample{Name: name, In: randomArgs([]int{b, h, t, d}, []int{b, h, s, d}, []int{b, h, s, e}),
			Call: func(x []*Tensor) *Tensor { return call(x[0], x[1], x[2], causal, 0.7) }}
	}
	return []opSample{
		sample("full", 2, 1, 2, 3, 2, 2, false), sample("causal", 1, 2, 3, 3, 2, 2, true),
		sample("more keys", 1, 1, 2, 4, 2, 1, true), sample("one position", 1, 1, 1, 1, 2, 2, true),
		sample("width 1", 1, 1, 3, 3, 1, 1, true), sample("values wider", 1, 1, 2, 2, 1, 3, false),
		sample("no batch", 0, 1, 2, 2, 2, 2, true), sample("no queries", 1, 1, 0, 2, 2, 2, true),
		sample("no keys", 1, 1, 2, 0, 2, 2, false),
	}
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

func attentionBenchmark(name string, b, h, t, d int) benchmark {
	x, scale := seam.Arg{Shape: []int{b, h, t, d}, Lo: -1, Hi: 1}, 1/math.Sqrt(float64(d))
	return benchmark{Name: name, In: []seam.Arg{x, x, x}, Flops: 4 * float64(b*h*t*t*d), Bytes: 16 * float64(b*h*t*d),
		Call: func(x []*Tensor) *Tensor { return x[0].Attention(x[1], x[2], true, scale) }}
}

// view4 is an operand of a reference with the axes batch, head, position and column.
type view4 struct {
	data    []float64
	strides []int
}

func (v view4) at(b, h, i, j int) *float64 {
	return &v.data[b*v.strides[0]+h*v.strides[1]+i*v.strides[2]+j*v.strides[3]]
}

// viewOf is a view of an operand [B H T D].
func viewOf(a kernels.Arg) view4 { return view4{cpu.Slice[float64](a), a.Strides} }

// headsFirst is an operand [B T H D] with the axes [B H T D], or the other way round.
func headsFirst(a kernels.Arg) kernels.Arg {
	s, n := a.Strides, a.Shape
	a.Strides, a.Shape = []int{s[0], s[2], s[1], s[3]}, []int{n[0], n[2], n[1], n[3]}
	return a
}

// attentionRow is a row of scores: of query i of head h of batch entry b. Scores of masked keys are -Inf.
type attentionRow struct {
	index, b, h, i int
	scores         []float64
}

// eachAttentionRow calls f for each row of scores of an op call.
func eachAttentionRow(l *kernels.Launch, f func(r attentionRow)) {
	q, k, shape := viewOf(l.In[0]), viewOf(l.In[1]), l.In[0].Shape
	heads, queries, width := shape[1], shape[2], shape[3]
	r := attentionRow{scores: make([]float64, l.In[1].Shape[2])}
	for r.index = range shape[0] * heads * queries {
		r.b, r.h, r.i = r.index/queries/heads, r.index/queries%heads, r.index%queries
		for j := range r.scores {
			r.scores[j] = 0
			for d := range width {
				r.scores[j] += float64(*q.at(r.b, r.h, r.i, d) * *k.at(r.b, r.h, j, d))
			}
			r.scores[j] *= l.Floats[0]
			if l.Ints[0] != 0 && j > r.i+len(r.scores)-queries {
				r.scores[j] = math.Inf(-1)
			}
		}
		f(r)
	}
}

func attentionRef(l *kernels.Launch) {
	v, y := viewOf(l.In[2]), viewOf(headsFirst(l.Out[0]))
	ms, rs := cpu.Slice[float64](l.Out[1]), cpu.Slice[float64](l.Out[2])
	eachAttentionRow(l, func(r attentionRow) {
		m, sum := maxAndSum(r.scores)
		ms[r.index], rs[r.index] = m, 1/sum
		for e := range l.In[2].Shape[3] {
			to := y.at(r.b, r.h, r.i, e)
			*to = 0
			for j, s := range r.scores {
				*to += float64(double.Exp(s-m) / sum * *v.at(r.b, r.h, j, e))
			}
		}
	})
}

func attentionGradRef(l *kernels.Launch) {
	q, k, v, g := viewOf(l.In[0]), viewOf(l.In[1]), viewOf(l.In[2]), viewOf(l.In[6])
	dq, dk, dv := viewOf(headsFirst(l.Out[0])), viewOf(headsFirst(l.Out[1])), viewOf(headsFirst(l.Out[2]))
	ms, rs := cpu.Slice[float64](l.In[4]), cpu.Slice[float64](l.In[5])
	for _, d := range []view4{dq, dk, dv} {
		clear(d.data)
	}
	eachAttentionRow(l, func(r attentionRow) {
		p, dp, dot := make([]float64, len(r.scores)), make([]float64, len(r.scores)), 0.0
		for j, s := range r.scores {
			p[j] = double.Exp(s-ms[r.index]) * rs[r.index]
			for e := range l.In[2].Shape[3] {
				dp[j] += float64(*g.at(r.b, r.h, r.i, e) * *v.at(r.b, r.h, j, e))
				*dv.at(r.b, r.h, j, e) += float64(p[j] * *g.at(r.b, r.h, r.i, e))
			}
			dot += float64(p[j] * dp[j])
		}
		for j := range r.scores {
			ds := p[j] * (dp[j] - dot) * l.Floats[0]
			for d := range l.In[0].Shape[3] {
				*dq.at(r.b, r.h, r.i, d) += float64(ds * *k.at(r.b, r.h, j, d))
				*dk.at(r.b, r.h, j, d) += float64(ds * *q.at(r.b, r.h, r.i, d))
			}
		}
	})
}

// third is a third of an operand [B T 3*H*D], or all of one [B T H*D], which is third 0, as [B T H D].
func third(l *kernels.Launch, a kernels.Arg, i int) kernels.Arg {
	heads, width := l.Ints[1], l.In[0].Shape[2]/3
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
