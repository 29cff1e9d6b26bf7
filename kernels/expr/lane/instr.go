package lane

// Instr is one instruction of pointwise expressions: the function of one to three
// operands that every backend computes with the same bits.
type Instr struct {
	Name  string
	Args  int
	Build func(b *Builder, x, y, z Value) Value
	// Large, if set, gives the values for |x| > TrigLimit, infinities included.
	Large func(x float32) float32
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
	{Name: "fma", Args: 3, Build: (*Builder).FMA},
	unary("neg", Neg),
	unary("abs", Abs),
	binary("min", Min),
	binary("max", Max),
	unary("exp", Exp),
	unary("exp2", Exp2),
	unary("expm1", Expm1),
	unary("log", Log),
	unary("log2", Log2),
	unary("log10", Log10),
	unary("log1p", Log1p),
	unary("tanh", Tanh),
	unary("erf", Erf),
	unary("erfc", Erfc),
	unary("sigmoid", Sigmoid),
	unary("sqrt", (*Builder).Sqrt),
	unary("rsqrt", Rsqrt),
	unary("reciprocal", Reciprocal),
	large(unary("sin", Sin), SinLarge),
	large(unary("cos", Cos), CosLarge),
	large(unary("tan", Tan), TanLarge),
	unary("asin", Asin),
	unary("acos", Acos),
	unary("atan", Atan),
	unary("sinh", Sinh),
	unary("cosh", Cosh),
	unary("asinh", Asinh),
	unary("acosh", Acosh),
	unary("atanh", Atanh),
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
