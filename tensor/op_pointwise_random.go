package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// Random numbers of a step, from its stream: operations without operands.
var uniformOp, randnOp, randIntOp Op

func init() {
	// Two numbers of 24 bits make one of 48, of which float32 holds 24 again: those near 0 are as fine as others. Where
	// the sum rounds up to hi, it is lo.
	drawing(&uniformOp, "uniform", "lo + (hi - lo)*u, u uniform in [0, 1)", Float32,
		"v = lo + (hi - lo)*(rand(0) + rand(1)*5.9604644775390625e-08); where(v < hi, v, lo)", "lo", "hi")
	// Box and Muller (1958), one coordinate of the point; 1 - rand(0) is in (0, 1], so no number is beyond 5.8.
	drawing(&randnOp, "randn", "standard normal numbers", Float32,
		"sqrt(-2*log(1 - rand(0)))*cos(2*pi*rand(1))")
	// Float64 holds all 48 bits.
	drawing(&randIntOp, "rand_int", "lo + floor((hi - lo)*u), u uniform in [0, 1)", Float64,
		"lo + floor((hi - lo)*(rand(0) + rand(1)*5.9604644775390625e-08))", "lo", "hi")
}

// drawing defines an operation that draws two random numbers for each element; its attributes are the shape.
func drawing(o *Op, name, doc string, dt DType, src string, params ...string) {
	define(o, entry{
		Op:     kernels.Op{Name: name, Expr: expr.Must(src, nil, params)},
		Doc:    doc,
		Args:   []string{},
		Ints:   []string{"shape..."},
		Floats: params,
		NoGrad: "there is no tensor operand",
		Shape:  func(c *ctx) { c.result(dt, c.Ints...) },
		draws:  2,
	})
}

// Uniform is a float32 tensor of the step, drawn uniformly from [lo, hi) of float32 numbers, and lo if both are equal.
// Like all random numbers of a step it comes from the step's stream: the n-th step of a device with the same seed draws
// the same. [Uniform] makes host data.
func (s *Scope) Uniform(lo, hi float64, shape ...int) *Tensor {
	s.given("uniform")
	wantRange(lo, hi)
	return s.apply(&uniformOp, nil, shape, []float64{lo, hi})
}

// Randn is a float32 tensor of the step, drawn from the standard normal distribution.
func (s *Scope) Randn(shape ...int) *Tensor { return s.given("randn").apply(&randnOp, nil, shape, nil) }

// RandInt is an int64 tensor of the step, drawn uniformly from the integers lo to hi-1. There are at most 2^32 of them,
// between -2^53 and 2^53, and the probabilities of n differ by at most n/2^48 of theirs.
func (s *Scope) RandInt(lo, hi int, shape ...int) *Tensor {
	s.given("rand_int")
	const most, bound = 1 << 32, 1 << 53
	if l, h := int64(lo), int64(hi); l < -bound || h > bound || l >= h || h-l > most {
		fail(ErrValue, "rand_int", "[%d, %d) must have an integer, at most 2^32 of them, and lie in [-2^53, 2^53]",
			lo, hi)
	}
	return s.apply(&randIntOp, nil, shape, []float64{float64(lo), float64(hi)}).To(Int64)
}

// Bernoulli is a bool tensor of the step, each element true with probability p, rounded to float32. Probabilities in a
// tensor are for s.Uniform(0, 1, p.Shape()...).Less(p).
func (s *Scope) Bernoulli(p float64, shape ...int) *Tensor {
	s.given("bernoulli")
	if !(p >= 0 && p <= 1) {
		fail(ErrValue, "bernoulli", "the probability %v is outside [0, 1]", p)
	}
	return s.Uniform(0, 1, shape...).LessScalar(p)
}
