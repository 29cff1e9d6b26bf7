package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// A convolution is linear in x and in the weight. Its three operations share their attributes, for each spatial axis
// the stride, the padding before, the dilation and the size of the result, then the number of groups. Each gradient of
// one of them is another of them. The padding after the last element follows from the sizes.
var conv, convTranspose, convWeight Op

var convInts = []string{"stride, before, dilation and size of each axis, groups..."}

func init() {
	types := []DType{Float32, Float64}
	define(&conv, entry{
		Op:    kernels.Op{Name: "conv", CPU: cpu.Conv, Types: types, Ref: convRef},
		Cast:  seam.CastLower,
		Doc:   "y[n, o, p] = (sum over c, t of x[n, c, p stride - before + t dilation] weight[o, c, t]) + bias[o]",
		Args:  []string{"x", "weight", "bias?"},
		Ints:  convInts,
		Shape: func(c *ctx) { c.convResult(0) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return c.convGrads(g, func() *Tensor {
				return apply(&convTranspose, []*Tensor{g, c.In[1]}, c.convInts(c.shape(0)[2:]), nil)
			}, func() *Tensor { return apply(&convWeight, []*Tensor{c.In[0], g}, c.convInts(c.shape(1)[2:]), nil) })
		},
		Saves: []saves{saveIn(1), saveIn(0), 0},
		Flops: func(c *ctx) float64 { return convFlops(c.Out[0], c.In[1]) },
		Samples: func() []opSample {
			return convSamples(func(c *convSample) [][]int { return [][]int{c.x, c.weight} },
				func(c *convSample, x []*Tensor) *Tensor { return x[0].Conv(x[1], nil, c.w) })
		},
		Bench: convBench,
	})
	define(&convTranspose, entry{
		Op:    kernels.Op{Name: "conv_transpose", CPU: cpu.ConvTranspose, Types: types, Ref: convTransposeRef},
		Cast:  seam.CastLower,
		Doc:   "x[n, c, p stride - before + t dilation] += y[n, o, p] weight[o, c, t], plus bias[c]",
		Args:  []string{"y", "weight", "bias?"},
		Ints:  convInts,
		Shape: func(c *ctx) { c.convResult(1) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return c.convGrads(g, func() *Tensor {
				return apply(&conv, []*Tensor{g, c.In[1]}, c.convInts(c.shape(0)[2:]), nil)
			}, func() *Tensor { return apply(&convWeight, []*Tensor{g, c.In[0]}, c.convInts(c.shape(1)[2:]), nil) })
		},
		Saves: []saves{saveIn(1), saveIn(0), 0},
		Flops: func(c *ctx) float64 { return convFlops(c.In[0], c.In[1]) },
		Samples: func() []opSample {
			return convSamples(func(c *convSample) [][]int { return [][]int{c.y, c.weight} },
				func(c *convSample, x []*Tensor) *Tensor { return apply(&convTranspose, x, c.ints(c.x), nil) })
		},
	})
	define(&convWeight, entry{
		Op:    kernels.Op{Name: "conv_weight", CPU: cpu.ConvWeight, Types: types, Ref: convWeightRef},
		Doc:   "weight[o, c, t] = sum over n, p of y[n, o, p] x[n, c, p stride - before + t dilation]",
		Args:  []string{"x", "y"},
		Ints:  convInts,
		Shape: func(c *ctx) { c.convResult(2) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			grads := make([]*Tensor, 2)
			if c.needs(0) {
				grads[0] = apply(&convTranspose, []*Tensor{c.In[1], g}, c.convInts(c.shape(0)[2:]), nil)
			}
			if c.needs(1) {
				grads[1] = apply(&conv, []*Tensor{c.In[0], g}, c.convInts(c.shape(1)[2:]), nil)
			}
			return grads
		},
		Saves: []saves{saveIn(1), saveIn(0)},
		Flops: func(c *ctx) float64 { return convFlops(c.In[1], c.Out[0]) },
		Samples: func() []opSample {
			return convSamples(func(c *convSample) [][]int { return [][]int{c.x, c.y} },
				func(c *convSample, x []*Tensor) *Tensor { return apply(&convWeight, x, c.ints(c.weight), nil) })
		},
	})
}

// Conv moves windows of the size of the weight over the last axes of t, and sums what each sees times the weight:
// t [N C ...] and the weight [O C/groups ...] of one, two or three spatial axes give [N O ...], with the bias [O] added
// unless it is nil. Along a spatial axis of n elements there are (n + padding - span)/stride + 1 windows, rounded down,
// of span (size-1)*dilation + 1. The first C/groups channels give the first O/groups, and so on. Without the axis N
// there is one image. As in PyTorch, the weight is not flipped; padding is zeros, which are multiplied like others.
//
// In float32 and float64 the bits are those of the matrix product of the weight and the unfolded t, whose inner index
// counts channels and the elements of the window in row-major order.
func (t *Tensor) Conv(weight, bias *Tensor, w Window) *Tensor {
	x := convOperands("conv", t, weight, bias, 1, 0, w)
	axes := w.along("conv", len(x.spatial), x.window, []int{1})
	size := make([]int, len(axes))
	for d, a := range axes {
		size[d] = a.count("conv", x.in[0], 2+d, false)
	}
	return x.unbatched(apply(&conv, x.in, convAttributes(axes, size, x.groups), nil))
}

// ConvTranspose is the gradient of [Tensor.Conv] by its operand, as an operation of its own: t [N O ...] and the weight
// [O C/groups ...] give [N C ...], with the bias [C] added unless it is nil. Along a spatial axis of n elements the
// result has (n-1)*stride + span + output padding - padding elements; the output padding, of one number for each
// spatial axis or for all, is less than the stride or the dilation. Without the axis N there is one image.
func (t *Tensor) ConvTranspose(weight, bias *Tensor, w Window, outputPadding ...int) *Tensor {
	const op = "conv_transpose"
	x := convOperands(op, t, weight, bias, 0, 1, w)
	axes := w.along(op, len(x.spatial), x.window, []int{1})
	if n := len(outputPadding); n > 1 && n != len(axes) {
		fail(ErrValue, op, "the output padding has %d numbers; the window moves along %d axes", n, len(axes))
	}
	size := make([]int, len(axes))
	for d, a := range axes {
		extra := 0
		if len(outputPadding) > 0 {
			extra = outputPadding[min(d, len(outputPadding)-1)]
		}
		if extra < 0 || extra >= max(a.stride, a.dilation) {
			fail(ErrValue, op, "the output padding is %d on spatial axis %d, outside [0, %d), below the stride %d or "+
				"the dilation %d", extra, d, max(a.stride, a.dilation), a.stride, a.dilation)
		}
		n := x.spatial[d]
		if n-1 > kernels.MaxLen/a.stride {
			size[d] = kernels.MaxLen + 1 // which no tensor can have
			continue
		}
		size[d] = (n-1)*a.stride + a.span() + extra - a.before - a.after
		if n < 1 || size[d] < 1 {
			fail(ErrShape, op, "the result would have %d elements on axis %d: x %v has %d, the window of span %d "+
				"moves by %d, and the padding takes %d away",
				size[d], 2+d, x.in[0], n, a.span(), a.stride, a.before+a.after)
		}
	}
	return x.unbatched(apply(&convTranspose, x.in, convAttributes(axes, size, x.groups), nil))
}

// A convOperand is the checked operands of a convolution.
type convOperand struct {
	in              []*Tensor
	spatial, window []int // sizes
	groups          int
	single          bool // there is no axis of images
}

// convOperands checks what the caller gives. The channels of x are those of the given axis of the weight, those of the
// result of the other one; axis 1 has those of one group.
func convOperands(op string, x, weight, bias *Tensor, axis, other int, w Window) (o convOperand) {
	x.given(op)
	shape := weight.given(op).layout.Shape
	rank := len(shape)
	if rank < 3 || rank > 5 {
		fail(ErrShape, op, "weight %v must have 3, 4 or 5 axes, [out in/groups ...], the last ones spatial", weight)
	}
	if o.single = x.Rank() == rank-1; o.single {
		x = x.Unsqueeze(0)
	}
	if x.Rank() != rank {
		fail(ErrShape, op, "x %v has %d axes, weight %v has %d; x must have as many, or one less for one image",
			x, x.Rank(), weight, rank)
	}
	if len(w.Size) > 0 || w.Ceil {
		fail(ErrValue, op, "Size and Ceil are for pooling; the window here has the size of the weight %v", weight)
	}
	o.groups = w.Groups
	if o.groups == 0 {
		o.groups = 1
	}
	channels := [2]int{shape[0], shape[1] * max(o.groups, 1)}
	if o.groups < 1 || o.groups > max(shape[0], 1) || shape[0]%o.groups != 0 {
		fail(ErrValue, op, "%d channels of weight %v on axis 0 do not divide into %d groups", shape[0], weight,
			o.groups)
	}
	if got := x.layout.Shape[1]; got != channels[axis] {
		fail(ErrShape, op, "x %v has %d channels on axis 1, weight %v wants %d in %d groups", x, got, weight,
			channels[axis], o.groups)
	}
	o.in, o.spatial, o.window = []*Tensor{x, weight}, x.layout.Shape[2:], shape[2:]
	if bias != nil {
		if b := bias.layout.Shape; len(b) != 1 || b[0] != channels[other] {
			fail(ErrShape, op, "bias %v must be [%d], one number for each channel of the result", b, channels[other])
		}
		o.in = append(o.in, bias)
	}
	return o
}

// unbatched is the result y, without the axis of images if the operand had none.
func (o *convOperand) unbatched(y *Tensor) *Tensor {
	if o.single {
		return y.Squeeze(0)
	}
	return y
}

// convAttributes are the attributes of the operations.
func convAttributes(axes []windowAxis, size []int, groups int) []int {
	n := len(axes)
	ints := make([]int, 4*n+1)
	for d, a := range axes {
		ints[d], ints[n+d], ints[2*n+d], ints[3*n+d] = a.stride, a.before, a.dilation, size[d]
	}
	ints[4*n] = groups
	return ints
}

// convInts are the attributes of an operation of the same windows with a result of other sizes.
func (c *ctx) convInts(size []int) []int {
	n := len(c.Ints) / 4
	ints := append([]int(nil), c.Ints...)
	copy(ints[3*n:], size)
	return ints
}

// convResult adds the result: y for 0, x for 1 and the weight for 2.
func (c *ctx) convResult(which int) {
	c.wantFloat(0, 1)
	n := c.In[0].Rank() - 2
	c.wantInts(4*n + 1)
	size, groups := c.Ints[3*n:4*n], c.Ints[4*n]
	a, b := c.shape(0), c.shape(1)
	var shape [2]int
	switch which {
	case 0:
		shape = [2]int{a[0], b[0]}
	case 1:
		shape = [2]int{a[0], b[1] * groups}
	case 2:
		shape = [2]int{b[1], a[1] / groups}
	}
	if len(c.In) > 2 {
		c.wantFloat(0, 2)
	}
	c.result(c.In[0].dtype, append(shape[:], size...)...)
}

// convGrads are the gradients of conv and conv_transpose, of which those of x and the weight are given.
func (c *ctx) convGrads(g *Tensor, x, weight func() *Tensor) []*Tensor {
	grads := make([]*Tensor, len(c.In))
	if c.needs(0) {
		grads[0] = x()
	}
	if c.needs(1) {
		grads[1] = c.gradOf(1, weight)
	}
	if len(c.In) > 2 && c.needs(2) {
		axes := []int{0}
		for d := 2; d < g.Rank(); d++ {
			axes = append(axes, d)
		}
		grads[2] = g.Sum(axes...)
	}
	return grads
}

// convFlops is the arithmetic of y and a weight: two operations for each element of y and each of the weight that has
// the same channel.
func convFlops(y, weight *Tensor) float64 {
	return 2 * float64(y.Len()) * float64(kernels.Count(weight.layout.Shape[1:]))
}
