package cpu

import (
	"math"
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The canonical order of a sum of elements 0, 1, ..., n-1 (row-major over the reduced axes): blocks of 16,384; inside a
// block element i is added to lane i mod 64, in ascending i, lanes starting at +0; then lane j takes lane j+h, for h = 32,
// 16, 8, 4, 2, 1. The sums of the blocks are added in the same way, as if they were elements. Other folds keep the order.
const (
	foldBlock = vec.Block
	foldLanes = 64
)

// A fold combines many elements into one.
type fold struct {
	start float32                   // combined with anything it changes nothing (but the sign of a zero sum)
	into  vec.Kernel                // combines elements of two slices
	block func(x []float32) float32 // combines at most foldBlock elements in canonical order
}

var (
	sumFold  = fold{0, vec.Instr("add"), vec.Sum}
	prodFold = fold{1, vec.Instr("mul"), vec.Prod}
	maxFold  = fold{float32(math.Inf(-1)), vec.Instr("max"), vec.Max}
	minFold  = fold{float32(math.Inf(1)), vec.Instr("min"), vec.Min}
)

// Sum adds the elements along the axes l.Ints.
func Sum(l *kernels.Launch) { sumFold.launch(l) }

// Prod multiplies the elements along the axes l.Ints.
func Prod(l *kernels.Launch) { prodFold.launch(l) }

// Max is the largest element along the axes l.Ints; NaN if there is one, and +0 is larger than -0.
func Max(l *kernels.Launch) { maxFold.launch(l) }

// Min is the smallest element along the axes l.Ints; NaN if there is one, and -0 is smaller than +0.
func Min(l *kernels.Launch) { minFold.launch(l) }

// Mean is Sum with one IEEE division by the number of elements.
func Mean(l *kernels.Launch) {
	sumFold.launch(l)
	out := Slice[float32](l.Out[0])[:l.Out[0].Len()]
	n := float32(l.In[0].Len() / max(1, len(out)))
	for i := range out {
		out[i] /= n
	}
}

// launch folds the float32 operand along the axes l.Ints.
func (f *fold) launch(l *kernels.Launch) {
	r := reductionOf(l.In[0], l.Ints)
	out := Slice[float32](l.Out[0])[:l.Out[0].Len()]
	f.run(out, Slice[float32](l.In[0]), r)
}

// run folds the elements of x that r describes.
func (f *fold) run(out, x []float32, r *reduction) {
	switch {
	case len(out) == 0:
	case r.n == 0:
		vec.Fill(out, f.start)
	case r.byColumns():
		f.columns(out, x, r)
	default:
		f.rows(out, x, r)
	}
}

// rows folds one result after the other, blocks of them at once.
func (f *fold) rows(out, x []float32, r *reduction) {
	blocks := (r.n + foldBlock - 1) / foldBlock
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(len(dst), 1+2*rowGrain/min(r.n, foldBlock), func(lo, hi int) {
		buf := borrow(r.gathered(foldBlock))
		for i := lo; i < hi; i++ {
			from := i % blocks * foldBlock
			dst[i] = f.block(r.elements(*buf, x, i/blocks, from, min(from+foldBlock, r.n)))
		}
		giveBack(buf)
	})
	if blocks > 1 {
		f.run(out, dst, contiguous(len(out), blocks))
	}
}

// tileWidth is how many of n columns are folded together: few enough for a lane of each in the first cache, and for
// every thread to have some.
func tileWidth(n int) int {
	share := (n + par.Workers() - 1) / par.Workers()
	return min(n, max(256, min(1024, (share+15)&^15)))
}

// columns folds matrices along their rows: the last kept dimension is the columns, which lie side by side.
func (f *fold) columns(out, x []float32, r *reduction) {
	columns := r.kept.shape[r.kept.n-1]
	matrices := len(out) / columns
	wide := tileWidth(columns)
	blocks, across := (r.n+foldBlock-1)/foldBlock, (columns+wide-1)/wide
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(matrices*blocks*across, 1+2*rowGrain/(wide*min(r.n, foldBlock)), func(lo, hi int) {
		lanes := borrow(foldLanes * wide)
		for i := lo; i < hi; i++ {
			m, b, c := i/across/blocks, i/across%blocks, i%across*wide
			to := min(c+wide, columns)
			row := (m*blocks + b) * columns
			from := b * foldBlock
			f.tile(dst[row+c:row+to], *lanes, x[r.kept.place(m*columns+c):], r, from, min(from+foldBlock, r.n))
		}
		giveBack(lanes)
	})
	if blocks > 1 {
		second := reduction{n: blocks}
		second.kept.push(matrices, blocks*columns)
		second.kept.push(columns, 1)
		second.reduced.push(blocks, columns)
		f.run(out, dst, &second)
	}
}

// tile folds rows [from, to) of neighbouring columns, which start at x, into out.
func (f *fold) tile(out, lanes, x []float32, r *reduction, from, to int) {
	wide := len(out)
	used := min(to-from, foldLanes)
	lanes = lanes[:used*wide]
	vec.Fill(lanes, f.start)
	if rows := r.reduced; rows.n == 1 && rows.strides[0] == wide && len(lanes) <= 16384 { // 64 whole rows at once
		x = x[from*wide : to*wide]
		for len(x) > len(lanes) {
			f.into(lanes, lanes, x, nil)
			x = x[len(lanes):]
		}
		f.into(lanes[:len(x)], lanes, x, nil)
	} else { // lane by lane, so that a lane stays in the first cache
		for j := range used {
			lane := lanes[j*wide : (j+1)*wide]
			for i := from + j; i < to; i += foldLanes {
				f.into(lane, lane, x[rows.place(i):], nil)
			}
		}
	}
	f.tree(lanes, wide, used)
	copy(out, lanes)
}

// tree combines rows of lanes by halves; only the first of the 64 are used.
func (f *fold) tree(lanes []float32, wide, used int) {
	for h := foldLanes / 2; h > 0; h /= 2 {
		if used > h {
			f.into(lanes[:(used-h)*wide], lanes, lanes[h*wide:], nil)
			used = h
		}
	}
}

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

// contiguous is the reduction of the rows of a matrix.
func contiguous(rows, n int) *reduction {
	r := &reduction{n: n}
	r.kept.push(rows, n)
	r.reduced.push(n, 1)
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

var buffers = sync.Pool{New: func() any { return new([]float32) }}

// borrow returns scratch memory of n elements, with any content.
func borrow(n int) *[]float32 {
	b := buffers.Get().(*[]float32)
	if cap(*b) < n {
		*b = make([]float32, n)
	}
	*b = (*b)[:n]
	return b
}

func giveBack(b *[]float32) { buffers.Put(b) }
