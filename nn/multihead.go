package nn

import (
	"github.com/weft-ml/weft/tensor"
)

// MultiheadAttention is attention with several heads between two sequences, or within one (Vaswani et al. 2017). Its
// parameters have the names and the layout of PyTorch's module, made with batch_first=True.
type MultiheadAttention struct {
	InProjWeight *tensor.Tensor `weft:"in_proj_weight"` // [3*width width]: queries, keys, values; nil if these differ
	QProjWeight  *tensor.Tensor `weft:"q_proj_weight"`  // [width width], where InProjWeight is nil
	KProjWeight  *tensor.Tensor `weft:"k_proj_weight"`  // [width key width]
	VProjWeight  *tensor.Tensor `weft:"v_proj_weight"`  // [width value width]
	InProjBias   *tensor.Tensor `weft:"in_proj_bias"`   // [3*width]; nil: none
	OutProj      *Linear        `weft:"out_proj"`
	Heads        int
	Dropout      float64 // of probabilities of attention
}

// NewMultiheadAttention declares attention over vectors of the given width, which the number of heads must divide.
// Weights start as in PyTorch: Xavier's uniform values before, those of [NewLinear] after attention; biases are 0.
// Options are [NoBias], [WeightInit], [KeyWidth], [ValueWidth] and [DropoutRate].
func NewMultiheadAttention(width, heads int, opts ...LayerOption) *MultiheadAttention {
	const op = "multihead_attention"
	c := layerOf(op, opts, "NoBias", "WeightInit", "KeyWidth", "ValueWidth", "DropoutRate")
	if heads <= 0 || width%heads != 0 {
		engine.Fail(tensor.ErrValue, op, "width %d is no multiple of %d heads", width, heads)
	}
	in, out := c.init, []LayerOption{}
	if in == nil {
		in = XavierUniform(1)
	} else {
		out = append(out, WeightInit(c.init))
	}
	if c.noBias {
		out = append(out, NoBias())
	}
	a := &MultiheadAttention{OutProj: NewLinear(width, width, out...), Heads: heads, Dropout: c.dropout}
	if c.keyWidth == 0 && c.valueWidth == 0 {
		a.InProjWeight = Parameter(in, 3*width, width)
	} else {
		orWidth := func(n int) int {
			if n == 0 {
				return width
			}
			return n
		}
		a.QProjWeight = Parameter(in, width, width)
		a.KProjWeight, a.VProjWeight = Parameter(in, width, orWidth(c.keyWidth)), Parameter(in, width,
			orWidth(c.valueWidth))
	}
	if !c.noBias {
		a.InProjBias = Parameter(Zeros, 3*width)
		a.OutProj.Bias = Parameter(Zeros, width)
	}
	return a
}

// Forward is self-attention without a mask. It keeps the shape [B T width].
func (a *MultiheadAttention) Forward(x *tensor.Tensor) *tensor.Tensor { return a.Attend(x, x, x) }

// Attend is attention of the queries q [B T width] to keys k [B S key width] with the values v [B S value width]. The
// result is [B T width]. Options say what a query sees: [Causal], [Window], [Position], [Mask], [KeyPadding],
// [Cached].
func (a *MultiheadAttention) Attend(q, k, v *tensor.Tensor, opts ...AttentionOption) *tensor.Tensor {
	c := a.config(q, k, v, opts)
	if q == k && k == v && a.InProjWeight != nil && c.plain() {
		y := q.Linear(a.InProjWeight, a.InProjBias)
		width := q.Dim(-1)
		return a.OutProj.Forward(y.AttentionPacked(a.Heads, c.causal, scaleOf(width, a.Heads)))
	}
	q, k, v = a.project(q, k, v)
	if c.cache != nil {
		k, v, c.position = c.cache.extend(k, v)
	}
	return a.OutProj.Forward(mergeHeads(c.attend(q, k, v)))
}

// AttendWeights is [MultiheadAttention.Attend] and the probabilities of attention [B heads T S], as they multiply the
// values; weights.Mean(1) is what PyTorch returns for need_weights=True. It needs more time and memory.
func (a *MultiheadAttention) AttendWeights(q, k, v *tensor.Tensor, opts ...AttentionOption) (y,
	weights *tensor.Tensor) {
	c := a.config(q, k, v, opts)
	q, k, v = a.project(q, k, v)
	if c.cache != nil {
		k, v, c.position = c.cache.extend(k, v)
	}
	n := k.Dim(2)
	identity := tensor.Eye(k.DType(), n).Expand(k.Dim(0), k.Dim(1), n, n)
	weights = c.attend(q, k, identity)
	return a.OutProj.Forward(mergeHeads(weights.MatMul(v))), weights
}

// config reads the options of a call with these operands, whose shapes it checks.
func (a *MultiheadAttention) config(q, k, v *tensor.Tensor, opts []AttentionOption) attentionConfig {
	const op = "multihead_attention"
	engine.Given(op, "the layer", a)
	engine.Given(op, "OutProj", a.OutProj)
	for i, x := range []*tensor.Tensor{q, k, v} {
		name := [...]string{"q", "k", "v"}[i]
		engine.Given(op, name, x)
		if x.Rank() != 3 {
			engine.Fail(tensor.ErrShape, op, "%s %v has %d axes, want three: batch, positions, width", name, x,
				x.Rank())
		}
	}
	if a.Heads < 1 {
		engine.Fail(tensor.ErrValue, op, "Heads is %d", a.Heads)
	}
	c := attentionOf(op, opts)
	switch s := q.Scope(); {
	case s == nil || !s.Training():
		c.dropout = 0
	case c.dropout == 0:
		c.dropout = a.Dropout
	}
	return c
}

// project is the queries, keys and values of all heads, [B heads T D].
func (a *MultiheadAttention) project(q, k, v *tensor.Tensor) (qs, ks, vs *tensor.Tensor) {
	if q == k && k == v && a.InProjWeight != nil {
		x := q.Linear(a.InProjWeight, a.InProjBias)
		width := q.Dim(-1)
		part := func(i int) *tensor.Tensor { return a.splitHeads(x.Slice(-1, i*width, (i+1)*width)) }
		return part(0), part(1), part(2)
	}
	width := a.OutProj.Weight.Dim(0)
	part := func(i int, x, own *tensor.Tensor) *tensor.Tensor {
		weight, bias := own, a.InProjBias
		if a.InProjWeight != nil {
			weight = a.InProjWeight.Slice(0, i*width, (i+1)*width)
		}
		if bias != nil {
			bias = bias.Slice(0, i*width, (i+1)*width)
		}
		return a.splitHeads(x.Linear(weight, bias))
	}
	return part(0, q, a.QProjWeight), part(1, k, a.KProjWeight), part(2, v, a.VProjWeight)
}

// splitHeads is x [B T width] as [B heads T D].
func (a *MultiheadAttention) splitHeads(x *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(2) / a.Heads
	return x.Reshape(x.Dim(0), x.Dim(1), a.Heads, d).Transpose(1, 2)
}

// mergeHeads is x [B heads T D] as [B T heads*D].
func mergeHeads(x *tensor.Tensor) *tensor.Tensor {
	b, heads, t, d := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	return x.Transpose(1, 2).Reshape(b, t, heads*d)
}
