package kernels

import (
	"math"

	"github.com/weft-ml/weft/kernels/expr"
)

// ComputeType is the type that the expression of an op call computes in: Float64 if an operand or a result has that
// type, else Float32 if one is floating-point, else Int64. A mere conversion of an integer type computes in Int64.
func (l *Launch) ComputeType() DType {
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

// CheckIntegers is the error if the expression of an op call, or a parameter, is not defined on integers.
func (l *Launch) CheckIntegers() error {
	if err := DefinedOn(Int64, l.Op.Expr); err != nil {
		err.Op = l.Op.Name
		return err
	}
	for i, name := range l.Op.Expr.Params {
		if v := l.Floats[i]; !isInteger(v) {
			return Errorf(ErrDType, l.Op.Name, "the parameter %s = %g is not an integer: convert to a floating type",
				name, v)
		}
	}
	return nil
}

// DefinedOn is the error if f is not defined on a compute type: on int64 functions and fractions are not, on others
// operations on bits.
func DefinedOn(number DType, f *expr.Func) *Error {
	for _, n := range f.Order() {
		switch {
		case number != Int64 && !n.Op.Float():
			return Errorf(ErrDType, "",
				"%v is defined on integers and bools alone: convert the operands, such as to int64", n.Op)
		case number == Int64 && !n.Op.Integer():
			return Errorf(ErrDType, "", "%v is not defined on integers: convert to a floating type", n.Op)
		case number == Int64 && n.Op == expr.Const && !isInteger(n.C):
			return Errorf(ErrDType, "", "the constant %g is not an integer: convert to a floating type", n.C)
		}
	}
	return nil
}

// isInteger tells whether v is the value of an int64.
func isInteger(v float64) bool { return v == math.Trunc(v) && -1<<63 <= v && v < 1<<63 }
