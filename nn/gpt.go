package nn

import (
	"fmt"
	"math"

	"github.com/weft-ml/weft/tensor"
)

// GPTConfig sizes a [GPT].
type GPTConfig struct {
	Vocab, Context, Width, Heads, Layers int
	Dropout                              float64
	TiedHead                             bool // the output layer uses the token embedding
	// CheckpointBlocks is k to have every k-th block in a checkpoint (see [autograd.Checkpoint]): in training that
	// takes less memory and more time. 0: none.
	CheckpointBlocks int
}

// GPT is a decoder-only transformer with learned positions (Radford et al. 2019).
type GPT struct {
	Tok    *Embedding // [vocab width]
	Pos    *Embedding // [context width]
	Blocks []*Block
	Norm   *LayerNorm
	Head   *Linear   // [vocab width], no bias; nil if tied
	Config GPTConfig `weft:"-"`

	names []string // of the blocks' regions
}

// maxLayers is far more than anybody has trained, and what can be declared in a moment.
const maxLayers = 1 << 16

// NewGPT declares a model. As in GPT-2, weights are normal with deviation 0.02, those that write into the
// residual stream divided by sqrt(2 layers), and biases start at zero.
func NewGPT(c GPTConfig) *GPT {
	const std = 0.02
	if c.Layers < 0 || c.Layers > maxLayers {
		engine.Fail(tensor.ErrValue, "gpt", "Layers is %d, outside [0, %d]", c.Layers, maxLayers)
	}
	if c.CheckpointBlocks < 0 {
		engine.Fail(tensor.ErrValue, "gpt", "CheckpointBlocks is %d; it is at least 0", c.CheckpointBlocks)
	}
	want("gpt", "Dropout", c.Dropout, c.Dropout >= 0 && c.Dropout < 1, "[0, 1)")
	g := &GPT{
		Tok: NewEmbedding(c.Vocab, c.Width, std), Pos: NewEmbedding(c.Context, c.Width, std),
		Norm: NewLayerNorm(c.Width), Config: c,
	}
	residual := WeightInit(Normal(0, std/math.Sqrt(float64(2*max(1, c.Layers)))))
	for i := range c.Layers {
		b := NewBlock(c.Width, c.Heads, WeightInit(Normal(0, std)))
		b.Attn.Proj = NewLinear(c.Width, c.Width, residual)
		b.MLP.FC2 = NewLinear(4*c.Width, c.Width, residual)
		b.Attn.Dropout, b.MLP.Dropout = c.Dropout, c.Dropout
		g.Blocks = append(g.Blocks, b)
		g.names = append(g.names, blockName(i))
	}
	if !c.TiedHead {
		g.Head = NewLinear(c.Width, c.Vocab, NoBias(), WeightInit(Normal(0, std)))
	}
	return g
}

// regionName is the name of the region of block i, which the program may have added.
func (g *GPT) regionName(i int) string {
	if i < len(g.names) {
		return g.names[i]
	}
	return blockName(i)
}

func blockName(i int) string { return fmt.Sprintf("blocks.%d", i) }

// Forward maps token indices [B T], T at most the context, to logits [B T vocab].
func (g *GPT) Forward(tokens *tensor.Tensor) *tensor.Tensor { return g.forward(tokens, nil) }

// Caches are empty caches for [GPT.ForwardCached], one for each block.
func (g *GPT) Caches() []*KVCache {
	engine.Given("gpt", "the model", g)
	caches := make([]*KVCache, len(g.Blocks))
	for i := range caches {
		caches[i] = &KVCache{}
	}
	return caches
}

// ForwardCached is Forward of the tokens [B T] that follow those of earlier calls with the same caches, which hold the
// keys and values of these; all together are at most as many as the context. It computes the new positions alone, with
// the bits of Forward on the CPU. It is for evaluation, without gradients of what is cached.
func (g *GPT) ForwardCached(tokens *tensor.Tensor, caches []*KVCache) *tensor.Tensor {
	engine.Given("gpt", "the model", g)
	if len(caches) != len(g.Blocks) {
		engine.Fail(tensor.ErrValue, "gpt", "%d caches for %d blocks; Caches makes them", len(caches), len(g.Blocks))
	}
	for _, c := range caches {
		engine.Given("gpt", "a cache", c)
	}
	return g.forward(tokens, caches)
}

// forward computes the positions of tokens that follow those of the caches; nil: there are none.
func (g *GPT) forward(tokens *tensor.Tensor, caches []*KVCache) *tensor.Tensor {
	engine.Given("gpt", "the model", g)
	past := 0
	if len(caches) > 0 {
		past = caches[0].Len()
	}
	if tokens.Rank() != 2 || tokens.Dim(1) > g.Config.Context-past {
		after := ""
		if past > 0 {
			after = fmt.Sprintf(" less the %d positions of the caches", past)
		}
		engine.Fail(tensor.ErrShape, "gpt", "tokens %v must be [B T] with T at most the context %d%s", tokens,
			g.Config.Context, after)
	}
	engine.Given("gpt", "Pos", g.Pos)
	t := tokens.Dim(1)
	x := g.Tok.Forward(tokens).Add(g.Pos.Weight.Slice(0, past, past+t)).Dropout(g.Config.Dropout)
	var y *tensor.Tensor // what is to be added to x
	for i, b := range g.Blocks {
		var cache *KVCache
		if caches != nil {
			cache = caches[i]
		}
		branch := b.branch
		if k := g.Config.CheckpointBlocks; k > 0 && (i+1)%k == 0 {
			branch = b.checkpoint
		}
		x, y = region(g.regionName(i), x, func() (sum, branched *tensor.Tensor) { return branch(x, y, cache) }, x, y)
	}
	_, x = addNorm("norm", g.Norm, x, y)
	if g.Head == nil {
		engine.Given("gpt", "Tok", g.Tok)
		return x.Linear(g.Tok.Weight, nil)
	}
	return Call("head", g.Head, x)
}
