package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
)

// kernelOf is the kernel of an instruction on registers of type T: a vector kernel for float32, a plain loop for
// float64 and int64. In float64, functions are those of Go's standard library, which are the reference.
func kernelOf[T register](opName string, op expr.Op) kernel[T] {
	var k any
	switch any(T(0)).(type) {
	case float32:
		k = kernel[float32](vec.Instr(op.String()))
	case float64:
		k = float64Kernel(op)
	case int64:
		k = int64Kernel(op)
	}
	if f := k.(kernel[T]); f != nil {
		return f
	}
	if !op.Float() {
		panic(kernels.Errorf(kernels.ErrDType, opName,
			"%v is defined on integers and bools alone: convert the operands, such as to int64", op))
	}
	panic(kernels.Errorf(kernels.ErrDevice, opName, "device cpu has no instruction %v on %T", op, T(0)))
}

func float64Kernel(op expr.Op) kernel[float64] {
	switch op {
	case expr.Div:
		return func(dst, a, b, _ []float64) {
			for i := range dst {
				dst[i] = a[i] / b[i]
			}
		}
	}
	if k := commonKernel[float64](op); k != nil || !op.Float() {
		return k
	}
	switch op.Arity() {
	case 1:
		return func(dst, a, _, _ []float64) {
			for i := range dst {
				dst[i] = op.Eval(a[i], 0, 0)
			}
		}
	case 2:
		return func(dst, a, b, _ []float64) {
			for i := range dst {
				dst[i] = op.Eval(a[i], b[i], 0)
			}
		}
	}
	return func(dst, a, b, c []float64) {
		for i := range dst {
			dst[i] = op.Eval(a[i], b[i], c[i])
		}
	}
}

// integerForms are functions with fewer instructions that are the same on integers, which have neither NaN nor
// rounding, and whose division rounds down: to find the quotient takes longer than all else.
var integerForms = func() [][2]*expr.Func {
	xy, bounds := []string{"x", "y"}, []string{"lo", "hi"}
	return [][2]*expr.Func{
		{expr.Must("floordiv(x, y)", xy, nil), expr.Must("x/y", xy, nil)},
		{expr.Must("mod(x, y)", xy, nil), expr.Must("x - y*(x/y)", xy, nil)},
		{expr.Must("clamp(x, lo, hi)", xy[:1], bounds), expr.Must("min(max(x, lo), hi)", xy[:1], bounds)},
	}
}()

// onIntegers is f, or what takes its place on integers.
func onIntegers(f *expr.Func) *expr.Func {
	for _, form := range integerForms {
		if slices.Equal(f.Roots, form[0].Roots) && len(f.Args) == len(form[0].Args) {
			return form[1]
		}
	}
	return f
}

func int64Kernel(op expr.Op) kernel[int64] {
	switch op {
	case expr.Div:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				dst[i] = floorDiv(a[i], b[i])
			}
		}
	case expr.Fmod:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				if b[i] != 0 {
					dst[i] = a[i] % b[i]
				} else {
					dst[i] = a[i]
				}
			}
		}
	case expr.FMA:
		return func(dst, a, b, c []int64) {
			for i := range dst {
				dst[i] = a[i]*b[i] + c[i]
			}
		}
	case expr.Abs:
		return func(dst, a, _, _ []int64) {
			for i := range dst {
				dst[i] = max(a[i], -a[i])
			}
		}
	case expr.Floor, expr.Ceil, expr.Round, expr.Trunc:
		return func(dst, a, _, _ []int64) { copy(dst, a) }
	}
	if !op.Float() {
		return bitKernel(op)
	}
	return commonKernel[int64](op)
}

func bitKernel(op expr.Op) kernel[int64] {
	switch op {
	case expr.BitAnd:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				dst[i] = a[i] & b[i]
			}
		}
	case expr.BitOr:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				dst[i] = a[i] | b[i]
			}
		}
	case expr.BitXor:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				dst[i] = a[i] ^ b[i]
			}
		}
	case expr.Shl:
		return func(dst, a, b, _ []int64) {
			for i := range dst {
				dst[i] = a[i] << uint64(b[i])
			}
		}
	}
	return func(dst, a, b, _ []int64) { // expr.Shr
		for i := range dst {
			dst[i] = a[i] >> uint64(b[i])
		}
	}
}

// floorDiv rounds the quotient down; a division by 0 is 0. No jump depends on signs: where the remainder is not 0 and
// has another sign than b, the quotient is 1 less.
func floorDiv(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	q := a / b
	r := a - q*b
	return q + ((r^b)&(r|-r))>>63
}

// commonKernel is the kernel of an instruction with the same Go code for float64 and int64.
func commonKernel[T float64 | int64](op expr.Op) kernel[T] {
	switch op {
	case expr.Add:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = a[i] + b[i]
			}
		}
	case expr.Sub:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = a[i] - b[i]
			}
		}
	case expr.Mul:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = a[i] * b[i]
			}
		}
	case expr.Neg:
		return func(dst, a, _, _ []T) {
			for i := range dst {
				dst[i] = -a[i]
			}
		}
	case expr.Min:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = min(a[i], b[i])
			}
		}
	case expr.Max:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = max(a[i], b[i])
			}
		}
	case expr.LT:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = fromBool[T](a[i] < b[i])
			}
		}
	case expr.LE:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = fromBool[T](a[i] <= b[i])
			}
		}
	case expr.EQ:
		return func(dst, a, b, _ []T) {
			for i := range dst {
				dst[i] = fromBool[T](a[i] == b[i])
			}
		}
	case expr.Where:
		return func(dst, a, b, c []T) {
			for i := range dst {
				v, w := c[i], b[i] // both are read: no jump depends on the data
				if a[i] != 0 {
					v = w
				}
				dst[i] = v
			}
		}
	}
	return nil
}

func fromBool[T register | uint8](b bool) T {
	if b {
		return 1
	}
	return 0
}
