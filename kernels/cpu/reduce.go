package cpu

import (
	"math"
	"slices"

	"github.com/chewxy/math32"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The canonical order of sums (docs/adr/0008-order-of-sums.md). Element i counts the reduced elements in row-major
// order. Where the innermost axis of more than one element is reduced, the elements of a result are a row: see
// vec.Block. Else they are a column: blocks of 64, in which partial sum j of 8 starts at +0 and takes elements 8j to
// 8j+7, in ascending order; then partial sum j takes partial sum j+h, for h = 4, 2, 1; the sums of the blocks are added
// in the same way, as if they were elements. Other folds keep the order.
const (
	rowBlock       = vec.Block
	columnPartials = 8 // of a block
	partialRows    = 8 // of a partial sum
	columnBlock    = columnPartials * partialRows
)

// A fold combines many elements into one.
type fold struct {
	start float32    // neutral, but for the sign of a zero
	into  vec.Kernel // combines elements of two slices
	// eight combines start with elements of eight slices, one after the other.
	eight func(dst, a, b, c, d, e, f, g, h []float32, start float32)
	// block combines at most rowBlock elements of a row.
	block func(x []float32) float32
	// element makes of elements of columns what is folded; nil if that is the elements themselves.
	element func(dst, x []float32)
}

var (
	sumFold  = fold{0, vec.Instr("add"), vec.AddEight, vec.Sum, nil}
	prodFold = fold{1, vec.Instr("mul"), vec.MulEight, vec.Prod, nil}
	maxFold  = fold{math32.Inf(-1), vec.Instr("max"), vec.MaxEight, vec.Max, nil}
	minFold  = fold{math32.Inf(1), vec.Instr("min"), vec.MinEight, vec.Min, nil}
)

// Sum adds the elements along the axes l.Ints.
func Sum(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float32:
		sumFold.launch(l)
	case kernels.Float64:
		sumPlain[float64, float64](l)
	case kernels.Int64:
		sumPlain[int64, int64](l)
	case kernels.Int32:
		sumPlain[int32, int64](l)
	default:
		sumBytes(l)
	}
}

// SumSquares adds the squares of the elements along the axes l.Ints. The second operand, if there is one, is a factor
// of the elements; the product and its square are rounded separately.
func SumSquares(l *kernels.Launch) {
	factor := float32(1)
	if len(l.In) > 1 {
		factor = Slice[float32](l.In[1])[0]
	}
	squares := fold{
		into:  sumFold.into,
		eight: sumFold.eight,
		block: func(x []float32) float32 { return vec.SumSquares(x, factor) },
		element: func(dst, x []float32) {
			vec.Scale(dst, x, factor)
			vecMul(dst, dst, dst, nil)
		},
	}
	squares.launch(l)
}

var vecEq, vecWhere = vec.Instr("eq"), vec.Instr("where")

// numberFold adds the elements that are not NaN. Only a block whose sum is NaN can have one: it is added again.
var numberFold = fold{into: sumFold.into, eight: sumFold.eight, element: dropNaN, block: func(x []float32) float32 {
	sum := vec.Sum(x)
	if sum == sum {
		return sum
	}
	numbers := borrow(len(x))
	defer giveBack(numbers)
	dropNaN((*numbers)[:len(x)], x)
	return vec.Sum((*numbers)[:len(x)])
}}

// dropNaN sets dst to x with 0 in place of NaN.
func dropNaN(dst, x []float32) {
	var zeros, numbers [256]float32
	for len(x) > 0 {
		n := min(len(x), len(zeros))
		vecEq(numbers[:n], x[:n], x[:n], nil)
		vecWhere(dst[:n], numbers[:n], x[:n], zeros[:n])
		dst, x = dst[n:], x[n:]
	}
}

// NaNSum is Sum of the elements that are not NaN.
func NaNSum(l *kernels.Launch) {
	r, out := reductionOf(l.In[0], l.Ints), Slice[float32](l.Out[0])[:l.Out[0].Len()]
	if r.Columns {
		sumFold.run(out, Slice[float32](l.In[0]), r)
		if !slices.ContainsFunc(out, func(v float32) bool { return v != v }) {
			return
		}
	}
	numberFold.run(out, Slice[float32](l.In[0]), r)
}

// Prod multiplies the elements along the axes l.Ints.
func Prod(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float32:
		prodFold.launch(l)
	case kernels.Float64:
		prodPlain[float64, float64](l)
	case kernels.Int64:
		prodPlain[int64, int64](l)
	case kernels.Int32:
		prodPlain[int32, int64](l)
	default:
		prodPlain[uint8, int64](l)
	}
}

// Max is the largest element along the axes l.Ints; NaN if there is one. +0 is larger than -0.
func Max(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float32:
		maxFold.launch(l)
	case kernels.Float64:
		maxPlain(l, math.Inf(-1))
	case kernels.Int64:
		maxPlain[int64](l, math.MinInt64)
	case kernels.Int32:
		maxPlain[int32](l, math.MinInt32)
	default:
		maxPlain[uint8](l, 0)
	}
}

// Min is the smallest element along the axes l.Ints; NaN if there is one. -0 is smaller than +0.
func Min(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float32:
		minFold.launch(l)
	case kernels.Float64:
		minPlain(l, math.Inf(1))
	case kernels.Int64:
		minPlain[int64](l, math.MaxInt64)
	case kernels.Int32:
		minPlain[int32](l, math.MaxInt32)
	default:
		minPlain[uint8](l, math.MaxUint8)
	}
}

// Mean is Sum with one IEEE division by the number of elements.
func Mean(l *kernels.Launch) {
	if l.In[0].DType == kernels.Float64 {
		meanFloat64(l)
		return
	}
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
	case r.Columns:
		f.columns(out, x, r)
	default:
		f.rows(out, x, r)
	}
}

// results folds what f has made of blocks.
func (f *fold) results() *fold {
	if f.element != nil { // sums of squares, or of what is no NaN
		return &sumFold
	}
	return f
}

// gatherRows is how many rows are gathered together: their elements may share cache lines.
const gatherRows = 16

// rows folds rows block by block.
func (f *fold) rows(out, x []float32, r *reduction) {
	blocks, group := (r.N+rowBlock-1)/rowBlock, 1
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	contiguous := r.Reduced.Contiguous()
	if !contiguous && !r.apart() {
		group = min(gatherRows, len(out))
	}
	groups := (len(out) + group - 1) / group
	// A pass over memory: rows are neighbours there, or the blocks of a row.
	acrossRows := !contiguous && r.Kept.Rank > 0 && r.Kept.Strides[r.Kept.Rank-1] < r.Reduced.Strides[0]
	par.For(groups*blocks, 1+2*rowGrain/(group*min(r.N, rowBlock)), func(lo, hi int) {
		if contiguous {
			for i := lo; i < hi; i++ {
				from := i % blocks * rowBlock
				row := x[r.Kept.Offset(i/blocks):]
				dst[i] = f.block(row[from:min(from+rowBlock, r.N)])
			}
			return
		}
		buf := borrow(group * rowBlock)
		for i := lo; i < hi; i++ {
			g, b := i/blocks, i%blocks
			if acrossRows {
				g, b = i%groups, i/groups
			}
			first, from := g*group, b*rowBlock
			n, rows := min(rowBlock, r.N-from), min(group, len(out)-first)
			r.gather(*buf, x, first, rows, from, n)
			for k := range rows {
				dst[(first+k)*blocks+b] = f.block((*buf)[k*n : (k+1)*n])
			}
		}
		giveBack(buf)
	})
	if blocks > 1 {
		f.results().run(out, dst, contiguousRows(len(out), blocks))
	}
}

// gather copies n elements, starting with element from, of `rows` rows to contiguous rows.
func (r *reduction) gather(dst, x []float32, first, rows, from, n int) {
	var starts [gatherRows]int
	at := r.Reduced.Cursor(from)
	for i := 0; i < n; {
		run := min(at.Run(), n-i)
		for k := range rows {
			starts[k] = r.Kept.Offset(first+k) + at.Offset
		}
		gather(dst[i:], x, starts[:rows], run, r.Reduced.Strides[r.Reduced.Rank-1], n)
		i += run
		at.Skip(run)
	}
}

// tileWidth is how many of n columns are folded together: few enough that the L1 cache holds a partial sum of each, and
// that every thread has some.
func tileWidth(n int) int {
	share := (n + par.Workers() - 1) / par.Workers()
	return min(n, max(256, min(1024, (share+15)&^15)))
}

// columns folds the columns of matrices, of which the last kept dimension has the columns.
func (f *fold) columns(out, x []float32, r *reduction) {
	columns := r.Kept.Shape[r.Kept.Rank-1]
	matrices := len(out) / columns
	wide := tileWidth(columns)
	blocks, across := (r.N+columnBlock-1)/columnBlock, (columns+wide-1)/wide
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(len(out) * blocks)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(matrices*blocks*across, 1+2*rowGrain/(wide*min(r.N, columnBlock)), func(lo, hi int) {
		t := tile{f: f, x: x, r: r, partials: borrow(columnPartials * wide)}
		if stride := r.Kept.Strides[r.Kept.Rank-1]; stride != 1 || f.element != nil {
			t.copies = borrow(partialRows * wide)
			defer giveBack(t.copies)
		}
		for i := lo; i < hi; i++ {
			matrix, b, column := i/across/blocks, i/across%blocks, i%across*wide
			to := min(column+wide, columns)
			row := (matrix*blocks + b) * columns
			t.offset = r.Kept.Offset(matrix*columns + column)
			t.fold(dst[row+column:row+to], b*columnBlock, min((b+1)*columnBlock, r.N))
		}
		giveBack(t.partials)
	})
	if blocks > 1 {
		f.results().run(out, dst, columnsOf(matrices, blocks, columns))
	}
}

// A tile is the columns that are folded together: those from offset on.
type tile struct {
	f                *fold
	x                []float32
	r                *reduction
	offset           int
	partials, copies *[]float32 // copies is nil if the rows are read in place
}

// fold folds elements [from, to) of each column into out.
func (t *tile) fold(out []float32, from, to int) {
	wide, used := len(out), (to-from+partialRows-1)/partialRows
	partials := (*t.partials)[:used*wide]
	var rows [partialRows][]float32
	for j := range used {
		partial := partials[j*wide : (j+1)*wide]
		first := from + j*partialRows
		n := t.read(&rows, wide, first, min(first+partialRows, to))
		if n == partialRows {
			t.f.eight(partial, rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], t.f.start)
			continue
		}
		vec.Fill(partial, t.f.start)
		for _, row := range rows[:n] {
			t.f.into(partial, partial, row, nil)
		}
	}
	t.f.tree(partials, wide, used)
	copy(out, partials)
}

// read sets rows to those of elements [from, to) of the columns and returns their number.
func (t *tile) read(rows *[partialRows][]float32, wide, from, to int) (n int) {
	n = to - from
	if t.copies == nil {
		for k := range n {
			rows[k] = t.x[t.offset+t.r.Reduced.Offset(from+k):][:wide]
		}
		return n
	}
	var starts [partialRows]int
	for k := range n {
		starts[k] = t.offset + t.r.Reduced.Offset(from+k)
	}
	copies := (*t.copies)[:n*wide]
	gather(copies, t.x, starts[:n], wide, t.r.Kept.Strides[t.r.Kept.Rank-1], wide)
	if t.f.element != nil {
		t.f.element(copies, copies)
	}
	for k := range n {
		rows[k] = copies[k*wide : (k+1)*wide]
	}
	return n
}

// tree combines rows of partial sums by halves; only the first of the 8 are used.
func (f *fold) tree(partials []float32, wide, used int) {
	for h := columnPartials / 2; h > 0; h /= 2 {
		if used > h {
			f.into(partials[:(used-h)*wide], partials, partials[h*wide:], nil)
			used = h
		}
	}
}
