package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var anyOp, allOp Op

func init() {
	quantifier := func(o *Op, name, doc string, none bool, loops func(l *kernels.Launch)) {
		define(o, entry{
			Op:     kernels.Op{Name: name, CPU: loops, Types: kernels.DTypes(), Ref: quantifierRef(none)},
			Doc:    doc,
			Ints:   []string{"axes..."},
			Shape:  func(c *ctx) { c.reduced(Bool) },
			NoGrad: "the result is a bool",
		})
	}
	quantifier(&anyOp, "any", "whether an element of x over axes is not 0", false, cpu.Any)
	quantifier(&allOp, "all", "whether no element of x over axes is 0", true, cpu.All)
}

// Any tells whether an element over the given axes, which disappear, is not 0; without axes, among all elements. NaN is
// not 0. Any of no elements is false.
func (t *Tensor) Any(axes ...int) *Tensor { return t.reduce(&anyOp, axes) }

// All tells whether no element over the given axes, which disappear, is 0; without axes, among all elements. All of no
// elements is true.
func (t *Tensor) All(axes ...int) *Tensor { return t.reduce(&allOp, axes) }

// CountNonzero is the number, in int64, of elements over the given axes, which disappear, that are not 0; without axes,
// among all elements.
func (t *Tensor) CountNonzero(axes ...int) *Tensor { return t.To(Bool).Sum(axes...) }

// quantifierRef is the reference. The result is none, unless an element decides: for any one that is not 0, for all one
// that is 0.
func quantifierRef(none bool) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		x, y := valuesOf(l.In[0]), cpu.Slice[bool](l.Out[0])[:l.Out[0].Len()]
		copy(y, slices.Repeat([]bool{none}, len(y)))
		eachReduced(l, func(i, o int) {
			if (x[i] != 0) != none {
				y[o] = !none
			}
		})
	}
}
