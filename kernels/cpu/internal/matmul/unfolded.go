package matmul

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// UnfoldedOf is a matrix in which elements of memory stand in many places, as in the product that a convolution is:
// element (p, j) is Data[Rows[p]+Columns.Offset(j)]. It is never made: the product packs what it needs.
type UnfoldedOf[T float32 | float64] struct {
	Data    []T
	Rows    []int        // not negative
	Columns kernels.Dims // strides are not negative
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
	b.check(m, k, n, a, len(c), ldc)
	if tier := current(); tier != nil && k > 0 {
		if b, ok := any(b).(UnfoldedOf[float32]); ok {
			p := acquire(tier)
			finish, _ := any(epilogue).(Epilogue)
			p.unfolded, p.add = &b, add
			p.set(m, n, k, any(a).(Matrix), Matrix{}, any(c).([]float32), ldc, finish)
			p.run(workersFor(m, n, k))
			p.release()
			return
		}
	}
	b.portable(m, k, n, a, c, ldc, add, epilogue)
}

// InPlace reports whether a product with m rows reads columns of an unfolded operand where they are, if they are
// neighbours in memory. Others are packed, which pays where many rows read them.
func InPlace[T float32 | float64](m int) bool {
	var t T
	_, single := any(t).(float32)
	return single && current() != nil && m < packRows
}

// check panics unless every element that a product touches exists.
func (b *UnfoldedOf[T]) check(m, k, n int, a MatrixOf[T], lenC, ldc int) {
	check(m, n, 0, a, MatrixOf[T]{}, lenC, ldc)
	if k == 0 {
		return
	}
	if need := (m-1)*a.RowStride + (k-1)*a.ColStride + 1; len(a.Data) < need || min(a.RowStride, a.ColStride) < 0 {
		panic(fmt.Sprintf("matmul: A has %d elements, needs %d", len(a.Data), need))
	}
	if need := slices.Max(b.Rows) + b.Columns.Offset(n-1) + 1; len(b.Data) < need || slices.Min(b.Rows) < 0 {
		panic(fmt.Sprintf("matmul: unfolded B has %d elements, needs %d", len(b.Data), need))
	}
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
		packed := make([]T, min(Chunk, k)*strip)
		for j0 := lo * strip; j0 < min(hi*strip, n); j0 += strip {
			j1 := min(j0+strip, n)
			if k == 0 && !add {
				for i := range m {
					clear(c[i*ldc+j0 : i*ldc+j1])
				}
			}
			for k0 := 0; k0 < k; k0 += Chunk {
				kc := min(Chunk, k-k0)
				b.pack(packed, strip, k0, kc, j0, j1)
				for i := range m {
					from := MatrixOf[T]{a.Data[i*a.RowStride+k0*a.ColStride:], a.RowStride, a.ColStride}
					portableChunk(c[i*ldc+j0:i*ldc+j1], kc, from, MatrixOf[T]{packed, strip, 1}, add || k0 > 0)
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

// Transpose sets dst[p*stride+r] to element (r, p) of src for r < rows and p < columns.
func Transpose[T float32 | float64](dst []T, stride int, src MatrixOf[T], rows, columns int) {
	if tier := current(); tier != nil {
		if src, ok := any(src).(Matrix); ok {
			tier.packTranspose(any(dst).([]float32), stride, src, rows, columns)
			return
		}
	}
	copyTranspose(dst, stride, src, 0, rows, 0, columns)
}
