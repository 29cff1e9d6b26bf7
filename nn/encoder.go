package nn

import (
	"fmt"

	"github.com/weft-ml/weft/tensor"
)

// feedForward is what layers of encoders and decoders share: PyTorch's names, on [B T width].
type feedForward struct {
	Linear1, Linear2 *Linear
	Dropout          float64 // of each part's result, of what is inside the network, and of probabilities of attention
	NormFirst        bool
	Activation       Func
}

// newFeedForward reads the options of a layer of so many heads, and makes its network.
func newFeedForward(op string, width int, opts []LayerOption) (f feedForward, attention []LayerOption) {
	all := append([]LayerOption{Hidden(2048), DropoutRate(0.1), Activation(ReLU)}, opts...)
	c := layerOf(op, all, "Hidden", "DropoutRate", "Activation", "NormFirst", "NoBias", "WeightInit")
	engine.Given(op, "the activation", c.activation)
	var linear []LayerOption
	if c.noBias {
		linear = append(linear, NoBias())
	}
	if c.init != nil {
		linear = append(linear, WeightInit(c.init))
	}
	f = feedForward{Linear1: NewLinear(width, c.hidden, linear...), Linear2: NewLinear(c.hidden, width, linear...),
		Dropout: c.dropout, NormFirst: c.normFirst, Activation: c.activation}
	return f, append(linear, DropoutRate(c.dropout))
}

// network is linear2(dropout(activation(linear1(x)))), dropped.
func (f *feedForward) network(x *tensor.Tensor) *tensor.Tensor {
	h := Call("linear1", f.Linear1, x)
	return Call("linear2", f.Linear2, f.Activation.Forward(h).Dropout(f.Dropout)).Dropout(f.Dropout)
}

// residual is x after a part: x + part(norm(x)) if norms are first, else norm(x + part(x)).
func (f *feedForward) residual(normName string, norm *LayerNorm, name string, x *tensor.Tensor,
	part Func) *tensor.Tensor {
	if f.NormFirst {
		return x.Add(Call(name, part, Call(normName, norm, x)))
	}
	_, x = addNorm(normName, norm, x, Call(name, part, x))
	return x
}

// TransformerEncoderLayer is self-attention and a network of two layers, each with a sum and a norm (Vaswani et al.
// 2017), with the parameters of PyTorch's module, made with batch_first=True.
type TransformerEncoderLayer struct {
	SelfAttn *MultiheadAttention `weft:"self_attn"`
	feedForward
	Norm1, Norm2 *LayerNorm
}

// NewTransformerEncoderLayer declares a layer. Options are [Hidden], [DropoutRate] (0.1 if it is not given),
// [Activation], [NormFirst], [NoBias] and [WeightInit].
func NewTransformerEncoderLayer(width, heads int, opts ...LayerOption) *TransformerEncoderLayer {
	f, attention := newFeedForward("transformer_encoder_layer", width, opts)
	return &TransformerEncoderLayer{SelfAttn: NewMultiheadAttention(width, heads, attention...), feedForward: f,
		Norm1: NewLayerNorm(width), Norm2: NewLayerNorm(width)}
}

// Forward keeps the shape [B T width].
func (l *TransformerEncoderLayer) Forward(x *tensor.Tensor) *tensor.Tensor { return l.Encode(x) }

// Encode is Forward with options of self-attention, such as [KeyPadding] and [Causal].
func (l *TransformerEncoderLayer) Encode(x *tensor.Tensor, opts ...AttentionOption) *tensor.Tensor {
	engine.Given("transformer_encoder_layer", "the layer", l)
	x = l.residual("norm1", l.Norm1, "self_attn", x, func(x *tensor.Tensor) *tensor.Tensor {
		return l.SelfAttn.Attend(x, x, x, opts...).Dropout(l.Dropout)
	})
	return l.residual("norm2", l.Norm2, "network", x, l.network)
}

// TransformerDecoderLayer is self-attention, attention to the memory, which is the result of an encoder, and a network
// of two layers, each with a sum and a norm (Vaswani et al. 2017), with the parameters of PyTorch's module, made with
// batch_first=True.
type TransformerDecoderLayer struct {
	SelfAttn      *MultiheadAttention `weft:"self_attn"`
	MultiheadAttn *MultiheadAttention `weft:"multihead_attn"`
	feedForward
	Norm1, Norm2, Norm3 *LayerNorm
}

// NewTransformerDecoderLayer declares a layer, with the options of [NewTransformerEncoderLayer].
func NewTransformerDecoderLayer(width, heads int, opts ...LayerOption) *TransformerDecoderLayer {
	f, attention := newFeedForward("transformer_decoder_layer", width, opts)
	return &TransformerDecoderLayer{SelfAttn: NewMultiheadAttention(width, heads, attention...),
		MultiheadAttn: NewMultiheadAttention(width, heads, attention...), feedForward: f,
		Norm1: NewLayerNorm(width), Norm2: NewLayerNorm(width), Norm3: NewLayerNorm(width)}
}

// Decode maps x [B T width], given the memory [B S width], to [B T width]. The options of self-attention, such as
// [Causal], and of attention to the memory, such as [KeyPadding], are apart; there may be none.
func (l *TransformerDecoderLayer) Decode(x, memory *tensor.Tensor, self, cross []AttentionOption) *tensor.Tensor {
	engine.Given("transformer_decoder_layer", "the layer", l)
	x = l.residual("norm1", l.Norm1, "self_attn", x, func(x *tensor.Tensor) *tensor.Tensor {
		return l.SelfAttn.Attend(x, x, x, self...).Dropout(l.Dropout)
	})
	x = l.residual("norm2", l.Norm2, "multihead_attn", x, func(x *tensor.Tensor) *tensor.Tensor {
		return l.MultiheadAttn.Attend(x, memory, memory, cross...).Dropout(l.Dropout)
	})
	return l.residual("norm3", l.Norm3, "network", x, l.network)
}

// TransformerEncoder is a stack of layers.
type TransformerEncoder struct {
	Layers []*TransformerEncoderLayer
	Norm   *LayerNorm // of the result; nil: none
}

// NewTransformerEncoder declares a stack of so many layers, made by [NewTransformerEncoderLayer], without a norm of the
// result, as in PyTorch; Norm may be set to one.
func NewTransformerEncoder(layers, width, heads int, opts ...LayerOption) *TransformerEncoder {
	e := &TransformerEncoder{}
	for range wantLayers("transformer_encoder", layers) {
		e.Layers = append(e.Layers, NewTransformerEncoderLayer(width, heads, opts...))
	}
	return e
}

// Forward keeps the shape [B T width].
func (e *TransformerEncoder) Forward(x *tensor.Tensor) *tensor.Tensor { return e.Encode(x) }

// Encode is Forward with options of all layers' self-attention.
func (e *TransformerEncoder) Encode(x *tensor.Tensor, opts ...AttentionOption) *tensor.Tensor {
	engine.Given("transformer_encoder", "the encoder", e)
	for i, l := range e.Layers {
		x = Call(layerName(i), Func(func(x *tensor.Tensor) *tensor.Tensor { return l.Encode(x, opts...) }), x)
	}
	return normOf(e.Norm, x)
}

// TransformerDecoder is a stack of layers.
type TransformerDecoder struct {
	Layers []*TransformerDecoderLayer
	Norm   *LayerNorm // of the result; nil: none
}

// NewTransformerDecoder declares a stack of so many layers, made by [NewTransformerDecoderLayer], without a norm of the
// result, as in PyTorch; Norm may be set to one.
func NewTransformerDecoder(layers, width, heads int, opts ...LayerOption) *TransformerDecoder {
	d := &TransformerDecoder{}
	for range wantLayers("transformer_decoder", layers) {
		d.Layers = append(d.Layers, NewTransformerDecoderLayer(width, heads, opts...))
	}
	return d
}

// Decode is [TransformerDecoderLayer.Decode] of all layers.
func (d *TransformerDecoder) Decode(x, memory *tensor.Tensor, self, cross []AttentionOption) *tensor.Tensor {
	engine.Given("transformer_decoder", "the decoder", d)
	for i, l := range d.Layers {
		x = Call(layerName(i), Func(func(x *tensor.Tensor) *tensor.Tensor {
			return l.Decode(x, memory, self, cross)
		}), x)
	}
	return normOf(d.Norm, x)
}

func layerName(i int) string { return fmt.Sprintf("layers.%d", i) }

// wantLayers fails unless a model can have so many layers.
func wantLayers(op string, n int) int {
	if n < 0 || n > maxLayers {
		engine.Fail(tensor.ErrValue, op, "the number of layers is %d, outside [0, %d]", n, maxLayers)
	}
	return n
}

// normOf is the norm of x, or x if there is none.
func normOf(n *LayerNorm, x *tensor.Tensor) *tensor.Tensor {
	if n == nil {
		return x
	}
	return Call("norm", n, x)
}
