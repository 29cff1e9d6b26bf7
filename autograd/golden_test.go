package autograd_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A tolerance allows an error of abs + rel times the wanted value.
type tolerance struct{ abs, rel float64 }

// Both sides round, and PyTorch forms some sums in another order; the absolute part covers results in which
// larger terms cancel, such as gelu(-6).
var (
	values64    = tolerance{1e-13, 1e-12}
	gradients64 = tolerance{1e-13, 1e-10}
	values32    = tolerance{2e-6, 1e-5}
	gradients32 = tolerance{1e-5, 1e-4}
)

// A call is how Weft does the operation of a case.
type call func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor

func one(y *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{y} }

func unary(f func(x *tensor.Tensor) *tensor.Tensor) call {
	return func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(f(x[0])) }
}

func binary(f func(x, y *tensor.Tensor) *tensor.Tensor) call {
	return func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(f(x[0], x[1])) }
}

// number is a function of a tensor and one number of the case.
func number(key string, f func(x *tensor.Tensor, a float64) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(f(x[0], c.Float(key))) }
}

// axis is a function along one axis.
func axis(f func(x *tensor.Tensor, axis int) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(f(x[0], c.Int("axis"))) }
}

// reduction is a function over axes, all of them if the case names none. keep is its form that keeps axes.
func reduction(f func(x *tensor.Tensor, axes ...int) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		var axes []int
		if c.Has("axes") {
			axes = c.Ints("axes")
		}
		return one(f(x[0], append(axes, keepDims(c)...)...))
	}
}

// spread is the variance or the deviation.
func spread(f func(x *tensor.Tensor, correction int, axes ...int) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return reduction(func(x *tensor.Tensor, axes ...int) *tensor.Tensor {
			return f(x, c.Int("correction"), axes...)
		})(c, x)
	}
}

// extreme is the largest or smallest element: of all, or along an axis with its index.
func extreme(all func(x *tensor.Tensor, axes ...int) *tensor.Tensor, along func(x *tensor.Tensor, axis int,
	keep ...int) (v, i *tensor.Tensor)) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		if !c.Has("axis") {
			return one(all(x[0]))
		}
		v, i := along(x[0], c.Int("axis"), keepDims(c)...)
		return []*tensor.Tensor{v, i}
	}
}

// argExtreme is the index of the largest or smallest element.
func argExtreme(f func(x *tensor.Tensor, axis int, keep ...int) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		if !c.Has("axis") {
			return one(f(x[0].Reshape(x[0].Len()), 0))
		}
		return one(f(x[0], c.Int("axis"), keepDims(c)...))
	}
}

// keepDims is KeepDims if the case keeps the reduced axis.
func keepDims(c *golden.Case) (keep []int) {
	if c.Has("keepdim") {
		keep = append(keep, tensor.KeepDims)
	}
	return keep
}

// bound is a number of the case, or what stands for its absence.
func bound(c *golden.Case, key string, otherwise float64) float64 {
	if !c.Has(key) {
		return otherwise
	}
	return c.Float(key)
}

func clamp(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	return one(x[0].Clamp(bound(c, "min", math.Inf(-1)), bound(c, "max", math.Inf(1))))
}

func gelu(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	if c.Has("approximate") && c.Text("approximate") == "tanh" {
		return one(x[0].GELUTanh())
	}
	return one(x[0].GELU())
}

func softplus(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	if c.Float("beta") == 1 {
		return one(x[0].Softplus())
	}
	return one(x[0].SoftplusBeta(c.Float("beta"), c.Float("threshold")))
}

func hardtanh(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	if c.Float("max_val") == 1 {
		return one(x[0].Hardtanh())
	}
	return one(x[0].HardtanhWithin(c.Float("min_val"), c.Float("max_val")))
}

// cast is what comes back after storing in half precision.
func cast(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	half := map[string]tensor.DType{"float16": tensor.Float16, "bfloat16": tensor.BFloat16}[c.Text("dtype")]
	return one(x[0].To(half).To(tensor.Float32))
}

func layerNorm(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	n := c.Int("axes")
	if len(x) == 1 && n > 1 { // without weights Weft normalises one axis
		shape := x[0].Shape()
		flat := x[0].Reshape(append(shape[:len(shape)-n:len(shape)-n], -1)...)
		return one(flat.LayerNorm(nil, nil, c.Float("eps")).Reshape(x[0].Shape()...))
	}
	x = append(x, nil, nil)
	return one(x[0].LayerNorm(x[1], x[2], c.Float("eps")))
}

// loss is a loss of package nn; a third operand holds weights.
func loss(f func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor,
	weights func(w *tensor.Tensor) nn.LossOption) call {
	reductions := map[string]nn.LossOption{"mean": nn.ReduceMean(), "sum": nn.ReduceSum(),
		"none": nn.ReduceNone()}
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		opts := []nn.LossOption{reductions[c.Text("reduction")]}
		if c.Has("ignore_index") {
			opts = append(opts, nn.IgnoreIndex(c.Int("ignore_index")))
		}
		if c.Has("label_smoothing") {
			opts = append(opts, nn.LabelSmoothing(c.Float("label_smoothing")))
		}
		if len(x) > 2 {
			opts = append(opts, weights(x[2]))
		}
		return one(f(x[0], x[1], opts...))
	}
}

func huber(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	return loss(func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
		return nn.Huber(x, y, c.Float("delta"), opts...)
	}, nn.Weights)(c, x)
}

func cut(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	y := x[0]
	starts, stops, steps := c.Ints("starts"), c.Ints("stops"), c.Ints("steps")
	for a := range starts {
		y = y.Slice(a, starts[a], stops[a], steps[a])
	}
	return one(y)
}

func pad(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	var pads [][2]int
	if err := json.Unmarshal(c.Attrs["pads"], &pads); err != nil {
		panic(err)
	}
	return one(x[0].Pad(c.Float("value"), pads...))
}

// squeeze takes away one axis, or all of size 1.
func squeeze(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
	if c.Has("axis") {
		return one(x[0].Squeeze(c.Int("axis")))
	}
	y := x[0]
	for a := y.Rank() - 1; a >= 0; a-- {
		if y.Dim(a) == 1 {
			y = y.Squeeze(a)
		}
	}
	return one(y)
}

// does adds to calls: the files golden_FAMILY_test.go have those of later families.
func does(more map[string]call) {
	for op, f := range more {
		if calls[op] != nil {
			panic("two calls for " + op)
		}
		calls[op] = f
	}
}

// calls says how Weft does each operation of the goldens.
var calls = map[string]call{
	"abs": unary((*tensor.Tensor).Abs), "neg": unary((*tensor.Tensor).Neg), "sign": unary((*tensor.Tensor).Sign),
	"square": unary((*tensor.Tensor).Square), "sqrt": unary((*tensor.Tensor).Sqrt),
	"rsqrt":      unary((*tensor.Tensor).Rsqrt),
	"reciprocal": unary((*tensor.Tensor).Reciprocal), "exp": unary((*tensor.Tensor).Exp),
	"exp2":  unary((*tensor.Tensor).Exp2),
	"expm1": unary((*tensor.Tensor).Expm1), "log": unary((*tensor.Tensor).Log), "log2": unary((*tensor.Tensor).Log2),
	"log10": unary((*tensor.Tensor).Log10), "log1p": unary((*tensor.Tensor).Log1p), "sin": unary((*tensor.Tensor).Sin),
	"cos": unary((*tensor.Tensor).Cos), "tan": unary((*tensor.Tensor).Tan), "asin": unary((*tensor.Tensor).Asin),
	"acos": unary((*tensor.Tensor).Acos), "atan": unary((*tensor.Tensor).Atan), "sinh": unary((*tensor.Tensor).Sinh),
	"cosh": unary((*tensor.Tensor).Cosh), "tanh": unary((*tensor.Tensor).Tanh), "asinh": unary((*tensor.Tensor).Asinh),
	"acosh": unary((*tensor.Tensor).Acosh), "atanh": unary((*tensor.Tensor).Atanh), "erf": unary((*tensor.Tensor).Erf),
	"erfc": unary((*tensor.Tensor).Erfc), "normpdf": unary((*tensor.Tensor).NormPDF),
	"normcdf": unary((*tensor.Tensor).NormCDF), "floor": unary((*tensor.Tensor).Floor),
	"ceil":  unary((*tensor.Tensor).Ceil),
	"round": unary((*tensor.Tensor).Round), "trunc": unary((*tensor.Tensor).Trunc),
	"sigmoid":    unary((*tensor.Tensor).Sigmoid),
	"logsigmoid": unary((*tensor.Tensor).LogSigmoid), "relu": unary((*tensor.Tensor).ReLU),
	"relu6": unary((*tensor.Tensor).ReLU6),
	"selu":  unary((*tensor.Tensor).SELU), "silu": unary((*tensor.Tensor).SiLU), "mish": unary((*tensor.Tensor).Mish),
	"softplus": softplus, "softsign": unary((*tensor.Tensor).Softsign),
	"hardtanh": hardtanh, "hardsigmoid": unary((*tensor.Tensor).Hardsigmoid),
	"hardswish": unary((*tensor.Tensor).Hardswish), "isnan": unary((*tensor.Tensor).IsNaN),
	"isinf":    unary((*tensor.Tensor).IsInf),
	"isfinite": unary((*tensor.Tensor).IsFinite), "gelu": gelu, "clamp": clamp, "cast": cast,
	"leaky_relu": number("negative_slope", (*tensor.Tensor).LeakyReLU), "elu": number("alpha", (*tensor.Tensor).ELU),
	"celu": number("alpha", (*tensor.Tensor).CELU),

	"add": binary((*tensor.Tensor).Add), "sub": binary((*tensor.Tensor).Sub), "mul": binary((*tensor.Tensor).Mul),
	"div": binary((*tensor.Tensor).Div), "pow": binary((*tensor.Tensor).Pow),
	"minimum": binary((*tensor.Tensor).Minimum),
	"maximum": binary((*tensor.Tensor).Maximum), "atan2": binary((*tensor.Tensor).Atan2),
	"remainder": binary((*tensor.Tensor).Mod),
	"fmod":      binary((*tensor.Tensor).Fmod), "floor_divide": binary((*tensor.Tensor).FloorDiv),
	"hypot":     binary((*tensor.Tensor).Hypot),
	"logaddexp": binary((*tensor.Tensor).LogAddExp), "eq": binary((*tensor.Tensor).Equal),
	"ne": binary((*tensor.Tensor).NotEqual),
	"lt": binary((*tensor.Tensor).Less), "le": binary((*tensor.Tensor).LessEqual),
	"gt":   binary((*tensor.Tensor).Greater),
	"ge":   binary((*tensor.Tensor).GreaterEqual),
	"lerp": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].Lerp(x[1], x[2])) },
	"where": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Where(x[1], x[2]))
	},
	"masked_fill": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].MaskedFill(x[1], c.Float("value")))
	},

	"matmul": binary((*tensor.Tensor).MatMul),
	"linear": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		x = append(x, nil)
		return one(x[0].Linear(x[1], x[2]))
	},
	"sum": reduction((*tensor.Tensor).Sum), "mean": reduction((*tensor.Tensor).Mean),
	"prod": reduction((*tensor.Tensor).Prod), "logsumexp": reduction((*tensor.Tensor).LogSumExp),
	"amax": reduction((*tensor.Tensor).Max), "amin": reduction((*tensor.Tensor).Min),
	"var": spread((*tensor.Tensor).Var), "std": spread((*tensor.Tensor).Std),
	"max":    extreme((*tensor.Tensor).Max, (*tensor.Tensor).MaxIndex),
	"min":    extreme((*tensor.Tensor).Min, (*tensor.Tensor).MinIndex),
	"argmax": argExtreme((*tensor.Tensor).ArgMax), "argmin": argExtreme((*tensor.Tensor).ArgMin),
	"cumsum": axis((*tensor.Tensor).CumSum),

	"softmax": axis((*tensor.Tensor).Softmax), "log_softmax": axis((*tensor.Tensor).LogSoftmax),
	"layer_norm": layerNorm,
	"rms_norm": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].RMSNorm(x[1], c.Float("eps")))
	},
	"causal_attention": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Attention(x[1], x[2], true, 1/math.Sqrt(float64(x[0].Dim(-1)))))
	},
	"cross_entropy": loss(nn.CrossEntropy, nn.ClassWeights), "nll": loss(nn.NLL, nn.ClassWeights),
	"mse": loss(nn.MSE, nn.Weights), "l1": loss(nn.L1, nn.Weights), "huber": huber,
	"bce": loss(nn.BCE, nn.Weights), "bce_with_logits": loss(nn.BCEWithLogits, nn.Weights),
	"bce_pos_weight": loss(nn.BCEWithLogits, nn.PosWeight), "kl_div": loss(nn.KLDiv, nil),

	"sub_from": number("a", (*tensor.Tensor).SubFrom), "div_into": number("a", (*tensor.Tensor).DivInto),
	"lt_scalar": number("a", (*tensor.Tensor).LessScalar), "le_scalar": number("a", (*tensor.Tensor).LessEqualScalar),
	"gt_scalar": number("a", (*tensor.Tensor).GreaterScalar),
	"ge_scalar": number("a", (*tensor.Tensor).GreaterEqualScalar),
	"eq_scalar": number("a", (*tensor.Tensor).EqualScalar), "ne_scalar": number("a", (*tensor.Tensor).NotEqualScalar),

	"embedding": binary(func(ids, table *tensor.Tensor) *tensor.Tensor { return table.Embedding(ids) }),
	"gather": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Gather(c.Int("axis"), x[1]))
	},
	"index_select": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].IndexSelect(c.Int("axis"), x[1]))
	},
	"scatter_add": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].ScatterAdd(c.Int("axis"), x[1], x[2]))
	},
	"one_hot": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].OneHot(c.Int("classes"))) },

	"cat": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(tensor.Cat(c.Int("axis"), x...)) },
	"stack": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(tensor.Stack(c.Int("axis"), x...))
	},
	"split": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return x[0].Split(c.Int("axis"), c.Ints("sizes")...)
	},
	"chunk": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return x[0].Chunk(c.Int("axis"), c.Int("chunks"))
	},
	"slice": cut,
	"permute": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Permute(c.Ints("axes")...))
	},
	"transpose": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Transpose(c.Int("a"), c.Int("b")))
	},
	"reshape": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Reshape(c.Ints("shape")...))
	},
	"expand": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Expand(c.Ints("shape")...))
	},
	"flip":      func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].Flip(c.Ints("axes")...)) },
	"unsqueeze": axis((*tensor.Tensor).Unsqueeze),
	"squeeze":   squeeze,
	"pad":       pad,
	"tril":      func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].Tril(c.Int("diagonal"))) },
	"triu":      func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(x[0].Triu(c.Int("diagonal"))) },
}

// missing are cases, by the beginning of their names, that Weft has no operation for.
var missing = []struct{ prefix, why string }{
	{"pow/int", "powers are floating numbers"},
}

// own is where Weft differs from PyTorch on purpose: elements of an output or gradient of a case.
type own struct {
	cases string // name of the case
	part  string // "output 0", "gradient 1"
	at    []int
	want  []float64 // Weft's values there; the last one repeats
	why   string
}

var nan, inf = math.NaN(), math.Inf(1)

var conventions = []own{
	{"elu/nonfinite/alpha=1.0", "gradient 0", []int{2}, []float64{nan},
		"the slope at NaN is NaN; PyTorch takes that of a branch"},
	{"celu/nonfinite/alpha=1.5", "gradient 0", []int{2}, []float64{nan}, "likewise"},
	{"selu/nonfinite", "gradient 0", []int{2}, []float64{nan}, "likewise"},
	{"hardswish/nonfinite", "gradient 0", []int{2}, []float64{nan}, "likewise"},
	{"mish/nonfinite", "gradient 0", []int{0, 1}, []float64{-1.8125, 0}, "the slope at +Inf is 1, at -Inf 0"},
	{"hardsigmoid/nonfinite", "gradient 0", []int{2}, []float64{0.15625},
		"NaN lies beyond neither bound, so it has the slope between them"},
	{"clamp/nonfinite/min=-1.0/max=1.5", "gradient 0", []int{2}, []float64{-1.9375},
		"likewise; PyTorch's relu does the same"},
	{"clamp/nonfinite/min=0.0", "gradient 0", []int{2}, []float64{1.1875}, "likewise"},
	{"clamp/nonfinite/max=0.5", "gradient 0", []int{2}, []float64{1.4375}, "likewise"},
	{"hardswish/edge", "gradient 0", []int{12}, []float64{0}, "the slope at the kink -3 is that of its hardsigmoid, 0"},

	{"gelu/nonfinite/approximate=none", "gradient 0", []int{0, 1}, []float64{-1.6875, 0},
		"likewise"},
	{"silu/nonfinite", "gradient 0", []int{0, 1}, []float64{1.0625, 0}, "likewise"},

	{"atan2/edge", "gradient 0", []int{0, 1, 8, 9}, []float64{-0.3125, 0.0625, -1.8125, -1.0625},
		"at the origin the slope is that of y, to the left of it -y"},
	{"atan2/edge", "gradient 1", []int{0, 1, 8, 9}, []float64{0}, "likewise"},
	{"atan2/nonfinite", "gradient 0", []int{0}, []float64{1.6875}, "likewise"},
	{"atan2/nonfinite", "gradient 0", []int{3, 4, 9, 10, 15, 16, 21, 22, 27, 28}, []float64{0},
		"towards infinity the angle levels off"},
	{"atan2/nonfinite", "gradient 1", []int{0, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28}, []float64{0}, "likewise"},
	{"atan2/nonfinite", "gradient 1", []int{30}, []float64{0}, "at x = 0 the slope in x does not read y"},
	{"hypot/nonfinite", "output 0", []int{23, 29, 33, 34}, []float64{nan}, "NaN goes through, also beside an infinity"},
	{"logaddexp/nonfinite", "gradient 0", []int{21, 28}, []float64{-0.46875, -0.71875},
		"equal infinities share the gradient like equal numbers"},
	{"logaddexp/nonfinite", "gradient 1", []int{21, 28}, []float64{-0.46875, -0.71875}, "likewise"},

	{"copysign/nonfinite", "gradient 0", []int{15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29},
		[]float64{0.3125, -0.8125, -0.4375, 1.0625, 1.9375, -0.3125, 1.8125, -1.5625, -0.4375, -0.8125, 0},
		"infinities have the slope of other numbers, and NaN that of abs; PyTorch divides the result by x"},

	{"nanmean/edge {'axes': [1]}", "gradient 0", []int{3, 4, 5}, []float64{0}, "NaN has no part in the mean"},

	{"remainder/nonfinite", "gradient 1", []int{19, 20, 25, 26}, []float64{inf, inf, inf, -inf},
		"the slope is the negative quotient"},

	{"var/edge rank 0 correction=1", "gradient 0", []int{0}, []float64{nan},
		"one element has no such variance, so nothing has its slope"},
}

// looser are cases in which PyTorch's values are less exact than the tolerance.
var looser = map[string]struct {
	tolerance
	why string
}{
	"hardsigmoid/random":       {tolerance{rel: 1e-7}, "PyTorch's slope is 1/6 rounded to float32"},
	"hardsigmoid/edge":         {tolerance{rel: 1e-7}, "likewise"},
	"digamma/random 0.1":       {tolerance{abs: 1e-9, rel: 1e-9}, "PyTorch's trigamma has 9 digits"},
	"digamma/edge 0.1":         {tolerance{abs: 1e-9, rel: 1e-9}, "likewise"},
	"sinc/edge -4":             {tolerance{abs: 1e-8, rel: 1e-10}, "PyTorch's slope cancels next to 0"},
	"cosine_embedding/edge":    {tolerance{abs: 1e-13, rel: 1e-8}, "PyTorch's 1e-12 is a float32"},
	"layer_norm/edge constant": {tolerance{2e-9, 1e-9}, "PyTorch's variance of numbers around 10^6 has 9 digits"},
	"layer_norm/f32 shifted by 1000": {tolerance{1.5e-4, 1e-4},
		"rows around 1000: their means, rounded to float32, differ; see layer_norm in accuracies"},
	"sum/f32 long": {tolerance{abs: 8e-6}, "PyTorch's sum of 700 numbers has another order; see sum in accuracies"},
}

// accuracy is what is known of the float32 error of an operation.
type accuracy struct {
	limit float64 // largest error in units in the last place; one if 0
	terms float64 // magnitude of what is added up: smaller results have the absolute error of that
	why   string
}

var accuracies = map[string]accuracy{
	"atan2": {limit: 1.5}, "atanh": {limit: 1.5}, "erf": {limit: 1.5}, "erfc": {limit: 2}, "hardswish": {limit: 1.5},
	"celu": {limit: 1.5}, "selu": {limit: 1.5}, "rsqrt": {limit: 1.5}, "tan": {limit: 1.5}, "tanh": {limit: 1.5},
	"normpdf": {limit: 1.5}, "normcdf": {limit: 5}, "erfinv": {limit: 4}, "sinc": {limit: 3},
	"lgamma":     {limit: 4, terms: 0.1, why: "sums cancel next to 1 and 2"},
	"digamma":    {limit: 4, terms: 1, why: "terms cancel next to 1.46"},
	"gelu":       {terms: 1, why: "PyTorch's 1 + erf(x/sqrt(2)) cancels below 0"},
	"silu":       {limit: 1.5, terms: 0x1p-120, why: "sigmoid(x) is subnormal there"},
	"mish":       {limit: 1.5, terms: 0x1p-120, why: "e^x is subnormal there"},
	"softmax":    {limit: 20, why: "x - max(x) is rounded before exp, where it is up to 25"},
	"sum":        {limit: 1.5, terms: 16, why: "sums of 700 normal numbers; PyTorch has 1.9"},
	"mean":       {limit: 2.1, terms: 16. / 700, why: "likewise; PyTorch has 3.1"},
	"matmul":     {limit: 10, terms: 8, why: "sums of 300 normal numbers"},
	"layer_norm": {limit: 0.5, terms: 1000, why: "of rows around 1000, whose mean is a float32; PyTorch has 1.9"},
}

// exactly computes in float64 what PyTorch's float64 results have with a loss of digits near 0: it takes e^x - 1 apart.
var exactly = map[string]func(c *golden.Case, x float64) float64{
	"elu":  func(c *golden.Case, x float64) float64 { return elu(x, c.Float("alpha"), 1) },
	"celu": func(c *golden.Case, x float64) float64 { return elu(x, c.Float("alpha"), c.Float("alpha")) },
	"selu": func(_ *golden.Case, x float64) float64 {
		return 1.0507009873554805 * elu(x, 1.6732632423543772, 1)
	},
}

func elu(x, alpha, width float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x/width)
}

// report collects what the cases of one run gave.
type report struct {
	passed, excepted int
	worst            map[string]float64 // error in ulp by operation
}

// TestGolden runs every case that PyTorch computed: in float64, again in float32 with the same inputs, and the
// float32 cases against values computed in float64.
func TestGolden(t *testing.T) {
	dev := open(t)
	var cases []golden.Case
	r := report{worst: map[string]float64{}}
	for _, name := range golden.Ops() {
		f, err := golden.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, f.Cases...)
		for i := range f.Cases {
			r.run(t, dev, f, &f.Cases[i])
		}
	}
	listed(t, cases)
	for _, op := range slices.Sorted(maps.Keys(r.worst)) {
		limit := cmp.Or(accuracies[op].limit, 1)
		t.Logf("%-13s float32 error %.2f ulp, at most %g %s", op, r.worst[op], limit, accuracies[op].why)
		if !(r.worst[op] <= limit) {
			t.Errorf("%s: error %.4g ulp in float32, at most %g is allowed", op, r.worst[op], limit)
		}
	}
	fmt.Printf("golden cases %d, passed %d, excepted %d\n", len(cases), r.passed, r.excepted)
}

// run runs one case.
func (r *report) run(t *testing.T, dev *tensor.Device, f *golden.File, c *golden.Case) {
	if lacks(c.Name) {
		r.excepted++
		return
	}
	if calls[c.Op] == nil {
		t.Errorf("%s: operation %s is neither mapped nor listed as missing", c.Name, c.Op)
		return
	}
	ok := t.Run(c.Name, func(t *testing.T) {
		runCase(t, dev, f, c, tensor.Float64, r)
		if has(f, c, "float64") {
			runCase(t, dev, f, c, tensor.Float32, r)
		}
	})
	switch {
	case !ok:
	case excepted(c.Name):
		r.excepted++
	default:
		r.passed++
	}
}

// excepted tells whether a case differs from PyTorch in some elements.
func excepted(name string) bool {
	_, loose := looser[name]
	return loose || slices.ContainsFunc(conventions, func(o own) bool { return o.cases == name })
}

// listed reports exceptions that are of no case.
func listed(t *testing.T, cases []golden.Case) {
	known := map[string]bool{}
	for _, c := range cases {
		known[c.Name] = true
	}
	for _, m := range missing {
		if !slices.ContainsFunc(cases, func(c golden.Case) bool { return strings.HasPrefix(c.Name, m.prefix) }) {
			t.Errorf("no case begins with %q", m.prefix)
		}
	}
	names := slices.Collect(maps.Keys(looser))
	for _, o := range conventions {
		names = append(names, o.cases)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("there is no case %q", name)
		}
	}
}

func lacks(name string) bool {
	for _, m := range missing {
		if strings.HasPrefix(name, m.prefix) {
			return true
		}
	}
	return false
}

// has tells whether an input or output of the case has the type.
func has(f *golden.File, c *golden.Case, dtype string) bool {
	for _, name := range slices.Concat(c.Inputs, c.Outputs) {
		if f.Array(name).DType == dtype {
			return true
		}
	}
	return false
}

// runCase runs a case with its float64 inputs in the given type and compares outputs and gradients.
func runCase(t *testing.T, dev *tensor.Device, f *golden.File, c *golden.Case, dt tensor.DType, r *report) {
	outputs, gradients := values64, gradients64
	if dt == tensor.Float32 || has(f, c, "float32") {
		outputs, gradients = values32, gradients32
	}
	err := dev.Step(func(s *tensor.Scope) error {
		in := make([]*tensor.Tensor, len(c.Inputs))
		var watched []*tensor.Tensor
		for i, name := range c.Inputs {
			in[i] = s.In(load(f, name, dt))
			if len(c.Grads) > 0 && c.Grads[i] != "" {
				in[i] = autograd.Watch(s, in[i])
				watched = append(watched, in[i])
			}
		}
		out := calls[c.Op](c, in)
		if len(out) != len(c.Outputs) {
			t.Fatalf("%v: %d outputs, want %d", dt, len(out), len(c.Outputs))
		}
		for i, y := range out {
			part := fmt.Sprint("output ", i)
			compare(t, f, c, part, c.Outputs[i], y, dt, outputs)
			if len(c.Exact) > 0 {
				r.measure(f, c, c.Exact[i], y)
			}
		}
		if len(c.Grads) == 0 {
			return nil
		}
		grads := differentiate(s, f, c, out, watched, dt)
		for i, name := range c.Grads {
			if name == "" {
				continue
			}
			g := grads[0]
			grads = grads[1:]
			if g == nil {
				g = s.Full(0, in[i].DType(), in[i].Shape()...)
			}
			compare(t, f, c, fmt.Sprint("gradient ", i), name, g, dt, gradients)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v: %v", dt, err)
	}
}

// load makes host data of an array, with float64 numbers in the given type.
func load(f *golden.File, name string, dt tensor.DType) *tensor.Tensor {
	a := f.Array(name)
	switch v := a.Data.(type) {
	case []float64:
		return tensor.FromSlice(slices.Clone(v), a.Shape...).To(dt)
	case []float32:
		return tensor.FromSlice(slices.Clone(v), a.Shape...)
	case []int64:
		return tensor.FromSlice(slices.Clone(v), a.Shape...)
	case []int32:
		return tensor.FromSlice(slices.Clone(v), a.Shape...)
	case []uint8:
		return tensor.FromSlice(slices.Clone(v), a.Shape...)
	case []bool:
		return tensor.FromSlice(slices.Clone(v), a.Shape...)
	}
	panic("no test needs arrays of " + a.DType)
}

// differentiate returns the gradients of the weighted sum of the outputs, nil where there is none.
func differentiate(s *tensor.Scope, f *golden.File, c *golden.Case, out, watched []*tensor.Tensor,
	dt tensor.DType) []*tensor.Tensor {
	var total, seed *tensor.Tensor
	for i, name := range c.Weights {
		if name == "" || !out[i].NeedsGrad() {
			continue
		}
		w := s.In(load(f, name, dt))
		if len(out) == 1 {
			total, seed = out[i], w
			break
		}
		if y := out[i].Mul(w).Sum(); total == nil {
			total = y
		} else {
			total = total.Add(y)
		}
	}
	if total == nil { // as far as the tape can see, no output depends on an input
		return make([]*tensor.Tensor, len(watched))
	}
	opts := []autograd.Option{autograd.AllowUnused()}
	if seed != nil {
		opts = append(opts, autograd.GradOutput(seed))
	}
	return autograd.Grad(total, watched, opts...)
}

// compare holds a tensor against an array, element by element; integers and bools must be equal.
func compare(t *testing.T, f *golden.File, c *golden.Case, part, name string, got *tensor.Tensor, dt tensor.DType,
	tol tolerance) {
	t.Helper()
	a := f.Array(name)
	dtype := a.DType
	if dtype == "float64" {
		dtype = dt.String()
	}
	if got.DType().String() != dtype || !slices.Equal(got.Shape(), a.Shape) {
		t.Errorf("%v, %s: got %v, want %s%v", dt, part, got, dtype, a.Shape)
		return
	}
	if v, ok := a.Data.([]int64); ok {
		if w := tensor.ToSlice[int64](got); !slices.Equal(v, w) {
			t.Errorf("%s: got %v, want %v", part, w, v)
		}
		return
	}
	l := looser[c.Name]
	tol = tolerance{max(tol.abs, l.abs), max(tol.rel, l.rel)}
	want, _ := f.Values(name)
	torch := slices.Clone(want)
	for _, o := range conventions {
		if o.cases != c.Name || o.part != part {
			continue
		}
		for k, i := range o.at {
			if want[i] = o.want[min(k, len(o.want)-1)]; tol.accepts(want[i], torch[i]) {
				t.Errorf("%s, element %d: PyTorch has Weft's value %v, too: the exception is stale", part, i, want[i])
			}
		}
	}
	for i, v := range tensor.ToSlice[float64](got) {
		if !tol.accepts(v, want[i]) {
			t.Errorf("%v, %s, element %d: got %.17g, want %.17g; PyTorch has %.17g (inputs %s)", dt, part, i, v,
				want[i], torch[i], inputs(f, c, i))
		}
	}
}

// inputs shows element i of every input, where the inputs have it.
func inputs(f *golden.File, c *golden.Case, i int) string {
	var all []string
	for _, name := range c.Inputs {
		if v, _ := f.Values(name); i < len(v) {
			all = append(all, fmt.Sprint(v[i]))
		}
	}
	return strings.Join(all, ", ")
}

// accepts tells whether two numbers agree: NaN with NaN, infinities with themselves.
func (tol tolerance) accepts(got, want float64) bool {
	switch {
	case got != got || want != want:
		return got != got && want != want
	case got == want:
		return true
	}
	return math.Abs(got-want) <= tol.abs+tol.rel*math.Abs(want)
}

// measure notes the largest error in units in the last place of float32.
func (r *report) measure(f *golden.File, c *golden.Case, exact string, y *tensor.Tensor) {
	want, _ := f.Values(exact)
	if g := exactly[c.Op]; g != nil {
		x, _ := f.Values(c.Inputs[0])
		for i := range want {
			want[i] = g(c, x[i])
		}
	}
	worst := r.worst[c.Op]
	for i, got := range tensor.ToSlice[float64](y) {
		nearest := float64(float32(want[i]))
		if math.IsInf(nearest, 0) || nearest != nearest { // compare has judged these
			continue
		}
		worst = max(worst, math.Abs(got-want[i])/ulp(max(math.Abs(want[i]), accuracies[c.Op].terms)))
	}
	r.worst[c.Op] = worst
}

// ulp is the distance of float32 numbers near v.
func ulp(v float64) float64 {
	_, e := math.Frexp(v) // |v| is in [2^(e-1), 2^e)
	return math.Ldexp(1, max(e-24, -149))
}
