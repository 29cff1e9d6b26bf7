package nn

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// AttentionOption changes one call of attention; the zero AttentionOption changes nothing.
type AttentionOption struct{ set func(*attentionConfig) }

// attentionConfig is what the options of a call say.
type attentionConfig struct {
	mask, padding *tensor.Tensor // nil: none
	causal        bool
	left, right   int // keys that a query sees before and after its own position
	position      int
	scale         float64 // 0: 1/sqrt(width)
	dropout       float64
	cache         *KVCache
}

// Causal hides the keys after a query's position from it. Query 0 has the position of key 0, as in PyTorch's is_causal,
// unless [Position] gives another.
func Causal() AttentionOption { return AttentionOption{func(c *attentionConfig) { c.causal = true }} }

// Window lets a query see only the keys from left before its position to right after it (sliding window, Beltagy et al.
// 2020), both at least 0.
func Window(left, right int) AttentionOption {
	return AttentionOption{func(c *attentionConfig) { c.left, c.right = left, right }}
}

// Position is the position of the first query among the keys, at least 0, for [Causal] and [Window]; 0 if it is not
// given. After n cached keys it is n.
func Position(n int) AttentionOption {
	return AttentionOption{func(c *attentionConfig) { c.position = n }}
}

// Mask says for each query and key what happens to their score: numbers are added to it, and a bool says whether the
// query sees the key, as in scaled_dot_product_attention of PyTorch (nn.MultiheadAttention of PyTorch has it the other
// way round). It broadcasts to [B heads queries keys].
func Mask(m *tensor.Tensor) AttentionOption {
	engine.Given("mask", "the mask", m)
	return AttentionOption{func(c *attentionConfig) { c.mask = m }}
}

// KeyPadding hides the keys from all queries where padding, bools [B keys], is true, as PyTorch's key_padding_mask.
func KeyPadding(padding *tensor.Tensor) AttentionOption {
	engine.Given("key_padding", "the mask", padding)
	return AttentionOption{func(c *attentionConfig) { c.padding = padding }}
}

// ScoreScale multiplies the scores; 1/sqrt(width of a head) if it is not given.
func ScoreScale(scale float64) AttentionOption {
	return AttentionOption{func(c *attentionConfig) { c.scale = scale }}
}

// AttentionDropout is the probability of dropping a probability of attention in training steps, in [0, 1).
func AttentionDropout(p float64) AttentionOption {
	return AttentionOption{func(c *attentionConfig) { c.dropout = p }}
}

// Cached lets self-attention of new positions see the keys and values of earlier calls, which the cache holds, and
// enters its own there. It implies the [Position] after them. No gradient goes to keys and values of earlier calls.
func Cached(cache *KVCache) AttentionOption {
	engine.Given("cached", "the cache", cache)
	return AttentionOption{func(c *attentionConfig) { c.cache = cache }}
}

// attentionOf reads the options of a call of the operation op.
func attentionOf(op string, opts []AttentionOption) attentionConfig {
	c := attentionConfig{left: math.MaxInt, right: math.MaxInt}
	for _, o := range opts {
		if o.set != nil {
			o.set(&c)
		}
	}
	if c.left < 0 || c.right < 0 || c.position < 0 {
		engine.Fail(tensor.ErrValue, op, "the window of %d keys before and %d after position %d is negative", c.left,
			c.right, c.position)
	}
	if c.padding != nil && c.padding.DType() != tensor.Bool {
		engine.Fail(tensor.ErrDType, op, "the mask of key padding %v must be bool; x.To(...) converts", c.padding)
	}
	return c
}

// ScaledDotProductAttention is softmax(q kᵀ/sqrt(D) + mask) v for each head of each batch entry, with queries q [B H T
// D], keys k [B H S D] and values v [B H S E], and gives [B H T E]. k and v may have fewer heads, a divisor of H, which
// neighbouring heads of q share (grouped queries). A query that sees no key gets zeros and gives zero gradients.
func ScaledDotProductAttention(q, k, v *tensor.Tensor, opts ...AttentionOption) *tensor.Tensor {
	const op = "attention"
	for i, x := range []*tensor.Tensor{q, k, v} {
		engine.Given(op, [...]string{"q", "k", "v"}[i], x)
	}
	c := attentionOf(op, opts)
	if c.cache != nil {
		k, v, c.position = c.cache.extend(k, v)
	}
	return c.attend(q, k, v)
}

// attend is attention over all of k and v.
func (c *attentionConfig) attend(q, k, v *tensor.Tensor) *tensor.Tensor {
	scale := c.scale
	if scale == 0 && q.Rank() > 0 {
		scale = 1 / math.Sqrt(float64(q.Dim(-1)))
	}
	right := c.right
	if c.causal {
		right = 0
	}
	first, last := math.MinInt, math.MaxInt
	if c.left < math.MaxInt {
		first = c.position - c.left
	}
	if right < math.MaxInt-c.position {
		last = c.position + right
	}
	return q.MaskedAttention(k, v, c.wholeMask(q, k), first, last, c.dropout, scale)
}

// wholeMask is the mask and the padding in one; nil if there are neither.
func (c *attentionConfig) wholeMask(q, k *tensor.Tensor) *tensor.Tensor {
	if c.padding == nil {
		return c.mask
	}
	shape := c.padding.Shape()
	if len(shape) != 2 {
		engine.Fail(tensor.ErrShape, "attention", "the mask of key padding %v has %d axes, want two: batch, keys",
			c.padding, len(shape))
	}
	fits := func(n, size int) bool { return n == size || n == 1 }
	if q.Rank() == 4 && k.Rank() == 4 && !(fits(shape[0], q.Dim(0)) && fits(shape[1], k.Dim(2))) {
		engine.Fail(tensor.ErrShape, "attention", "the mask of key padding %v must be [%d %d]: batch, keys", c.padding,
			q.Dim(0), k.Dim(2))
	}
	padding := c.padding.Reshape(shape[0], 1, 1, shape[1])
	switch {
	case c.mask == nil:
		return padding.Not()
	case c.mask.DType() == tensor.Bool:
		return c.mask.And(padding.Not())
	}
	return c.mask.MaskedFill(padding, math.Inf(-1))
}

// plain tells whether nothing but causality is asked for, and the cache is not used.
func (c *attentionConfig) plain() bool {
	return c.mask == nil && c.padding == nil && c.left == math.MaxInt && c.right == math.MaxInt && c.position == 0 &&
		c.scale == 0 && c.dropout == 0 && c.cache == nil
}

// KVCache holds the keys and values of a layer of attention for the positions so far, so that generation computes each
// of them once. The zero value is empty. Like a step's results it lives on the step's device.
type KVCache struct{ k, v *tensor.Tensor } // [B H T D]

// Len is the number of positions in the cache.
func (c *KVCache) Len() int {
	engine.Given("cache", "the cache", c)
	if c.k == nil {
		return 0
	}
	return c.k.Dim(2)
}

// Truncate forgets all positions but the first n, such as those of a step that failed.
func (c *KVCache) Truncate(n int) {
	switch size := c.Len(); {
	case n < 0 || n > size:
		engine.Fail(tensor.ErrIndex, "cache", "%d positions are outside [0, %d], the length of the cache", n, size)
	case n == 0:
		c.k, c.v = nil, nil
	case n < size:
		c.k, c.v = c.k.Slice(2, 0, n), c.v.Slice(2, 0, n)
	}
}

// extend appends keys and values [B H T D], and returns all and the number of those before.
func (c *KVCache) extend(k, v *tensor.Tensor) (allK, allV *tensor.Tensor, before int) {
	if before = c.Len(); before > 0 {
		if k.Rank() != 4 || v.Rank() != 4 || !slices.Equal(k.Shape()[:2], c.k.Shape()[:2]) {
			engine.Fail(tensor.ErrShape, "cache", "keys %v and values %v do not continue the cache of %v", k, v, c.k)
		}
		k, v = tensor.Cat(2, c.k, k), tensor.Cat(2, c.v, v)
	}
	c.k, c.v = k.Keep(), v.Keep()
	if k.NeedsGrad() || v.NeedsGrad() { // what is kept is off the tape
		return k, v, before
	}
	return c.k, c.v, before
}

// ALiBi is the mask of attention with linear biases (Press et al. 2022), [heads queries keys] of the given type: minus
// a slope for each head times the distance of the query, whose positions begin at `position`, and the key. The slopes
// of n = 2^k heads are 2^(-8/n), 2^(-16/n), ...; if the number of heads is no power of two, every other slope for the
// next one follows those of the power below.
func ALiBi(dt tensor.DType, heads, queries, keys, position int) *tensor.Tensor {
	if heads < 1 || queries < 0 || keys < 0 || position < 0 {
		engine.Fail(tensor.ErrValue, "alibi", "%d heads, %d queries at position %d, %d keys: heads must be positive, "+
			"the others not negative", heads, queries, position, keys)
	}
	position64 := func(from, n int) *tensor.Tensor {
		return tensor.Arange(tensor.Float64, 0, float64(n), 1).AddScalar(float64(from))
	}
	distance := position64(position, queries).Unsqueeze(-1).Sub(position64(0, keys)).Abs()
	below := 1 // power of two
	for below <= heads/2 {
		below *= 2
	}
	exponents := tensor.Arange(tensor.Float64, 1, float64(below)+1, 1).Scale(-8 / float64(below))
	between := tensor.Arange(tensor.Float64, 0.5, float64(heads-below)+0.5, 1).Scale(-8 / float64(below))
	slopes := tensor.Cat(0, exponents, between).Exp2().Neg().Reshape(heads, 1, 1)
	return slopes.Mul(distance).To(dt)
}
