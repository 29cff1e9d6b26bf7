package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// The caches of programs, by register type.
var (
	float32Programs cache[float32]
	float64Programs cache[float64]
	int64Programs   cache[int64]
)

// pointwise runs the expression of a launch. It computes in float64 if that is the type of an operand or a result, else
// in float32 if one is floating, else in int64. A mere conversion from an integer type starts from all its bits.
func pointwise(l *kernels.Launch) {
	f := l.Op.Expr
	check(l)
	var hasFloat, hasFloat64 bool
	for _, as := range [2][]kernels.Arg{l.In, l.Out} {
		for _, a := range as {
			hasFloat = hasFloat || a.DType.IsFloat()
			hasFloat64 = hasFloat64 || a.DType == kernels.Float64
		}
	}
	switch {
	case isConversion(f) && l.In[0].DType == l.Out[0].DType:
		relayout(l)
	case !hasFloat || isConversion(f) && !l.In[0].DType.IsFloat():
		checkIntegers(l)
		run(&int64Programs, int64Runs, l)
	case hasFloat64:
		run(&float64Programs, float64Runs, l)
	default:
		run(&float32Programs, float32Runs, l)
	}
}

// isConversion tells whether f is the expression x.
func isConversion(f *expr.Func) bool {
	return len(f.Roots) == 1 && len(f.Args) == 1 && f.Roots[0].Op == expr.Arg
}

// check refuses launches that do not fit their expression.
func check(l *kernels.Launch) {
	f, name := l.Op.Expr, l.Op.Name
	switch {
	case len(l.In) != len(f.Args):
		panic(kernels.Errorf(kernels.ErrValue, name, "takes %d operands %v, found %d", len(f.Args), f.Args, len(l.In)))
	case len(l.Floats) < len(f.Params):
		panic(kernels.Errorf(kernels.ErrValue, name, "takes %d parameters %v, found %d", len(f.Params), f.Params, len(l.Floats)))
	case len(l.Out) != len(f.Roots):
		panic(kernels.Errorf(kernels.ErrValue, name, "has %d results, found %d", len(f.Roots), len(l.Out)))
	}
	shape := l.Out[0].Shape
	for i, o := range l.Out {
		if !equal(o.Shape, shape) || !o.Contiguous() {
			panic(kernels.Errorf(kernels.ErrShape, name, "result %d has shape %v and strides %v, want shape %v without gaps", i, o.Shape, o.Strides, shape))
		}
	}
	for i, a := range l.In {
		if !equal(a.Shape, shape) {
			panic(kernels.Errorf(kernels.ErrShape, name, "operand %s has shape %v, the result %v", f.Args[i], a.Shape, shape))
		}
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// checkIntegers refuses what int64 registers cannot do.
func checkIntegers(l *kernels.Launch) {
	if err := onIntegers(l.Op.Expr); err != nil {
		err.Op = l.Op.Name
		panic(err)
	}
	for i, name := range l.Op.Expr.Params {
		if v := l.Floats[i]; !isInteger(v) {
			panic(kernels.Errorf(kernels.ErrDType, l.Op.Name, "the parameter %s = %g is not an integer: convert to a floating type", name, v))
		}
	}
}
