package kernels

import "slices"

// The algebra of layouts that backends share. Axes of size 1 do not matter, and two neighbouring axes are one dimension
// if the stride of the outer one is the stride of the inner one times its size. Both keep the order of the elements.

// Dims are the dimensions of one operand, the last innermost: element i in row-major order is at Offset(i).
type Dims struct {
	Rank           int
	Shape, Strides [MaxDims]int
}

// Push adds an innermost axis: as a new dimension, or by collapsing it into the innermost one.
func (d *Dims) Push(size, stride int) {
	switch last := d.Rank - 1; {
	case size == 1:
	case last >= 0 && collapsible(d.Strides[last], size, stride):
		d.Shape[last] *= size
		d.Strides[last] = stride
	default:
		d.Shape[d.Rank], d.Strides[d.Rank] = size, stride
		d.Rank++
	}
}

// PushAll adds axes, the last innermost.
func (d *Dims) PushAll(shape, strides []int) {
	for axis, size := range shape {
		d.Push(size, strides[axis])
	}
}

// collapsible tells whether an axis and the one outside it, whose stride is outer, are one dimension.
func collapsible(outer, size, stride int) bool { return outer == stride*size }

// Len is the number of elements.
func (d *Dims) Len() int { return Count(d.Shape[:d.Rank]) }

// Contiguous tells whether the elements are contiguous, in row-major order.
func (d *Dims) Contiguous() bool {
	n := 1
	for k := d.Rank - 1; k >= 0; k-- {
		if d.Strides[k] != n {
			return false
		}
		n *= d.Shape[k]
	}
	return true
}

// Offset is the offset of element i from element 0.
func (d *Dims) Offset(i int) int {
	offset := 0
	for k := d.Rank - 1; k > 0; k-- {
		offset += i % d.Shape[k] * d.Strides[k]
		i /= d.Shape[k]
	}
	if d.Rank == 0 {
		return 0
	}
	return offset + i*d.Strides[0]
}

// A Cursor visits the elements of Dims in row-major order.
type Cursor struct {
	Offset int // of the present element
	dims   *Dims
	index  [MaxDims]int
}

// Cursor returns a cursor at element i.
func (d *Dims) Cursor(i int) Cursor {
	c := Cursor{dims: d}
	for k := d.Rank - 1; k >= 0; k-- {
		c.index[k] = i % d.Shape[k]
		c.Offset += c.index[k] * d.Strides[k]
		i /= d.Shape[k]
	}
	return c
}

// Step is the stride of the innermost dimension; 0 if there is none.
func (d *Dims) Step() int {
	if d.Rank == 0 {
		return 0
	}
	return d.Strides[d.Rank-1]
}

// Run is how many elements are left in the innermost dimension, the present one included; 1 if there is none.
func (c *Cursor) Run() int {
	last := c.dims.Rank - 1
	if last < 0 {
		return 1
	}
	return c.dims.Shape[last] - c.index[last]
}

// Neighbours reports whether the next n elements, the present one included, are neighbours in memory.
func (c *Cursor) Neighbours(n int) bool {
	last := c.dims.Rank - 1
	return n <= 1 || last >= 0 && c.dims.Strides[last] == 1 && c.Run() >= n
}

// Next goes to the next element.
func (c *Cursor) Next() { c.Skip(1) }

// Skip goes n elements further, at most Run.
func (c *Cursor) Skip(n int) {
	for k := c.dims.Rank - 1; k >= 0; k-- {
		c.Offset += n * c.dims.Strides[k]
		if c.index[k] += n; c.index[k] < c.dims.Shape[k] {
			return
		}
		c.Offset -= c.index[k] * c.dims.Strides[k]
		c.index[k] = 0
		n = 1
	}
}

// A Space is an iteration space: the elements of operands of one shape, in the fewest dimensions with constant strides.
type Space struct {
	Rank  int
	Shape [MaxDims]int
	Axis  [MaxDims]int // the innermost axis of each dimension: its stride is that of the dimension
}

// Collapse sets s to the elements of operands of the given shape, of which only the strides matter.
func (s *Space) Collapse(shape []int, operands []Arg) {
	s.Rank = 0
	for axis, size := range shape {
		if size == 1 {
			continue
		}
		if s.Rank > 0 && allCollapsible(operands, s.Axis[s.Rank-1], axis, size) {
			s.Shape[s.Rank-1] *= size
		} else {
			s.Shape[s.Rank] = size
			s.Rank++
		}
		s.Axis[s.Rank-1] = axis
	}
}

// allCollapsible tells whether two axes are one dimension of every operand.
func allCollapsible(operands []Arg, outer, inner, size int) bool {
	for k := range operands {
		if strides := operands[k].Strides; !collapsible(strides[outer], size, strides[inner]) {
			return false
		}
	}
	return true
}

// SetDims sets d to the dimensions of an operand with the given strides. It leaves strides behind them as they are.
func (s *Space) SetDims(d *Dims, operand []int) {
	d.Rank, d.Shape = s.Rank, s.Shape
	for k, axis := range s.Axis[:s.Rank] {
		d.Strides[k] = operand[axis]
	}
}

// Dims are the dimensions of an operand with the given strides.
func (s *Space) Dims(operand []int) (d Dims) {
	s.SetDims(&d, operand)
	return d
}

// A Reduction is an operand as its results see it: element i of result r is at Kept.Offset(r) + Reduced.Offset(i),
// counted from the operand's first element. Results and elements are in row-major order.
type Reduction struct {
	Kept, Reduced Dims
	N             int  // elements of a result
	Columns       bool // whether the innermost axis of more than one element is kept: the order of sums depends on it
}

// Set makes r the reduction of a layout along the given axes.
func (r *Reduction) Set(l *Layout, axes []int) {
	r.Kept.Rank, r.Reduced.Rank, r.N, r.Columns = 0, 0, 1, false
	for axis, size := range l.Shape {
		reduced := slices.Contains(axes, axis)
		if reduced {
			r.Reduced.Push(size, l.Strides[axis])
			r.N *= size
		} else {
			r.Kept.Push(size, l.Strides[axis])
		}
		if size != 1 {
			r.Columns = !reduced
		}
	}
}

// Results is the number of results.
func (r *Reduction) Results() int { return r.Kept.Len() }
