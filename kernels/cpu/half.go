package cpu

import (
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The rule for float16 and bfloat16: operands are widened to float32, which is exact, the computation runs in float32
// in the canonical order, and each result is rounded once, to nearest even. Pointwise programs do this chunk by chunk,
// as they load and store. For direct loops, whole operands are widened first.

// widens tells whether elements of type d go through the float32 loops of op.
func widens(op *kernels.Op, d kernels.DType) bool { return d.IsHalf() && takes(op, kernels.Float32) }

// A widening is one op call of float32 loops on operands of 16 bits. It is used again, so that an op call allocates
// nothing.
type widening struct {
	launch  kernels.Launch // in float32
	scratch []*[]float32   // the memory of converted operands
	memory  []Mem          // the same as device memory
	strides []int          // of converted operands
	wide    []float32      // what body converts
	narrow  []uint16
	convert func(wide []float32, narrow []uint16)
	body    func(lo, hi int) // run, made once
}

var widenings = sync.Pool{New: func() any {
	w := &widening{}
	w.body = w.run
	return w
}}

// widened runs the float32 loops of an operation.
func widened(l *kernels.Launch) {
	w := widenings.Get().(*widening)
	defer w.release()
	in, out := append(w.launch.In[:0], l.In...), append(w.launch.Out[:0], l.Out...)
	w.launch = *l
	w.launch.In, w.launch.Out = in, out
	n := len(in) + len(out)
	w.memory, w.scratch = slices.Grow(w.memory[:0], n)[:0], w.scratch[:0]
	w.strides = slices.Grow(w.strides[:0], n*kernels.MaxDims)
	for i, a := range in {
		if a.DType.IsHalf() {
			in[i] = w.widen(a)
		}
	}
	for i, a := range out {
		if a.DType.IsHalf() {
			out[i] = w.allocate(a)
		}
	}
	l.Op.CPU(&w.launch)
	for i, a := range l.Out {
		if a.DType.IsHalf() {
			w.convertAll(Slice[float32](out[i])[:a.Len()], Slice[uint16](a), toHalf(a.DType))
		}
	}
}

// release gives the memory of the op call back.
func (w *widening) release() {
	for _, b := range w.scratch {
		giveBack(b)
	}
	clear(w.memory)
	clear(w.launch.In)
	clear(w.launch.Out)
	w.launch = kernels.Launch{In: w.launch.In, Out: w.launch.Out}
	w.wide, w.narrow = nil, nil
	widenings.Put(w)
}

// allocate returns contiguous float32 memory for the elements of a.
func (w *widening) allocate(a kernels.Arg) kernels.Arg {
	b := borrow(a.Len())
	w.scratch = append(w.scratch, b)
	w.memory = append(w.memory, Mem{view[byte](*b)})
	at := len(w.strides)
	w.strides = w.strides[:at+len(a.Shape)]
	wide := kernels.Arg{Buf: &w.memory[len(w.memory)-1], DType: kernels.Float32}
	wide.Shape, wide.Strides = a.Shape, kernels.RowMajor(w.strides[at:len(w.strides):len(w.strides)], a.Shape)
	return wide
}

// widen is a in float32. An operand that uses all elements of a piece of memory, in any order or repeated, keeps its
// layout; others become contiguous. Strides are not negative.
func (w *widening) widen(a kernels.Arg) kernels.Arg {
	wide := w.allocate(a)
	n := 1 // elements of memory from the first to the last
	for d, size := range a.Shape {
		n += (size - 1) * a.Strides[d]
	}
	switch {
	case a.Len() == 0:
	case n <= a.Len():
		copy(wide.Strides, a.Strides)
		w.convertAll(view[float32](wide.Buf.(*Mem).data)[:n], Slice[uint16](a), fromHalf(a.DType))
	default:
		copyElements(wide, a)
	}
	return wide
}

// convertAll converts elements on several threads.
func (w *widening) convertAll(wide []float32, narrow []uint16, convert func(wide []float32, narrow []uint16)) {
	w.wide, w.narrow, w.convert = wide, narrow, convert
	par.ForAligned(len(wide), 1<<14, alignment, w.body)
}

func (w *widening) run(lo, hi int) { w.convert(w.wide[lo:hi], w.narrow[lo:hi]) }

func fromHalf(d kernels.DType) func(wide []float32, narrow []uint16) {
	if d == kernels.Float16 {
		return vec.FromFloat16
	}
	return vec.FromBFloat16
}

func toHalf(d kernels.DType) func(wide []float32, narrow []uint16) {
	if d == kernels.Float16 {
		return func(wide []float32, narrow []uint16) { vec.ToFloat16(narrow, wide) }
	}
	return func(wide []float32, narrow []uint16) { vec.ToBFloat16(narrow, wide) }
}
