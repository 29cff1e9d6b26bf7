//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
)

// Operations that move elements without looking at them. Their kernels go by the size of an element.
func init() {
	plans["cat"] = planCat
	plans["stack"] = planStack
	plans["flip"] = planFlip
	plans["pad"] = planPad
	plans["slice_grad"] = planSliceGrad
	plans["select_grad"] = planSelectGrad
	plans["tril"] = planTriangle(false)
	plans["triu"] = planTriangle(true)
}

const (
	copyThreads    = 256
	transposeTile  = 32 // rows and columns: kTile of copy.cu
	transposeLeast = 8  // rows and columns: of less, a tile would be almost empty
)

// region is the struct Region of copy.cu.
type region struct{ lo, count [kernels.MaxDims]int32 }

// band is the struct Band of copy.cu.
type band struct{ lo, hi int64 }

// sized is the symbol of a kernel for elements of n bytes.
func sized(family string, n int) string { return family + "_b" + itoa(n) }

// startEach begins a launch of a kernel with a thread for each of n elements, which is not 0.
func (c *call) startEach(symbol string, n int) {
	c.startCopy(symbol, n, ceilDiv(n, copyThreads))
}

// startCopy begins a launch of so many blocks for n elements.
func (c *call) startCopy(symbol string, n, blocks int) {
	if blocks > math.MaxInt32 {
		c.refuse("%d elements are too many for one launch", n)
	}
	c.start(symbol, dim{uint32(blocks), 1, 1}, copyThreads)
}

// relayout copies elements between two layouts of one shape; strides may be negative.
func (c *call) relayout(to, from *kernels.Arg) {
	n := to.Len()
	if n == 0 {
		return
	}
	var w stridedCopy
	w.set(to.Shape, to.DType.Size(), *to, *from)
	if row, column := w.fastest(0), w.fastest(1); row >= 0 && column >= 0 && row != column &&
		min(w.Shape[row], w.Shape[column]) >= transposeLeast {
		c.transpose(to, from, &w.space, row, column)
		return
	}
	w.begin[0], w.begin[1] = c.address(to), c.address(from)
	w.vectorise(0)
	c.stridedCopy("copy", &w, nil)
}

// transpose copies matrices by tiles: rows, along one axis of s, are contiguous in `to`, columns in `from`.
func (c *call) transpose(to, from *kernels.Arg, s *space, row, column int) {
	columns, rows := s.Shape[row], s.Shape[column]
	toStep, fromStep := s.strides[0][column], s.strides[1][row]
	s.drop(max(row, column))
	s.drop(min(row, column))
	matrices := s.n / (rows * columns)
	tiles := matrices * ceilDiv(rows, transposeTile) * ceilDiv(columns, transposeTile)
	c.startCopy(sized("transpose", to.DType.Size()), s.n, tiles)
	c.pointer(to)
	c.pointer(from)
	for _, n := range [4]int{rows, columns, toStep, fromStep} {
		arg(c, uint64(n))
	}
	s.shape64(c)
}

// planCat copies the operands one behind the other along axis l.Ints[0].
func planCat(c *call, l *kernels.Launch) {
	axis, y := l.Ints[0], l.Out[0]
	for i := range l.In {
		slice := y
		slice.Shape = l.In[i].Shape
		c.relayout(&slice, &l.In[i])
		y.Offset += l.In[i].Shape[axis] * y.Strides[axis]
	}
}

// planStack copies operands of one shape one behind the other along a new axis l.Ints[0].
func planStack(c *call, l *kernels.Launch) {
	axis, y := l.Ints[0], l.Out[0]
	stride := y.Strides[axis]
	var others [kernels.MaxDims]int
	y.Strides = append(append(others[:0], y.Strides[:axis]...), y.Strides[axis+1:]...)
	for i := range l.In {
		y.Shape = l.In[i].Shape
		c.relayout(&y, &l.In[i])
		y.Offset += stride
	}
}

// planFlip reverses the order of the elements along the axes l.Ints.
func planFlip(c *call, l *kernels.Launch) {
	x := l.In[0]
	if x.Len() == 0 {
		return
	}
	var strides [kernels.MaxDims]int
	x.Strides = append(strides[:0], x.Strides...)
	for _, d := range l.Ints {
		x.Offset += (x.Shape[d] - 1) * x.Strides[d]
		x.Strides[d] = -x.Strides[d]
	}
	c.relayout(&l.Out[0], &x)
}

// pad sets y to x, which begins at the entries lo of its axes, and to a value elsewhere.
func (c *call) pad(y, x *kernels.Arg, lo [kernels.MaxDims]int, value float64) {
	if y.Len() == 0 {
		return
	}
	size := y.DType.Size()
	w := stridedCopy{space: space{n: y.Len(), ins: 2}, elementBytes: size, scale: [maxCopyOperands]int{size, size}}
	w.begin[0], w.begin[1] = c.address(y), c.address(x)
	var first, count [kernels.MaxDims]int // of x, by the axes of w
	for d, n := range y.Shape {
		w.begin[1] -= uint64(lo[d] * x.Strides[d] * size) // where it would begin if lo were 0
		whole, last := x.Shape[d] == n, w.Rank-1
		switch {
		case whole && n == 1:
			continue
		case whole && w.Rank > 0 && w.strides[0][last] == y.Strides[d]*n && w.strides[1][last] == x.Strides[d]*n:
			w.Shape[last] *= n
			first[last] *= n
			count[last] *= n
		default:
			last = w.Rank
			w.Shape[last], first[last], count[last] = n, lo[d], x.Shape[d]
			w.Rank++
		}
		w.strides[0][last], w.strides[1][last] = y.Strides[d], x.Strides[d]
	}
	if w.Rank == 0 { // one element
		w.Shape[0], count[0], w.Rank = 1, 1, 1
	}
	last := w.Rank - 1
	n := w.vectorise(uint64(size*first[last] | size*count[last]))
	first[last] /= n
	count[last] /= n
	c.stridedCopy("pad", &w, func(before [kernels.MaxDims]int) {
		c.element(y.DType, value, w.elementBytes)
		var box region
		for d := range w.Rank {
			lo := clampFar(first[d] - before[d])
			box.lo[d], box.count[d] = lo, clampFar(first[d]+count[d]-before[d])-lo
		}
		structure(c, &box)
	})
}

// clampFar clamps n to values beyond the reach of every launch.
func clampFar(n int) int32 { return int32(max(-2*maxReach, min(n, 2*maxReach))) }

// planPad surrounds the operand by l.Floats[0], with l.Ints[2*d] elements before it on axis d.
func planPad(c *call, l *kernels.Launch) {
	var lo [kernels.MaxDims]int
	for d := range l.Out[0].Shape {
		lo[d] = l.Ints[2*d]
	}
	c.pad(&l.Out[0], &l.In[0], lo, l.Floats[0])
}

// planSliceGrad puts the operand at every l.Ints[2]-th index of axis l.Ints[0] from l.Ints[1] on.
func planSliceGrad(c *call, l *kernels.Launch) {
	x, y, axis, start, stride := &l.In[0], l.Out[0], l.Ints[0], l.Ints[1], l.Ints[2]
	if stride == 1 {
		var lo [kernels.MaxDims]int
		lo[axis] = start
		c.pad(&y, x, lo, 0)
		return
	}
	if y.Len() == 0 {
		return
	}
	c.fill(c.resultOf(&y), 0, y.Len())
	var strides [kernels.MaxDims]int
	y.Shape, y.Strides, y.Offset = x.Shape, append(strides[:0], y.Strides...), y.Offset+start*y.Strides[axis]
	y.Strides[axis] *= stride
	c.relayout(&y, x)
}

// planSelectGrad puts the operand at index l.Ints[1] of a new axis l.Ints[0].
func planSelectGrad(c *call, l *kernels.Launch) {
	x, axis := l.In[0], l.Ints[0]
	stride := 0 // any stride will do for an axis of size 1: this one lets it collapse with the next
	if axis < len(x.Shape) {
		stride = x.Shape[axis] * x.Strides[axis]
	}
	var shape, strides [kernels.MaxDims]int
	x.Shape = append(append(append(shape[:0], x.Shape[:axis]...), 1), x.Shape[axis:]...)
	x.Strides = append(append(append(strides[:0], x.Strides[:axis]...), stride), x.Strides[axis:]...)
	var lo [kernels.MaxDims]int
	lo[axis] = l.Ints[1]
	c.pad(&l.Out[0], &x, lo, 0)
}

// planTriangle keeps the elements on one side of the l.Ints[0]-th diagonal of the last two axes.
func planTriangle(upper bool) plan {
	return func(c *call, l *kernels.Launch) {
		x, y := &l.In[0], &l.Out[0]
		if y.Len() == 0 {
			return
		}
		var diagonal [kernels.MaxDims]int
		rank := len(y.Shape)
		diagonal[rank-2], diagonal[rank-1] = -1, 1
		var w stridedCopy
		w.set(y.Shape, y.DType.Size(), *y, *x, kernels.Arg{Layout: kernels.Layout{Strides: diagonal[:rank]}})
		w.begin[0], w.begin[1] = c.address(y), c.address(x)
		const far = 1 << 60 // diagonals
		diagonals := band{-far, far}
		at := max(-far, min(int64(l.Ints[0]), far))
		if upper {
			diagonals.lo = at
		} else {
			diagonals.hi = at
		}
		c.stridedCopy("triangle", &w, func([kernels.MaxDims]int) { structure(c, &diagonals) })
	}
}

// element appends a value as elements of type d that fill so many bytes, rounded to nearest; integers saturate.
func (c *call) element(d kernels.DType, value float64, bytes int) {
	p, le := c.space(uintptr(bytes), uintptr(bytes)), binary.LittleEndian
	switch d {
	case kernels.Float32:
		le.PutUint32(p, math.Float32bits(float32(value)))
	case kernels.Float64:
		le.PutUint64(p, math.Float64bits(value))
	case kernels.Float16:
		le.PutUint16(p, float16.Fromfloat32(kernels.OddFloat32(value)).Bits())
	case kernels.BFloat16:
		u := math.Float32bits(kernels.OddFloat32(value))
		if value != value {
			u = 0x7fff << 16
		} else {
			u += 0x7fff + u>>16&1
		}
		le.PutUint16(p, uint16(u>>16))
	case kernels.Int64:
		le.PutUint64(p, uint64(kernels.Saturate[int64](value, math.MinInt64, math.MaxInt64)))
	case kernels.Int32:
		le.PutUint32(p, uint32(kernels.Saturate[int32](value, math.MinInt32, math.MaxInt32)))
	case kernels.Uint8:
		p[0] = kernels.Saturate[uint8](value, 0, math.MaxUint8)
	case kernels.Bool:
		p[0] = 0
		if value != 0 {
			p[0] = 1
		}
	}
	for n := d.Size(); n < bytes; n *= 2 {
		copy(p[n:], p[:n])
	}
}
