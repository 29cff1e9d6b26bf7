package vec

import (
	"math"

	"github.com/x448/float16"
)

// A Kernel computes dst[i] from a[i], b[i] and c[i] for every i of dst. Operands
// the instruction does not have are nil; the others have at least the length of
// dst. dst may be the same slice as an operand, but may not overlap one otherwise.
type Kernel = func(dst, a, b, c []float32)

// Instr returns the kernel of one instruction, or nil if there is none of this name.
// The kernel follows the tier in use at each call.
func Instr(name string) Kernel {
	if name == "fill" { // dst[i] = a[0]
		return func(dst, a, _, _ []float32) {
			for i := range dst {
				dst[i] = a[0]
			}
		}
	}
	f, ok := scalar[name]
	if !ok {
		return nil
	}
	return func(dst, a, b, c []float32) {
		for i := range dst {
			var x, y, z float32
			if a != nil {
				x = a[i]
			}
			if b != nil {
				y = b[i]
			}
			if c != nil {
				z = c[i]
			}
			dst[i] = f(x, y, z)
		}
	}
}

func un(f func(float64) float64) func(a, b, c float32) float32 {
	return func(a, _, _ float32) float32 { return float32(f(float64(a))) }
}

func truth(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

var scalar = map[string]func(a, b, c float32) float32{
	"add":     func(a, b, _ float32) float32 { return a + b },
	"sub":     func(a, b, _ float32) float32 { return a - b },
	"mul":     func(a, b, _ float32) float32 { return a * b },
	"div":     func(a, b, _ float32) float32 { return a / b },
	"fma":     func(a, b, c float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(c))) },
	"neg":     func(a, _, _ float32) float32 { return -a },
	"abs":     un(math.Abs),
	"min":     func(a, b, _ float32) float32 { return min(a, b) },
	"max":     func(a, b, _ float32) float32 { return max(a, b) },
	"exp":     un(math.Exp),
	"exp2":    un(math.Exp2),
	"expm1":   un(math.Expm1),
	"log":     un(math.Log),
	"log2":    un(math.Log2),
	"log10":   un(math.Log10),
	"log1p":   un(math.Log1p),
	"tanh":    un(math.Tanh),
	"erf":     un(math.Erf),
	"erfc":    un(math.Erfc),
	"sigmoid": un(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
	"sqrt":    un(math.Sqrt),
	"rsqrt":   un(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"sin":     un(math.Sin),
	"cos":     un(math.Cos),
	"tan":     un(math.Tan),
	"asin":    un(math.Asin),
	"acos":    un(math.Acos),
	"atan":    un(math.Atan),
	"sinh":    un(math.Sinh),
	"cosh":    un(math.Cosh),
	"asinh":   un(math.Asinh),
	"acosh":   un(math.Acosh),
	"atanh":   un(math.Atanh),
	"floor":   un(math.Floor),
	"ceil":    un(math.Ceil),
	"round":   un(math.RoundToEven),
	"trunc":   un(math.Trunc),
	"pow":     func(a, b, _ float32) float32 { return float32(math.Pow(float64(a), float64(b))) },
	"lt":      func(a, b, _ float32) float32 { return truth(a < b) },
	"le":      func(a, b, _ float32) float32 { return truth(a <= b) },
	"eq":      func(a, b, _ float32) float32 { return truth(a == b) },
	"where": func(a, b, c float32) float32 {
		if a != 0 {
			return b
		}
		return c
	},
	"bf16": func(a, _, _ float32) float32 {
		u := math.Float32bits(a)
		if a != a {
			return a
		}
		return math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
	},
	"f16":  func(a, _, _ float32) float32 { return float16.Fromfloat32(a).Float32() },
	"copy": func(a, _, _ float32) float32 { return a },
}
