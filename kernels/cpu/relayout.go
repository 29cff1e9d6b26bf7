package cpu

import (
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// A relayouting copies elements of one type from any layout to contiguous memory, bit by bit.
type relayouting struct {
	space
	dst  []byte
	body func(lo, hi int) // copyBlocks, made once
}

var relayoutings = sync.Pool{New: func() any {
	x := &relayouting{}
	x.body = x.copyBlocks
	return x
}}

var rowStarts = sync.Pool{New: func() any { return new([chunk]int) }}

// relayout copies the operand of a launch to its result, whose type is the same.
func relayout(l *kernels.Launch) {
	x := relayoutings.Get().(*relayouting)
	x.describe(l.In, l.Out[0].Shape)
	x.dst = bytesOf(l.Out[0])
	par.For(x.blocks, 1+(1<<15)/(1+x.high*x.wide), x.body)
	x.dst, x.operands[0].data = nil, nil
	relayoutings.Put(x)
}

func (x *relayouting) copyBlocks(lo, hi int) {
	o := &x.operands[0]
	size := o.dtype.Size()
	if o.mode == flat && x.Rank == 1 {
		from, to := lo*x.wide, min(hi*x.wide, x.n)
		copy(x.dst[from*size:to*size], o.data[(o.first+from)*size:])
		return
	}
	starts := rowStarts.Get().(*[chunk]int)
	for i := lo; i < hi; i++ {
		b := x.block(i)
		x.gather(x.dst[(b.row*x.columns+b.column)*size:], o, b, x.columns, starts[:])
	}
	rowStarts.Put(starts)
}
