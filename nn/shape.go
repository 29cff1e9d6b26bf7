package nn

import "github.com/weft-ml/weft/tensor"

// Identity returns its operand, and Flatten merges all axes but the first.
var (
	Identity = Func(identity)
	Flatten  = Func(flatten)
)

func identity(x *tensor.Tensor) *tensor.Tensor { return x }
func flatten(x *tensor.Tensor) *tensor.Tensor  { return x.Flatten(1, -1) }

// Unflatten splits an axis.
type Unflatten struct {
	Axis  int
	Sizes []int
}

// NewUnflatten makes a layer that splits an axis into several; one of the sizes may be -1.
func NewUnflatten(axis int, sizes ...int) *Unflatten { return &Unflatten{axis, sizes} }

// Forward maps [.. n ..] to [.. sizes.. ..].
func (u *Unflatten) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("unflatten", "the layer", u)
	return x.Unflatten(u.Axis, u.Sizes...)
}

// Pad surrounds the last axes, in one of PyTorch's modes: constant, reflect, replicate, circular.
type Pad struct {
	Mode  string
	Pads  []int   // before and after the last axis, then those of the one before it, and so on; negative ones remove
	Value float64 // in the mode constant
}

// NewPad makes the layer: ReflectionPad2d(1) is NewPad("reflect", 1, 1, 1, 1), and F.pad takes the same numbers. With
// the mode constant the padding is zero; a [Pad] with another Value is made as a literal.
func NewPad(mode string, pads ...int) *Pad { return &Pad{Mode: mode, Pads: pads} }

// Forward maps [.. H W] to [.. H' W'].
func (p *Pad) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("pad", "the layer", p)
	if len(p.Pads)%2 != 0 || len(p.Pads) > 2*x.Rank() {
		engine.Fail(tensor.ErrValue, "pad", "%d numbers are given; there are two for each axis of %v, from the last on",
			len(p.Pads), x)
	}
	pads := make([][2]int, x.Rank())
	for i, n := range p.Pads {
		pads[len(pads)-1-i/2][i%2] = n
	}
	switch p.Mode {
	case "constant":
		return x.Pad(p.Value, pads...)
	case "reflect":
		return x.PadReflect(pads...)
	case "replicate":
		return x.PadReplicate(pads...)
	case "circular":
		return x.PadCircular(pads...)
	}
	engine.Fail(tensor.ErrValue, "pad", "there is no mode %q; modes are constant, reflect, replicate and circular",
		p.Mode)
	return nil
}

// Unfold makes columns of windows, as [tensor.Tensor.Im2Col] does.
type Unfold struct{ tensor.Window }

// NewUnfold makes the layer for windows over two axes. Options are [Stride], [Padding] and [Dilation].
func NewUnfold(size int, opts ...LayerOption) *Unfold {
	return &Unfold{windowOf("unfold", 2, size, opts, "Stride", "Padding", "Dilation")}
}

// Forward maps [N C H W] to [N C*K L], with K elements in each of L windows.
func (u *Unfold) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("unfold", "the layer", u)
	return x.Im2Col(u.Window)
}

// Fold adds up windows at their places, as [tensor.Tensor.Col2Im] does.
type Fold struct {
	Output []int // the sizes of the spatial axes
	tensor.Window
}

// NewFold makes the layer for windows over two axes. Options are [Stride], [Padding] and [Dilation].
func NewFold(output []int, size int, opts ...LayerOption) *Fold {
	return &Fold{output, windowOf("fold", 2, size, opts, "Stride", "Padding", "Dilation")}
}

// Forward maps [N C*K L] to [N C H W].
func (f *Fold) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("fold", "the layer", f)
	return x.Col2Im(f.Window, f.Output...)
}
