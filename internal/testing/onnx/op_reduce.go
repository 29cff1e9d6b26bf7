package onnx

import (
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"ReduceSum": reduce((*t).Sum), "ReduceMean": reduce((*t).Mean), "ReduceProd": reduce((*t).Prod),
		"ReduceMax": reduce((*t).Max), "ReduceMin": reduce((*t).Min), "ReduceLogSumExp": reduce((*t).LogSumExp),
		"ReduceL1":     reduce(func(x *t, axes ...int) *t { return x.Abs().Sum(axes...) }),
		"ReduceL2":     reduce(func(x *t, axes ...int) *t { return x.Square().Sum(axes...).Sqrt() }),
		"ReduceLogSum": reduce(func(x *t, axes ...int) *t { return x.Sum(axes...).Log() }),
		"ReduceSumSquare": reduce(func(x *t, axes ...int) *t {
			return x.Square().Sum(axes...)
		}),
		"ArgMax":     one(func(c *call) *t { return c.argExtreme((*t).ArgMax) }),
		"ArgMin":     one(func(c *call) *t { return c.argExtreme((*t).ArgMin) }),
		"CumSum":     one(cumSum),
		"Softmax":    one(func(c *call) *t { return c.softmax((*t).Softmax) }),
		"LogSoftmax": one(func(c *call) *t { return c.softmax((*t).LogSoftmax) }),
		"Hardmax": one(func(c *call) *t {
			x, a := c.in[0], axis(c.int("axis", -1), c.in[0].Rank())
			return move(x.ArgMax(a).OneHot(x.Dim(a)), x.Rank()-1, a).To(x.DType())
		}),
		"LayerNormalization": layerNorm,
		"MeanVarianceNormalization": one(func(c *call) *t {
			axes := append(c.ints("axes", 0, 2, 3), tensor.KeepDims)
			x := c.in[0]
			return x.Sub(x.Mean(axes...)).Div(x.Var(0, axes...).Sqrt().AddScalar(1e-9))
		}),
		"NegativeLogLikelihoodLoss": one(func(c *call) *t {
			return nn.NLL(classesLast(c.in[0]), c.in[1], c.lossOptions()...)
		}),
		"SoftmaxCrossEntropyLoss": func(c *call) []*t {
			logProbs := c.in[0].LogSoftmax(1)
			return []*t{nn.NLL(classesLast(logProbs), c.in[1], c.lossOptions()...), logProbs}
		},
		"GlobalAveragePool": unary(func(x *t) *t { return x.Mean(append(spatial(x), tensor.KeepDims)...) }),
		"GlobalMaxPool":     unary(func(x *t) *t { return x.Max(append(spatial(x), tensor.KeepDims)...) }),
	})
}

// spatial are the axes behind batch and channels.
func spatial(x *t) (axes []int) {
	for a := 2; a < x.Rank(); a++ {
		axes = append(axes, a)
	}
	return axes
}

// reduce makes an operator of a reduction. Its axes are an attribute, or an operand in later versions.
func reduce(f func(x *t, axes ...int) *t) func(c *call) []*t {
	return one(func(c *call) *t {
		axes := c.ints("axes")
		if c.operand(1) != nil {
			axes = c.host(1)
		}
		if len(axes) == 0 && c.int("noop_with_empty_axes", 0) == 1 {
			return c.in[0]
		}
		if c.int("keepdims", 1) == 1 {
			axes = append(axes[:len(axes):len(axes)], tensor.KeepDims)
		}
		return f(c.in[0], axes...)
	})
}

func (c *call) argExtreme(f func(x *t, axis int, keep ...int) *t) *t {
	x, a := c.in[0], axis(c.int("axis", 0), c.in[0].Rank())
	var keep []int
	if c.int("keepdims", 1) == 1 {
		keep = append(keep, tensor.KeepDims)
	}
	if c.int("select_last_index", 0) == 1 {
		return f(x.Flip(a), a, keep...).SubFrom(float64(x.Dim(a) - 1))
	}
	return f(x, a, keep...)
}

func cumSum(c *call) *t {
	x := c.in[0]
	a := axis(c.host(1)[0], x.Rank())
	if c.int("reverse", 0) == 1 {
		x = x.Flip(a)
	}
	y := x.CumSum(a)
	if c.int("exclusive", 0) == 1 {
		y = y.Sub(x)
	}
	if c.int("reverse", 0) == 1 {
		y = y.Flip(a)
	}
	return y.To(x.DType())
}

// softmax is along an axis; before version 13 over that axis and all behind it.
func (c *call) softmax(f func(x *t, axis int) *t) *t {
	x := c.in[0]
	if c.opset >= 13 {
		return f(x, c.int("axis", -1))
	}
	return f(flatten(x, axis(c.int("axis", 1), x.Rank())), 1).Reshape(x.Shape()...)
}

func layerNorm(c *call) []*t {
	x := c.in[0]
	first := axis(c.int("axis", -1), x.Rank())
	axes := []int{}
	for a := first; a < x.Rank(); a++ {
		axes = append(axes, a)
	}
	axes = append(axes, tensor.KeepDims)
	eps := c.float("epsilon", 1e-5)
	y := x.LayerNorm(c.in[1], c.operand(2), eps)
	return []*t{y, x.Mean(axes...), x.Var(0, axes...).AddScalar(eps).Rsqrt()}
}

// classesLast moves axis 1 to the end.
func classesLast(x *t) *t { return move(x, 1, x.Rank()-1) }

// move moves an axis; the others keep their order.
func move(x *t, from, to int) *t {
	axes := []int{}
	for a := range x.Rank() {
		if a != from {
			axes = append(axes, a)
		}
	}
	axes = append(axes[:to], append([]int{from}, axes[to:]...)...)
	return x.Permute(axes...)
}

// lossOptions are the weights, the ignored target and the reduction of a loss.
func (c *call) lossOptions() (opts []nn.LossOption) {
	if w := c.operand(2); w != nil {
		opts = append(opts, nn.ClassWeights(w))
	}
	if c.has("ignore_index") {
		opts = append(opts, nn.IgnoreIndex(c.int("ignore_index", 0)))
	}
	switch c.text("reduction", "mean") {
	case "sum":
		opts = append(opts, nn.ReduceSum())
	case "none":
		opts = append(opts, nn.ReduceNone())
	}
	return opts
}
