package expr

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// domain is where an instruction or a function of the library is smooth, for each operand in turn.
var domain = map[string][]float64{ // pairs low, high
	"div": {-2, 2, 0.5, 2}, "abs": {0.1, 2}, "min": {-2, 0.4, 0.5, 2}, "max": {-2, 0.4, 0.5, 2},
	"log": {0.2, 3}, "log2": {0.2, 3}, "log10": {0.2, 3}, "log1p": {-0.8, 3}, "pow": {0.2, 3, -2, 2},
	"sqrt": {0.2, 3}, "rsqrt": {0.2, 3}, "tan": {-1.3, 1.3}, "asin": {-0.9, 0.9}, "acos": {-0.9, 0.9},
	"acosh": {1.2, 4}, "atanh": {-0.9, 0.9}, "floor": {0.1, 0.9}, "ceil": {0.1, 0.9}, "round": {0.6, 1.4},
	"trunc": {0.1, 0.9}, "bitand": {5.1, 5.9, 3.1, 3.9}, "bitor": {5.1, 5.9, 3.1, 3.9}, "bitxor": {5.1, 5.9, 3.1, 3.9},
	"shl": {5.1, 5.9, 3.1, 3.9}, "shr": {5.1, 5.9, 1.1, 1.9},
	"lt": {0, 1, 2, 3}, "le": {0, 1, 2, 3}, "eq": {0, 1, 2, 3}, "where": {1, 2, -2, 2, -2, 2},
	"ne": {0, 1, 2, 3}, "gt": {0, 1, 2, 3}, "ge": {0, 1, 2, 3}, "not": {1, 2}, "and": {1, 2, 1, 2}, "or": {1, 2, 1, 2},
	"xor":  {1, 2, 1, 2},
	"sign": {0.1, 1}, "reciprocal": {0.5, 2}, "frac": {0.1, 0.9}, "hypot": {0.5, 2, 0.5, 2},
	"floordiv": {2.1, 2.9, 0.9, 1},
	"mod":      {2.1, 2.9, 0.9, 1}, "fmod": {-2.9, -2.1, 0.9, 1}, "clamp": {-3, 3, -1, -0.9, 0.9, 1},
	"clamp_min": {0.5, 2, -1, 0}, "clamp_max": {0.5, 2, 3, 4},
	"leaky_relu": {-2, -0.1, 0.1, 0.3}, "relu": {0.1, 2}, "relu6": {0.1, 5.9}, "hardtanh": {-0.9, 0.9},
	"hardsigmoid": {-2.9, 2.9}, "hardswish": {-2.9, 2.9},
	"hardshrink": {0.6, 2, 0.1, 0.5}, "softshrink": {0.6, 2, 0.1, 0.5}, "elu": {-3, -0.1, 0.5, 2},
	"celu": {-3, -0.1, 0.5, 2}, "selu": {-3, -0.1},
	"softsign": {0.1, 3}, "logit": {0.1, 0.9}, "xlogy": {0.2, 2, 0.2, 2}, "logaddexp": {-1, 0, 0.5, 2},
	"atan2": {-2, -0.1, -3, -2.1}, "bce": {0.1, 0.9, 0, 1},
	"softplus_beta": {-2, 2, 0.5, 2, 8, 9}, "fmax": {-2, 2, -2, 2.5}, "fmin": {-2, 2, -2, 2.5}, "signbit": {0.1, 2},
	"copysign": {0.1, 2, 0.1, 2}, "erfinv": {-0.9, 0.9}, "digamma": {0.3, 12}, "lgamma": {0.3, 12}, "sinc": {-2, 2},
}

// halves are the instructions whose value jumps everywhere: their derivative is that of the identity.
var halves = map[string]bool{"bf16": true, "f16": true}

// names of all functions with their numbers of operands.
func allFunctions() map[string]int {
	all := map[string]int{}
	for _, op := range Instructions() {
		all[op.String()] = op.Arity()
	}
	for _, m := range library {
		all[m.Name] = len(m.Params)
	}
	return all
}

var operandNames = []string{"a", "b", "c"}

// call is the function as a Func of its operands.
func call(name string, arity int) *Func {
	src := name + "("
	for i := range arity {
		src += operandNames[i] + ", "
	}
	return Must(src+")", operandNames[:arity], nil)
}

// points are operands in the domain.
func points(name string, arity int) [][]float64 {
	d := domain[name]
	var all [][]float64
	for k := range 7 {
		x := make([]float64, arity)
		for i := range x {
			low, high := -2.0, 2.0
			if 2*i < len(d) {
				low, high = d[2*i], d[2*i+1]
			}
			x[i] = low + (high-low)*math.Mod(0.13+0.618*float64(k*(i+1)), 1)
		}
		all = append(all, x)
	}
	return all
}

// slope is the derivative of root 0 of f in argument i times g, by the pullback.
func slope(f *Func, i int, args []float64, g float64) float64 {
	p := f.Pullback(i)
	if p.Func == nil {
		return 0
	}
	return p.Func.Eval(operandsOf(f, p, args, g), nil, nil)[0]
}

func operandsOf(f *Func, p *Pullback, args []float64, g float64) []float64 {
	all := append(slices.Clone(args), g, f.Eval(args, nil, nil)[0])
	var use []float64
	for _, k := range p.Uses {
		use = append(use, all[k])
	}
	return use
}

// slopeOfSlope is the derivative of slope(f, i, args, g) in argument j, by the pullbacks of the pullback: its operands
// depend on argument j directly and through the result.
func slopeOfSlope(f *Func, i, j int, args []float64, g float64) float64 {
	p := f.Pullback(i)
	if p.Func == nil {
		return 0
	}
	use, sum := operandsOf(f, p, args, g), 0.0
	for at, k := range p.Uses {
		switch {
		case k == j:
			sum += slope(p.Func, at, use, 1)
		case k == len(args)+1:
			sum += slope(p.Func, at, use, 1) * slope(f, j, args, 1)
		}
	}
	return sum
}

func central(h func(x float64) float64, x float64) float64 {
	const eps = 1e-5
	return (h(x+eps) - h(x-eps)) / (2 * eps)
}

// The first and second derivatives of everything against central differences.
func TestDerivatives(t *testing.T) {
	for name, arity := range allFunctions() {
		if halves[name] {
			continue
		}
		f := call(name, arity)
		for _, args := range points(name, arity) {
			for i := range arity {
				at := func(k int, x float64) []float64 {
					moved := slices.Clone(args)
					moved[k] = x
					return moved
				}
				got := slope(f, i, args, 1.5)
				want := 1.5 * central(func(x float64) float64 { return f.Eval(at(i, x), nil, nil)[0] }, args[i])
				if math.IsNaN(want) || math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
					t.Errorf("d%s/d%s at %v is %v, by differences %v: %v", name, operandNames[i], args, got, want,
						f.Pullback(i).Func)
				}
				for j := range arity {
					got := slopeOfSlope(f, i, j, args, 1.5)
					want := central(func(x float64) float64 { return slope(f, i, at(j, x), 1.5) }, args[j])
					if math.IsNaN(want) || math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("d2%s/d%sd%s at %v is %v, by differences %v", name, operandNames[i], operandNames[j],
							args, got, want)
					}
				}
			}
		}
	}
}

func TestRoundingPassesTheGradient(t *testing.T) {
	for name := range halves {
		f := call(name, 1)
		if got, want := slope(f, 0, []float64{3}, 1.0001), f.Eval([]float64{1.0001}, nil, nil)[0]; got != want ||
			got == 1.0001 {
			t.Errorf("%s passes %v, want %v", name, got, want)
		}
	}
}

// The conventions that training code relies on, at the corners.
func TestEdges(t *testing.T) {
	inf, nan, negZero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, c := range []struct {
		src           string
		x, y          float64
		value, dx, dy float64
	}{
		{"relu(x)", 0, 0, 0, 0, 0}, {"relu(x)", nan, 0, nan, 1, 0}, {"relu(x)", -inf, 0, 0, 0, 0},
		{"relu(x)", inf, 0, inf, 1, 0},
		{"abs(x)", 0, 0, 0, 0, 0}, {"sqrt(x)", 0, 0, 0, inf, 0}, {"rsqrt(x)", 0, 0, inf, -inf, 0},
		{"clamp(x, 0, 1)", 0, 0, 0, 1, 0}, {"clamp(x, 0, 1)", 1, 0, 1, 1, 0}, {"clamp(x, 0, 1)", 2, 0, 1, 0, 0},
		{"clamp(x, 0, 1)", nan, 0, nan, 1, 0}, {"clamp(x, 2, 1)", 5, 0, 1, 0, 0},
		{"clamp_min(x, 0)", 0, 0, 0, 1, 0}, {"clamp_min(x, 0)", nan, 0, nan, 1, 0}, {"clamp_max(x, 0)", 0, 0, 0, 1, 0},
		{"relu6(x)", 6, 0, 6, 0, 0}, {"hardtanh(x)", 1, 0, 1, 0, 0}, {"leaky_relu(x, 0.1)", 0, 0, 0, 0.1, 0},
		{"leaky_relu(x, 0.1)", nan, 0, nan, 0.1, 0},
		{"max(x, y)", 2, 2, 2, 0.5, 0.5}, {"min(x, y)", 2, 2, 2, 0.5, 0.5}, {"max(x, y)", nan, 1, nan, 1, 1},
		{"min(x, y)", 1, nan, nan, 1, 1}, {"max(x, y)", 1, 2, 2, 0, 1}, {"min(x, y)", 1, 2, 1, 1, 0},
		{"where(0 < x, log(x), x)", 0, 0, 0, nan, 0}, {"where(x, 1, y)", nan, 5, 1, 0, 0},
		{"pow(x, y)", 0, 0, 1, 0, 0}, {"pow(x, y)", 0, 2, 0, 0, 0}, {"pow(x, 0)", nan, 0, 1, 0, 0},
		{"pow(x, 2)", 0, 0, 0, 0, 0}, {"pow(x, 1)", 0, 0, 0, 1, 0},
		{"pow(x, y)", -2, 3, -8, 12, nan}, {"pow(x, 0.5)", 0, 0, 0, inf, 0}, {"pow(x, y)", -2, 0.5, nan, nan, nan},
		{"pow(0, y)", 0, 3, 0, 0, 0},
		{"sign(x)", nan, 0, 0, 0, 0}, {"round(x)", 2.5, 0, 2, 0, 0}, {"round(x)", -0.5, 0, math.Copysign(0, -1), 0, 0},
		{"x*0 == 0", inf, 0, 0, 0, 0}, {"isfinite(x)", inf, 0, 0, 0, 0}, {"isfinite(x)", nan, 0, 0, 0, 0},
		{"isinf(x)", -inf, 0, 1, 0, 0}, {"isinf(x)", nan, 0, 0, 0, 0}, {"isnan(x)", nan, 0, 1, 0, 0},
		{"isnan(x)", inf, 0, 0, 0, 0},
		{"elu(x, 1)", 1000, 0, 1000, 1, 0}, {"elu(x, 1)", 0, 0, 0, 1, 0}, {"elu(x, 1)", nan, 0, nan, nan, 0},
		{"softplus(x)", 1000, 0, 1000, 1, 0}, {"softplus(x)", -1000, 0, 0, 0, 0}, {"softplus(x)", nan, 0, nan, nan, 0},
		{"logsigmoid(x)", -1000, 0, -1000, 1, 0},
		{"mish(x)", 1000, 0, 1000, 1, 0}, {"mish(x)", -1000, 0, math.Copysign(0, -1), 0, 0},
		{"silu(x)", 1000, 0, 1000, 1, 0},
		{"gelu(x)", 0, 0, 0, 0.5, 0}, {"gelu(x)", 100, 0, 100, 1, 0}, {"gelu_tanh(x)", 100, 0, 100, 1, 0},
		{"sigmoid(x)", -1000, 0, 0, 0, 0}, {"tanh(x)", 1000, 0, 1, 0, 0},
		{"mod(x, y)", -7, 3, 2, 1, 3}, {"fmod(x, y)", -7, 3, -1, 1, 2}, {"floordiv(x, y)", -7, 2, -4, 0, 0},
		{"mod(x, y)", 7, -3, -2, 1, 3}, {"floordiv(x, y)", 6, 0.1, 59, 0, 0}, {"floordiv(x, y)", 1, inf, 0, 0, 0},
		{"floordiv(x, y)", -1, inf, -1, 0, 0}, {"floordiv(x, y)", 1, -inf, -1, 0, 0},
		{"floordiv(x, y)", inf, 2, nan, 0, 0}, {"floordiv(x, y)", 2, 0, inf, 0, 0},
		{"floordiv(x, y)", -0.5, -1, 0, 0, 0}, {"floordiv(x, y)", 0.5, -1, -1, 0, 0},
		{"mod(x, y)", -1, inf, inf, 1, 1}, {"mod(x, y)", 1, -inf, -inf, 1, 1}, {"mod(x, y)", 1, inf, 1, 1, 0},
		{"fmod(x, y)", 0x1p1000, 3, 1, 1, -0x1p1000 / 3},
		{"fmod(x, y)", 1, inf, 1, 1, 0}, {"fmod(x, y)", 1, 0, nan, 1, -inf},
		// 1/0.1 rounds to 10, and -3/0.3 would to -10.
		{"fmod(x, y)", 1, 0.1, math.Mod(1, 0.1), 1, -9}, {"mod(x, y)", 1, 0.1, math.Mod(1, 0.1), 1, -9},
		{"lerp(x, y, 1)", -1e20, -1, -1, 0, 1}, {"lerp(x, y, 0)", -1, -1e20, -1, 1, 0},
		{"hypot(x, y)", 3e300, 4e300, 5e300, 0.6, 0.8}, {"hypot(x, y)", 3e-300, -4e-300, 5e-300, 0.6, -0.8},
		{"hypot(x, y)", -inf, 1, inf, nan, 0}, {"hypot(x, y)", 5e-324, 0, 5e-324, 1, 0},
		{"xlogy(x, y)", 0, 0, 0, 0, 0}, {"xlogy(x, y)", 0, nan, nan, nan, nan}, {"xlogy(x, y)", 0, -1, 0, 0, 0},
		{"xlogy(x, y)", 0, 1, 0, 0, 0}, {"xlogy(x, y)", 0, math.E, 0, 1, 0}, {"xlogy(x, y)", 2, 0, -inf, -inf, inf},
		{"bce(x, y)", 0, 1, 100, -1e12, 100}, {"bce(x, y)", 1, 0, 100, 1e12, -100}, {"bce(x, y)", 0, 0, 0, 0, 100},
		{"bce(x, y)", 1, 1, 0, 0, -100}, {"bce(x, y)", nan, 1, nan, nan, nan},
		{"bce(x, y)", 1e-20, 1, 20 * math.Ln10, -1e12, 20 * math.Ln10},
		{"logit(x)", 0, 0, -inf, inf, 0}, {"logit(x)", 1, 0, inf, inf, 0}, {"logit(x)", 2, 0, nan, nan, 0},
		{"logit(x)", 0.5, 0, 0, 4, 0}, {"elu(x, 1)", -20, 0, -0.9999999979388464, 2.061153622438558e-9, 0},
		{"celu(x, 2)", -40, 0, -1.9999999958776927, 2.061153622438558e-9, 0},
		{"expm1(x)", -40, 0, -1, 4.248354255291589e-18, 0},
		{"x*sigmoid(x)", -1e300, 0, math.Copysign(0, -1), 0, 0},
		{"hardshrink(x, 1)", nan, 0, nan, 1, 0}, {"softshrink(x, 1)", nan, 0, nan, 1, 0},
		{"softshrink(x, 1)", 1, 0, 0, 0, 0},
		{"atan2(x, y)", 0, -1, math.Pi, -1, 0}, {"atan2(x, y)", 1, 0, math.Pi / 2, 0, -1},
		{"atan2(x, y)", -1, 0, -math.Pi / 2, 0, 1}, {"atan2(x, y)", 0, 0, 0, 1, 0},
		{"atan2(x, y)", 1, 1, math.Pi / 4, 0.5, -0.5}, {"atan2(x, y)", negZero, 1, negZero, 1, 0},
		{"atan2(x, y)", 0, negZero, math.Pi, -1, 0}, {"atan2(x, y)", negZero, negZero, -math.Pi, -1, 0},
		{"atan2(x, y)", negZero, -1, -math.Pi, -1, 0}, {"atan2(x, y)", inf, inf, math.Pi / 4, 0, 0},
		{"atan2(x, y)", -inf, -inf, -3 * math.Pi / 4, 0, 0}, {"atan2(x, y)", inf, -inf, 3 * math.Pi / 4, 0, 0},
		{"atan2(x, y)", 1, -inf, math.Pi, 0, 0}, {"atan2(x, y)", inf, nan, nan, nan, nan},
	} {
		f, err := xyp(c.src)
		if err != nil {
			t.Fatal(err)
		}
		args := []float64{c.x, c.y}
		got := [3]float64{f.Eval(args, []float64{0}, nil)[0], slope(f, 0, args, 1), slope(f, 1, args, 1)}
		for i, want := range [3]float64{c.value, c.dx, c.dy} {
			exact := same(got[i], want) || got[i] == want && want == 0 && i > 0
			if !exact && !(math.Abs(got[i]-want) < 1e-15*(1+math.Abs(want))) {
				t.Errorf("%s at %v: %s is %v, want %v", c.src, args,
					[3]string{"the value", "the derivative in x", "the derivative in y"}[i], got[i], want)
			}
		}
	}
}

// Values of the library against package math or their definition.
func TestLibraryValues(t *testing.T) {
	for _, x := range []float64{-30, -3, -1.5, -1, -0.3, 0, 0.1, 0.7, 1, 2.2, 6, 41} {
		for src, want := range map[string]float64{
			"softplus(x)":                 math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))),
			"logsigmoid(x)":               -math.Max(-x, 0) - math.Log1p(math.Exp(-math.Abs(x))),
			"mish(x)":                     x * math.Tanh(math.Log1p(math.Exp(x))),
			"gelu(x)":                     x / 2 * (1 + math.Erf(x/math.Sqrt2)),
			"gelu_tanh(x)":                x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))),
			"silu(x)":                     x / (1 + math.Exp(-x)),
			"elu(x, 1.5)":                 map[bool]float64{true: x, false: 1.5 * math.Expm1(x)}[x > 0],
			"celu(x, 1.5)":                map[bool]float64{true: x, false: 1.5 * math.Expm1(x/1.5)}[x > 0],
			"hardswish(x)":                x * math.Min(math.Max(x+3, 0), 6) / 6,
			"frac(x)":                     x - math.Trunc(x),
			"mod(x, 0.7)":                 math.Mod(math.Mod(x, 0.7)+0.7, 0.7),
			"fmod(x, 0.7)":                math.Mod(x, 0.7),
			"atan2(x, -2)":                math.Atan2(x, -2),
			"atan2(-2, x)":                math.Atan2(-2, x),
			"logaddexp(x, 1)":             math.Log(math.Exp(x) + math.E),
			"hypot(x, 2)":                 math.Hypot(x, 2),
			"square(x) + lerp(x, 2, 0.5)": x*x + (x+2)/2,
			"softsign(x)":                 x / (1 + math.Abs(x)),
			"tanhshrink(x)":               x - math.Tanh(x),
		} {
			got := eval(t, src, x, 0, 0)
			if math.Abs(got-want) > 1e-14*(1+math.Abs(want)) {
				t.Errorf("%s at %v is %v, want %v", src, x, got, want)
			}
		}
	}
	if got := eval(t, "gelu(x)", 1, 0, 0); math.Abs(got-0.84134471) > 1e-7 {
		t.Errorf("gelu(1) = %v", got)
	}
	if got := eval(t, "gelu_tanh(x)", 1, 0, 0); math.Abs(got-0.84119201) > 1e-7 {
		t.Errorf("gelu_tanh(1) = %v", got)
	}
}

// What must be kept for the backward pass.
func TestUses(t *testing.T) {
	for src, want := range map[string]string{
		"exp(x)": "[2 3]", "tanh(x)": "[2 3]", "sigmoid(x)": "[2 3]", "sqrt(x)": "[2 3]", "rsqrt(x)": "[2 3]",
		"tan(x)":  "[2 3]",
		"relu(x)": "[2 3]", "expm1(x)": "[0 2]", "exp2(x)": "[2 3]", "reciprocal(x)": "[0 2]",
		"x + y": "[2]", "x*3": "[2]", "x - y": "[2]", "-x": "[2]", "x*y": "[1 2]", "x/y": "[1 2]", "x": "[2]",
		"gelu(x)": "[0 2]", "sin(x)": "[0 2]", "square(x)": "[0 2]", "silu(x)": "[0 2]", "floor(x)": "[]", "y": "[]",
		"x < y":          "[]",
		"where(y, x, 0)": "[1 2]", "where(rand() < 0.5, 0, 2*x)": "[2]", "bf16(x)": "[2]",
	} {
		f, _ := xyp(src)
		p := f.Pullback(0)
		if got := fmt.Sprint(p.Uses); got != want || (p.Func == nil) != (want == "[]") {
			t.Errorf("%s uses %s, want %s", src, got, want)
		}
		if p.Func != nil && len(p.Func.Args) != len(p.Uses) {
			t.Errorf("%s: %v for %v", src, p.Func.Args, p.Uses)
		}
	}
	f := Must("x*p + grad", []string{"grad", "x", "out"}, []string{"q", "p"})
	p := f.Pullback(1)
	if got := fmt.Sprint(p.Uses, p.Func.Args, p.Func.Params, p.Func); got != "[3] [grad_] [q p] grad_ * p" {
		t.Errorf("pullback %s", got)
	}
}

// A product with the gradient overflows where the slope has long been 0: that is 0, as at smaller gradients.
func TestSaturatedSlopes(t *testing.T) {
	for src, at := range map[string][2]float64{ // an operand where the slope is 0, one where it is 1
		"gelu(x)": {-1e300, 1e300}, "silu(x)": {-1e300, 1e300}, "mish(x)": {-1e300, 1e300},
		"gelu_tanh(x)": {-1e100, 1e100}, "x*(1 + tanh(x))/2": {-1e300, 1e300},
	} {
		f := Must(src, []string{"x"}, nil)
		for i, x := range at {
			for _, g := range []float64{1, -1, 1e30, 1e300, math.MaxFloat64} {
				if got, want := slope(f, 0, []float64{x}, g), g*float64(i); got != want {
					t.Errorf("%s at %g: slope %g for gradient %g, want %g", src, x, got, g, want)
				}
			}
		}
	}
}

// A rule holds wherever the body of its function is, also for other names and operands, and nowhere else.
func TestRules(t *testing.T) {
	args := []string{"a", "b"}
	for _, c := range [][2]string{
		{"2*bce(a*b, b)", "2*-(b*max(log(a*b), -100) + (1 - b)*max(log1p(-(a*b)), -100))"},
		{"logit(a)", "log(a/(1 - a))"},
	} {
		f, g := Must(c[0], args, nil), Must(c[1], args, nil)
		if f.Roots[0] != g.Roots[0] || f.Pullback(0).Func.Key() != g.Pullback(0).Func.Key() {
			t.Errorf("%s and %s differ", c[0], c[1])
		}
	}
	if r, _ := ruleOf(Must("log(a/(1 - b))", args, nil).Roots[0]); r != nil {
		t.Errorf("log(a/(1-b)) is %s", r.name)
	}
}
