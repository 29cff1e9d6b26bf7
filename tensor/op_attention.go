package tensor

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

// Query i sees the keys from i+first to i+last, which are attributes; the others are the scale and the probability of
// dropout, whose factors multiply the probabilities p: 1/(1-dropout)
// where kept is true, else 0. Results have the layout [B T H E], so that merging the heads needs no copy. The largest
// score m of each row and r = 1/sum(exp(score - m)) are saved for the gradient, which computes p again. They are 0 for
// a row that sees no key, or whose keys all have the mask -Inf. The result y is saved, too: sum(dp*p) of a row is
// sum(g*y), which kernels in half precision use.
var attention, attentionGrad Op

func init() {
	define(&attention, entry{
		Op:     kernels.Op{Name: "attention", CPU: cpu.Attention, Ref: attentionRef},
		Cast:   seam.CastLower,
		Doc:    "softmax(scale q kᵀ + mask) v with dropout, and m and r of the rows of scores",
		Args:   []string{"q", "k", "v", "mask?", "kept?"},
		Ints:   []string{"first", "last"},
		Floats: []string{"scale", "dropout"},
		Shape:  attentionShape,
		VJP:    attentionVJP,
		Saves:  attentionSaves(5),
		Flops:  func(c *ctx) float64 { return attentionFlops(c.In[0].Len(), c.In[1].Dim(2)) },
		Samples: func() []opSample {
			return append(attentionSamples((*Tensor).Attention), maskedSamples(func(in []*Tensor, ints []int,
				floats []float64) *Tensor {
				return apply(&attention, in, ints, floats).Transpose(1, 2)
			})...)
		},
		Bench: func() []benchmark {
			return []benchmark{
				attentionBenchmark("64 heads, T=64, D=32", 16, 4, 64, 32),
				attentionBenchmark("12 heads, T=1024, D=64", 1, 12, 1024, 64), maskedBenchmark(1, 12, 1024, 64),
			}
		},
	})
	define(&attentionGrad, entry{
		Op:     kernels.Op{Name: "attention_grad", CPU: cpu.AttentionGrad, Ref: attentionGradRef},
		Doc:    "the gradients of q, k and v from the gradient g of attention",
		Args:   []string{"q", "k", "v", "y", "m", "r", "g", "mask?", "kept?"},
		Ints:   []string{"first", "last"},
		Floats: []string{"scale", "dropout"},
		Shape:  attentionGradShape,
		Compose: func(c *ctx) *Tensor {
			in := append([]*Tensor{c.In[0], c.In[1], c.In[2]}, c.In[7:]...)
			return attentionGradComposed(c, in, c.In[6])[0].Transpose(1, 2)
		},
		Samples: func() []opSample {
			grad := func(in []*Tensor, ints []int, floats []float64) *Tensor {
				y := applyAll(&attention, in, ints, floats)
				all := append(in[:3:3], y[0], y[1], y[2], y[0].Transpose(1, 2))
				return apply(&attentionGrad, append(all, in[3:]...), ints, floats)
			}
			return append(attentionSamples(func(q, k, v *Tensor, causal bool, scale float64) *Tensor {
				return grad([]*Tensor{q, k, v}, []int{math.MinInt, lastKey(causal, q, k)}, []float64{scale, 0})
			}), maskedSamples(grad)...)
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
// last query has the position of the last key, so that new queries see all older keys. k and v may have fewer heads, a
// divisor of H: neighbouring heads of t share one then (Ainslie et al. 2023). Operands of any strides are read without
// a copy. In memory the result is [B T H E], so that Transpose(1, 2) and merging the last two axes do not copy.
func (t *Tensor) Attention(k, v *Tensor, causal bool, scale float64) *Tensor {
	ints := []int{math.MinInt, lastKey(causal, t, k)}
	return apply(&attention, []*Tensor{t, k, v}, ints, []float64{scale, 0}).Transpose(1, 2)
}

// MaskedAttention is [Tensor.Attention] in which query i sees the keys from i+first to i+last, last >= 0: math.MinInt
// and math.MaxInt are all keys, and 0 for last is causal with the first query at the position of the first key. The
// mask, nil for none, broadcasts to [B H T S]: numbers of t's type are added to the scores, and a bool says whether the
// query sees the key. The result and all gradients of a query that sees no key are 0. In steps with training behaviour
// probabilities are dropped as by [Tensor.Dropout]. A mask of numbers has a gradient.
func (t *Tensor) MaskedAttention(k, v, mask *Tensor, first, last int, dropout, scale float64) *Tensor {
	if !(dropout >= 0 && dropout < 1) {
		fail(ErrValue, attention.Name, "the probability %v of dropout is outside [0, 1)", dropout)
	}
	in := []*Tensor{t, k, v}
	s := stepOf(attention.Name, in)
	scores := []int{}
	if t.Rank() == 4 && k.Rank() == 4 {
		scores = []int{t.Dim(0), t.Dim(1), t.Dim(2), k.Dim(2)}
	}
	if mask != nil && mask.dtype == Bool {
		mask = mask.To(t.dtype).Log() // log 1 = 0, log 0 = -Inf
	}
	drops := dropout > 0 && s.trains()
	if drops && mask == nil {
		mask = s.newFull(t, 0, t.dtype)
	}
	if mask != nil {
		in = append(in, mask.expandIfPossible(scores))
	}
	if drops {
		in = append(in, s.beside(t, func() *Tensor { return s.Bernoulli(1-dropout, scores...) }))
	}
	return apply(&attention, in, []int{first, last}, []float64{scale, dropout}).Transpose(1, 2)
}

// trains tells whether s is a step with training behaviour.
func (s *Scope) trains() bool { return s != nil && s.Training() }

// expandIfPossible is t broadcast to the shape, or t if it does not fit, which a shape rule then says.
func (t *Tensor) expandIfPossible(shape []int) *Tensor {
	common := make([]int, max(len(shape), t.Rank()))
	if broadcastTo(common, t.layout.Shape, shape) == 0 && slices.Equal(common, shape) {
		return t.Expand(shape...)
	}
	return t
}

// lastKey is the attribute of causal attention, and of one that is not.
func lastKey(causal bool, q, k *Tensor) int {
	switch {
	case !causal:
		return math.MaxInt
	case q != nil && k != nil && q.Rank() == 4 && k.Rank() == 4:
		return k.Dim(2) - q.Dim(2)
	}
	return 0
}

// attentionFlops counts the two products of queries of n elements with keys and values at the given number of
// positions, as if none were masked.
func attentionFlops(n, positions int) float64 { return 4 * float64(n) * float64(positions) }

func attentionShape(c *ctx) {
	c.wantFloat(0, 1, 2)
	for i := range 3 {
		if r := c.In[i].Rank(); r != 4 {
			c.fail(ErrShape, "%s %v has %d axes, want four: batch, heads, positions, width",
				c.argName(i), c.In[i], r)
		}
	}
	q, k, v := c.shape(0), c.shape(1), c.shape(2)
	if q[0] != k[0] || q[0] != v[0] {
		c.fail(ErrShape, "batch sizes differ: q %v, k %v and v %v have %d, %d and %d on axis 0",
			q, k, v, q[0], k[0], v[0])
	}
	if k[1] != v[1] || q[1]%max(1, k[1]) != 0 || k[1] == 0 && q[1] > 0 {
		c.fail(ErrShape, "heads differ: q %v, k %v and v %v have %d, %d and %d on axis 1; "+
			"k and v have as many as q, or both the same divisor of these", q, k, v, q[1], k[1], v[1])
	}
	if q[3] != k[3] {
		c.fail(ErrShape, "widths differ: q %v has %d on axis 3, k %v has %d", q, q[3], k, k[3])
	}
	if k[2] != v[2] {
		c.fail(ErrShape, "positions differ: k %v has %d on axis 2, v %v has %d", k, k[2], v, v[2])
	}
	if c.Ints[1] < 0 {
		c.fail(ErrShape, "causal attention with more queries than keys: q %v has %d on axis 2, k %v has %d, "+
			"so the first query would have the position %d", q, q[2], k, k[2], c.Ints[1])
	}
	c.wantMasks(3)
	c.result(c.In[0].dtype, q[0], q[2], q[1], v[3])
	c.result(statistic(c.In[0].dtype), q[:3]...)
	c.result(statistic(c.In[0].dtype), q[:3]...)
}

// wantMasks checks the operands mask and kept, from operand `from` on, as far as they are given.
func (c *ctx) wantMasks(from int) {
	q, k := c.shape(0), c.shape(1)
	for i := from; i < len(c.In); i++ {
		if i == from {
			c.wantFloat(0, i)
		} else {
			c.wantDType(i, Bool)
		}
		if scores := []int{q[0], q[1], q[2], k[2]}; !slices.Equal(c.shape(i), scores) {
			c.fail(ErrShape, "%s %v does not broadcast to the scores %v: batch, heads, queries, keys",
				c.argName(i), c.In[i], scores)
		}
	}
}

func attentionGradShape(c *ctx) {
	c.wantFloat(0, 1, 2, 3, 6)
	c.wantMasks(7)
	for i := range 3 {
		s := c.shape(i)
		c.result(c.In[0].dtype, s[0], s[2], c.shape(0)[1], s[3])
	}
}

func attentionVJP(c *ctx, g *Tensor) []*Tensor {
	g = g.Transpose(1, 2)
	if c.scope.recording() || len(c.In) > 3 && c.needs(3) {
		return attentionGradComposed(c, c.In, g)
	}
	in := append([]*Tensor{c.In[0], c.In[1], c.In[2], c.Out[0], c.Out[1], c.Out[2], g}, c.In[3:]...)
	d := applyAll(&attentionGrad, in, c.Ints, c.Floats)
	for i := range d {
		d[i] = d[i].Transpose(1, 2)
	}
	return append(d[:1:1], attentionGrads(c.In, d[1], d[2])...)
}

// attentionGrads are the gradients of all of the operands in but q, given those of k and v with the heads of q: those
// of heads that share one are added up. Masks have none.
func attentionGrads(in []*Tensor, d ...*Tensor) []*Tensor {
	for i, x := range d {
		if heads := in[1].Dim(1); heads != x.Dim(1) {
			d[i] = x.Reshape(x.Dim(0), heads, x.Dim(1)/heads, x.Dim(2), x.Dim(3)).Sum(2)
		}
	}
	return append(d, make([]*Tensor, len(in)-3)...)
}

// attentionGradComposed is the gradient in differentiable operations, of the operands in: q, k, v and perhaps mask and
// kept. g is [B H T E], and results have the same order of axes.
func attentionGradComposed(c *ctx, in []*Tensor, g *Tensor) []*Tensor {
	scale, dt := c.Floats[0], in[0].dtype
	if dt.IsHalf() { // scores may be out of its range
		wide := append([]*Tensor{}, in...)
		for i, x := range wide {
			if x.dtype.IsHalf() {
				wide[i] = x.To(Float32)
			}
		}
		grads := attentionGradComposed(c, wide, g.To(Float32))
		for i, d := range grads {
			if d != nil {
				grads[i] = d.To(in[i].dtype)
			}
		}
		return grads
	}
	q, k, v := in[0], in[1], in[2]
	if heads := k.Dim(1); heads != q.Dim(1) {
		k, v = k.repeatHeads(q.Dim(1)/heads), v.repeatHeads(q.Dim(1)/heads)
	}
	drop := func(x *Tensor) *Tensor { return x }
	if len(in) > 4 {
		factors := in[4].To(q.dtype).Scale(1 / (1 - c.Floats[1]))
		drop = factors.Mul
	}
	p := attentionProbabilities(c, q.MatMul(k.T()).Scale(scale), in[3:])
	kept, dp := drop(p), drop(g.MatMul(v.T()))
	dmask := p.Mul(dp.Sub(dp.Mul(p).Sum(-1, KeepDims)))
	ds := dmask.Scale(scale)
	grads := attentionGrads(in, ds.T().MatMul(q), kept.T().MatMul(g))
	if len(in) > 3 && c.Op == &attention && c.needs(3) {
		grads[2] = dmask
	}
	return append([]*Tensor{ds.MatMul(k)}, grads...)
}

// attentionProbabilities is the softmax of scores plus the mask, if there is one, over the visible keys.
func attentionProbabilities(c *ctx, scores *Tensor, mask []*Tensor) *Tensor {
	t, n, first, last := scores.Dim(2), scores.Dim(3), c.Ints[0], c.Ints[1]
	if len(mask) > 0 {
		scores = scores.Add(mask[0])
	}
	if last < n-1 {
		scores = scores.MaskedFill(c.scope.newFull(scores, 1, Bool, t, n).Triu(1+last), math.Inf(-1))
	}
	if first > -t {
		scores = scores.MaskedFill(c.scope.newFull(scores, 1, Bool, t, n).Tril(max(first, -t)-1), math.Inf(-1))
	}
	if n == 0 || len(mask) == 0 && first <= -t {
		return scores.Softmax(-1)
	}
	none := scores.Max(-1).Unsqueeze(-1).EqualScalar(math.Inf(-1)) // rows without a visible key
	return scores.MaskedFill(none, 0).Softmax(-1).MaskedFill(none, 0)
}

// repeatHeads is t [B H S D] with each head n times.
func (t *Tensor) repeatHeads(n int) *Tensor {
	b, h, s, d := t.Dim(0), t.Dim(1), t.Dim(2), t.Dim(3)
	return t.Unsqueeze(2).Expand(b, h, n, s, d).Reshape(b, h*n, s, d)
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

// maskedSamples are calls with what attentionSamples do without: masks, dropout, windows and shared heads.
func maskedSamples(call func(in []*Tensor, ints []int, floats []float64) *Tensor) []opSample {
	inf := math.Inf(-1)
	sample := func(name string, heads, shared, t, s, first, last int, mask []float64, kept []float64) opSample {
		in := randomArgs([]int{1, heads, t, 2}, []int{1, shared, s, 2}, []int{1, shared, s, 3})
		if mask != nil || kept != nil {
			in = append(in, seam.Arg{Shape: []int{1, heads, t, s}, Lo: -1, Hi: 1, Values: mask})
		}
		if kept != nil {
			in = append(in, seam.Arg{Shape: []int{1, heads, t, s}, DType: Bool, Values: kept})
		}
		return opSample{Name: name, In: in, Call: func(x []*Tensor) *Tensor {
			return call(x, []int{first, last}, []float64{0.7, 0.25})
		}}
	}
	return []opSample{
		sample("mask", 1, 1, 2, 3, math.MinInt, math.MaxInt, []float64{0.5, inf, -1, 2, 0, -0.25}, nil),
		sample("a masked row", 1, 1, 2, 2, math.MinInt, math.MaxInt, []float64{inf, inf, 0, -1}, nil),
		sample("dropout", 1, 1, 2, 3, math.MinInt, 1, nil, []float64{1, 0, 1, 1, 1, 0}),
		sample("shared heads", 4, 2, 2, 3, math.MinInt, 1, nil, nil),
		sample("window", 1, 1, 5, 4, -1, 0, nil, nil), sample("window ahead", 2, 1, 2, 5, 1, 2, nil, nil),
	}
}

func attentionBenchmark(name string, b, h, t, d int) benchmark {
	x, scale := seam.Arg{Shape: []int{b, h, t, d}, Lo: -1, Hi: 1}, 1/math.Sqrt(float64(d))
	return benchmark{Name: name, In: []seam.Arg{x, x, x}, Flops: 4 * float64(b*h*t*t*d), Bytes: 16 * float64(b*h*t*d),
		Call: func(x []*Tensor) *Tensor { return x[0].Attention(x[1], x[2], true, scale) }}
}

// maskedBenchmark is attention to all keys with a mask [T T].
func maskedBenchmark(b, h, t, d int) benchmark {
	m := attentionBenchmark(fmt.Sprintf("%d heads, T=%d, D=%d, mask", h, t, d), b, h, t, d)
	m.In = append(m.In, seam.Arg{Shape: []int{t, t}, Lo: -1, Hi: 1})
	m.Call = func(x []*Tensor) *Tensor {
		return x[0].MaskedAttention(x[1], x[2], x[3], math.MinInt, math.MaxInt, 0, 1/math.Sqrt(float64(d)))
	}
	return m
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

// attentionRow is a row of scores: of query i of head h of batch entry b, and head `shared` of k and v. Scores of
// masked keys are -Inf. Factors are those of dropout.
type attentionRow struct {
	index, b, h, shared, i int
	scores, factors        []float64
}

// eachAttentionRow calls f for each row of scores of an op call with these optional operands.
func eachAttentionRow(l *kernels.Launch, optional []kernels.Arg, f func(r attentionRow)) {
	q, k, shape := viewOf(l.In[0]), viewOf(l.In[1]), l.In[0].Shape
	heads, queries, width := shape[1], shape[2], shape[3]
	keys, group := l.In[1].Shape[2], heads/max(1, l.In[1].Shape[1])
	r := attentionRow{scores: make([]float64, keys), factors: make([]float64, keys)}
	for r.index = range shape[0] * heads * queries {
		r.b, r.h, r.i = r.index/queries/heads, r.index/queries%heads, r.index%queries
		r.shared = r.h / group
		for j := range r.scores {
			r.scores[j], r.factors[j] = 0, 1
			for d := range width {
				r.scores[j] += float64(*q.at(r.b, r.h, r.i, d) * *k.at(r.b, r.shared, j, d))
			}
			r.scores[j] *= l.Floats[0]
			if len(optional) > 0 {
				r.scores[j] += *viewOf(optional[0]).at(r.b, r.h, r.i, j)
			}
			if len(optional) > 1 {
				r.factors[j] = 0
				if cpu.Slice[bool](optional[1])[r.index*keys+j] {
					r.factors[j] = 1 / (1 - l.Floats[1])
				}
			}
			if j > min(l.Ints[1], keys)+r.i || j < max(l.Ints[0], -queries)+r.i {
				r.scores[j] = math.Inf(-1)
			}
		}
		f(r)
	}
}

func attentionRef(l *kernels.Launch) {
	v, y := viewOf(l.In[2]), viewOf(headsFirst(l.Out[0]))
	ms, rs := cpu.Slice[float64](l.Out[1]), cpu.Slice[float64](l.Out[2])
	limited := len(l.In) > 3 || l.Ints[0] > -l.In[0].Shape[2] || l.In[1].Shape[2] == 0
	eachAttentionRow(l, l.In[3:], func(r attentionRow) {
		m, sum := maxAndSum(r.scores)
		if limited && math.IsInf(m, -1) {
			m, sum = 0, math.Inf(1)
		}
		ms[r.index], rs[r.index] = m, 1/sum
		for e := range l.In[2].Shape[3] {
			to := y.at(r.b, r.h, r.i, e)
			*to = 0
			for j, s := range r.scores {
				*to += float64(double.Exp(s-m) / sum * r.factors[j] * *v.at(r.b, r.shared, j, e))
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
	eachAttentionRow(l, l.In[7:], func(r attentionRow) {
		p, dp, dot := make([]float64, len(r.scores)), make([]float64, len(r.scores)), 0.0
		for j, s := range r.scores {
			p[j] = double.Exp(s-ms[r.index]) * rs[r.index]
			for e := range l.In[2].Shape[3] {
				dp[j] += float64(*g.at(r.b, r.h, r.i, e) * *v.at(r.b, r.shared, j, e) * r.factors[j])
				*dv.at(r.b, r.h, j, e) += float64(p[j] * r.factors[j] * *g.at(r.b, r.h, r.i, e))
			}
			dot += float64(p[j] * dp[j])
		}
		for j := range r.scores {
			ds := p[j] * (dp[j] - dot) * l.Floats[0]
			for d := range l.In[0].Shape[3] {
				*dq.at(r.b, r.h, r.i, d) += float64(ds * *k.at(r.b, r.shared, j, d))
				*dk.at(r.b, r.h, j, d) += float64(ds * *q.at(r.b, r.h, r.i, d))
			}
		}
	})
}
