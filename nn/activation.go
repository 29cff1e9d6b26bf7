package nn

import "github.com/weft-ml/weft/tensor"

// Activations, for use in [Sequential].
var (
	ReLU        = Func((*tensor.Tensor).ReLU)
	ReLU6       = Func((*tensor.Tensor).ReLU6)
	SELU        = Func((*tensor.Tensor).SELU)
	GELU        = Func((*tensor.Tensor).GELU)
	GELUTanh    = Func((*tensor.Tensor).GELUTanh)
	SiLU        = Func((*tensor.Tensor).SiLU)
	Mish        = Func((*tensor.Tensor).Mish)
	Tanh        = Func((*tensor.Tensor).Tanh)
	Sigmoid     = Func((*tensor.Tensor).Sigmoid)
	LogSigmoid  = Func((*tensor.Tensor).LogSigmoid)
	Softplus    = Func((*tensor.Tensor).Softplus)
	Softsign    = Func((*tensor.Tensor).Softsign)
	Tanhshrink  = Func((*tensor.Tensor).Tanhshrink)
	Hardsigmoid = Func((*tensor.Tensor).Hardsigmoid)
	Hardswish   = Func((*tensor.Tensor).Hardswish)
)

// PReLU is x where positive, else weight*x, with a weight for each channel, which are axis 1, or one for all.
type PReLU struct {
	Weight *tensor.Tensor // [channels] or [1]
}

// NewPReLU declares weights of 0.25 for so many channels; 1 is one weight for all.
func NewPReLU(channels int) *PReLU { return &PReLU{Parameter(Constant(0.25), channels)} }

// Forward keeps the shape [batch channels ...].
func (l *PReLU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("prelu", "the layer", l)
	return x.PReLU(l.Weight)
}

// String is the [Tree] of the layer.
func (l *PReLU) String() string { return Tree(l) }

// LeakyReLU is x where positive, else Slope*x.
type LeakyReLU struct{ Slope float64 }

// NewLeakyReLU makes the activation; PyTorch's slope is 0.01.
func NewLeakyReLU(slope float64) *LeakyReLU { return &LeakyReLU{slope} }

// Forward keeps the shape.
func (l *LeakyReLU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("leaky_relu", "the layer", l)
	return x.LeakyReLU(l.Slope)
}

// String is the [Tree] of the layer.
func (l *LeakyReLU) String() string { return Tree(l) }

// RReLU is x where positive, else x times a slope, random between Lower and Upper in training steps, their mean
// elsewhere.
type RReLU struct{ Lower, Upper float64 }

// NewRReLU makes the activation; PyTorch's bounds are 1/8 and 1/3.
func NewRReLU(lower, upper float64) *RReLU { return &RReLU{lower, upper} }

// Forward keeps the shape.
func (l *RReLU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("rrelu", "the layer", l)
	return x.RReLU(l.Lower, l.Upper)
}

// String is the [Tree] of the layer.
func (l *RReLU) String() string { return Tree(l) }

// ELU is x where positive, else Alpha*(e^x - 1).
type ELU struct{ Alpha float64 }

// NewELU makes the activation; PyTorch's alpha is 1.
func NewELU(alpha float64) *ELU { return &ELU{alpha} }

// Forward keeps the shape.
func (l *ELU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("elu", "the layer", l)
	return x.ELU(l.Alpha)
}

// String is the [Tree] of the layer.
func (l *ELU) String() string { return Tree(l) }

// CELU is ELU with a continuous derivative.
type CELU struct{ Alpha float64 }

// NewCELU makes the activation; PyTorch's alpha is 1.
func NewCELU(alpha float64) *CELU { return &CELU{alpha} }

// Forward keeps the shape.
func (l *CELU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("celu", "the layer", l)
	return x.CELU(l.Alpha)
}

// String is the [Tree] of the layer.
func (l *CELU) String() string { return Tree(l) }

// Hardtanh is x between Min and Max.
type Hardtanh struct{ Min, Max float64 }

// NewHardtanh makes the activation; PyTorch's bounds are -1 and 1.
func NewHardtanh(lo, hi float64) *Hardtanh { return &Hardtanh{lo, hi} }

// Forward keeps the shape.
func (l *Hardtanh) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("hardtanh", "the layer", l)
	return x.HardtanhWithin(l.Min, l.Max)
}

// String is the [Tree] of the layer.
func (l *Hardtanh) String() string { return Tree(l) }

// Hardshrink is 0 within the bound, else x.
type Hardshrink struct{ Bound float64 }

// NewHardshrink makes the activation; PyTorch's bound is 0.5.
func NewHardshrink(bound float64) *Hardshrink { return &Hardshrink{bound} }

// Forward keeps the shape.
func (l *Hardshrink) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("hardshrink", "the layer", l)
	return x.Hardshrink(l.Bound)
}

// String is the [Tree] of the layer.
func (l *Hardshrink) String() string { return Tree(l) }

// Softshrink is x moved towards 0 by the bound.
type Softshrink struct{ Bound float64 }

// NewSoftshrink makes the activation; PyTorch's bound is 0.5.
func NewSoftshrink(bound float64) *Softshrink { return &Softshrink{bound} }

// Forward keeps the shape.
func (l *Softshrink) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("softshrink", "the layer", l)
	return x.Softshrink(l.Bound)
}

// String is the [Tree] of the layer.
func (l *Softshrink) String() string { return Tree(l) }

// Threshold is x above the threshold, else Value.
type Threshold struct{ Threshold, Value float64 }

// NewThreshold makes the activation.
func NewThreshold(threshold, value float64) *Threshold { return &Threshold{threshold, value} }

// Forward keeps the shape.
func (l *Threshold) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("threshold", "the layer", l)
	return x.Threshold(l.Threshold, l.Value)
}

// String is the [Tree] of the layer.
func (l *Threshold) String() string { return Tree(l) }

// GLU is the first half along an axis times the sigmoid of the second.
type GLU struct{ Axis int }

// NewGLU makes the activation; PyTorch's axis is -1.
func NewGLU(axis int) *GLU { return &GLU{axis} }

// Forward halves the axis.
func (l *GLU) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("glu", "the layer", l)
	return x.GLU(l.Axis)
}

// String is the [Tree] of the layer.
func (l *GLU) String() string { return Tree(l) }

// Softmax is e^x along an axis, divided by its sum.
type Softmax struct{ Axis int }

// NewSoftmax makes the activation.
func NewSoftmax(axis int) *Softmax { return &Softmax{axis} }

// Forward keeps the shape.
func (l *Softmax) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("softmax", "the layer", l)
	return x.Softmax(l.Axis)
}

// String is the [Tree] of the layer.
func (l *Softmax) String() string { return Tree(l) }

// Softmin is e^-x along an axis, divided by its sum.
type Softmin struct{ Axis int }

// NewSoftmin makes the activation.
func NewSoftmin(axis int) *Softmin { return &Softmin{axis} }

// Forward keeps the shape.
func (l *Softmin) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("softmin", "the layer", l)
	return x.Neg().Softmax(l.Axis)
}

// String is the [Tree] of the layer.
func (l *Softmin) String() string { return Tree(l) }

// LogSoftmax is the logarithm of softmax along an axis.
type LogSoftmax struct{ Axis int }

// NewLogSoftmax makes the activation.
func NewLogSoftmax(axis int) *LogSoftmax { return &LogSoftmax{axis} }

// Forward keeps the shape.
func (l *LogSoftmax) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("log_softmax", "the layer", l)
	return x.LogSoftmax(l.Axis)
}

// String is the [Tree] of the layer.
func (l *LogSoftmax) String() string { return Tree(l) }
