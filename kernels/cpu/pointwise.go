package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
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
		run[int64](int64Runs, l)
	case compute == kernels.Float64:
		run[float64](float64Runs, l)
	default:
		run[float32](float32Runs, l)
	}
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
