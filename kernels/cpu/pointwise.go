package cpu

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// pointwise runs the expression of an op call.
func pointwise(l *kernels.Launch) {
	check(l)
	compute := l.ComputeType()
	if out := l.Out[0].DType; compute == kernels.Int64 && out.IsFloat() && l.In[0].DType.Size() == 1 &&
		out != kernels.Float64 {
		compute = kernels.Float32 // a mere conversion: float32 holds all bytes, and its kernels are vectors
	}
	switch {
	case l.Op.Expr.Identity() && l.In[0].DType == l.Out[0].DType:
		copyContiguous(l)
	case compute == kernels.Int64:
		if err := l.CheckIntegers(); err != nil {
			panic(err)
		}
		if truthOfBytes(l) {
			run[float32](float32Runs, l)
			return
		}
		run[int64](int64Runs, l)
	case compute == kernels.Float64:
		run[float64](float64Runs, l)
	default:
		run[float32](float32Runs, l)
	}
}

// truthOfBytes tells whether float32, whose kernels are vectors, holds every number of an op call on bytes and bools
// whose results are bools: three factors are at most 255³ < 2²⁴.
func truthOfBytes(l *kernels.Launch) bool {
	for i := range l.Out {
		if l.Out[i].DType != kernels.Bool {
			return false
		}
	}
	for i := range l.In {
		if l.In[i].DType.Size() != 1 {
			return false
		}
	}
	small := func(v float64) bool { return math.Abs(v) <= math.MaxUint8 }
	for _, v := range l.Floats {
		if !small(v) {
			return false
		}
	}
	operations := 0
	for _, n := range l.Op.Expr.Order() {
		switch n.Op {
		case expr.Arg, expr.Param, expr.LT, expr.LE, expr.EQ, expr.Min, expr.Max, expr.Where, expr.Neg:
		case expr.Const:
			if !small(n.C) {
				return false
			}
		case expr.Add, expr.Sub, expr.Mul:
			operations++
		default:
			return false
		}
	}
	return operations <= 2
}

// check panics if an op call does not fit its expression.
func check(l *kernels.Launch) {
	f, name := l.Op.Expr, l.Op.Name
	switch {
	case len(l.In) != len(f.Args):
		panic(kernels.Errorf(kernels.ErrValue, name, "takes %d operands %v, found %d", len(f.Args), f.Args, len(l.In)))
	case len(l.Floats) < len(f.Params):
		panic(kernels.Errorf(kernels.ErrValue, name, "takes %d parameters %v, found %d",
			len(f.Params), f.Params, len(l.Floats)))
	case len(l.Out) != len(f.Roots):
		panic(kernels.Errorf(kernels.ErrValue, name, "has %d results, found %d", len(f.Roots), len(l.Out)))
	}
	shape := l.Out[0].Shape
	for i := range l.Out {
		o := &l.Out[i] // an Arg is large
		if !slices.Equal(o.Shape, shape) || !o.Contiguous() {
			panic(kernels.Errorf(kernels.ErrShape, name,
				"result %d has shape %v and strides %v, want shape %v, contiguous", i, o.Shape, o.Strides, shape))
		}
	}
	for i := range l.In {
		if a := &l.In[i]; !slices.Equal(a.Shape, shape) {
			panic(kernels.Errorf(kernels.ErrShape, name, "operand %s has shape %v, the result %v",
				f.Args[i], a.Shape, shape))
		}
	}
}
