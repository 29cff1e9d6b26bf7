package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// CausalAttention is multi-head self-attention in which a position attends to itself and those before it
// (Vaswani et al. 2017).
type CausalAttention struct {
	QKV     *Linear // queries, keys and values, in this order
	Proj    *Linear
	Heads   int
	Dropout float64 // on the result
}

// NewCausalAttention declares attention over vectors of the given width, which the number of heads must divide.
func NewCausalAttention(width, heads int, opts ...LayerOption) *CausalAttention {
	if heads <= 0 || width%heads != 0 {
		engine.Fail(tensor.ErrValue, "attention", "width %d is no multiple of %d heads", width, heads)
	}
	return &CausalAttention{QKV: NewLinear(width, 3*width, opts...), Proj: NewLinear(width, width, opts...),
		Heads: heads}
}

// Forward keeps the shape [B T C].
func (a *CausalAttention) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("attention", "the layer", a)
	y := a.QKV.Forward(x).AttentionPacked(a.Heads, true, scaleOf(x.Dim(-1), a.Heads))
	return a.Proj.Forward(y).Dropout(a.Dropout)
}

// scaleOf is the usual scale of scores of vectors of the given width.
func scaleOf(width, heads int) float64 { return 1 / math.Sqrt(float64(width)/float64(heads)) }

// cached is Forward of the positions that follow those of the cache, which it extends.
func (a *CausalAttention) cached(x *tensor.Tensor, cache *KVCache) *tensor.Tensor {
	engine.Given("attention", "the layer", a)
	qkv := a.QKV.Forward(x)
	b, t, width := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	parts := qkv.Reshape(b, t, 3, a.Heads, width/a.Heads).Permute(2, 0, 3, 1, 4) // [3 B H T D]
	k, v, _ := cache.extend(parts.Select(0, 1), parts.Select(0, 2))
	y := parts.Select(0, 0).Attention(k, v, true, scaleOf(width, a.Heads))
	return a.Proj.Forward(mergeHeads(y)).Dropout(a.Dropout)
}

// MLP is the two-layer network of a transformer block, with GELU (tanh) between the layers.
type MLP struct {
	FC1, FC2 *Linear
	Dropout  float64 // on the result
}

// NewMLP declares layers width -> hidden -> width.
func NewMLP(width, hidden int, opts ...LayerOption) *MLP {
	return &MLP{FC1: NewLinear(width, hidden, opts...), FC2: NewLinear(hidden, width, opts...)}
}

// Forward keeps the shape [... width].
func (m *MLP) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("mlp", "the layer", m)
	return m.FC2.Forward(m.FC1.Forward(x).GELUTanh()).Dropout(m.Dropout)
}

// Block is a pre-norm transformer block: x + attn(ln1(x)), then x + mlp(ln2(x)).
type Block struct {
	LN1  *LayerNorm
	Attn *CausalAttention
	LN2  *LayerNorm
	MLP  *MLP
}

// NewBlock declares a block; its network is four times as wide inside.
func NewBlock(width, heads int, opts ...LayerOption) *Block {
	return &Block{NewLayerNorm(width), NewCausalAttention(width, heads, opts...), NewLayerNorm(width),
		NewMLP(width, 4*width, opts...)}
}

// Forward keeps the shape [B T C].
func (b *Block) Forward(x *tensor.Tensor) *tensor.Tensor {
	x, branch := b.branch(x, nil, nil)
	return x.Add(branch)
}

// branch computes a block of x + y, or of x if y is nil, up to its last sum, which it leaves to the norm that follows:
// the result is sum + branch. With a cache the positions of x follow those of the cache.
func (b *Block) branch(x, y *tensor.Tensor, cache *KVCache) (sum, branch *tensor.Tensor) {
	engine.Given("block", "the layer", b)
	var attn Module = b.Attn
	if cache != nil {
		attn = Func(func(x *tensor.Tensor) *tensor.Tensor { return b.Attn.cached(x, cache) })
	}
	x, h := addNorm("ln1", b.LN1, x, y)
	x, h = addNorm("ln2", b.LN2, x, Call("attn", attn, h))
	return x, Call("mlp", b.MLP, h)
}

// checkpoint is branch in a checkpoint, which keeps one tensor: x + y.
func (b *Block) checkpoint(x, y *tensor.Tensor, cache *KVCache) (sum, branch *tensor.Tensor) {
	if y != nil {
		x = x.Add(y)
	}
	if x.Scope() == nil {
		return b.branch(x, nil, cache)
	}
	out := engine.Checkpoint(x.Scope(), func() []*tensor.Tensor {
		sum, branch := b.branch(x, nil, cache)
		return []*tensor.Tensor{sum, branch}
	}, x)
	return out[0], out[1]
}

// addNorm is x + y, or x if y is nil, and its norm, in a region of that name.
func addNorm(name string, n *LayerNorm, x, y *tensor.Tensor) (sum, norm *tensor.Tensor) {
	if y == nil {
		return x, Call(name, n, x)
	}
	engine.Given("layer_norm", "the layer", n)
	return region(name, x, func() (sum, norm *tensor.Tensor) { return x.AddLayerNorm(y, n.Weight, n.Bias, n.Eps) })
}

// region runs f, which makes two tensors of x, in a region of that name. If last are given, f is the last to use them.
func region(name string, x *tensor.Tensor, f func() (y, z *tensor.Tensor),
	last ...*tensor.Tensor) (y, z *tensor.Tensor) {
	s := x.Scope()
	if s == nil {
		return f()
	}
	out := s.Region(name, func() []*tensor.Tensor { y, z := f(); return []*tensor.Tensor{y, z} }, last...)
	return out[0], out[1]
}
