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

// reference runs the float64 reference of an operation: floating operands become contiguous float64, others contiguous
// in their own type, and the results are converted to the element types of the launch.
func reference(l *kernels.Launch) {
	r := *l
	r.In, r.Out = slices.Clone(l.In), slices.Clone(l.Out)
	for i, a := range l.In {
		r.In[i] = plain(a)
		copyElements(r.In[i], a)
	}
	for i, a := range l.Out {
		r.Out[i] = plain(a)
	}
	l.Op.Ref(&r)
	for i, a := range l.Out {
		copyElements(a, r.Out[i])
	}
}

// plain is new contiguous memory for an operand of a reference.
func plain(a kernels.Arg) kernels.Arg {
	p := kernels.Arg{DType: a.DType, Layout: kernels.Layout{Shape: a.Shape}}
	if a.DType.IsFloat() {
		p.DType = kernels.Float64
	}
	p.Strides = kernels.RowMajor(make([]int, len(a.Shape)), a.Shape)
	p.Buf = newMem(p.Len() * p.DType.Size())
	return p
}
