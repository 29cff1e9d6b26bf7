package cpu

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Operations that copy elements: all element types of one size share a loop. A result is cut into regions, which are
// layouts in its memory, and each region is copied from an operand or filled.

// Cat concatenates the operands along axis l.Ints[0].
func Cat(l *kernels.Launch) {
	axis, start := l.Ints[0], 0
	for _, x := range l.In {
		copyStrided(sliced(l.Out[0], axis, start, 1, x.Shape[axis]), x)
		start += x.Shape[axis]
	}
}

// Stack concatenates operands of equal shape along a new axis l.Ints[0].
func Stack(l *kernels.Launch) {
	for i, x := range l.In {
		copyStrided(selected(l.Out[0], l.Ints[0], i), x)
	}
}

// SelectGrad sets index l.Ints[1] of axis l.Ints[0] to the operand and the other elements to zero.
func SelectGrad(l *kernels.Launch) {
	y, axis, index := l.Out[0], l.Ints[0], l.Ints[1]
	v := scalar(0, y.DType)
	fillStrided(sliced(y, axis, 0, 1, index), v)
	fillStrided(sliced(y, axis, index+1, 1, y.Shape[axis]-index-1), v)
	copyStrided(selected(y, axis, index), l.In[0])
}

// SliceGrad sets every l.Ints[2]-th index of axis l.Ints[0], from l.Ints[1] on, to the operand and the other elements
// to zero.
func SliceGrad(l *kernels.Launch) {
	axis, start, step := l.Ints[0], l.Ints[1], l.Ints[2]
	g, y := l.In[0], l.Out[0]
	if step > 1 {
		clearAll(y)
		copyStrided(sliced(y, axis, start, step, g.Shape[axis]), g)
		return
	}
	var lo [kernels.MaxDims]int
	lo[axis] = start
	pad(y, g, lo[:len(y.Shape)], 0)
}

// Pad surrounds the operand by the value l.Floats[0]: l.Ints[2*d] elements before it and l.Ints[2*d+1] after it on axis
// d.
func Pad(l *kernels.Launch) {
	var lo [kernels.MaxDims]int
	for d := range l.Out[0].Shape {
		lo[d] = l.Ints[2*d]
	}
	pad(l.Out[0], l.In[0], lo[:len(l.Out[0].Shape)], l.Floats[0])
}

// pad copies x into y, from index lo[d] of axis d on, and fills the rest. On each axis it fills the slabs before and
// after x: these have the sizes of x on earlier axes and of y on later ones.
func pad(y, x kernels.Arg, lo []int, value float64) {
	v := scalar(value, y.DType)
	inside := y
	for d, size := range y.Shape {
		n := x.Shape[d]
		fillStrided(sliced(inside, d, 0, 1, lo[d]), v)
		fillStrided(sliced(inside, d, lo[d]+n, 1, size-lo[d]-n), v)
		inside = sliced(inside, d, lo[d], 1, n)
	}
	copyStrided(inside, x)
}

// Flip reverses the order of the elements along the axes l.Ints.
func Flip(l *kernels.Launch) {
	x := l.In[0]
	var strides [kernels.MaxDims]int
	x.Strides = append(strides[:0], x.Strides...)
	for _, d := range l.Ints {
		x.Offset += (x.Shape[d] - 1) * x.Strides[d]
		x.Strides[d] = -x.Strides[d]
	}
	copyStrided(l.Out[0], x)
}

// Tril keeps the elements on and below the l.Ints[0]-th diagonal of the last two axes; the others become zero.
func Tril(l *kernels.Launch) {
	triangle(l, func(row, columns int) (lo, hi int) { return 0, min(max(row+l.Ints[0]+1, 0), columns) })
}

// Triu keeps the elements on and above the l.Ints[0]-th diagonal of the last two axes; the others become zero.
func Triu(l *kernels.Launch) {
	triangle(l, func(row, columns int) (lo, hi int) { return min(max(row+l.Ints[0], 0), columns), columns })
}

// triangle copies columns [lo, hi) of each row and sets the others to zero.
func triangle(l *kernels.Launch, kept func(row, columns int) (lo, hi int)) {
	x, y := l.In[0], l.Out[0]
	last := len(y.Shape) - 1
	rows, columns, size := y.Shape[last-1], y.Shape[last], y.DType.Size()
	var starts kernels.Dims
	starts.PushAll(x.Shape[:last], x.Strides[:last])
	dst, src := bytesOf(y), bytesOf(x)
	par.For(y.Len()/columns, 1+(1<<14)/columns, func(from, to int) {
		for at := starts.Cursor(from); from < to; from++ {
			row := dst[from*columns*size : (from+1)*columns*size]
			lo, hi := kept(from%rows, columns)
			clear(row[:lo*size])
			clear(row[hi*size:])
			if lo < hi {
				from := src[(at.Offset+lo*x.Strides[last])*size:]
				gatherBytes(row[lo*size:hi*size], from, []int{0}, hi-lo, x.Strides[last], hi-lo, size)
			}
			at.Next()
		}
	})
}

// sliced is a with n indices of an axis: start and every step-th after it.
func sliced(a kernels.Arg, axis, start, step, n int) kernels.Arg {
	layout := make([]int, 2*len(a.Shape))
	shape, strides := layout[:len(a.Shape)], layout[len(a.Shape):]
	copy(shape, a.Shape)
	copy(strides, a.Strides)
	a.Offset += start * strides[axis]
	shape[axis] = n
	strides[axis] *= step
	a.Shape, a.Strides = shape, strides
	return a
}

// selected is a at one index of an axis, without that axis.
func selected(a kernels.Arg, axis, index int) kernels.Arg {
	a = sliced(a, axis, index, 1, 1)
	a.Shape = slices.Delete(a.Shape, axis, axis+1)
	a.Strides = slices.Delete(a.Strides, axis, axis+1)
	return a
}

// scalar is an operand of one element.
func scalar(value float64, d kernels.DType) kernels.Arg {
	a := kernels.Arg{Buf: mustMem(d.Size()), DType: d}
	store(a.Buf.(*Mem).data, []float64{value}, d)
	return a
}

// fillStrided sets all elements of dst to v.
func fillStrided(dst, v kernels.Arg) {
	var zeros [kernels.MaxDims]int
	v.Shape, v.Strides = dst.Shape, zeros[:len(dst.Shape)]
	copyStrided(dst, v)
}

// clearAll sets a contiguous result to zero.
func clearAll(y kernels.Arg) {
	b := bytesOf(y)[:y.Len()*y.DType.Size()]
	par.ForAligned(len(b), 1<<17, alignment, func(lo, hi int) { clear(b[lo:hi]) })
}

// A strided copy goes by blocks of rows and columns: a transposed operand is then read by whole cache lines.
const (
	copyRows    = 32
	copyColumns = 4096
	fewColumns  = 8 // rows of fewer columns are copied across them, which takes less than to find each row
)

// copyStrided copies the elements of src to those of dst, in any layouts of the same shape and element type.
func copyStrided(dst, src kernels.Arg) {
	if dst.Len() == 0 {
		return
	}
	var space kernels.Space
	space.Collapse(dst.Shape, []kernels.Arg{dst, src})
	m := stridedCopy{
		size: dst.DType.Size(), dst: dst.Buf.(*Mem).data, src: src.Buf.(*Mem).data,
		dstOffset: dst.Offset, srcOffset: src.Offset, rows: 1, columns: 1, dstStride: 1, srcStride: 1,
		to: space.Dims(dst.Strides), from: space.Dims(src.Strides),
	}
	if last := space.Rank - 1; last >= 0 { // the last dimension is the columns
		if last > 0 && space.Shape[last] < fewColumns && space.Shape[last-1] > space.Shape[last] {
			space.Shape[last], space.Shape[last-1] = space.Shape[last-1], space.Shape[last]
			space.Axis[last], space.Axis[last-1] = space.Axis[last-1], space.Axis[last]
			m.to, m.from = space.Dims(dst.Strides), space.Dims(src.Strides)
		}
		m.rows, m.columns = kernels.Count(space.Shape[:last]), space.Shape[last]
		m.dstStride, m.srcStride = m.to.Strides[last], m.from.Strides[last]
		m.to.Rank, m.from.Rank = last, last
	}
	m.across = (m.columns + copyColumns - 1) / copyColumns
	blocks := (m.rows + copyRows - 1) / copyRows * m.across
	par.For(blocks, 1+(1<<14)/(min(m.rows, copyRows)*min(m.columns, copyColumns)), m.run)
}

// A stridedCopy copies a matrix: the last dimension is the columns, the others together are the rows.
type stridedCopy struct {
	size                 int // of an element in bytes
	dst, src             []byte
	dstOffset, srcOffset int // of the first elements
	rows, columns        int
	across               int // blocks along a row
	dstStride, srcStride int
	to, from             kernels.Dims // dimensions of the rows
}

func (m *stridedCopy) run(lo, hi int) {
	for i := lo; i < hi; i++ {
		row, column := i/m.across*copyRows, i%m.across*copyColumns
		high, wide := min(copyRows, m.rows-row), min(copyColumns, m.columns-column)
		var to, from [copyRows]int
		t, f := m.to.Cursor(row), m.from.Cursor(row)
		for r := range high {
			to[r] = m.dstOffset + t.Offset + column*m.dstStride
			from[r] = m.srcOffset + f.Offset + column*m.srcStride
			t.Next()
			f.Next()
		}
		switch m.size {
		case 1:
			copyBlock(m.dst, m.src, to[:high], from[:high], wide, m.dstStride, m.srcStride)
		case 2:
			copyBlock(view[uint16](m.dst), view[uint16](m.src), to[:high], from[:high], wide, m.dstStride, m.srcStride)
		case 4:
			copyBlock(view[uint32](m.dst), view[uint32](m.src), to[:high], from[:high], wide, m.dstStride, m.srcStride)
		case 8:
			copyBlock(view[uint64](m.dst), view[uint64](m.src), to[:high], from[:high], wide, m.dstStride, m.srcStride)
		}
	}
}

// copyBlock copies n elements of each row.
func copyBlock[T uint8 | uint16 | uint32 | uint64](dst, src []T, to, from []int, n, dstStride, srcStride int) {
	switch {
	case dstStride == 1 && srcStride == 1:
		for r, at := range to {
			copy(dst[at:at+n], src[from[r]:])
		}
	case dstStride == 1 && srcStride == 0:
		for r, at := range to {
			fill(dst[at:at+n], src[from[r]])
		}
	case dstStride == 1 && srcStride == -1:
		for r, at := range to {
			reverse(dst[at:at+n], src[from[r]-n+1:])
		}
	case srcStride == 1:
		for r, at := range to {
			for _, v := range src[from[r]:][:n] {
				dst[at] = v
				at += dstStride
			}
		}
	default:
		for c := range n {
			for r, at := range to {
				dst[at+c*dstStride] = src[from[r]+c*srcStride]
			}
		}
	}
}

// reverse sets dst to the first elements of src, the last of them first.
func reverse[T uint8 | uint16 | uint32 | uint64](dst, src []T) {
	src = src[:len(dst)]
	n := len(dst)
	if sizeOf(T(0)) == 4 { // two at once
		to, from := view[byte](dst), view[byte](src)
		for ; n >= 4; n -= 4 {
			last := from[4*n-16 : 4*n]
			binary.LittleEndian.PutUint64(to, bits.RotateLeft64(binary.LittleEndian.Uint64(last[8:]), 32))
			binary.LittleEndian.PutUint64(to[8:], bits.RotateLeft64(binary.LittleEndian.Uint64(last), 32))
			to = to[16:]
		}
	}
	dst = dst[len(dst)-n:]
	for i := range dst {
		dst[i] = src[n-1-i]
	}
}

// contiguousElements are the elements of a float32 operand in row-major order, copied if it is not contiguous.
func contiguousElements(a kernels.Arg) []float32 { return contiguousOf[float32](a) }

// contiguousOf is contiguousElements of any type.
func contiguousOf[T Element](a kernels.Arg) []T {
	if !a.Contiguous() {
		src := a
		a = newContiguous(a.Shape, a.DType)
		copyStrided(a, src)
	}
	return Slice[T](a)[:a.Len()]
}

// newContiguous is a new contiguous operand.
func newContiguous(shape []int, d kernels.DType) kernels.Arg {
	strides := kernels.RowMajor(make([]int, len(shape)), shape)
	return kernels.Arg{
		Buf: mustMem(kernels.Count(shape) * d.Size()), DType: d, Layout: kernels.Layout{Shape: shape, Strides: strides},
	}
}

// A contiguousCopy copies elements of one type, unchanged, from any layout to contiguous memory.
type contiguousCopy struct {
	space
	dst  []byte
	body func(lo, hi int) // copyBlocks, made once
}

var contiguousCopies = sync.Pool{New: func() any {
	x := &contiguousCopy{}
	x.body = x.copyBlocks
	return x
}}

var rowStarts = sync.Pool{New: func() any { return new([chunk]int) }}

// copyContiguous copies the operand of an op call to its result, whose type is the same.
func copyContiguous(l *kernels.Launch) {
	x := contiguousCopies.Get().(*contiguousCopy)
	x.describe(l.In, l.Out[0].Shape)
	if x.Rank > 2 && x.columns < fewColumns && x.operands[0].mode == blocked {
		x.operands[0].data = nil
		contiguousCopies.Put(x)
		copyStrided(l.Out[0], l.In[0])
		return
	}
	x.dst = bytesOf(l.Out[0])
	par.For(x.blocks, 1+(1<<15)/(1+x.high*x.wide), x.body)
	x.dst, x.operands[0].data = nil, nil
	contiguousCopies.Put(x)
}

func (x *contiguousCopy) copyBlocks(lo, hi int) {
	o := &x.operands[0]
	size := o.dtype.Size()
	if o.mode == contiguous && x.Rank == 1 {
		from, to := lo*x.wide, min(hi*x.wide, x.n)
		copy(x.dst[from*size:to*size], o.data[(o.offset+from)*size:])
		return
	}
	starts := rowStarts.Get().(*[chunk]int)
	for i := lo; i < hi; i++ {
		b := x.block(i)
		x.gather(x.dst[(b.row*x.columns+b.column)*size:], o, b, x.columns, starts[:])
	}
	rowStarts.Put(starts)
}

// Copies converts each operand, which is contiguous, to the first elements of its result, and sets the others to 0.
func Copies(l *kernels.Launch) {
	for i, x := range l.In {
		y, n := l.Out[i], l.In[i].Len()
		y.Shape, y.Strides = []int{y.Len()}, []int{1}
		rest := sliced(y, 0, n, 1, y.Len()-n)
		fillStrided(rest, scalar(0, y.DType))
		y = sliced(y, 0, 0, 1, n)
		x.Shape, x.Strides = y.Shape, y.Strides
		copyElements(y, x)
	}
}
