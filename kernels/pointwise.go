package kernels

import (
	"math"

	"github.com/weft-ml/weft/kernels/expr"
)

// PointwiseNumber is the type that the expression of a launch computes in: Float64 if that is the type of an operand or
// a result, else Float32 if one is floating, else Int64. A mere conversion from an integer type starts from all its
// bits.
func (l *Launch) PointwiseNumber() DType {
	var hasFloat, hasFloat64 bool
	for _, as := range [2][]Arg{l.In, l.Out} {
		for i := range as {
			hasFloat = hasFloat || as[i].DType.IsFloat()
			hasFloat64 = hasFloat64 || as[i].DType == Float64
		}
	}
	switch {
	case !hasFloat || l.Op.Expr.Identity() && !l.In[0].DType.IsFloat():
		return Int64
	case hasFloat64:
		return Float64
	}
	return Float32
}

// CheckIntegers is the error if the expression of a launch cannot be computed on integers, or not with its parameters.
func (l *Launch) CheckIntegers() error {
	if err := OnIntegers(l.Op.Expr); err != nil {
		err.Op = l.Op.Name
		return err
	}
	for i, name := range l.Op.Expr.Params {
		if v := l.Floats[i]; !isInteger(v) {
			return Errorf(ErrDType, l.Op.Name, "the parameter %s = %g is not an integer: convert to a floating type", name, v)
		}
	}
	return nil
}

// OnIntegers is the error if f cannot be computed on integers.
func OnIntegers(f *expr.Func) *Error {
	for _, n := range f.Order() {
		if !n.Op.Integer() {
			return Errorf(ErrDType, "", "%v is not defined on integers: convert to a floating type", n.Op)
		}
		if n.Op == expr.Const && !isInteger(n.C) {
			return Errorf(ErrDType, "", "the constant %g is not an integer: convert to a floating type", n.C)
		}
	}
	return nil
}

// isInteger tells whether v is the value of an int64.
func isInteger(v float64) bool { return v == math.Trunc(v) && -1<<63 <= v && v < 1<<63 }
