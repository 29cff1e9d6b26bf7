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
	plans["tril"] = planTriangle(0)
	plans["triu"] = planTriangle(1)
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
	var s space
	s.collapse([]kernels.Arg{*to, *from}, to.Shape)
	if row, column := s.adjacent(0), s.adjacent(1); row >= 0 && column >= 0 && row != column && min(s.shape[row], s.shape[column]) >= transposeLeast {
		return c.transpose(to, from, &s, row, column)
	}
	if s.rank == 0 { // one element
		s.shape[0], s.rank = 1, 1
	}
	toAddress, fromAddress := c.address(to), c.address(from)
	unit := s.widen(toAddress|fromAddress, to.DType.Size())
	return c.copy(&s, toAddress, fromAddress, unit)
}

// copyHalves copies a space that is too far for one walk.
func (c *call) copyHalves(s *space, axis int, to, from uint64, unit int) error {
	rest, at := s.split(axis)
	if err := c.copy(s, to, from, unit); err != nil {
		return err
	}
	return c.copy(&rest, to+uint64(at[0]*unit), from+uint64(at[1]*unit), unit)
}

// copy copies the elements of s, of `unit` bytes.
func (c *call) copy(s *space, to, from uint64, unit int) error {
	if axis := s.far(); axis >= 0 {
		return c.copyHalves(s, axis, to, from, unit)
	}
	if err := c.each(sized("copy", unit), s.threads(unit)); err != nil {
		return err
	}
	arg(c, to)
	arg(c, from)
	c.steps(s, unit)
	return nil
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

// region is the struct Region of move.cu: where the elements of an operand lie in the result.
type region struct {
	rank                          uint64
	size, lo, step, count, stride [kernels.MaxDims]int64
}

// regionOf is x at the beginning of y.
func regionOf(y, x *kernels.Arg) region {
	r := region{rank: uint64(len(y.Shape))}
	for d := range y.Shape {
		r.size[d], r.step[d], r.count[d], r.stride[d] = int64(y.Shape[d]), 1, int64(x.Shape[d]), int64(x.Strides[d])
	}
	return r
}

// pad sets y to x in the region and to a value elsewhere.
func (c *call) pad(y, x *kernels.Arg, r *region, value float64) error {
	if y.Len() == 0 {
		return nil
	}
	size := y.DType.Size()
	if err := c.each(sized("pad", size), y.Len()); err != nil {
		return err
	}
	c.pointer(y)
	c.pointer(x)
	c.element(y.DType, value)
	arg(c, uint64(y.Len()))
	structure(c, r)
	return nil
}

// planPad surrounds the operand by l.Floats[0], with l.Ints[2*d] elements before it on axis d.
func planPad(c *call, l *kernels.Launch) error {
	r := regionOf(&l.Out[0], &l.In[0])
	for d := range l.Out[0].Shape {
		r.lo[d] = int64(l.Ints[2*d])
	}
	return c.pad(&l.Out[0], &l.In[0], &r, l.Floats[0])
}

// planSliceGrad puts the operand at every l.Ints[2]-th place along axis l.Ints[0] from l.Ints[1] on.
func planSliceGrad(c *call, l *kernels.Launch) error {
	r := regionOf(&l.Out[0], &l.In[0])
	r.lo[l.Ints[0]], r.step[l.Ints[0]] = int64(l.Ints[1]), int64(l.Ints[2])
	return c.pad(&l.Out[0], &l.In[0], &r, 0)
}

// planSelectGrad puts the operand at index l.Ints[1] of a new axis l.Ints[0].
func planSelectGrad(c *call, l *kernels.Launch) error {
	x, axis := l.In[0], l.Ints[0]
	var shape, strides [kernels.MaxDims]int
	x.Shape = append(append(append(shape[:0], x.Shape[:axis]...), 1), x.Shape[axis:]...)
	x.Strides = append(append(append(strides[:0], x.Strides[:axis]...), 0), x.Strides[axis:]...)
	r := regionOf(&l.Out[0], &x)
	r.lo[axis] = int64(l.Ints[1])
	return c.pad(&l.Out[0], &x, &r, 0)
}

// planTriangle keeps the elements on one side of the l.Ints[0]-th diagonal of the last two axes.
func planTriangle(upper int32) plan {
	return func(c *call, l *kernels.Launch) error { return c.triangle(l, upper) }
}

func (c *call) triangle(l *kernels.Launch, upper int32) error {
	x, y := &l.In[0], &l.Out[0]
	if y.Len() == 0 {
		return nil
	}
	if err := c.each(sized("triangle", y.DType.Size()), y.Len()); err != nil {
		return err
	}
	rank := len(y.Shape)
	c.pointer(y)
	c.pointer(x)
	arg(c, uint64(y.Len()))
	arg(c, uint64(y.Shape[rank-2]))
	arg(c, uint64(y.Shape[rank-1]))
	arg(c, int64(l.Ints[0]))
	arg(c, upper)
	var d dimensions
	d.pushAll(x.Shape, x.Strides)
	c.axes(&d)
	return nil
}

// element appends a number as an element of type d, rounded to nearest; integers saturate.
func (c *call) element(d kernels.DType, value float64) {
	switch d {
	case kernels.Float32:
		arg(c, math.Float32bits(float32(value)))
	case kernels.Float64:
		arg(c, math.Float64bits(value))
	case kernels.Float16:
		binary.LittleEndian.PutUint16(c.space(2, 2), float16.Fromfloat32(oddFloat32(value)).Bits())
	case kernels.BFloat16:
		u := math.Float32bits(oddFloat32(value))
		if value != value {
			u = 0x7fff << 16
		} else {
			u += 0x7fff + u>>16&1
		}
		binary.LittleEndian.PutUint16(c.space(2, 2), uint16(u>>16))
	case kernels.Int64:
		arg(c, saturate(value, math.MinInt64, math.MaxInt64))
	case kernels.Int32:
		arg(c, int32(saturate(value, math.MinInt32, math.MaxInt32)))
	case kernels.Uint8:
		c.space(1, 1)[0] = uint8(saturate(value, 0, 255))
	case kernels.Bool:
		truth := byte(0)
		if value != 0 {
			truth = 1
		}
		c.space(1, 1)[0] = truth
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
