package nn

import (
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// LayerOption changes a layer that is being made. A layer refuses options that it has no use for; the zero LayerOption
// changes nothing.
type LayerOption struct {
	name string
	set  func(*layerConfig)
}

// layerConfig is what the options of a layer say.
type layerConfig struct {
	noBias bool
	init   Initializer // of weights; nil: that of the layer
	window tensor.Window

	eps, momentum      float64
	cumulative         bool
	affine, statistics bool // weight and bias, running statistics

	layers, projection        int
	bidirectional, batchFirst bool
	dropout                   float64
	relu                      bool

	same     bool  // padding that keeps sizes
	output   []int // padding of the result of a transposed convolution
	upsample Upsample

	padded []int // the padding index, or nothing

	keyWidth, valueWidth int // of attention; 0: that of queries
	hidden               int
	activation           Func
	normFirst            bool

	axis, iterations int // of a norm of weights
}

// NoBias leaves the bias out.
func NoBias() LayerOption { return LayerOption{"NoBias", func(c *layerConfig) { c.noBias = true }} }

// WeightInit chooses the initialiser of the weight; the bias then starts at zero.
func WeightInit(f Initializer) LayerOption {
	return LayerOption{"WeightInit", func(c *layerConfig) { c.init = f }}
}

// Stride is the distance between neighbouring windows, for each spatial axis or for all: 1 in convolutions and the
// window's size in pooling, if it is not given.
func Stride(s ...int) LayerOption {
	return LayerOption{"Stride", func(c *layerConfig) { c.window.Stride = s }}
}

// Padding adds so many elements before the first and after the last, for each spatial axis or for all; 0 if it is not
// given.
func Padding(p ...int) LayerOption {
	return LayerOption{"Padding", func(c *layerConfig) { c.window.Padding = p }}
}

// Dilation is the distance between neighbouring elements of a window, for each spatial axis or for all; 1 if it is not
// given.
func Dilation(d ...int) LayerOption {
	return LayerOption{"Dilation", func(c *layerConfig) { c.window.Dilation = d }}
}

// Eps is what a norm adds to the variance, or the mean square; 1e-5 if it is not given.
func Eps(eps float64) LayerOption {
	want("eps", "eps", eps, eps >= 0, "[0, +Inf)")
	return LayerOption{"Eps", func(c *layerConfig) { c.eps = eps }}
}

// Momentum is how much of the way running statistics go towards those of each batch, in [0, 1]; 0.1 if it is not given.
func Momentum(m float64) LayerOption {
	want("momentum", "momentum", m, 0 <= m && m <= 1, "[0, 1]")
	return LayerOption{"Momentum", func(c *layerConfig) { c.momentum, c.cumulative = m, false }}
}

// CumulativeAverage makes running statistics the mean of those of all batches, PyTorch's momentum=None.
func CumulativeAverage() LayerOption {
	return LayerOption{"CumulativeAverage", func(c *layerConfig) { c.cumulative = true }}
}

// Affine says whether a norm has weight and bias.
func Affine(on bool) LayerOption {
	return LayerOption{"Affine", func(c *layerConfig) { c.affine = on }}
}

// TrackRunningStats says whether a norm keeps running statistics, with which it normalises in evaluation.
func TrackRunningStats(on bool) LayerOption {
	return LayerOption{"TrackRunningStats", func(c *layerConfig) { c.statistics = on }}
}

// Layers is how many recurrent layers there are, one on the other, up to 65,536; 1 if it is not given.
func Layers(n int) LayerOption {
	if n < 1 || n > 1<<16 {
		engine.Fail(tensor.ErrValue, "layers", "%d layers, outside [1, %d]", n, 1<<16)
	}
	return LayerOption{"Layers", func(c *layerConfig) { c.layers = n }}
}

// Bidirectional makes a second recurrent layer beside each, that goes from the last time to the first.
func Bidirectional() LayerOption {
	return LayerOption{"Bidirectional", func(c *layerConfig) { c.bidirectional = true }}
}

// BatchFirst makes sequences [B T C]; without it they are [T B C].
func BatchFirst() LayerOption {
	return LayerOption{"BatchFirst", func(c *layerConfig) { c.batchFirst = true }}
}

// Projection multiplies the results of an LSTM by a matrix, to so many features (Sak et al. 2014).
func Projection(size int) LayerOption {
	if size < 1 {
		engine.Fail(tensor.ErrValue, "projection", "%d features; at least 1 is needed", size)
	}
	return LayerOption{"Projection", func(c *layerConfig) { c.projection = size }}
}

// WithReLU takes ReLU in the place of tanh.
func WithReLU() LayerOption { return LayerOption{"WithReLU", func(c *layerConfig) { c.relu = true }} }

// SamePadding adds as many elements as keep the spatial sizes, with a stride of 1: half before, and half, or one more,
// after.
func SamePadding() LayerOption {
	return LayerOption{"SamePadding", func(c *layerConfig) { c.same = true }}
}

// Groups divides the channels of a convolution: those of the result see only those of the operand in their own group.
// With as many groups as channels it is depthwise.
func Groups(n int) LayerOption {
	return LayerOption{"Groups", func(c *layerConfig) { c.window.Groups = n }}
}

// OutputPadding makes the result of a transposed convolution longer by so many elements, for each spatial axis or for
// all: with a stride above 1 several sizes have a convolution of the same size. It is 0 if it is not given.
func OutputPadding(p ...int) LayerOption {
	return LayerOption{"OutputPadding", func(c *layerConfig) { c.output = p }}
}

// CeilMode counts a last window that begins inside, and ends beyond the padding.
func CeilMode() LayerOption {
	return LayerOption{"CeilMode", func(c *layerConfig) { c.window.Ceil = true }}
}

// CountIncludePad says whether the padding counts in the means of an average pooling, as zeros. It does if the option
// is not given.
func CountIncludePad(include bool) LayerOption {
	return LayerOption{"CountIncludePad", func(c *layerConfig) { c.window.ExcludePadding = !include }}
}

// DivisorOverride is what an average pooling divides its sums by, in place of the number of elements.
func DivisorOverride(n int) LayerOption {
	if n == 0 {
		engine.Fail(tensor.ErrValue, "divisor_override", "the divisor is 0")
	}
	return LayerOption{"DivisorOverride", func(c *layerConfig) { c.window.Divisor = n }}
}

// Size is the size that each spatial axis, or all, get.
func Size(sizes ...int) LayerOption {
	return LayerOption{"Size", func(c *layerConfig) { c.upsample.Size = sizes }}
}

// ScaleFactor is how many times as long each spatial axis, or all, become.
func ScaleFactor(factors ...float64) LayerOption {
	return LayerOption{"ScaleFactor", func(c *layerConfig) { c.upsample.ScaleFactor = factors }}
}

// Mode chooses how [Interpolate] finds elements.
func Mode(name string) LayerOption {
	return LayerOption{"Mode", func(c *layerConfig) { c.upsample.Mode = name }}
}

// AlignCorners keeps the first and the last elements where they are.
func AlignCorners() LayerOption {
	return LayerOption{"AlignCorners", func(c *layerConfig) { c.upsample.AlignCorners = true }}
}

// Antialias widens the filter where elements become fewer.
func Antialias() LayerOption {
	return LayerOption{"Antialias", func(c *layerConfig) { c.upsample.Antialias = true }}
}

// PaddingIndex is the index of padding: its row of the table starts at zero, and gets no gradient.
func PaddingIndex(i int) LayerOption {
	return LayerOption{"PaddingIndex", func(c *layerConfig) { c.padded = []int{i} }}
}

// KeyWidth is the width of the keys that attention is given, if it is not that of the queries.
func KeyWidth(n int) LayerOption {
	return LayerOption{"KeyWidth", func(c *layerConfig) { c.keyWidth = n }}
}

// ValueWidth is the width of the values that attention is given, if it is not that of the queries.
func ValueWidth(n int) LayerOption {
	return LayerOption{"ValueWidth", func(c *layerConfig) { c.valueWidth = n }}
}

// Hidden is the width inside the two-layer network of a transformer layer; 2048 if it is not given.
func Hidden(n int) LayerOption { return LayerOption{"Hidden", func(c *layerConfig) { c.hidden = n }} }

// DropoutRate is the probability of dropping elements in training steps, in [0, 1); of recurrent layers those of the
// results of each but the last.
func DropoutRate(p float64) LayerOption {
	want("dropout_rate", "DropoutRate", p, p >= 0 && p < 1, "[0, 1)")
	return LayerOption{"DropoutRate", func(c *layerConfig) { c.dropout = p }}
}

// Activation is the function inside the two-layer network of a transformer layer; [ReLU] if it is not given.
func Activation(f Func) LayerOption {
	return LayerOption{"Activation", func(c *layerConfig) { c.activation = f }}
}

// NormFirst puts the norms of a transformer layer before its parts (pre-norm) instead of after the sums (post-norm).
func NormFirst() LayerOption {
	return LayerOption{"NormFirst", func(c *layerConfig) { c.normFirst = true }}
}

// NormAxis is the axis of a weight along which its slices are normed; 0 if it is not given, and for spectral norms of
// transposed convolutions 1. Negative axes count from the end.
func NormAxis(axis int) LayerOption {
	return LayerOption{"NormAxis", func(c *layerConfig) { c.axis = axis }}
}

// PowerIterations is how many iterations a spectral norm takes in each step; 1 if it is not given.
func PowerIterations(n int) LayerOption {
	if n < 1 {
		engine.Fail(tensor.ErrValue, "power_iterations", "%d iterations; at least 1 is needed", n)
	}
	return LayerOption{"PowerIterations", func(c *layerConfig) { c.iterations = n }}
}

// layerOf reads the options of a layer. It fails for those that are not among takes.
func layerOf(layer string, opts []LayerOption, takes ...string) layerConfig {
	return layerConfig{}.with(layer, opts, takes...)
}

// with is c, the defaults of a layer, changed by its options.
func (c layerConfig) with(layer string, opts []LayerOption, takes ...string) layerConfig {
	for _, o := range opts {
		if o.set == nil {
			continue
		}
		if !slices.Contains(takes, o.name) {
			engine.Fail(tensor.ErrValue, layer, "this layer takes no option %s; its options are %s", o.name,
				strings.Join(takes, ", "))
		}
		o.set(&c)
	}
	return c
}
