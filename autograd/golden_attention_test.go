package autograd_test

import (
	"strings"

	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	does(map[string]call{
		"masked_attention": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(nn.ScaledDotProductAttention(x[0], x[1], x[2], attentionOptions(c, x[3:])...))
		},
		"multihead_attention": multiheadAttention,
		"encoder_layer": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			l := layerOf(c, x)
			var opts []nn.AttentionOption
			if c.Has("masks") {
				opts = append(opts, nn.Causal(), nn.KeyPadding(x[1]))
			}
			return one(l.encoder("").Encode(x[0], opts...))
		},
		"decoder_layer": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(layerOf(c, x).decoder("").Decode(x[0], x[1], []nn.AttentionOption{nn.Causal()},
				[]nn.AttentionOption{nn.KeyPadding(x[2])}))
		},
		"encoder": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			l := layerOf(c, x)
			e := &nn.TransformerEncoder{Norm: l.norm("norm.")}
			e.Layers = append(e.Layers, l.encoder("layers.0."), l.encoder("layers.1."))
			return one(e.Forward(x[0]))
		},
		"decoder": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			l := layerOf(c, x)
			d := &nn.TransformerDecoder{Norm: l.norm("norm.")}
			d.Layers = append(d.Layers, l.decoder("layers.0."), l.decoder("layers.1."))
			return one(d.Decode(x[0], x[1], nil, nil))
		},
		"rotary": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			position := c.Int("position")
			r := nn.NewRotaryEmbedding(c.Int("width"), position+x[0].Dim(-2), c.Float("base"))
			r.Interleaved = c.Bool("interleaved")
			return one(r.At(x[0], position))
		},
		"alibi": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			heads, queries, keys, position := c.Int("heads"), c.Int("queries"), c.Int("keys"), c.Int("position")
			return one(x[0].Add(nn.ALiBi(x[0].DType(), heads, queries, keys, position)))
		},
	})
}

// attentionOptions are those of a case of masked attention, whose mask, if it has one, follows q, k and v.
func attentionOptions(c *golden.Case, mask []*tensor.Tensor) (opts []nn.AttentionOption) {
	if len(mask) > 0 {
		opts = append(opts, nn.Mask(mask[0]))
	}
	if c.Has("causal") {
		opts = append(opts, nn.Causal())
	}
	if c.Has("window") {
		opts = append(opts, nn.Window(c.Ints("window")[0], c.Ints("window")[1]))
	}
	if c.Has("position") {
		opts = append(opts, nn.Position(c.Int("position")))
	}
	if c.Has("scale") {
		opts = append(opts, nn.ScoreScale(c.Float("scale")))
	}
	return opts
}

// goldenLayer makes layers of the parameters of a case, under PyTorch's names.
type goldenLayer struct {
	c          *golden.Case
	parameters map[string]*tensor.Tensor
}

// layerOf reads a case whose last inputs are parameters.
func layerOf(c *golden.Case, x []*tensor.Tensor) goldenLayer {
	l := goldenLayer{c, map[string]*tensor.Tensor{}}
	names := strings.Fields(c.Text("names"))
	for i, name := range names {
		l.parameters[name] = x[len(x)-len(names)+i]
	}
	return l
}

func (l goldenLayer) linear(prefix string) *nn.Linear {
	return &nn.Linear{Weight: l.parameters[prefix+"weight"], Bias: l.parameters[prefix+"bias"]}
}

func (l goldenLayer) norm(prefix string) *nn.LayerNorm {
	return &nn.LayerNorm{Weight: l.parameters[prefix+"weight"], Bias: l.parameters[prefix+"bias"], Eps: 1e-5}
}

func (l goldenLayer) attention(prefix string) *nn.MultiheadAttention {
	heads := 2
	if l.c.Has("heads") {
		heads = l.c.Int("heads")
	}
	return &nn.MultiheadAttention{Heads: heads, OutProj: l.linear(prefix + "out_proj."),
		InProjWeight: l.parameters[prefix+"in_proj_weight"], InProjBias: l.parameters[prefix+"in_proj_bias"],
		QProjWeight: l.parameters[prefix+"q_proj_weight"], KProjWeight: l.parameters[prefix+"k_proj_weight"],
		VProjWeight: l.parameters[prefix+"v_proj_weight"]}
}

func (l goldenLayer) activation() nn.Func {
	if l.c.Has("gelu") && l.c.Bool("gelu") {
		return nn.GELU
	}
	return nn.ReLU
}

func (l goldenLayer) encoder(prefix string) *nn.TransformerEncoderLayer {
	e := &nn.TransformerEncoderLayer{SelfAttn: l.attention(prefix + "self_attn."), Norm1: l.norm(prefix + "norm1."),
		Norm2: l.norm(prefix + "norm2.")}
	e.Linear1, e.Linear2 = l.linear(prefix+"linear1."), l.linear(prefix+"linear2.")
	e.Activation, e.NormFirst = l.activation(), l.c.Has("norm_first") && l.c.Bool("norm_first")
	return e
}

func (l goldenLayer) decoder(prefix string) *nn.TransformerDecoderLayer {
	d := &nn.TransformerDecoderLayer{SelfAttn: l.attention(prefix + "self_attn."),
		MultiheadAttn: l.attention(prefix + "multihead_attn."), Norm1: l.norm(prefix + "norm1."),
		Norm2: l.norm(prefix + "norm2."), Norm3: l.norm(prefix + "norm3.")}
	d.Linear1, d.Linear2 = l.linear(prefix+"linear1."), l.linear(prefix+"linear2.")
	d.Activation, d.NormFirst = l.activation(), l.c.Has("norm_first") && l.c.Bool("norm_first")
	return d
}

// multiheadAttention is nn.MultiheadAttention with the masks of PyTorch's case: a bool there hides a key.
func multiheadAttention(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	a := layerOf(c, x).attention("")
	q, k, v := x[0], x[0], x[0]
	var opts []nn.AttentionOption
	switch {
	case c.Has("cross"):
		k, v = x[1], x[1]
	case c.Has("widths"):
		k, v = x[1], x[2]
	case c.Has("padding"):
		opts = append(opts, nn.KeyPadding(x[1]))
	case c.Has("mask"):
		opts = append(opts, nn.Mask(x[1]))
	}
	if c.Has("causal") {
		opts = append(opts, nn.Causal())
	}
	if !c.Has("weights") {
		return one(a.Attend(q, k, v, opts...))
	}
	y, weights := a.AttendWeights(q, k, v, opts...)
	return []*tensor.Tensor{y, weights.Mean(1)}
}
