//go:build cuda && cgo && linux

package cuda

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

func init() { plans["copies"] = planCopies }

// Constants of copies.cu.
const (
	maxCopies = 64
	copyPart  = 4096 // elements of a block
)

// copyOne is the struct Copy of copies.cu, copyMany the struct Copies.
type copyOne struct {
	to, from         uint64
	n, filled, first uint32
	toType, fromType uint32
}
type copyMany struct {
	copy  [maxCopies]copyOne
	count uint32
}

// identity is an expression that converts.
var identity = kernels.Op{Name: "copy", Expr: expr.Must("x", []string{"x"}, nil)}

// together is what plans of copies use again.
type together struct {
	all    copyMany
	blocks int
	alone  kernels.Launch // a copy by itself
	layout [2]int         // its shape and stride
}

// planCopies copies operands of float32 and half precision 64 by a launch, others, and what is large, one by one.
func planCopies(c *call, l *kernels.Launch) {
	t := &c.together
	for i := range l.In {
		x, y := &l.In[i], &l.Out[i]
		n, filled := x.Len(), y.Len()
		converts := x.DType == kernels.Float32 && (y.DType == kernels.Float32 || y.DType.IsHalf()) ||
			x.DType.IsHalf() && y.DType == kernels.Float32
		switch {
		case filled == 0:
			continue
		case !converts || filled > 1<<30:
			c.copyAlone(y, x)
			continue
		}
		t.all.copy[t.all.count] = copyOne{to: c.address(y), from: c.address(x), n: uint32(n), filled: uint32(filled),
			first: uint32(t.blocks), toType: uint32(y.DType.Code()), fromType: uint32(x.DType.Code())}
		t.all.count++
		if t.blocks += ceilDiv(filled, copyPart); t.all.count == maxCopies {
			c.copyTogether()
		}
	}
	c.copyTogether()
}

// copyTogether launches the copies that have come together.
func (c *call) copyTogether() {
	if t := &c.together; t.all.count > 0 {
		c.start("copies", dim{uint32(t.blocks), 1, 1}, copyThreads)
		structure(c, &t.all)
		t.all.count, t.blocks = 0, 0
	}
}

// copyAlone converts x to the first elements of y, and sets the others to 0.
func (c *call) copyAlone(y, x *kernels.Arg) {
	n, rest := x.Len(), *y
	if rest.Offset += n; n < y.Len() {
		c.fill(c.resultOf(&rest), 0, y.Len()-n)
	}
	if n == 0 {
		return
	}
	t := &c.together
	t.layout = [2]int{n, 1}
	t.alone.Op, t.alone.In, t.alone.Out = &identity, append(t.alone.In[:0], *x), append(t.alone.Out[:0], *y)
	for _, a := range [2]*kernels.Arg{&t.alone.In[0], &t.alone.Out[0]} {
		a.Shape, a.Strides = t.layout[:1], t.layout[1:]
	}
	planPointwise(c, &t.alone)
	t.alone.In[0].Buf, t.alone.Out[0].Buf = nil, nil
}
