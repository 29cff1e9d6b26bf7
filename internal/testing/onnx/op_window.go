package onnx

import (
	"slices"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"Conv": one(func(c *call) *t {
			return c.in[0].Conv(c.in[1], c.operand(2), c.slide(c.in[1].Shape()[2:]))
		}),
		"ConvTranspose": one(convTranspose), "MaxPool": maxPool, "MaxUnpool": one(maxUnpool),
		"AveragePool": one(func(c *call) *t {
			w := c.slide(c.ints("kernel_shape"))
			w.Size, w.ExcludePadding = c.ints("kernel_shape"), c.int("count_include_pad", 0) == 0
			return c.in[0].AvgPool(w)
		}),
		"LRN": one(func(c *call) *t {
			n := nn.LocalResponseNorm{Size: c.int("size", 0), Alpha: c.float("alpha", 1e-4),
				Beta: c.float("beta", 0.75), K: c.float("bias", 1)}
			return n.Forward(c.in[0])
		}),
		"BatchNormalization": batchNorm,
		"InstanceNormalization": one(func(c *call) *t {
			n := nn.NewInstanceNorm2d(c.in[1].Len(), nn.Affine(true), nn.Eps(c.float("epsilon", 1e-5)))
			n.Weight, n.Bias = c.in[1], c.in[2]
			return n.Forward(c.in[0])
		}),
		"Resize": one(resize), "Upsample": one(resize), "Pad": one(pad),
	})
}

// slide is the window of a node, of the given size.
func (c *call) slide(size []int) tensor.Window {
	n := len(size)
	ones := slices.Repeat([]int{1}, n)
	w := tensor.Window{Stride: c.ints("strides", ones...), Dilation: c.ints("dilations", ones...),
		Groups: 0, Ceil: c.int("ceil_mode", 0) == 1}
	if c.op == "Conv" || c.op == "ConvTranspose" {
		w.Groups = c.int("group", 1)
	}
	pads := c.ints("pads", make([]int, 2*n)...)
	w.Padding, w.PaddingEnd = pads[:n], pads[n:]
	if auto := c.text("auto_pad", "NOTSET"); auto == "SAME_UPPER" || auto == "SAME_LOWER" {
		before, after := make([]int, n), make([]int, n)
		for d := range n {
			in, stride := c.in[0].Dim(2+d), w.Stride[d]
			total := max(((in+stride-1)/stride-1)*stride+(size[d]-1)*w.Dilation[d]+1-in, 0)
			before[d], after[d] = halves(total, auto)
		}
		w.Padding, w.PaddingEnd = before, after
	}
	return w
}

// halves divides a padding; the larger half is after the elements in SAME_UPPER, before them otherwise. What is
// missing is after them.
func halves(total int, auto string) (before, after int) {
	if total < 0 {
		return 0, total
	}
	if auto == "SAME_UPPER" {
		return total / 2, total - total/2
	}
	return total - total/2, total / 2
}

// convTranspose computes all elements, and cuts those of the padding off.
func convTranspose(c *call) *t {
	size := c.in[1].Shape()[2:]
	n := len(size)
	w := c.slide(size)
	zeros := make([]int, n)
	y := c.in[0].ConvTranspose(c.in[1], nil, tensor.Window{Stride: w.Stride, Dilation: w.Dilation, Groups: w.Groups})
	output, shape := c.ints("output_padding", zeros...), c.ints("output_shape")
	auto := c.text("auto_pad", "NOTSET")
	pads := make([][2]int, y.Rank())
	for d := range n {
		before, after := w.Padding[d], w.PaddingEnd[d]
		full := y.Dim(2+d) + output[d]
		switch {
		case shape != nil:
			before, after = halves(full-shape[d], auto)
		case auto != "NOTSET":
			before, after = halves(full-c.in[0].Dim(2+d)*w.Stride[d], auto)
		}
		pads[2+d] = [2]int{-before, output[d] - after}
	}
	y = y.Pad(0, pads...)
	if bias := c.operand(2); bias != nil {
		y = y.Add(bias.Reshape(append([]int{-1}, slices.Repeat([]int{1}, n)...)...))
	}
	return y
}

// maxPool counts indices over the whole tensor; those of the operation are within a plane.
func maxPool(c *call) []*t {
	w := c.slide(c.ints("kernel_shape"))
	w.Size = c.ints("kernel_shape")
	if !c.wants(1) {
		return []*t{c.in[0].MaxPool(w)}
	}
	values, indices := c.in[0].MaxPoolIndices(w)
	x := c.in[0].Shape()
	plane := 1
	for _, d := range x[2:] {
		plane *= d
	}
	if c.int("storage_order", 0) == 1 { // columns first
		h, width := float64(x[2]), c.scope.Full(float64(x[3]), tensor.Int64)
		indices = indices.Mod(width).Scale(h).Add(indices.FloorDiv(width))
	}
	first := tensor.Arange(tensor.Int64, 0, float64(x[0]*x[1]), 1).Scale(float64(plane))
	shape := append([]int{x[0], x[1]}, slices.Repeat([]int{1}, len(x)-2)...)
	return []*t{values, indices.Add(c.scope.In(first).Reshape(shape...))}
}

func maxUnpool(c *call) *t {
	x, size, strides := c.in[0], c.ints("kernel_shape"), c.ints("strides")
	sizes, pads := []int{}, make([][2]int, x.Rank())
	for d := range size {
		sizes = append(sizes, (x.Dim(2+d)-1)*strides[d]+size[d])
		if shape := c.host(2); shape != nil {
			pads[2+d] = [2]int{0, shape[2+d] - sizes[d]}
		}
	}
	return x.MaxUnpool(c.in[1], sizes...).Pad(0, pads...)
}

func batchNorm(c *call) []*t {
	x, mean, variance := c.in[0], c.in[3], c.in[4]
	shape := append([]int{-1}, slices.Repeat([]int{1}, x.Rank()-2)...)
	out := []*t{nil}
	if c.int("training_mode", 0) == 1 {
		momentum, axes := c.float("momentum", 0.9), append([]int{0}, spatial(x)...)
		batchMean, batchVar := x.Mean(axes...), x.Var(0, axes...)
		out = append(out, mean.Scale(momentum).Add(batchMean.Scale(1-momentum)),
			variance.Scale(momentum).Add(batchVar.Scale(1-momentum)))
		mean, variance = batchMean, batchVar
	}
	scale := variance.AddScalar(c.float("epsilon", 1e-5)).Rsqrt().Mul(c.in[1])
	out[0] = x.Sub(mean.Reshape(shape...)).Mul(scale.Reshape(shape...)).Add(c.in[2].Reshape(shape...))
	return out
}

func pad(c *call) *t {
	x, pads, value := c.in[0], c.host(1), 0.0
	if v := c.operand(2); v != nil {
		value = v.Item()
	}
	sides := make([][2]int, x.Rank())
	for a := range sides {
		sides[a] = [2]int{pads[a], pads[a+x.Rank()]}
	}
	switch c.text("mode", "constant") {
	case "edge":
		return x.PadReplicate(sides...)
	case "reflect":
		return x.PadReflect(sides...)
	}
	return x.Pad(value, sides...)
}

// resize changes sizes axis by axis. Its nearest mode has several roundings, so its indices are computed here.
func resize(c *call) *t {
	x := c.in[0]
	scales, sizes := c.operand(2), c.host(3)
	if c.op == "Upsample" {
		scales = c.operand(1)
	}
	transform := c.text("coordinate_transformation_mode", "half_pixel")
	if c.op == "Upsample" {
		transform = "asymmetric"
	}
	for a := range x.Rank() {
		n, scale := x.Dim(a), 0.0
		size := n
		if sizes != nil {
			size = sizes[a]
			scale = float64(size) / float64(n)
		} else {
			scale = tensor.ToSlice[float64](scales)[a]
			size = int(float64(n) * scale)
		}
		if scale == 1 {
			continue
		}
		switch mode := c.text("mode", "nearest"); mode {
		case "nearest":
			indices := make([]int64, size)
			for o := range indices {
				rounding := c.text("nearest_mode", "round_prefer_floor")
				if c.op == "Upsample" {
					rounding = "floor"
				}
				indices[o] = int64(min(max(nearest(position(o, n, size, scale, transform), rounding), 0), n-1))
			}
			x = x.IndexSelect(a, c.scope.In(tensor.FromSlice(indices, size)))
		default:
			x = x.Resample(a, size, mode, scale, transform == "align_corners", false)
		}
	}
	return x
}

// position is where element o of the result is taken from.
func position(o, n, size int, scale float64, transform string) float64 {
	switch transform {
	case "asymmetric":
		return float64(o) / scale
	case "align_corners":
		return float64(o) * float64(n-1) / float64(size-1)
	case "tf_half_pixel_for_nn":
		return (float64(o) + 0.5) / scale
	}
	return (float64(o)+0.5)/scale - 0.5
}

// nearest is the element at a position.
func nearest(x float64, rounding string) int {
	down := int(x)
	if float64(down) > x {
		down--
	}
	rest := x - float64(down)
	switch {
	case rounding == "ceil" && rest > 0, rounding == "round_prefer_ceil" && rest >= 0.5,
		rounding == "round_prefer_floor" && rest > 0.5, rounding == "floor" && rest >= 1:
		return down + 1
	}
	return down
}
