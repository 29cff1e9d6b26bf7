package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// Linear is y = x Wᵀ + b over the last axis.
type Linear struct {
	Weight *tensor.Tensor // [out in]
	Bias   *tensor.Tensor // [out]; nil: none
}

// NewLinear declares a layer from in to out features. Weight and bias are uniform within ±1/sqrt(in), as in PyTorch.
// Options are [NoBias] and [WeightInit].
func NewLinear(in, out int, opts ...LayerOption) *Linear {
	bound := 0.0
	if in > 0 {
		bound = 1 / math.Sqrt(float64(in))
	}
	c := layerOf("linear", opts, "NoBias", "WeightInit")
	bias := within(bound)
	if c.init == nil {
		c.init = within(bound)
	} else {
		bias = Zeros
	}
	l := &Linear{Weight: Parameter(c.init, out, in)}
	if !c.noBias {
		l.Bias = Parameter(bias, out)
	}
	return l
}

// Forward maps [... in] to [... out].
func (l *Linear) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("linear", "the layer", l)
	return x.Linear(l.Weight, l.Bias)
}

// Embedding looks rows of a table up by index.
type Embedding struct {
	Weight *tensor.Tensor // [count width]
	Padded []int          // indices whose rows get no gradient
}

// NewEmbedding declares a table of count rows of the given width with normal values of the given
// deviation (PyTorch's default is 1). The option is [PaddingIndex].
func NewEmbedding(count, width int, std float64, opts ...LayerOption) *Embedding {
	c := layerOf("embedding", opts, "PaddingIndex")
	return &Embedding{tableOf("embedding", Normal(0, std), count, width, c.padded), c.padded}
}

// tableOf declares a table of a layer in which the padded rows are zero.
func tableOf(layer string, init Initializer, count, width int, padded []int) *tensor.Tensor {
	for _, row := range padded {
		if row < 0 || row >= count {
			engine.Fail(tensor.ErrIndex, layer, "the padding index %d is outside [0, %d)", row, count)
		}
	}
	return Parameter(func(v []float64, shape []int, r Random) {
		init(v, shape, r)
		for _, row := range padded {
			clear(v[row*width : (row+1)*width])
		}
	}, count, width)
}

// Forward maps indices [...] to [... width].
func (e *Embedding) Forward(indices *tensor.Tensor) *tensor.Tensor {
	engine.Given("embedding", "the layer", e)
	return lookUp(e.Weight, indices, e.Padded)
}

// lookUp is the rows of a table at indices. No gradient flows to the padded ones.
func lookUp(table, indices *tensor.Tensor, padded []int) *tensor.Tensor {
	y := table.Embedding(indices)
	for _, row := range padded {
		y = indices.EqualScalar(float64(row)).Unsqueeze(-1).Where(y.Detach(), y)
	}
	return y
}

// LayerNorm makes the last axis have mean 0 and variance 1, then scales and shifts it (Ba et al. 2016).
type LayerNorm struct {
	Weight *tensor.Tensor // [width]
	Bias   *tensor.Tensor // [width]
	Eps    float64
}

// NewLayerNorm declares a norm over the given width, with eps 1e-5.
func NewLayerNorm(width int) *LayerNorm {
	return &LayerNorm{Parameter(Ones, width), Parameter(Zeros, width), 1e-5}
}

// Forward keeps the shape [... width].
func (n *LayerNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("layer_norm", "the layer", n)
	return x.LayerNorm(n.Weight, n.Bias, n.Eps)
}

// RMSNorm divides the last axis by its root mean square and scales it (Zhang and Sennrich 2019).
type RMSNorm struct {
	Weight *tensor.Tensor // [width]
	Eps    float64
}

// NewRMSNorm declares a norm over the given width, with eps 1e-5.
func NewRMSNorm(width int) *RMSNorm { return &RMSNorm{Parameter(Ones, width), 1e-5} }

// Forward keeps the shape [... width].
func (n *RMSNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("rms_norm", "the layer", n)
	return x.RMSNorm(n.Weight, n.Eps)
}

// Dropout zeroes elements with probability P in training steps and scales the others by 1/(1-P).
type Dropout struct{ P float64 }

// NewDropout makes a dropout layer; it has no parameters. P is in [0, 1).
func NewDropout(p float64) *Dropout {
	want("dropout", "P", p, p >= 0 && p < 1, "[0, 1)")
	return &Dropout{p}
}

// Forward keeps the shape.
func (d *Dropout) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("dropout", "the layer", d)
	return x.Dropout(d.P)
}
