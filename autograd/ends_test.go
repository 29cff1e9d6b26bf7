package autograd_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels/expr/double"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// largest are the largest numbers of the floating types.
var largest = map[tensor.DType]float64{
	tensor.Float64: math.MaxFloat64, tensor.Float32: math.MaxFloat32, tensor.Float16: 65504,
	tensor.BFloat16: 0x1.fep127,
}

// units are a few units in the last place of 1.
var units = map[tensor.DType]float64{
	tensor.Float64: 0x1p-50, tensor.Float32: 0x1p-21, tensor.Float16: 0x1p-8, tensor.BFloat16: 0x1p-5,
}

// ends are operands at the ends of functions' ranges, as far as a type has them.
func ends(dt tensor.DType) (xs []float64) {
	for _, x := range []float64{0, 5e-324, 1e-45, 6e-8, 1e-38, 1e-30, 1e-12, 1e-3, 0.5, 1, 1.5, 3, 6, 10.5, 17, 20, 38,
		88.5, 90, 104, 709, 746, 1e4, 65504, 1e10, 1e18, 1e30, 3e38, 1e100, 1e300, math.MaxFloat64} {
		if x <= largest[dt] {
			xs = append(xs, x, -x)
		}
	}
	return xs
}

func step(x float64) float64 { // 1 for positive numbers, else 0
	if x > 0 {
		return 1
	}
	return 0
}

// within is 1 between low and high, else 0.
func within(x, low, high float64) float64 { return step(x-low) * step(high-x) }

func tanhSlope(x float64) float64 { t := double.Tanh(x); return 1 - t*t }

// eluSlope is the slope of elu with a scale of the operand.
func eluSlope(x, alpha, scale float64) float64 {
	if x > 0 {
		return 1
	}
	return alpha * scale * double.Exp(x*scale)
}

// timesTail is x*y, and 0 where y is 0.
func timesTail(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x * y
}

// slopes are the activations with their derivatives, in float64.
var slopes = []struct {
	name string
	f    func(x *tensor.Tensor) *tensor.Tensor
	d    func(x float64) float64
}{
	{"sigmoid", (*tensor.Tensor).Sigmoid, func(x float64) float64 { return double.Sigmoid(x) * double.Sigmoid(-x) }},
	{"log_sigmoid", (*tensor.Tensor).LogSigmoid, func(x float64) float64 { return double.Sigmoid(-x) }},
	{"softplus", (*tensor.Tensor).Softplus, double.Sigmoid},
	{"relu", (*tensor.Tensor).ReLU, step},
	{"leaky_relu", func(x *tensor.Tensor) *tensor.Tensor { return x.LeakyReLU(0.5) }, func(x float64) float64 {
		return 0.5 + 0.5*step(x)
	}},
	{"relu6", (*tensor.Tensor).ReLU6, func(x float64) float64 { return within(x, 0, 6) }},
	{"hardtanh", (*tensor.Tensor).Hardtanh, func(x float64) float64 { return within(x, -1, 1) }},
	{"hardsigmoid", (*tensor.Tensor).Hardsigmoid, func(x float64) float64 { return within(x, -3, 3) / 6 }},
	{"elu", func(x *tensor.Tensor) *tensor.Tensor { return x.ELU(1.5) }, func(x float64) float64 {
		return eluSlope(x, 1.5, 1)
	}},
	{"celu", func(x *tensor.Tensor) *tensor.Tensor { return x.CELU(2) }, func(x float64) float64 {
		return eluSlope(x, 2, 0.5)
	}},
	{"selu", (*tensor.Tensor).SELU, func(x float64) float64 {
		return 1.0507009873554805 * eluSlope(x, 1.6732632423543772, 1)
	}},
	{"tanh", (*tensor.Tensor).Tanh, tanhSlope},
	{"softsign", (*tensor.Tensor).Softsign, func(x float64) float64 {
		return 1 / (1 + math.Abs(x)) / (1 + math.Abs(x))
	}},
	{"gelu", (*tensor.Tensor).GELU, func(x float64) float64 {
		return double.NormCDF(x) + timesTail(x, double.NormPDF(x))
	}},
	{"gelu_tanh", (*tensor.Tensor).GELUTanh, func(x float64) float64 {
		if math.Abs(x) > 1e18 { // the square overflows: NaN, in PyTorch, too
			return math.NaN()
		}
		const c = 0.7978845608028654 // sqrt(2/pi)
		u := 2 * c * x * (1 + 0.044715*x*x)
		s := double.Sigmoid(u)
		return s + timesTail(2*c*x*(1+3*0.044715*x*x), s*double.Sigmoid(-u))
	}},
	{"silu", (*tensor.Tensor).SiLU, func(x float64) float64 {
		s := double.Sigmoid(x)
		return s + timesTail(x, s*double.Sigmoid(-x))
	}},
	{"mish", (*tensor.Tensor).Mish, func(x float64) float64 {
		y := double.Log1p(double.Exp(x))
		return double.Tanh(min(max(x, y), y+40)) + timesTail(x, tanhSlope(y)*double.Sigmoid(x))
	}},
	{"hardswish", (*tensor.Tensor).Hardswish, func(x float64) float64 {
		if within(x, -3, 3) == 0 {
			return step(x)
		}
		return (2*x + 3) / 6
	}},
}

// ended is the gradient of y = f(x) for gradient g, in type dt, element by element.
func ended(t *testing.T, dt tensor.DType, x, g []float64, f func(x *tensor.Tensor) *tensor.Tensor) (y, dx []float64) {
	t.Helper()
	err := open(t).Step(func(s *tensor.Scope) error {
		in := autograd.Watch(s, s.In(tensor.FromSlice(x, len(x)).To(dt)))
		out := f(in)
		var how []autograd.Option
		if g != nil {
			how = append(how, autograd.GradOutput(s.In(tensor.FromSlice(g, len(g)).To(dt))))
		}
		y = tensor.ToSlice[float64](out.To(tensor.Float64))
		dx = tensor.ToSlice[float64](autograd.Grad(out, []*tensor.Tensor{in}, how...)[0].To(tensor.Float64))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return y, dx
}

// rounded are the values of xs in type dt.
func rounded(xs []float64, dt tensor.DType) []float64 {
	return tensor.ToSlice[float64](tensor.FromSlice(xs, len(xs)).To(dt).To(tensor.Float64))
}

// reaches tells whether got is want as far as the type has it: within 1 % of it and the given slack for numbers that
// are neither subnormal nor too large.
func reaches(dt tensor.DType, got, want, slack float64) bool {
	tiny := map[tensor.DType]float64{tensor.Float16: 1e-4, tensor.Float64: 1e-300}[dt]
	if tiny == 0 {
		tiny = 1e-36
	}
	return got == got && (math.Abs(want) > 0.99*largest[dt] || math.Abs(got-want) <= 0.01*math.Abs(want)+tiny+slack)
}

// tails are activations whose slopes are accurate however small they are.
var tails = []string{"elu", "celu", "selu", "softplus", "relu", "leaky_relu", "hardtanh", "relu6"}

// At the ends of their ranges activations and their gradients have the values of mathematics, in every type, and no NaN
// anywhere: a gradient times an operand may overflow, but not to NaN.
func TestActivationsAtTheirEnds(t *testing.T) {
	cases := 0
	for dt, most := range largest {
		product := most // of numbers as they are computed
		if dt.IsHalf() {
			product = math.MaxFloat32
		}
		for _, s := range slopes {
			for _, g := range []float64{1, -1, 1e-6, 100, 65504, 1e20, 1e30, most / 2} {
				if g > most {
					continue
				}
				x := rounded(ends(dt), dt)
				seed := make([]float64, len(x))
				for i := range seed {
					seed[i] = g
				}
				seed = rounded(seed, dt)
				y, dx := ended(t, dt, x, seed, s.f)
				for i, x := range x {
					d := s.d(x)
					if d != d {
						continue
					}
					cases++
					want, slack := seed[i]*d, math.Abs(seed[i])*units[dt]
					if slices.Contains(tails, s.name) {
						slack = math.Abs(seed[i]) * 0x1p-125 // where the exponential is subnormal
					}
					overflows := math.Abs(seed[i])*math.Abs(x)/2 > product/4
					if y[i] != y[i] || dx[i] != dx[i] || !overflows && !reaches(dt, dx[i], want, slack) {
						t.Errorf("%v %s at %g, gradient %g: value %g, gradient %g, want %g", dt, s.name, x,
							seed[i], y[i], dx[i], want)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// plain is a loss without options.
func plain(
	f func(x, y *tensor.Tensor, _ ...nn.LossOption) *tensor.Tensor,
) func(x, y *tensor.Tensor) *tensor.Tensor {
	return func(x, y *tensor.Tensor) *tensor.Tensor { return f(x, y) }
}

// A loss with the gradient of one element, in float64, for the sum over the elements.
var lossSlopes = []struct {
	name string
	f    func(x, y *tensor.Tensor) *tensor.Tensor
	d    func(x, y float64) float64
	x, y []float64
}{
	{"bce", plain(nn.BCE), func(p, y float64) float64 { return (p - y) / max(p*(1-p), 1e-12) },
		[]float64{0, 1e-45, 1e-30, 1e-7, 1e-3, 0.5, 1 - 0x1p-11, 1 - 0x1p-8, 1}, []float64{0, 0.25, 1}},
	{"bce_with_logits", plain(nn.BCEWithLogits), func(x, y float64) float64 { return double.Sigmoid(x) - y }, nil,
		[]float64{0, 0.25, 1}},
	{"mse", plain(nn.MSE), func(x, y float64) float64 { return 2 * (x - y) }, nil, []float64{0, 1, -1e4}},
	{"l1", plain(nn.L1), func(x, y float64) float64 { return step(x-y) - step(y-x) }, nil, []float64{0, 1, -1e4}},
	{"huber", func(x, y *tensor.Tensor) *tensor.Tensor { return nn.Huber(x, y, 1) }, func(x, y float64) float64 {
		return max(-1, min(x-y, 1))
	}, nil, []float64{0, 1, -1e4}},
	{"kl_div", plain(nn.KLDiv), func(_, p float64) float64 { return -p }, nil, []float64{0, 0.5, 1}},
	{"kl_div in p", func(p, q *tensor.Tensor) *tensor.Tensor { return nn.KLDiv(q, p) }, func(p, q float64) float64 {
		if p == 0 {
			return -q
		}
		return double.Log(p) + 1 - q
	}, []float64{0, 6e-8, 1e-3, 0.5, 1}, []float64{0, -1, -1e4}},
	{"xlogy", func(x, y *tensor.Tensor) *tensor.Tensor { return x.XLogY(y).Sum() }, func(x, y float64) float64 {
		if x == 0 && y == 0 {
			return 0
		}
		return double.Log(y)
	}, nil, []float64{0, 6e-8, 0.5, 1, 2, 1e4}},
	{"xlogy in y", func(y, x *tensor.Tensor) *tensor.Tensor { return x.XLogY(y).Sum() }, func(y, x float64) float64 {
		if x == 0 {
			return 0
		}
		return x / y
	}, []float64{0, 1e-45, 6e-8, 0.5, 1, 2, 65504}, []float64{0, 0.5, 1, 2}},
	{"logit", func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Logit().Sum() }, func(x, _ float64) float64 {
		return 1 / (x * (1 - x))
	}, []float64{0, 1e-45, 1e-7, 0.5, 1 - 0x1p-8, 1}, []float64{0}},
	{"cross_entropy", func(x, _ *tensor.Tensor) *tensor.Tensor {
		return nn.CrossEntropy(x.Reshape(1, 1), tensor.FromSlice([]int64{0}, 1))
	}, func(_, _ float64) float64 { return 0 }, nil, []float64{0}},
	{"cross_entropy beside 0", func(x, _ *tensor.Tensor) *tensor.Tensor {
		logits := tensor.Stack(0, x.Reshape(), x.Reshape().Scale(0)).Reshape(1, 2)
		return nn.CrossEntropy(logits, tensor.FromSlice([]int64{0}, 1))
	}, func(x, _ float64) float64 { return -double.Sigmoid(-x) }, nil, []float64{0}},
}

// The losses likewise, one element at a time.
func TestLossesAtTheirEnds(t *testing.T) {
	cases := 0
	for dt := range largest {
		for _, l := range lossSlopes {
			xs := l.x
			if xs == nil {
				xs = ends(dt)
			}
			for _, x := range rounded(xs, dt) {
				for _, y := range rounded(l.y, dt) {
					want := l.d(x, y)
					if want != want {
						continue
					}
					cases++
					v, dx := ended(t, dt, []float64{x}, nil, func(x *tensor.Tensor) *tensor.Tensor {
						return l.f(x, tensor.FromSlice([]float64{y}, 1).To(dt))
					})
					if v[0] != v[0] || !reaches(dt, dx[0], want, units[dt]) {
						t.Errorf("%v %s at %g, %g: value %g, gradient %g, want %g", dt, l.name, x, y, v[0], dx[0], want)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}
