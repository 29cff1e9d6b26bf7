package cpu

import (
	"github.com/chewxy/math32"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The canonical order of a sum of elements 0, 1, ..., n-1 (row-major over the reduced axes): blocks of 16,384. In a
// block there are 64 partial sums, which start at +0; element i is added to partial sum i mod 64, in ascending i. Then
// partial sum j+h is added to partial sum j, for h = 32, 16, 8, 4, 2, 1. The sums of the blocks are added in the same
// way, as if they were elements. Other folds keep the order.
const (
	foldBlock    = vec.Block
	foldPartials = 64
)

// A fold combines many elements into one.
type fold struct {
	start float32                   // the neutral element, but for the sign of a zero sum
	into  vec.Kernel                // combines elements of two slices
	block func(x []float32) float32 // combines at most foldBlock elements in canonical order
}

var (
	sumFold  = fold{0, vec.Instr("add"), vec.Sum}
	prodFold = fold{1, vec.Instr("mul"), vec.Prod}
	maxFold  = fold{math32.Inf(-1), vec.Instr("max"), vec.Max}
	minFold  = fold{math32.Inf(1), vec.Instr("min"), vec.Min}
)

// Sum adds the elements along the axes l.Ints.
func Sum(l *kernels.Launch) { sumFold.launch(l) }

// SumSquares adds the squares of the elements along the axes l.Ints. The second operand, if there is one, is a factor
// of the elements; the product and its square are rounded separately.
func SumSquares(l *kernels.Launch) {
	factor := float32(1)
	if len(l.In) > 1 {
		factor = Slice[float32](l.In[1])[0]
	}
	r := reductionOf(l.In[0], l.Ints)
	out := Slice[float32](l.Out[0])[:l.Out[0].Len()]
	if r.N == 0 {
		clear(out)
		return
	}
	sumFold.rows(out, Slice[float32](l.In[0]), r, func(x []float32) float32 { return vec.SumSquares(x, factor) })
}

// Prod multiplies the elements along the axes l.Ints.
func Prod(l *kernels.Launch) { prodFold.launch(l) }

// Max is the largest element along the axes l.Ints; NaN if there is one. +0 is larger than -0.
func Max(l *kernels.Launch) { maxFold.launch(l) }

// Min is the smallest element along the axes l.Ints; NaN if there is one. -0 is smaller than +0.
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
	case r.N == 0:
		vec.Fill(out, f.start)
	case r.byColumns():
		f.columns(out, x, r)
	default:
		f.rows(out, x, r, f.block)
	}
}

// rows folds rows block by block; block combines the elements of one block.
func (f *fold) rows(out, x []float32, r *reduction, block func(x []float32) float32) {
	blocks := (r.N + foldBlock - 1) / foldBlock
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(len(dst), 1+2*rowGrain/min(r.N, foldBlock), func(lo, hi int) {
		buf := borrow(r.gathered(foldBlock))
		for i := lo; i < hi; i++ {
			from := i % blocks * foldBlock
			dst[i] = block(r.elements(*buf, x, i/blocks, from, min(from+foldBlock, r.N)))
		}
		giveBack(buf)
	})
	if blocks > 1 {
		f.run(out, dst, columnsOf(len(out), blocks, 1))
	}
}

// tileWidth is how many of n columns are folded together: few enough that the L1 cache holds a partial sum of each, and
// that every thread has some.
func tileWidth(n int) int {
	share := (n + par.Workers() - 1) / par.Workers()
	return min(n, max(256, min(1024, (share+15)&^15)))
}

// columns folds the columns of matrices: the last kept dimension, which is contiguous.
func (f *fold) columns(out, x []float32, r *reduction) {
	columns := r.Kept.Shape[r.Kept.Rank-1]
	matrices := len(out) / columns
	wide := tileWidth(columns)
	blocks, across := (r.N+foldBlock-1)/foldBlock, (columns+wide-1)/wide
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(matrices*blocks*across, 1+2*rowGrain/(wide*min(r.N, foldBlock)), func(lo, hi int) {
		partials := borrow(foldPartials * wide)
		for i := lo; i < hi; i++ {
			matrix, b, column := i/across/blocks, i/across%blocks, i%across*wide
			to := min(column+wide, columns)
			row := (matrix*blocks + b) * columns
			from := b * foldBlock
			first := x[r.Kept.Offset(matrix*columns+column):]
			f.tile(dst[row+column:row+to], *partials, first, r, from, min(from+foldBlock, r.N))
		}
		giveBack(partials)
	})
	if blocks > 1 {
		f.run(out, dst, columnsOf(matrices, blocks, columns))
	}
}

// tile folds elements [from, to) of neighbouring columns, which start at x, into out.
func (f *fold) tile(out, partials, x []float32, r *reduction, from, to int) {
	wide := len(out)
	used := min(to-from, foldPartials)
	partials = partials[:used*wide]
	vec.Fill(partials, f.start)
	rows := &r.Reduced
	if rows.Rank == 1 && rows.Strides[0] == wide && len(partials) <= 16384 { // 64 whole rows at once
		x = x[from*wide : to*wide]
		for len(x) > len(partials) {
			f.into(partials, partials, x, nil)
			x = x[len(partials):]
		}
		f.into(partials[:len(x)], partials, x, nil)
	} else { // one partial sum after the other, so that it stays in the L1 cache
		for j := range used {
			partial := partials[j*wide : (j+1)*wide]
			for i := from + j; i < to; i += foldPartials {
				f.into(partial, partial, x[rows.Offset(i):], nil)
			}
		}
	}
	f.tree(partials, wide, used)
	copy(out, partials)
}

// tree combines rows of partial sums by halves; only the first of the 64 are used.
func (f *fold) tree(partials []float32, wide, used int) {
	for h := foldPartials / 2; h > 0; h /= 2 {
		if used > h {
			f.into(partials[:(used-h)*wide], partials, partials[h*wide:], nil)
			used = h
		}
	}
}
