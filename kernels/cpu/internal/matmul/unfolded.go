package matmul

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// UnfoldedOf is a matrix in which elements of memory stand in many places, as in the product that a convolution is:
// element (p, j) is Data[Rows[p]+Columns.Offset(j)]. It is never made: the product packs what it needs.
type UnfoldedOf[T float32 | float64] struct {
	Data    []T
	Rows    []int        // not negative
	Columns kernels.Dims // strides are not negative

	// LeftColumns is where the columns of A begin, in ascending order, if they are not ColStride apart. Chunks is where
	// the chunks of terms end, if these have not 256 each: some are left out, such as those that are known to be zero.
	LeftColumns, Chunks []int

	// Run is not 0 if the columns are read where they are, in runs of so many, whatever the number of rows, in vectors
	// of their own; see [Lanes]. In each row of C, column j is then at Result.Offset(j), and those of a run are
	// neighbours. In Data they are, too, or so many at a time that [Splits] holds. There is at least one term.
	Run    int
	Result kernels.Dims
}

// columnOfA is the offset of column k of A.
func (b *UnfoldedOf[T]) columnOfA(a *MatrixOf[T], k int) int {
	if b.LeftColumns == nil {
		return k * a.ColStride
	}
	return b.LeftColumns[k]
}

// neighbours reports whether columns [k0, k1) of A are ColStride apart.
func (b *UnfoldedOf[T]) neighbours(a *MatrixOf[T], k0, k1 int) bool {
	return b.LeftColumns == nil || b.LeftColumns[k1-1]-b.LeftColumns[k0] == (k1-1-k0)*a.ColStride
}

// far reports whether rows [k0, k1), many of them, are far apart.
func (b *UnfoldedOf[T]) far(k0, k1 int) bool {
	n := min(k1-k0, Chunk) - 1
	return n >= Chunk/4 && b.Rows[k0+n]-b.Rows[k0] >= n*farApart
}

// rowStride is how far apart rows [k0, k1) are, if that is the same for all.
func (b *UnfoldedOf[T]) rowStride(k0, k1 int) (stride int, even bool) {
	rows := b.Rows[k0:k1]
	if len(rows) > 1 {
		stride = rows[1] - rows[0]
	}
	for p, row := range rows {
		if row != rows[0]+p*stride {
			return 0, false
		}
	}
	return stride, true
}

// ChunkEnd is the end of the chunk that begins with term k.
func (b *UnfoldedOf[T]) ChunkEnd(k int) int {
	if b.Chunks == nil {
		return min(k+Chunk, len(b.Rows))
	}
	i, _ := slices.BinarySearch(b.Chunks, k+1)
	return b.Chunks[i]
}

// Unfold computes C = A B, or with add C + A B, in the canonical order, for A [m k], an unfolded B [k n] and C [m n],
// where k and n are B's numbers of rows and columns. C is row-major with leading dimension ldc. With add, C holds the
// chunks of earlier terms, of which there are a multiple of 256. The epilogue is that of [Float32].
func Unfold[T float32 | float64](m int, a MatrixOf[T], b UnfoldedOf[T], c []T, ldc int, add bool,
	epilogue func(i, j int, dst []T)) {
	k, n := len(b.Rows), b.Columns.Len()
	if m <= 0 || n <= 0 {
		return
	}
	if b.Run > 0 {
		b.checkRuns(k, n)
	}
	last := b.check(m, k, n, a, len(c), ldc)
	if tier := current(); tier != nil && k > 0 {
		if b, ok := any(b).(UnfoldedOf[float32]); ok {
			p := acquire(tier)
			finish, _ := any(epilogue).(Epilogue)
			p.unfolded, p.lastRow, p.add = &b, last, add
			p.set(m, p.virtual(n), k, any(a).(Matrix), Matrix{}, any(c).([]float32), ldc, finish)
			p.run(workersFor(m, n, k))
			p.release()
			return
		}
	}
	b.portable(m, k, n, a, c, ldc, add, epilogue)
}

// Lanes is how many columns the vectors have in which products read an unfolded operand in place, so that each run of
// columns costs a multiple of that; 0 if there are none.
func Lanes[T float32 | float64]() int {
	var t T
	if _, single := any(t).(float32); single && current() != nil {
		return current().lanes
	}
	return 0
}

// Splits reports whether runs of columns may be in pieces of so many neighbours in memory each: where vectors are read
// in two pieces, and none has more.
func Splits[T float32 | float64](run, piece int) bool {
	lanes := Lanes[T]()
	for x := 0; x < run && lanes > 0 && current().splits; x += lanes {
		if (min(x+lanes, run)-1)/piece > x/piece+1 {
			return false
		}
	}
	return lanes > 0 && current().splits
}

// InPlace reports whether a product with m rows reads columns of an unfolded operand where they are, if they are
// neighbours in memory. Others are packed, which pays where many rows read them.
func InPlace[T float32 | float64](m int) bool {
	var t T
	_, single := any(t).(float32)
	return single && current() != nil && m < packRows
}

// checkRuns panics unless n columns of k terms are runs.
func (b *UnfoldedOf[T]) checkRuns(k, n int) {
	piece := 1
	if last := b.Columns.Rank - 1; last >= 0 && b.Columns.Strides[last] == 1 {
		piece = b.Columns.Shape[last]
	}
	if k == 0 || Lanes[T]() == 0 || n%b.Run != 0 || b.Result.Len() != n ||
		piece%b.Run != 0 && (b.Run%piece != 0 || !Splits[T](b.Run, piece)) {
		panic(fmt.Sprintf("matmul: %d terms of %d columns in runs of %d, pieces of %d; the result has %d", k, n, b.Run,
			piece, b.Result.Len()))
	}
}

// check panics unless every element that a product touches exists. It returns the largest of the rows.
func (b *UnfoldedOf[T]) check(m, k, n int, a MatrixOf[T], lenC, ldc int) (last int) {
	if b.Run > 0 {
		if need := (m-1)*ldc + b.Result.Offset(n-1) + 1; lenC < need {
			panic(fmt.Sprintf("matmul: C has %d elements, needs %d", lenC, need))
		}
	} else {
		check(m, n, 0, a, MatrixOf[T]{}, lenC, ldc)
	}
	if k == 0 {
		return 0
	}
	before := 0
	for _, end := range b.Chunks {
		if end <= before || end > before+Chunk {
			panic(fmt.Sprintf("matmul: a chunk of terms from %d to %d", before, end))
		}
		before = end
	}
	if b.Chunks != nil && before != k || b.LeftColumns != nil && len(b.LeftColumns) != k {
		panic(fmt.Sprintf("matmul: %d terms in chunks and %d columns of A, not %d", before, len(b.LeftColumns), k))
	}
	for p, column := range b.LeftColumns {
		if column < 0 || p > 0 && column <= b.LeftColumns[p-1] {
			panic(fmt.Sprintf("matmul: column %d of A, at %d, is not behind the one before", p, column))
		}
	}
	end := b.columnOfA(&a, k-1)
	if need := (m-1)*a.RowStride + end + 1; len(a.Data) < need || min(a.RowStride, a.ColStride) < 0 {
		panic(fmt.Sprintf("matmul: A has %d elements, needs %d", len(a.Data), need))
	}
	last = slices.Max(b.Rows)
	if need := last + b.Columns.Offset(n-1) + 1; len(b.Data) < need || slices.Min(b.Rows) < 0 {
		panic(fmt.Sprintf("matmul: unfolded B has %d elements, needs %d", len(b.Data), need))
	}
	return last
}

// pack copies columns [j0, j1) of rows [k0, k0+kc) to strips of the given width: element (k0+p, j0+j) to
// dst[(j/width*kc+p)*width + j%width].
func (b *UnfoldedOf[T]) pack(dst []T, width, k0, kc, j0, j1 int) {
	rows := b.Rows[k0 : k0+kc]
	stride := 1
	if last := b.Columns.Rank - 1; last >= 0 {
		stride = b.Columns.Strides[last]
	}
	at := b.Columns.Cursor(j0)
	for j := 0; j < j1-j0; {
		run := min(j1-j0-j, width-j%width)
		if b.Columns.Rank > 0 {
			run = min(run, at.Run())
		}
		copyRows(dst[j/width*kc*width+j%width:], width, b.Data[at.Offset:], stride, rows, run)
		j += run
		if j < j1-j0 {
			at.Skip(run)
		}
	}
}

// copyRows copies n elements of each row of src to dst.
func copyRows[T float32 | float64](dst []T, dstStride int, src []T, stride int, rows []int, n int) {
	if stride == 1 {
		for p, row := range rows {
			copy(dst[p*dstStride:p*dstStride+n], src[row:row+n])
		}
		return
	}
	for p, row := range rows {
		for x := range n {
			dst[p*dstStride+x] = src[row+x*stride]
		}
	}
}

// portable is the tier without assembly. Each strip of columns is packed, chunk by chunk, and multiplied by all rows of
// A.
func (b *UnfoldedOf[T]) portable(m, k, n int, a MatrixOf[T], c []T, ldc int, add bool,
	epilogue func(i, j int, dst []T)) {
	grain := max(1, grainFlops/(m*strip*max(k, 1)))
	par.For(divideUp(n, strip), grain, func(lo, hi int) {
		packed := make([]T, min(Chunk, k)*(strip+1))
		packed, row := packed[:min(Chunk, k)*strip], packed[min(Chunk, k)*strip:]
		for j0 := lo * strip; j0 < min(hi*strip, n); j0 += strip {
			j1 := min(j0+strip, n)
			if k == 0 && !add {
				for i := range m {
					clear(c[i*ldc+j0 : i*ldc+j1])
				}
			}
			for k0, k1 := 0, 0; k0 < k; k0 = k1 {
				k1 = b.ChunkEnd(k0)
				b.pack(packed, strip, k0, k1-k0, j0, j1)
				for i := range m {
					from := b.chunkOfA(row, &a, i, k0, k1)
					portableChunk(c[i*ldc+j0:i*ldc+j1], k1-k0, from, MatrixOf[T]{packed, strip, 1}, add || k0 > 0)
				}
			}
			if epilogue != nil {
				for i := range m {
					epilogue(i, j0, c[i*ldc+j0:i*ldc+j1])
				}
			}
		}
	})
}

// chunkOfA is columns [k0, k1) of row i of A, in dst if they are not neighbours.
func (b *UnfoldedOf[T]) chunkOfA(dst []T, a *MatrixOf[T], i, k0, k1 int) MatrixOf[T] {
	row := a.from(i)
	if b.neighbours(a, k0, k1) {
		return MatrixOf[T]{row.Data[b.columnOfA(a, k0):], a.RowStride, a.ColStride}
	}
	for k, column := range b.LeftColumns[k0:k1] {
		dst[k] = row.Data[column]
	}
	return MatrixOf[T]{dst, 0, 1}
}

// Room is how many elements there must be behind those that [Chains] reads. Where [UnfoldedOf.Data] has them, columns
// in pieces are copied faster.
const Room = maxWidth

// Chains sets dst[j] to the chain of the terms a[p]*data[rows[p]+j], of which there are at most [Chunk]: a row of a
// product with an unfolded operand.
func Chains(dst, a, data []float32, rows []int) {
	tier := current()
	if tier == nil || len(a) == 0 {
		clear(dst)
		for p, row := range rows {
			addMultiple(dst, a[p], data[row:], 1)
		}
		return
	}
	width, lanes, tile := tier.width(), tier.lanes, tier.wide[1]
	full := len(dst) / width
	run := func(j, strips, cols, cols2 int) {
		tile(len(a), &a[0], 0, 1, 0, &data[j], 0, &rows[0], lanes, nil, width,
			&dst[j], 0, lanes, 0, 1, strips, cols, cols2, false)
	}
	if full > 0 {
		run(0, full, lanes, lanes)
	}
	if rest := len(dst) % width; rest > 0 {
		if rest <= lanes {
			tile = tier.narrow[1]
		}
		run(full*width, 1, min(rest, lanes), max(0, rest-lanes))
	}
}

// Unit divides the number of columns that [Correlate] takes.
const Unit = maxWidth

// Correlate goes on with the chains c of some taps, rows of so many columns: to each it adds the terms p, the products
// of row p of g and of the columns of x from rows[p] on, those of tap t step elements further for each.
func Correlate(c, g, x []float32, rows []int, taps, step, columns int) {
	if len(rows) == 0 {
		return
	}
	tier := current()
	if tier == nil {
		for p, row := range rows {
			for t := range taps {
				chain, of, seen := c[t*columns:(t+1)*columns], g[p*columns:], x[row+t*step:]
				for j := range chain {
					chain[j] = lane.FMA32(of[j], seen[j], chain[j])
				}
			}
		}
		return
	}
	most := len(tier.correlate) - 1
	for t := 0; t < taps; t += most {
		run := tier.correlate[min(most, taps-t)]
		for j := 0; j < columns; j += tier.width() {
			run(len(rows), &g[j], columns, &x[t*step+j], &rows[0], step, &c[t*columns+j], columns)
		}
	}
}

// Transpose sets dst[p*stride+r] to element (r, p) of src for r < rows and p < columns.
func Transpose[T float32 | float64](dst []T, stride int, src MatrixOf[T], rows, columns int) {
	if rows == 1 && stride == 1 {
		CopyPlane(dst, 0, src.Data, 0, 1, columns, src.ColStride)
		return
	}
	if tier := current(); tier != nil {
		if src, ok := any(src).(Matrix); ok {
			tier.packTranspose(any(dst).([]float32), stride, src, rows, columns)
			return
		}
	}
	copyTranspose(dst, stride, src, 0, rows, 0, columns)
}

// CopyPlane sets dst[i*dstRow+j] to src[i*srcRow+j*step] for i < rows and j < n.
func CopyPlane[T float32 | float64](dst []T, dstRow int, src []T, srcRow, rows, n, step int) {
	if min(rows, n) <= 0 {
		return
	}
	_, _ = dst[(rows-1)*dstRow+n-1], src[(rows-1)*srcRow+(n-1)*step]
	if tier := current(); tier != nil && tier.copyPlane[0] != nil && n >= tier.leastCopy && (step == 1 || step == 2) {
		if dst, ok := any(dst).([]float32); ok {
			tier.copyPlane[step-1](&dst[0], dstRow, &any(src).([]float32)[0], srcRow, rows, n)
			return
		}
	}
	for i := range rows {
		row, from := dst[i*dstRow:][:n], src[i*srcRow:]
		if step == 1 {
			copy(row, from)
			continue
		}
		for j := range row {
			row[j] = from[j*step]
		}
	}
}

// PutPlane sets dst[i*dstRow+j*step] to src[i*srcRow+j] for i < rows and j < n. It may write to the elements between
// these what is there.
func PutPlane[T float32 | float64](dst []T, dstRow int, src []T, srcRow, rows, n, step int) {
	if step == 1 {
		CopyPlane(dst, dstRow, src, srcRow, rows, n, 1)
		return
	}
	if min(rows, n) <= 0 {
		return
	}
	_, _ = dst[(rows-1)*dstRow+(n-1)*step], src[(rows-1)*srcRow+n-1]
	if tier := current(); tier != nil && tier.putPlane2 != nil && step == 2 {
		if dst, ok := any(dst).([]float32); ok {
			tier.putPlane2(&dst[0], dstRow, &any(src).([]float32)[0], srcRow, rows, n)
			return
		}
	}
	for i := range rows {
		to := dst[i*dstRow:]
		for j, v := range src[i*srcRow:][:n] {
			to[j*step] = v
		}
	}
}
