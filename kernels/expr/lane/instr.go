package lane

import (
	"math"
	"slices"
)

// Instr is one instruction of pointwise expressions: the function of one to three
// operands that every backend computes with the same bits.
type Instr struct {
	Name  string
	Args  int
	Build func(b *Builder, x, y, z Value) Value
	// Large, if set, gives the values for |x| > TrigLimit, infinities included.
	Large func(x float32) float32

	// Ref, if set, is the function of one operand that the instruction approximates, and ULP its largest error in units
	// in the last place, as stated in the documentation. Instructions without Ref are exact or correctly rounded, but
	// for Pow, which states its error itself.
	Ref func(x float64) float64
	ULP float64
}

// Find returns the instruction of a name, nil if there is none.
func Find(name string) *Instr {
	if i := slices.IndexFunc(Instrs, func(in Instr) bool { return in.Name == name }); i >= 0 {
		return &Instrs[i]
	}
	return nil
}

// Program returns the instruction as a program of Args inputs.
func (in *Instr) Program() *Program {
	b := NewBuilder()
	var x [3]Value
	for i := range in.Args {
		x[i] = b.In(i)
	}
	return b.Program(in.Build(b, x[0], x[1], x[2]))
}

// Eval computes the instruction on one element; it is the definition of its value.
func (in *Instr) Eval(p *Program, x, y, z float32) float32 {
	if in.Large != nil && !(x >= -TrigLimit && x <= TrigLimit) {
		return in.Large(x)
	}
	return p.Eval([]float32{x, y, z}, nil, nil)[0]
}

func unary(name string, f func(b *Builder, x Value) Value) Instr {
	return Instr{Name: name, Args: 1, Build: func(b *Builder, x, _, _ Value) Value { return f(b, x) }}
}

// near is unary for an approximation of ref.
func near(name string, f func(b *Builder, x Value) Value, ref func(float64) float64, ulp float64) Instr {
	in := unary(name, f)
	in.Ref, in.ULP = ref, ulp
	return in
}

func large(in Instr, f func(float32) float32) Instr {
	in.Large = f
	return in
}

func binary(name string, f func(b *Builder, x, y Value) Value) Instr {
	return Instr{Name: name, Args: 2, Build: func(b *Builder, x, y, _ Value) Value { return f(b, x, y) }}
}

func compare(name string, f func(b *Builder, x, y Value) Value) Instr {
	return binary(name, func(b *Builder, x, y Value) Value { return Truth(b, f(b, x, y)) })
}

// Instrs lists the instructions.
var Instrs = []Instr{
	binary("add", (*Builder).Add),
	binary("sub", (*Builder).Sub),
	binary("mul", (*Builder).Mul),
	binary("div", (*Builder).Div),
	binary("fmod", Fmod),
	{Name: "fma", Args: 3, Build: (*Builder).FMA},
	unary("neg", Neg),
	unary("abs", Abs),
	binary("min", Min),
	binary("max", Max),
	near("exp", Exp, math.Exp, 0.9),
	near("exp2", Exp2, math.Exp2, 0.95),
	near("expm1", Expm1, math.Expm1, 1.55),
	near("log", Log, math.Log, 0.8),
	near("log2", Log2, math.Log2, 1.45),
	near("log10", Log10, math.Log10, 1.3),
	near("log1p", Log1p, math.Log1p, 1.55),
	near("tanh", Tanh, math.Tanh, 2.55),
	near("erf", Erf, math.Erf, 2.35),
	near("erfc", Erfc, math.Erfc, 3.9),
	near("normpdf", NormPDF, func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }, 2.05),
	near("normcdf", NormCDF, func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }, 6.55),
	near("sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 2.35),
	unary("sqrt", (*Builder).Sqrt),
	near("rsqrt", Rsqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, 1.5),
	unary("reciprocal", Reciprocal),
	large(near("sin", Sin, math.Sin, 1.55), SinLarge),
	large(near("cos", Cos, math.Cos, 1.55), CosLarge),
	large(near("tan", Tan, math.Tan, 3), TanLarge),
	near("asin", Asin, math.Asin, 2.45),
	near("acos", Acos, math.Acos, 1.15),
	near("atan", Atan, math.Atan, 1.35),
	near("sinh", Sinh, math.Sinh, 1.65),
	near("cosh", Cosh, math.Cosh, 1.35),
	near("asinh", Asinh, math.Asinh, 1.85),
	near("acosh", Acosh, math.Acosh, 1.95),
	near("atanh", Atanh, math.Atanh, 2.2),
	unary("floor", (*Builder).Floor),
	unary("ceil", (*Builder).Ceil),
	unary("round", (*Builder).Round),
	unary("trunc", (*Builder).Trunc),
	binary("pow", Pow),
	compare("lt", (*Builder).LT),
	compare("le", (*Builder).LE),
	compare("eq", (*Builder).EQ),
	{Name: "where", Args: 3, Build: Where},
	unary("bf16", BFloat16),
	unary("f16", Float16),
	unary("copy", func(_ *Builder, x Value) Value { return x }),
}
