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
	moveThreads    = 256
	transposeTile  = 32 // rows and columns: kTile of copy.cu
	transposeLeast = 8  // rows and columns: of less, a tile would be almost empty
)

// sized is the symbol of a kernel for elements of n bytes.
func sized(family string, n int) string { return family + "_b" + itoa(n) }

// each begins a launch of a kernel with a thread for each of n elements, which is not 0.
func (c *call) each(symbol string, n int) error { return c.move(symbol, n, ceilDiv(n, moveThreads)) }

// move begins a launch of so many blocks for n elements.
func (c *call) move(symbol string, n, blocks int) error {
	if blocks > math.MaxInt32 {
		return kernels.Errorf(kernels.ErrDevice, c.op, "%d elements are too many for one launch", n)
	}
	return c.start(symbol, dim{uint32(blocks), 1, 1}, moveThreads)
}

// relayout copies elements between two layouts of one shape; strides may be negative.
func (c *call) relayout(to, from *kernels.Arg) error {
	n := to.Len()
	if n == 0 {
		return nil
	}
	var w walk
	w.over(to.Shape, to.DType.Size(), *to, *from)
	if row, column := w.adjacent(0), w.adjacent(1); row >= 0 && column >= 0 && row != column && min(w.shape[row], w.shape[column]) >= transposeLeast {
		return c.transpose(to, from, &w.space, row, column)
	}
	w.begin[0], w.begin[1] = c.address(to), c.address(from)
	w.widen(0)
	return c.walk("copy", &w, nil)
}

// transpose copies matrices by tiles: the elements of a row, along one axis of s, lie side by side in `to`, those of a
// column in `from`.
func (c *call) transpose(to, from *kernels.Arg, s *space, row, column int) error {
	columns, rows := s.shape[row], s.shape[column]
	toStep, fromStep := s.strides[0][column], s.strides[1][row]
	s.drop(max(row, column))
	s.drop(min(row, column))
	matrices := s.n / (rows * columns)
	tiles := matrices * ceilDiv(rows, transposeTile) * ceilDiv(columns, transposeTile)
	if err := c.move(sized("transpose", to.DType.Size()), s.n, tiles); err != nil {
		return err
	}
	c.pointer(to)
	c.pointer(from)
	for _, n := range [4]int{rows, columns, toStep, fromStep} {
		arg(c, uint64(n))
	}
	s.shape64(c)
	return nil
}

// planCat lays the operands side by side along axis l.Ints[0].
func planCat(c *call, l *kernels.Launch) error {
	axis, y := l.Ints[0], l.Out[0]
	for i := range l.In {
		part := y
		part.Shape = l.In[i].Shape
		if err := c.relayout(&part, &l.In[i]); err != nil {
			return err
		}
		y.Offset += l.In[i].Shape[axis] * y.Strides[axis]
	}
	return nil
}

// planStack lays operands of one shape side by side along a new axis l.Ints[0].
func planStack(c *call, l *kernels.Launch) error {
	axis, y := l.Ints[0], l.Out[0]
	step := y.Strides[axis]
	var others [kernels.MaxDims]int
	y.Strides = append(append(others[:0], y.Strides[:axis]...), y.Strides[axis+1:]...)
	for i := range l.In {
		y.Shape = l.In[i].Shape
		if err := c.relayout(&y, &l.In[i]); err != nil {
			return err
		}
		y.Offset += step
	}
	return nil
}

// planFlip reverses the order of the elements along the axes l.Ints.
func planFlip(c *call, l *kernels.Launch) error {
	x := l.In[0]
	if x.Len() == 0 {
		return nil
	}
	var strides [kernels.MaxDims]int
	x.Strides = append(strides[:0], x.Strides...)
	for _, d := range l.Ints {
		x.Offset += (x.Shape[d] - 1) * x.Strides[d]
		x.Strides[d] = -x.Strides[d]
	}
	return c.relayout(&l.Out[0], &x)
}

// pad sets y to x, which begins at the entries lo of its axes, and to a value elsewhere.
func (c *call) pad(y, x *kernels.Arg, lo [kernels.MaxDims]int, value float64) error {
	if y.Len() == 0 {
		return nil
	}
	size := y.DType.Size()
	w := walk{space: space{n: y.Len(), ins: 2}, unit: size, size: [maxWalk]int{size, size}}
	w.begin[0], w.begin[1] = c.address(y), c.address(x)
	var first, count [kernels.MaxDims]int // of x, by the axes of the walk
	for d, n := range y.Shape {
		w.begin[1] -= uint64(lo[d] * x.Strides[d] * size) // where it would begin if lo were 0
		whole, last := x.Shape[d] == n, w.rank-1
		switch {
		case whole && n == 1:
			continue
		case whole && w.rank > 0 && w.strides[0][last] == y.Strides[d]*n && w.strides[1][last] == x.Strides[d]*n:
			w.shape[last] *= n
			first[last] *= n
			count[last] *= n
		default:
			last = w.rank
			w.shape[last], first[last], count[last] = n, lo[d], x.Shape[d]
			w.rank++
		}
		w.strides[0][last], w.strides[1][last] = y.Strides[d], x.Strides[d]
	}
	if w.rank == 0 { // one element
		w.shape[0], count[0], w.rank = 1, 1, 1
	}
	last := w.rank - 1
	n := w.widen(uint64(size*first[last] | size*count[last]))
	first[last] /= n
	count[last] /= n
	return c.walk("pad", &w, func(before [kernels.MaxDims]int) {
		c.element(y.DType, value, w.unit)
		var region struct{ lo, count [kernels.MaxDims]int32 }
		for d := range w.rank {
			lo := nearby(first[d] - before[d])
			region.lo[d], region.count[d] = lo, nearby(first[d]+count[d]-before[d])-lo
		}
		structure(c, &region)
	})
}

// nearby is n or, if that is outside of what a walk spans, a number beyond.
func nearby(n int) int32 { return int32(max(-2*walkReach, min(n, 2*walkReach))) }

// planPad surrounds the operand by l.Floats[0], with l.Ints[2*d] elements before it on axis d.
func planPad(c *call, l *kernels.Launch) error {
	var lo [kernels.MaxDims]int
	for d := range l.Out[0].Shape {
		lo[d] = l.Ints[2*d]
	}
	return c.pad(&l.Out[0], &l.In[0], lo, l.Floats[0])
}

// planSliceGrad puts the operand at every l.Ints[2]-th place along axis l.Ints[0] from l.Ints[1] on.
func planSliceGrad(c *call, l *kernels.Launch) error {
	x, y, axis, start, step := &l.In[0], l.Out[0], l.Ints[0], l.Ints[1], l.Ints[2]
	if step == 1 {
		var lo [kernels.MaxDims]int
		lo[axis] = start
		return c.pad(&y, x, lo, 0)
	}
	if y.Len() == 0 {
		return nil
	}
	if err := c.fill(c.resultOf(&y), 0, y.Len()); err != nil {
		return err
	}
	var strides [kernels.MaxDims]int
	y.Shape, y.Strides, y.Offset = x.Shape, append(strides[:0], y.Strides...), y.Offset+start*y.Strides[axis]
	y.Strides[axis] *= step
	return c.relayout(&y, x)
}

// planSelectGrad puts the operand at index l.Ints[1] of a new axis l.Ints[0].
func planSelectGrad(c *call, l *kernels.Launch) error {
	x, axis := l.In[0], l.Ints[0]
	entry := 0 // any number will do as the stride of one entry: by this, the axis goes on evenly from the next
	if axis < len(x.Shape) {
		entry = x.Shape[axis] * x.Strides[axis]
	}
	var shape, strides [kernels.MaxDims]int
	x.Shape = append(append(append(shape[:0], x.Shape[:axis]...), 1), x.Shape[axis:]...)
	x.Strides = append(append(append(strides[:0], x.Strides[:axis]...), entry), x.Strides[axis:]...)
	var lo [kernels.MaxDims]int
	lo[axis] = l.Ints[1]
	return c.pad(&l.Out[0], &x, lo, 0)
}

// planTriangle keeps the elements on one side of the l.Ints[0]-th diagonal of the last two axes.
func planTriangle(upper bool) plan {
	return func(c *call, l *kernels.Launch) error { return c.triangle(l, upper) }
}

func (c *call) triangle(l *kernels.Launch, upper bool) error {
	x, y := &l.In[0], &l.Out[0]
	if y.Len() == 0 {
		return nil
	}
	var diagonal [kernels.MaxDims]int
	rank := len(y.Shape)
	diagonal[rank-2], diagonal[rank-1] = -1, 1
	var w walk
	w.over(y.Shape, y.DType.Size(), *y, *x, kernels.Arg{Layout: kernels.Layout{Strides: diagonal[:rank]}})
	w.begin[0], w.begin[1] = c.address(y), c.address(x)
	const far = 1 << 60 // diagonals
	band := [2]int64{-far, far}
	at := max(-far, min(int64(l.Ints[0]), far))
	if upper {
		band[0] = at
	} else {
		band[1] = at
	}
	return c.walk("triangle", &w, func([kernels.MaxDims]int) { structure(c, &band) })
}

// element appends a number as elements of type d that fill so many bytes, rounded to nearest; integers saturate.
func (c *call) element(d kernels.DType, value float64, bytes int) {
	p, le := c.space(uintptr(bytes), uintptr(bytes)), binary.LittleEndian
	switch d {
	case kernels.Float32:
		le.PutUint32(p, math.Float32bits(float32(value)))
	case kernels.Float64:
		le.PutUint64(p, math.Float64bits(value))
	case kernels.Float16:
		le.PutUint16(p, float16.Fromfloat32(oddFloat32(value)).Bits())
	case kernels.BFloat16:
		u := math.Float32bits(oddFloat32(value))
		if value != value {
			u = 0x7fff << 16
		} else {
			u += 0x7fff + u>>16&1
		}
		le.PutUint16(p, uint16(u>>16))
	case kernels.Int64:
		le.PutUint64(p, uint64(saturate(value, math.MinInt64, math.MaxInt64)))
	case kernels.Int32:
		le.PutUint32(p, uint32(saturate(value, math.MinInt32, math.MaxInt32)))
	case kernels.Uint8:
		p[0] = uint8(saturate(value, 0, 255))
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

// saturate is the integer nearest to zero beside value, or the nearest of [lo, hi].
func saturate(value float64, lo, hi int64) int64 {
	switch {
	case value != value:
		return 0
	case value <= float64(lo):
		return lo
	case value >= float64(hi):
		return hi
	}
	return int64(value)
}

// oddFloat32 rounds to the neighbour with an odd last bit, so that rounding once more gives what rounding once would.
func oddFloat32(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	u := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		u--
	}
	return math.Float32frombits(u | 1)
}
