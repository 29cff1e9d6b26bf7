package onnx

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

type t = tensor.Tensor

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"Abs": unary((*t).Abs), "Acos": unary((*t).Acos), "Acosh": unary((*t).Acosh), "Asin": unary((*t).Asin),
		"Asinh": unary((*t).Asinh), "Atan": unary((*t).Atan), "Atanh": unary((*t).Atanh), "Ceil": unary((*t).Ceil),
		"Cos": unary((*t).Cos), "Cosh": unary((*t).Cosh), "Erf": unary((*t).Erf), "Exp": unary((*t).Exp),
		"Floor": unary((*t).Floor), "HardSwish": unary((*t).Hardswish), "Identity": unary(identity),
		"IsNaN": unary((*t).IsNaN), "Log": unary((*t).Log), "Neg": unary((*t).Neg), "Not": unary((*t).Not),
		"Reciprocal": unary((*t).Reciprocal), "Relu": unary((*t).ReLU), "Round": unary((*t).Round),
		"Sigmoid": unary((*t).Sigmoid), "Sign": unary((*t).Sign), "Sin": unary((*t).Sin), "Sinh": unary((*t).Sinh),
		"Softplus": unary((*t).Softplus), "Softsign": unary((*t).Softsign), "Sqrt": unary((*t).Sqrt),
		"Tan": unary((*t).Tan), "Tanh": unary((*t).Tanh),

		"Add": pair((*t).Add), "And": pair((*t).And), "Div": pair(div), "Equal": pair((*t).Equal),
		"Greater": pair((*t).Greater), "GreaterOrEqual": pair((*t).GreaterEqual), "Less": pair((*t).Less),
		"LessOrEqual": pair((*t).LessEqual), "MatMul": pair((*t).MatMul), "Mul": pair((*t).Mul),
		"Or": pair((*t).Or), "Pow": pair(pow), "Sub": pair((*t).Sub), "Xor": pair((*t).Xor),
		"Max": fold((*t).Maximum), "Min": fold((*t).Minimum), "Sum": fold((*t).Add),
		"Mean":  one(func(c *call) *t { return fold((*t).Add)(c)[0].Scale(1 / float64(len(c.in))) }),
		"Where": one(func(c *call) *t { return c.in[0].Where(c.in[1], c.in[2]) }),
		"Mod": one(func(c *call) *t {
			if c.int("fmod", 0) == 1 {
				return c.in[0].Fmod(c.in[1])
			}
			return c.in[0].Mod(c.in[1])
		}),
		"BitShift": one(func(c *call) *t {
			if c.text("direction", "") == "RIGHT" {
				return c.in[0].ShiftRight(c.in[1])
			}
			return c.in[0].ShiftLeft(c.in[1])
		}),
		"PRelu": one(func(c *call) *t { return c.in[0].LessScalar(0).Where(c.in[0].Mul(c.in[1]), c.in[0]) }),

		"Cast":     one(func(c *call) *t { return c.in[0].To(c.dtype("to", tensor.Float32)) }),
		"CastLike": one(func(c *call) *t { return c.in[0].To(c.in[1].DType()) }),

		"Celu":        one(func(c *call) *t { return c.in[0].CELU(c.float("alpha", 1)) }),
		"Elu":         one(func(c *call) *t { return c.in[0].ELU(c.float("alpha", 1)) }),
		"LeakyRelu":   one(func(c *call) *t { return c.in[0].LeakyReLU(c.float("alpha", 0.01)) }),
		"HardSigmoid": one(hardSigmoid), "Selu": one(selu), "Shrink": one(shrink), "Clip": one(clip),
		"IsInf": one(isInf), "ThresholdedRelu": one(func(c *call) *t {
			return c.in[0].GreaterScalar(c.float("alpha", 1)).Where(c.in[0], c.zero())
		}),

		"HannWindow":     one(func(c *call) *t { return c.window(0.5, 0.5, 0) }),
		"HammingWindow":  one(func(c *call) *t { return c.window(25.0/46, 21.0/46, 0) }),
		"BlackmanWindow": one(func(c *call) *t { return c.window(0.42, 0.5, 0.08) }),
	})
}

func identity(x *t) *t { return x }

// zero is 0 in the type of the first operand.
func (c *call) zero() *t { return c.scope.Full(0, c.in[0].DType()) }

// div rounds quotients of integers to 0.
func div(x, y *t) *t {
	if x.DType().IsFloat() {
		return x.Div(y)
	}
	return x.Sub(x.Fmod(y)).FloorDiv(y)
}

// pow has the type of its base.
func pow(x, y *t) *t {
	if x.DType().IsFloat() || !y.DType().IsFloat() {
		return x.Pow(y.To(x.DType())).To(x.DType())
	}
	return x.To(y.DType()).Pow(y).To(x.DType())
}

func hardSigmoid(c *call) *t {
	return c.in[0].Scale(c.float("alpha", 0.2)).AddScalar(c.float("beta", 0.5)).Clamp(0, 1)
}

func selu(c *call) *t {
	alpha, gamma := c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875)
	return c.in[0].ELU(alpha).Scale(gamma)
}

func shrink(c *call) *t {
	x, bias, λ := c.in[0], c.float("bias", 0), c.float("lambd", 0.5)
	y := x.GreaterScalar(λ).Where(x.AddScalar(-bias), c.zero())
	return x.LessScalar(-λ).Where(x.AddScalar(bias), y)
}

func clip(c *call) *t {
	x := c.in[0]
	if lo := c.operand(1); lo != nil {
		x = x.Maximum(lo)
	}
	if hi := c.operand(2); hi != nil {
		x = x.Minimum(hi)
	}
	return x
}

func isInf(c *call) *t {
	x := c.in[0]
	switch {
	case c.int("detect_negative", 1) == 0:
		return x.EqualScalar(math.Inf(1))
	case c.int("detect_positive", 1) == 0:
		return x.EqualScalar(math.Inf(-1))
	}
	return x.IsInf()
}

// window is a - b cos(2πk/n) + d cos(4πk/n) for k < n, where n is one less unless the window is periodic.
func (c *call) window(a, b, d float64) *t {
	size := c.host(0)[0]
	n := size
	if c.int("periodic", 1) == 0 {
		n--
	}
	k := c.scope.In(tensor.Arange(tensor.Float32, 0, float64(size), 1)).Scale(2 * math.Pi / float64(n))
	return k.Cos().Scale(-b).AddScalar(a).Add(k.Scale(2).Cos().Scale(d))
}
