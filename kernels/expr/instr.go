package expr

import (
	"math"

	"github.com/weft-ml/weft/kernels/expr/double"
)

// Op is a scalar instruction, or one of the four leaves.
type Op uint8

// The leaves and the instructions.
const (
	Arg   Op = iota // operand K
	Param           // parameter K: a new value is not a new program
	Const           // the constant C
	Rand            // uniform in [0,1): the random number of stream K at this element, computed wherever it is needed

	Add
	Sub
	Mul
	Div  // on integers the floor of the quotient, and 0 for a zero divisor
	Fmod // a - n*b with the sign of a, n the quotient rounded towards 0; exact; on integers a for b = 0
	FMA  // a*b + c with one rounding
	Neg
	Abs
	Min // NaN if either operand is
	Max

	Exp
	Exp2
	Expm1
	Log
	Log2
	Log10
	Log1p
	Pow

	Sqrt
	Rsqrt

	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Tanh
	Asinh
	Acosh
	Atanh

	Erf
	Erfc
	NormPDF
	NormCDF
	Sigmoid

	Floor
	Ceil
	Round // half to even
	Trunc

	LT // 0 or 1
	LE
	EQ
	Where // a != 0 ? b : c; a NaN condition counts as true

	BF16 // round to bfloat16: a fused chain keeps the rounding that storing would have made
	F16  // round to float16

	BitAnd // of integers in two's complement, as are those below
	BitOr
	BitXor
	Shl // a*2^b; 0 for b < 0 and b > 63
	Shr // the floor of a/2^b, with the sign of a in place of bits that there are not; -1 or 0 for b < 0 and b > 63
	numOps
)

// An instruction is an entry of the instruction set.
type instruction struct {
	name    string
	arity   int
	integer bool                           // defined on integers, too
	eval    func(a, b, c float64) float64  // float64 reference
	adjoint func(n, g *Node) (dx [3]*Node) // adjoints of the operands of n = op(x...), given g; nil where they are zero
}

var instructions [numOps]instruction

// init breaks the cycle of a table whose rules make nodes, which need the table.
func init() {
	instructions = [numOps]instruction{
		Arg:   {name: "arg", integer: true},
		Param: {name: "param", integer: true},
		Const: {name: "const", integer: true},
		Rand:  {name: "rand"},

		Add:  {"add", 2, true, func(a, b, _ float64) float64 { return a + b }, addAdjoint},
		Sub:  {"sub", 2, true, func(a, b, _ float64) float64 { return a - b }, subAdjoint},
		Mul:  {"mul", 2, true, func(a, b, _ float64) float64 { return a * b }, mulAdjoint},
		Div:  {"div", 2, true, func(a, b, _ float64) float64 { return a / b }, divAdjoint},
		Fmod: {"fmod", 2, true, func(a, b, _ float64) float64 { return math.Mod(a, b) }, fmodAdjoint},
		FMA:  {"fma", 3, true, math.FMA, fmaAdjoint},
		Neg:  {"neg", 1, true, func(a, _, _ float64) float64 { return -a }, negAdjoint},
		Abs:  {"abs", 1, true, unary(math.Abs), absAdjoint},
		Min:  {"min", 2, true, func(a, b, _ float64) float64 { return min(a, b) }, minAdjoint},
		Max:  {"max", 2, true, func(a, b, _ float64) float64 { return max(a, b) }, maxAdjoint},

		Exp:   {"exp", 1, false, unary(double.Exp), expAdjoint},
		Exp2:  {"exp2", 1, false, unary(double.Exp2), exp2Adjoint},
		Expm1: {"expm1", 1, false, unary(double.Expm1), expm1Adjoint},
		Log:   {"log", 1, false, unary(double.Log), logAdjoint},
		Log2:  {"log2", 1, false, unary(double.Log2), log2Adjoint},
		Log10: {"log10", 1, false, unary(double.Log10), log10Adjoint},
		Log1p: {"log1p", 1, false, unary(double.Log1p), log1pAdjoint},
		Pow:   {"pow", 2, false, func(a, b, _ float64) float64 { return double.Pow(a, b) }, powAdjoint},

		Sqrt:  {"sqrt", 1, false, unary(math.Sqrt), sqrtAdjoint},
		Rsqrt: {"rsqrt", 1, false, func(a, _, _ float64) float64 { return 1 / math.Sqrt(a) }, rsqrtAdjoint},

		Sin:   {"sin", 1, false, unary(double.Sin), sinAdjoint},
		Cos:   {"cos", 1, false, unary(double.Cos), cosAdjoint},
		Tan:   {"tan", 1, false, unary(double.Tan), tanAdjoint},
		Asin:  {"asin", 1, false, unary(double.Asin), asinAdjoint},
		Acos:  {"acos", 1, false, unary(double.Acos), acosAdjoint},
		Atan:  {"atan", 1, false, unary(double.Atan), atanAdjoint},
		Sinh:  {"sinh", 1, false, unary(double.Sinh), sinhAdjoint},
		Cosh:  {"cosh", 1, false, unary(double.Cosh), coshAdjoint},
		Tanh:  {"tanh", 1, false, unary(double.Tanh), tanhAdjoint},
		Asinh: {"asinh", 1, false, unary(double.Asinh), asinhAdjoint},
		Acosh: {"acosh", 1, false, unary(double.Acosh), acoshAdjoint},
		Atanh: {"atanh", 1, false, unary(double.Atanh), atanhAdjoint},

		Erf:     {"erf", 1, false, unary(double.Erf), erfAdjoint},
		Erfc:    {"erfc", 1, false, unary(double.Erfc), erfcAdjoint},
		NormPDF: {"normpdf", 1, false, unary(double.NormPDF), normPDFAdjoint},
		NormCDF: {"normcdf", 1, false, unary(double.NormCDF), normCDFAdjoint},
		Sigmoid: {"sigmoid", 1, false, unary(double.Sigmoid), sigmoidAdjoint},

		Floor: {"floor", 1, true, unary(math.Floor), nil},
		Ceil:  {"ceil", 1, true, unary(math.Ceil), nil},
		Round: {"round", 1, true, unary(math.RoundToEven), nil},
		Trunc: {"trunc", 1, true, unary(math.Trunc), nil},

		LT:    {"lt", 2, true, func(a, b, _ float64) float64 { return fromBool(a < b) }, nil},
		LE:    {"le", 2, true, func(a, b, _ float64) float64 { return fromBool(a <= b) }, nil},
		EQ:    {"eq", 2, true, func(a, b, _ float64) float64 { return fromBool(a == b) }, nil},
		Where: {"where", 3, true, choose, whereAdjoint},

		BF16: {"bf16", 1, false, unary(roundBFloat16), bf16Adjoint},
		F16:  {"f16", 1, false, unary(roundFloat16), f16Adjoint},

		BitAnd: {"bitand", 2, true, onInts(func(a, b int64) int64 { return a & b }), nil},
		BitOr:  {"bitor", 2, true, onInts(func(a, b int64) int64 { return a | b }), nil},
		BitXor: {"bitxor", 2, true, onInts(func(a, b int64) int64 { return a ^ b }), nil},
		Shl:    {"shl", 2, true, onInts(func(a, b int64) int64 { return a << uint64(b) }), nil},
		Shr:    {"shr", 2, true, onInts(func(a, b int64) int64 { return a >> uint64(b) }), nil},
	}
}

// String is the instruction's name, such as "expm1".
func (o Op) String() string { return instructions[o].name }

// Arity is the number of operands; 0 for leaves.
func (o Op) Arity() int { return instructions[o].arity }

// Integer tells whether the instruction is defined on integers.
func (o Op) Integer() bool { return instructions[o].integer }

// Float tells whether the instruction is defined on floating numbers: all are but those on bits.
func (o Op) Float() bool { return o < BitAnd }

// Eval is the float64 reference of an instruction; operands beyond its arity are ignored.
func (o Op) Eval(a, b, c float64) float64 { return instructions[o].eval(a, b, c) }

// Instructions lists the instructions, without the leaves.
func Instructions() []Op {
	var ops []Op
	for o := Add; o < numOps; o++ {
		ops = append(ops, o)
	}
	return ops
}

// lookup finds an instruction by name.
func lookup(name string) (Op, bool) {
	for o := Add; o < numOps; o++ {
		if instructions[o].name == name {
			return o, true
		}
	}
	return 0, false
}

func unary(f func(float64) float64) func(a, b, c float64) float64 {
	return func(a, _, _ float64) float64 { return f(a) }
}

func onInts(f func(a, b int64) int64) func(a, b, c float64) float64 {
	return func(a, b, _ float64) float64 { return float64(f(int64(a), int64(b))) }
}

func fromBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func choose(a, b, c float64) float64 {
	if a != 0 {
		return b
	}
	return c
}

// roundFloat16 rounds to the nearest float16, ties to even: 11 significant bits down to the exponent of the smallest
// normal number, 2^-14, and multiples of 2^-24 below.
func roundFloat16(x float64) float64 { return roundTo(x, 11, -24, 65504) }

// roundBFloat16 rounds to the nearest bfloat16, ties to even.
func roundBFloat16(x float64) float64 { return roundTo(x, 8, -133, 0x1.fep127) }

// roundTo rounds to the given number of significant bits, not finer than 2^least; beyond largest is infinity.
func roundTo(x float64, bits, least int, largest float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(x) // 2^(e-1) <= |x| < 2^e
	ulp := max(e-bits, least)
	r := math.Ldexp(math.RoundToEven(math.Ldexp(x, -ulp)), ulp)
	if math.Abs(r) > largest {
		return math.Copysign(math.Inf(1), x)
	}
	return math.Copysign(r, x)
}
