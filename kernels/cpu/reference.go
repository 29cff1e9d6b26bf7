package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var copyOp = kernels.Op{Name: "copy", Expr: expr.Must("x", []string{"x"}, nil)}

// copyElements converts the elements of src to those of dst, which is contiguous and of the same shape.
func copyElements(dst, src kernels.Arg) {
	pointwise(&kernels.Launch{Op: &copyOp, In: []kernels.Arg{src}, Out: []kernels.Arg{dst}})
}

// reference runs the float64 reference of an operation. Floating-point operands are converted to contiguous float64;
// others become contiguous and keep their type. The results are converted to the element types of the op call.
func reference(l *kernels.Launch) {
	r := *l
	r.In, r.Out = slices.Clone(l.In), slices.Clone(l.Out)
	for i, a := range l.In {
		r.In[i] = newReferenceArg(a)
		copyElements(r.In[i], a)
	}
	for i, a := range l.Out {
		r.Out[i] = newReferenceArg(a)
	}
	l.Op.Ref(&r)
	for i, a := range l.Out {
		copyElements(a, r.Out[i])
	}
}

// newReferenceArg is new contiguous memory for an operand of a reference.
func newReferenceArg(a kernels.Arg) kernels.Arg {
	if a.DType.IsFloat() {
		return newContiguous(a.Shape, kernels.Float64)
	}
	return newContiguous(a.Shape, a.DType)
}
