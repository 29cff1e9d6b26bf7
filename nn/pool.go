package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// MaxPool takes the largest element of each window of the last axes, as [tensor.Tensor.MaxPool] does.
type MaxPool struct{ tensor.Window }

// NewMaxPool1d makes a max pooling over windows of the given size. Options of it and of its kin for more axes are
// [Stride], [Padding], [Dilation] and [CeilMode]; windows that are no squares are &MaxPool{tensor.Window{...}}.
func NewMaxPool1d(size int, opts ...LayerOption) *MaxPool { return newMaxPool(1, size, opts) }

// NewMaxPool2d is [NewMaxPool1d] for two axes.
func NewMaxPool2d(size int, opts ...LayerOption) *MaxPool { return newMaxPool(2, size, opts) }

// NewMaxPool3d is [NewMaxPool1d] for three axes.
func NewMaxPool3d(size int, opts ...LayerOption) *MaxPool { return newMaxPool(3, size, opts) }

func newMaxPool(axes, size int, opts []LayerOption) *MaxPool {
	return &MaxPool{windowOf("max_pool", axes, size, opts, "Stride", "Padding", "Dilation", "CeilMode")}
}

// windowOf is the window of a pooling.
func windowOf(layer string, axes, size int, opts []LayerOption, takes ...string) tensor.Window {
	c := layerOf(layer, opts, takes...)
	for range axes {
		c.window.Size = append(c.window.Size, size)
	}
	return c.window
}

// Forward maps [.. H W] to [.. H' W'].
func (m *MaxPool) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("max_pool", "the layer", m)
	return x.MaxPool(m.Window)
}

// MaxUnpool puts the elements that a [MaxPool] of the same window has found back to their places, zeros elsewhere.
type MaxUnpool struct{ tensor.Window }

// NewMaxUnpool1d makes the layer for windows of the given size. Options of it and of its kin for more axes are [Stride]
// and [Padding].
func NewMaxUnpool1d(size int, opts ...LayerOption) *MaxUnpool { return newMaxUnpool(1, size, opts) }

// NewMaxUnpool2d is [NewMaxUnpool1d] for two axes.
func NewMaxUnpool2d(size int, opts ...LayerOption) *MaxUnpool { return newMaxUnpool(2, size, opts) }

// NewMaxUnpool3d is [NewMaxUnpool1d] for three axes.
func NewMaxUnpool3d(size int, opts ...LayerOption) *MaxUnpool { return newMaxUnpool(3, size, opts) }

func newMaxUnpool(axes, size int, opts []LayerOption) *MaxUnpool {
	return &MaxUnpool{windowOf("max_unpool", axes, size, opts, "Stride", "Padding")}
}

// Forward maps elements and indices [.. H' W'], as [tensor.Tensor.MaxPoolIndices] gives them, to [.. H W]. Without
// sizes these are (H'-1)*stride - 2*padding + size.
func (m *MaxUnpool) Forward(x, indices *tensor.Tensor, sizes ...int) *tensor.Tensor {
	engine.Given("max_unpool", "the layer", m)
	if len(sizes) > 0 {
		return x.MaxUnpool(indices, sizes...)
	}
	k := len(m.Size)
	if x.Rank() < k {
		engine.Fail(tensor.ErrShape, "max_unpool", "the window moves along %d axes, %v has %d", k, x, x.Rank())
	}
	at := func(v []int, d, otherwise int) int {
		if len(v) == 0 {
			return otherwise
		}
		return v[min(d, len(v)-1)]
	}
	for d, size := range m.Size {
		n := x.Dim(x.Rank() - k + d)
		sizes = append(sizes, (n-1)*at(m.Stride, d, size)-2*at(m.Padding, d, 0)+size)
	}
	return x.MaxUnpool(indices, sizes...)
}

// AvgPool takes the mean of each window of the last axes, as [tensor.Tensor.AvgPool] does.
type AvgPool struct{ tensor.Window }

// NewAvgPool1d makes an average pooling over windows of the given size. Options of it and of its kin for more axes are
// [Stride], [Padding], [CeilMode], [CountIncludePad] and [DivisorOverride].
func NewAvgPool1d(size int, opts ...LayerOption) *AvgPool { return newAvgPool(1, size, opts) }

// NewAvgPool2d is [NewAvgPool1d] for two axes.
func NewAvgPool2d(size int, opts ...LayerOption) *AvgPool { return newAvgPool(2, size, opts) }

// NewAvgPool3d is [NewAvgPool1d] for three axes.
func NewAvgPool3d(size int, opts ...LayerOption) *AvgPool { return newAvgPool(3, size, opts) }

func newAvgPool(axes, size int, opts []LayerOption) *AvgPool {
	return &AvgPool{windowOf("avg_pool", axes, size, opts, "Stride", "Padding", "CeilMode", "CountIncludePad",
		"DivisorOverride")}
}

// Forward maps [.. H W] to [.. H' W'].
func (a *AvgPool) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("avg_pool", "the layer", a)
	return x.AvgPool(a.Window)
}

// AdaptiveAvgPool takes means over so many windows, whatever the sizes of the last axes are: as many axes as there are
// sizes.
type AdaptiveAvgPool struct{ Sizes []int }

// NewAdaptiveAvgPool makes the layer: one size for each spatial axis, AdaptiveAvgPool2d(1) is
// NewAdaptiveAvgPool(1, 1).
func NewAdaptiveAvgPool(sizes ...int) *AdaptiveAvgPool { return &AdaptiveAvgPool{sizes} }

// Forward maps [.. H W] to [.. sizes..].
func (a *AdaptiveAvgPool) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("adaptive_avg_pool", "the layer", a)
	return x.AdaptiveAvgPool(a.Sizes...)
}

// AdaptiveMaxPool takes the largest elements of so many windows, whatever the sizes of the last axes are: as many axes
// as there are sizes.
type AdaptiveMaxPool struct{ Sizes []int }

// NewAdaptiveMaxPool makes the layer: one size for each spatial axis.
func NewAdaptiveMaxPool(sizes ...int) *AdaptiveMaxPool { return &AdaptiveMaxPool{sizes} }

// Forward maps [.. H W] to [.. sizes..].
func (a *AdaptiveMaxPool) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("adaptive_max_pool", "the layer", a)
	return x.AdaptiveMaxPool(a.Sizes...)
}

// LPPool takes (sum of x^P)^(1/P) of each window of the last axes.
type LPPool struct {
	tensor.Window
	P float64
}

// NewLPPool1d makes a power-average pooling over windows of the given size. p is positive; unless it is even, x is not
// negative. Options of it and of its kin for two axes are [Stride] and [CeilMode].
func NewLPPool1d(p float64, size int, opts ...LayerOption) *LPPool {
	return newLPPool(1, p, size, opts)
}

// NewLPPool2d is [NewLPPool1d] for two axes.
func NewLPPool2d(p float64, size int, opts ...LayerOption) *LPPool {
	return newLPPool(2, p, size, opts)
}

func newLPPool(axes int, p float64, size int, opts []LayerOption) *LPPool {
	want("lp_pool", "P", p, p > 0, "(0, Inf)")
	return &LPPool{windowOf("lp_pool", axes, size, opts, "Stride", "CeilMode"), p}
}

// Forward maps [.. H W] to [.. H' W']. As in PyTorch, the sum is the mean times the size of a whole window, also where
// a last window is smaller. A negative sum, of an odd or broken p, gives 0.
func (l *LPPool) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("lp_pool", "the layer", l)
	elements := 1.0
	for _, n := range l.Size {
		elements *= float64(n)
	}
	wide := widened(x)
	return wide.PowScalar(l.P).AvgPool(l.Window).ReLU().Scale(elements).PowScalar(1 / l.P).To(x.DType())
}

// LocalResponseNorm divides each channel by (K + Alpha*m)^Beta, where m is the mean of the squares of Size neighbouring
// channels, zeros beyond the ends (Krizhevsky et al. 2012).
type LocalResponseNorm struct {
	Size           int
	Alpha, Beta, K float64
}

// NewLocalResponseNorm makes the layer with PyTorch's values: Alpha 1e-4, Beta 0.75, K 1.
func NewLocalResponseNorm(size int) *LocalResponseNorm {
	want("local_response_norm", "Size", float64(size), size > 0 && size < math.MaxInt32, "[1, 2^31)")
	return &LocalResponseNorm{size, 1e-4, 0.75, 1}
}

// Forward keeps the shape [N C ..].
func (n *LocalResponseNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("local_response_norm", "the layer", n)
	if x.Rank() < 3 {
		engine.Fail(tensor.ErrShape, "local_response_norm", "%v has %d axes, [N C ..] is needed", x, x.Rank())
	}
	channels := tensor.Window{Size: []int{n.Size, 1}, Stride: []int{1}, Padding: []int{n.Size / 2, 0},
		PaddingEnd: []int{(n.Size - 1) / 2, 0}}
	wide := widened(x)
	mean := wide.Square().Flatten(2, -1).AvgPool(channels).Reshape(x.Shape()...)
	return wide.Div(mean.Scale(n.Alpha).AddScalar(n.K).PowScalar(n.Beta)).To(x.DType())
}
