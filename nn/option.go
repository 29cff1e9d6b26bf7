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

// layerOf reads the options of a layer. It fails for those that are not among takes.
func layerOf(layer string, opts []LayerOption, takes ...string) (c layerConfig) {
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
