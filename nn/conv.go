package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// convolution is what the layers Conv1d to Conv3d are.
type convolution struct {
	Weight *tensor.Tensor // [out in/groups ...]
	Bias   *tensor.Tensor // [out]; nil: none
	Window tensor.Window
}

// Conv1d, Conv2d and Conv3d move windows over one, two or three axes: see [tensor.Tensor.Conv]. Their fields are
// Weight [out in/groups sizes...], Bias [out], nil for none, and Window, a [tensor.Window].
type (
	Conv1d struct{ convolution }
	Conv2d struct{ convolution }
	Conv3d struct{ convolution }
)

// NewConv1d declares a convolution from in to out channels with windows of the given size. The weight [out in/groups
// size] and the bias [out] are uniform within 1/sqrt(in/groups*size), as in PyTorch. Options are [Stride], [Padding],
// [SamePadding], [Dilation], [Groups], [NoBias] and [WeightInit].
func NewConv1d(in, out, size int, opts ...LayerOption) *Conv1d {
	return &Conv1d{newConvolution("conv1d", in, out, []int{size}, opts)}
}

// NewConv2d declares a convolution from in to out channels with windows of size x size elements, as [NewConv1d] does.
// For windows that are not square, replace Weight by a [Parameter] of another shape.
func NewConv2d(in, out, size int, opts ...LayerOption) *Conv2d {
	return &Conv2d{newConvolution("conv2d", in, out, []int{size, size}, opts)}
}

// NewConv3d declares a convolution from in to out channels with windows of size x size x size elements, as [NewConv1d]
// does.
func NewConv3d(in, out, size int, opts ...LayerOption) *Conv3d {
	return &Conv3d{newConvolution("conv3d", in, out, []int{size, size, size}, opts)}
}

// newConvolution declares the parameters of a layer.
func newConvolution(layer string, in, out int, size []int, opts []LayerOption) convolution {
	c := layerOf(layer, opts, "Stride", "Padding", "SamePadding", "Dilation", "Groups", "NoBias", "WeightInit")
	if c.same {
		c.window = samePadding(layer, c.window, size)
	}
	weight, bias := convParameters(layer, in, out, false, size, c)
	return convolution{weight, bias, c.window}
}

// samePadding is the window with the padding that keeps sizes.
func samePadding(layer string, w tensor.Window, size []int) tensor.Window {
	if len(w.Padding) > 0 {
		engine.Fail(tensor.ErrValue, layer, "Padding and SamePadding are both given")
	}
	for _, s := range w.Stride {
		if s != 1 {
			engine.Fail(tensor.ErrValue, layer, "SamePadding goes with a stride of 1, not %v", w.Stride)
		}
	}
	if n := len(w.Dilation); n > 1 && n != len(size) {
		engine.Fail(tensor.ErrValue, layer, "Dilation has %d numbers; the window moves along %d axes", n, len(size))
	}
	for d, n := range size {
		dilation := 1
		if len(w.Dilation) > 0 {
			dilation = w.Dilation[min(d, len(w.Dilation)-1)]
		}
		all := (n - 1) * dilation
		w.Padding, w.PaddingEnd = append(w.Padding, all/2), append(w.PaddingEnd, all-all/2)
	}
	return w
}

// convParameters declares a weight and a bias.
func convParameters(layer string, in, out int, transposed bool, size []int,
	c layerConfig) (weight, bias *tensor.Tensor) {
	groups := c.window.Groups
	if groups == 0 {
		groups = 1
	}
	if groups < 1 || in < 0 || out < 0 || in%groups != 0 || out%groups != 0 {
		engine.Fail(tensor.ErrValue, layer, "%d channels to %d do not divide into %d groups", in, out, groups)
	}
	for _, n := range size {
		if n < 1 {
			engine.Fail(tensor.ErrValue, layer, "the window has %d elements on each spatial axis", n)
		}
	}
	shape := append([]int{out, in / groups}, size...)
	if transposed {
		shape[0], shape[1] = in, out/groups
	}
	bound, first := 0.0, Zeros
	if in, _ := fans(shape); in > 0 {
		bound = 1 / math.Sqrt(in)
	}
	if c.init == nil {
		c.init, first = within(bound), within(bound)
	}
	weight = Parameter(c.init, shape...)
	if !c.noBias {
		bias = Parameter(first, out)
	}
	return weight, bias
}

// Forward maps [N in L] to [N out L'], or without the axis N.
func (l *Conv1d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv1d", "the layer", l)
	return x.Conv(l.Weight, l.Bias, l.Window)
}

// Forward maps [N in H W] to [N out H' W'], or without the axis N.
func (l *Conv2d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv2d", "the layer", l)
	return x.Conv(l.Weight, l.Bias, l.Window)
}

// Forward maps [N in D H W] to [N out D' H' W'], or without the axis N.
func (l *Conv3d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv3d", "the layer", l)
	return x.Conv(l.Weight, l.Bias, l.Window)
}

// transposed is what the layers ConvTranspose1d to ConvTranspose3d are.
type transposed struct {
	Weight        *tensor.Tensor // [in out/groups ...]
	Bias          *tensor.Tensor // [out]; nil: none
	Window        tensor.Window
	OutputPadding []int
}

// ConvTranspose1d, ConvTranspose2d and ConvTranspose3d are the gradients of convolutions by their operand, as layers:
// see [tensor.Tensor.ConvTranspose]. Their fields are Weight [in out/groups sizes...], Bias [out], nil for none,
// Window, a [tensor.Window], and OutputPadding.
type (
	ConvTranspose1d struct{ transposed }
	ConvTranspose2d struct{ transposed }
	ConvTranspose3d struct{ transposed }
)

// NewConvTranspose1d declares a transposed convolution from in to out channels with windows of the given size. The
// weight [in out/groups size] and the bias [out] are uniform within 1/sqrt(out/groups*size), as in PyTorch. Options are
// [Stride], [Padding], [OutputPadding], [Dilation], [Groups], [NoBias] and [WeightInit].
func NewConvTranspose1d(in, out, size int, opts ...LayerOption) *ConvTranspose1d {
	return &ConvTranspose1d{newTransposed("conv_transpose1d", in, out, []int{size}, opts)}
}

// NewConvTranspose2d declares a transposed convolution from in to out channels with windows of size x size elements, as
// [NewConvTranspose1d] does.
func NewConvTranspose2d(in, out, size int, opts ...LayerOption) *ConvTranspose2d {
	return &ConvTranspose2d{newTransposed("conv_transpose2d", in, out, []int{size, size}, opts)}
}

// NewConvTranspose3d declares a transposed convolution from in to out channels with windows of size x size x size
// elements, as [NewConvTranspose1d] does.
func NewConvTranspose3d(in, out, size int, opts ...LayerOption) *ConvTranspose3d {
	return &ConvTranspose3d{newTransposed("conv_transpose3d", in, out, []int{size, size, size}, opts)}
}

// newTransposed declares the parameters of a layer.
func newTransposed(layer string, in, out int, size []int, opts []LayerOption) transposed {
	c := layerOf(layer, opts, "Stride", "Padding", "OutputPadding", "Dilation", "Groups", "NoBias", "WeightInit")
	weight, bias := convParameters(layer, in, out, true, size, c)
	return transposed{weight, bias, c.window, c.output}
}

// Forward maps [N in L] to [N out L'], or without the axis N.
func (l *ConvTranspose1d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv_transpose1d", "the layer", l)
	return x.ConvTranspose(l.Weight, l.Bias, l.Window, l.OutputPadding...)
}

// Forward maps [N in H W] to [N out H' W'], or without the axis N.
func (l *ConvTranspose2d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv_transpose2d", "the layer", l)
	return x.ConvTranspose(l.Weight, l.Bias, l.Window, l.OutputPadding...)
}

// Forward maps [N in D H W] to [N out D' H' W'], or without the axis N.
func (l *ConvTranspose3d) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("conv_transpose3d", "the layer", l)
	return x.ConvTranspose(l.Weight, l.Bias, l.Window, l.OutputPadding...)
}
