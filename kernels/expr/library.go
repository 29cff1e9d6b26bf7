package expr

import (
	"slices"
	"sync"
)

// MaxStreams is the number of random streams that an expression may use.
const MaxStreams = 256

// A Macro is a function of the library: a name for an expression.
type Macro struct {
	Name   string
	Params []string
	Body   string
	Doc    string
}

// library holds the functions that are not instructions. A function may use those above it.
//
// Two rules keep derivatives right. Where a branch is chosen, the operand of the other one is held at a harmless value
// first, since its derivative is multiplied by 0 and must be finite. And a NaN must reach the result, so conditions
// are written such that a NaN chooses the branch that has it.
var library = []Macro{
	{"ne", []string{"a", "b"}, "a != b", "1 where a differs from b, else 0"},
	{"gt", []string{"a", "b"}, "a > b", "1 where a is greater than b, else 0"},
	{"ge", []string{"a", "b"}, "a >= b", "1 where a is at least b, else 0"},
	{"not", []string{"a"}, "!a", "1 where a is 0, else 0"},
	{"and", []string{"a", "b"}, "a && b", "1 where neither is 0, else 0"},
	{"or", []string{"a", "b"}, "a || b", "1 where one is not 0, else 0"},
	{"xor", []string{"a", "b"}, "(a != 0) != (b != 0)", "1 where one of the two is not 0, else 0"},
	{"isnan", []string{"x"}, "x != x", "1 for NaN, else 0"},
	{"isfinite", []string{"x"}, "x - x == 0", "1 for numbers, 0 for infinities and NaN"},
	{"isinf", []string{"x"}, "x == x && x - x != 0", "1 for infinities, else 0"},

	{"sign", []string{"x"}, "(0 < x) - (x < 0)", "-1, 0 or 1; 0 for NaN"},
	{"square", []string{"x"}, "x*x", "x squared"},
	{"reciprocal", []string{"x"}, "1/x", "one over x"},
	{"frac", []string{"x"}, "x - trunc(x)", "the part after the point, with the sign of x"},
	// Of the two forms one is exact at 0, the other at 1.
	{"lerp", []string{"a", "b", "t"}, "d = b - a; where(abs(t) < 0.5, a + t*d, b - d*(1 - t))",
		"from a at t = 0 to b at t = 1"},
	// Powers of two keep the squares away from overflow and underflow. In float32, 2^±500 is infinite or 0 and never
	// taken.
	{"hypot", []string{"a", "b"}, `
		m = max(abs(a), abs(b))
		s = where(0x1p500 < m, 0x1p-600, where(0x1p40 < m, 0x1p-70, 1))
		d = where(m < 0x1p-500, 0x1p600, where(m < 0x1p-40, 0x1p80, s))
		p = a*d
		q = b*d
		sqrt(p*p + q*q)/d`, "length of the vector (a, b)"},
	// Less its remainder, a is a multiple of b, so the quotient is next to an integer. All is inside of round, which
	// has no derivative.
	{"floordiv", []string{"a", "b"}, `
		r = fmod(a, b)
		q = round((a - r)/b)
		f = where(r != 0 && (r < 0) != (b < 0), q - 1, q)
		round(where(b == 0, a/b, where(f == 0, 0*(a/b), f)))`, "the quotient rounded down"},
	{"mod", []string{"a", "b"}, "r = fmod(a, b); where(r != 0 && (r < 0) != (b < 0), r + b, r)",
		"remainder of floordiv, with the sign of b"},

	{"clamp", []string{"x", "lo", "hi"}, "y = where(x < lo, lo, x); where(hi < y, hi, y)",
		"x held between lo and hi; derivative 1 at both"},
	{"clamp_min", []string{"x", "lo"}, "where(x < lo, lo, x)", "at least lo; derivative 1 there"},
	{"clamp_max", []string{"x", "hi"}, "where(hi < x, hi, x)", "at most hi; derivative 1 there"},

	{"relu", []string{"x"}, "where(x <= 0, 0, x)", "x where positive, else 0; derivative 0 at 0"},
	{"relu6", []string{"x"}, "where(x <= 0, 0, where(6 <= x, 6, x))", "relu up to 6"},
	{"leaky_relu", []string{"x", "slope"}, "where(0 < x, x, slope*x)", "x where positive, else slope*x"},
	{"hardtanh", []string{"x"}, "where(x <= -1, -1, where(1 <= x, 1, x))", "x between -1 and 1"},
	{"hardsigmoid", []string{"x"}, "relu6(x + 3)/6", "the line through (-3, 0) and (3, 1), held between 0 and 1"},
	{"hardswish", []string{"x"}, "x*hardsigmoid(x)", "x times hardsigmoid"},
	{"hardshrink", []string{"x", "bound"}, "where(bound < abs(x) || x != x, x, 0)", "0 within the bound"},
	{"softshrink", []string{"x", "bound"}, "where(abs(x) <= bound, 0, x - bound*sign(x))",
		"x moved towards 0 by the bound"},
	{"tanhshrink", []string{"x"}, "x - tanh(x)", "x less its tanh"},

	{"elu", []string{"x", "alpha"}, "where(0 < x, x, alpha*expm1(where(0 < x, 0, x)))",
		"x where positive, else alpha*(e^x - 1)"},
	{"celu", []string{"x", "alpha"}, "where(0 < x, x, alpha*expm1(where(0 < x, 0, x)/alpha))",
		"elu with a continuous derivative"},
	{"selu", []string{"x"}, "1.0507009873554805*elu(x, 1.6732632423543772)",
		"the self-normalising elu (Klambauer et al. 2017)"},

	// From 40 on, log(1 + e^x) is x in float64, too.
	{"softplus", []string{"x"}, "where(40 < x, x, log1p(exp(where(40 < x, 0, x))))", "log(1 + e^x)"},
	{"logsigmoid", []string{"x"}, "-softplus(-x)", "log(sigmoid(x))"},
	{"logit", []string{"x"}, "log(x/(1 - x))", "inverse of sigmoid"},
	{"softsign", []string{"x"}, "x/(1 + abs(x))", "x over 1 + |x|"},
	{"silu", []string{"x"}, "x*sigmoid(x)", "x times sigmoid, the swish"},
	// tanh(log(1+e)) = n/(n+2) with n = e(e+2), and 1 in float64 from x = 20 on.
	{"mish", []string{"x"}, "e = exp(where(20 < x, 20, x)); n = e*(e + 2); x*(n/(n + 2))",
		"x times tanh(softplus(x)) (Misra 2019)"},
	{"gelu", []string{"x"}, "x*normcdf(x)", "x times the normal distribution function (Hendrycks and Gimpel 2016)"},
	// 0.5 x (1 + tanh u) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3).
	{"gelu_tanh", []string{"x"}, "x*sigmoid(2*sqrt(2/pi)*x*fma(0.044715, x*x, 1))", "gelu by its tanh approximation"},

	{"xlogy", []string{"x", "y"}, "where(x == 0 && y == y, 0, x*log(y))", "x*log(y), and 0 for x = 0"},
	{"logaddexp", []string{"a", "b"}, "max(a, b) + log1p(exp(where(a == b, 0, -abs(a - b))))",
		"log(e^a + e^b), for equal infinities, too"},
	{"softplus_beta", []string{"x", "beta", "threshold"}, "v = beta*x; where(threshold < v, x, softplus(v)/beta)",
		"log(1 + e^(beta*x))/beta, and x where beta*x is above the threshold"},
	// Where both are NaN, x is; as in PyTorch a tie has the gradient of x.
	{"fmax", []string{"x", "y"}, "where(x >= y || y != y, x, y)", "the larger one, or the one that is not NaN"},
	{"fmin", []string{"x", "y"}, "where(x <= y || y != y, x, y)", "the smaller one, or the one that is not NaN"},
	{"signbit", []string{"x"}, "x < 0 || 1/x < 0", "1 for negative numbers and -0, else 0"},
	{"copysign", []string{"x", "y"}, "where(signbit(y), -abs(x), abs(x))", "|x| with the sign of y"},
	{"sinc", []string{"x"}, "u = pi*where(x == 0, 1, x); where(x == 0, 1, sin(u)/u)",
		"sin(pi*x)/(pi*x), and 1 for x = 0"},
	{"erfinv", []string{"y"}, erfinv, "inverse of erf"},
	{"digamma", []string{"x"}, digamma, "derivative of lgamma"},
	{"lgamma", []string{"x"}, lgamma, "log|gamma(x)|"},
	{"bce", []string{"p", "y"}, "-(y*max(log(p), -100) + (1-y)*max(log1p(-p), -100))",
		"binary cross-entropy of probability p and target y, logarithms held above -100"},
	// The angle is atan of the smaller over the larger length, mirrored where y is longer and where x is negative; -0
	// is negative. Two infinite lengths are equal.
	{"atan2", []string{"y", "x"}, `
		below = y < 0 || 1/y < 0
		left = x < 0 || 1/x < 0
		v = where(below, -y, y)
		u = where(left, -x, x)
		steep = u < v
		long = where(steep, v, u)
		short = where(steep, u, v)
		both = u == inf && v == inf
		a = atan(where(both, 1, short)/where(long == 0 || both, 1, long))
		b = where(steep, pi/2 - a, a)
		c = where(left, pi - b, b)
		where(below, -c, c)`, "angle of the point (x, y), from -pi to pi"},
}

// Library lists the functions that are made of instructions.
func Library() []Macro { return slices.Clone(library) }

func macro(name string) *Macro {
	if i := slices.IndexFunc(library, func(m Macro) bool { return m.Name == name }); i >= 0 {
		return &library[i]
	}
	return nil
}

// expand is the body of a function of the library applied to nodes.
func expand(name string, xs []*Node) *Node {
	m := macro(name)
	p := newParser(m.Body)
	for i, param := range m.Params {
		p.bind(0, param, xs[i])
	}
	return p.program()[0]
}

// namesOfOperands are the names of the operands of an instruction or a function of the library.
func namesOfOperands(name string) (names []string, ok bool) {
	if op, ok := lookup(name); ok {
		return []string{"a", "b", "c"}[:op.Arity()], true
	}
	if m := macro(name); m != nil {
		return m.Params, true
	}
	return nil, false
}

var functionNames = sync.OnceValue(func() []string {
	names := []string{"rand"}
	for _, op := range Instructions() {
		names = append(names, op.String())
	}
	for _, m := range library {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
})
