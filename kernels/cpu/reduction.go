package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// A reduction is an operand as its results see it: the kept dimensions count the results, the reduced ones the elements
// of one result, both in row-major order and in as few dimensions as possible.
type reduction struct {
	kept, reduced dimensions
	n             int // elements of a result
}

// describe sets r to the reduction of a along the given axes.
func (r *reduction) describe(a kernels.Arg, axes []int) {
	r.kept.n, r.reduced.n, r.n = 0, 0, 1
	for i, size := range a.Shape {
		if slices.Contains(axes, i) {
			r.reduced.push(size, a.Strides[i])
			r.n *= size
		} else {
			r.kept.push(size, a.Strides[i])
		}
	}
}

func reductionOf(a kernels.Arg, axes []int) *reduction {
	r := &reduction{}
	r.describe(a, axes)
	return r
}

// results is the number of results.
func (r *reduction) results() int {
	n := 1
	for _, size := range r.kept.shape[:r.kept.n] {
		n *= size
	}
	return n
}

// rowsOf is a with its last k axes reduced.
func rowsOf(a kernels.Arg, k int) *reduction {
	axes := make([]int, k)
	for i := range axes {
		axes[i] = len(a.Shape) - k + i
	}
	return reductionOf(a, axes)
}

// contiguous is the reduction of the rows of a matrix.
func contiguous(rows, n int) *reduction {
	r := &reduction{n: n}
	r.kept.push(rows, n)
	r.reduced.push(n, 1)
	return r
}

// columnsOf is the reduction of the columns of a matrix.
func columnsOf(rows, n int) *reduction {
	r := &reduction{n: rows}
	r.reduced.push(rows, n)
	r.kept.push(n, 1)
	return r
}

// byColumns tells whether neighbouring results, but not the elements of one, are neighbours in memory.
func (r *reduction) byColumns() bool {
	return !r.inRows() && r.kept.n > 0 && r.kept.strides[r.kept.n-1] == 1
}

// inRows tells whether the elements of a result lie side by side.
func (r *reduction) inRows() bool {
	return r.reduced.n == 0 || r.reduced.n == 1 && r.reduced.strides[0] == 1
}

// packed tells whether the results lie one after the other, without gaps.
func (r *reduction) packed() bool {
	return r.inRows() && r.kept.n == 1 && r.kept.strides[0] == r.n
}

// gathered is the size of the buffer that elements needs for up to n of them.
func (r *reduction) gathered(n int) int {
	if r.inRows() {
		return 0
	}
	return min(n, r.n)
}

// elements is elements [from, to) of result o: where they lie, if side by side, else copied to buf.
func (r *reduction) elements(buf, x []float32, o, from, to int) []float32 {
	if from == to {
		return nil
	}
	x = x[r.kept.place(o):]
	if r.inRows() {
		return x[from:to]
	}
	buf = buf[:to-from]
	last := r.reduced.n - 1
	size, step := r.reduced.shape[last], r.reduced.strides[last]
	at := r.reduced.walk(from)
	for i := 0; i < len(buf); {
		run := min(size-at.index[last], len(buf)-i)
		if step == 1 {
			copy(buf[i:i+run], x[at.place:])
		} else {
			for k := range run {
				buf[i+k] = x[at.place+k*step]
			}
		}
		i += run
		at.skip(run)
	}
	return buf
}

// dimensions are nested loops with their steps through memory.
type dimensions struct {
	n              int
	shape, strides [kernels.MaxDims]int
}

// push adds an innermost loop, or lengthens the innermost if it goes on evenly.
func (d *dimensions) push(size, stride int) {
	switch last := d.n - 1; {
	case size == 1:
	case d.n > 0 && d.strides[last] == stride*size:
		d.shape[last] *= size
		d.strides[last] = stride
	default:
		d.shape[d.n], d.strides[d.n] = size, stride
		d.n++
	}
}

// place is where iteration i stands.
func (d *dimensions) place(i int) int {
	at := 0
	for k := d.n - 1; k > 0; k-- {
		at += i % d.shape[k] * d.strides[k]
		i /= d.shape[k]
	}
	if d.n == 0 {
		return 0
	}
	return at + i*d.strides[0]
}

// A walker steps through the iterations of dimensions.
type walker struct {
	d     *dimensions
	place int
	index [kernels.MaxDims]int
}

// walk starts at iteration i.
func (d *dimensions) walk(i int) walker {
	w := walker{d: d, place: d.place(i)}
	for k := d.n - 1; k >= 0; k-- {
		w.index[k] = i % d.shape[k]
		i /= d.shape[k]
	}
	return w
}

// next goes on to the next iteration.
func (w *walker) next() { w.skip(1) }

// skip goes on by n iterations, at most to the end of the innermost loop.
func (w *walker) skip(n int) {
	for k := w.d.n - 1; k >= 0; k-- {
		w.place += n * w.d.strides[k]
		if w.index[k] += n; w.index[k] < w.d.shape[k] {
			return
		}
		w.place -= w.index[k] * w.d.strides[k]
		w.index[k] = 0
		n = 1
	}
}
