package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// rowGrain is about how many elements are worth a second thread in operations along rows.
const rowGrain = 16384

// eachRow calls f for every row of the operands along the given axes, of which there are n elements: the elements of
// each operand, and room for those of the first result. They may be copies; dst is stored when f returns.
func eachRow(l *kernels.Launch, axes []int, f func(dst []float32, in [][]float32)) {
	out := reductionOf(l.Out[0], axes)
	if out.n == 0 {
		return
	}
	y := Slice[float32](l.Out[0])
	copied := 0
	if !out.inRows() {
		copied = out.n
	}
	var in [4]reduction
	for k, a := range l.In {
		in[k].describe(a, axes)
		copied += in[k].gathered(out.n)
	}
	par.For(out.results(), 1+rowGrain/max(1, out.n), func(lo, hi int) {
		scratch := borrow(copied)
		defer giveBack(scratch)
		var rows [4][]float32
		for o := lo; o < hi; o++ {
			free := *scratch
			for k, a := range l.In {
				rows[k] = in[k].elements(free, Slice[float32](a), o, 0, out.n)
				free = free[in[k].gathered(out.n):]
			}
			if out.inRows() {
				f(y[o*out.n:(o+1)*out.n], rows[:len(l.In)])
				continue
			}
			f(free[:out.n], rows[:len(l.In)])
			at := out.reduced.walk(0)
			base := out.kept.place(o)
			for _, v := range free[:out.n] {
				y[base+at.place] = v
				at.next()
			}
		}
	})
}

// eachResult calls f for every result of reducing the first operand along the axes l.Ints, with its elements.
func eachResult(l *kernels.Launch, f func(o int, x []float32)) {
	r := reductionOf(l.In[0], l.Ints)
	x := Slice[float32](l.In[0])
	par.For(l.Out[0].Len(), 1+rowGrain/max(1, r.n), func(lo, hi int) {
		buf := borrow(r.gathered(r.n))
		defer giveBack(buf)
		for o := lo; o < hi; o++ {
			f(o, r.elements(*buf, x, o, 0, r.n))
		}
	})
}
