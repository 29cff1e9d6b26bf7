package matmul

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Chunk is the number of terms in one chain of fused multiply-adds. It is part of the canonical order:
// changing it changes the bits of every product with an inner size above it.
const Chunk = 256

// parallelWork is the number of multiply-adds that are worth a thread, about ten microseconds of them.
const parallelWork = 1 << 19

// MatrixOf is a view of elements: element (i, j) is Data[i*RowStride+j*ColStride]. Strides are not negative; a stride
// of 0 repeats one row or column (an expanded operand).
type MatrixOf[T float32 | float64] struct {
	Data                 []T
	RowStride, ColStride int
}

// The matrices of [Float32] and [Float64].
type (
	Matrix   = MatrixOf[float32]
	Matrix64 = MatrixOf[float64]
)

// An Epilogue changes a finished segment of row i of C, which starts at column j, while it is in cache.
type Epilogue = func(i, j int, dst []float32)

// Float32 computes C = A B in the canonical order, for A [m k], B [k n] and C [m n].
// C is row-major with leading dimension ldc and shares no memory with A and B.
// The epilogue, when not nil, is called for segments of rows that cover each element of C once, possibly from several
// goroutines at once. How rows are cut into segments is not defined.
func Float32(m, n, k int, a, b Matrix, c []float32, ldc int, epilogue Epilogue) {
	if m <= 0 || n <= 0 {
		return
	}
	check(m, n, k, a, b, len(c), ldc)
	tier := current()
	if tier == nil || k <= 0 {
		portable(m, n, k, a, b, c, ldc, epilogue)
		return
	}
	p := acquire(tier)
	if turnPays(m, n, k, a, b, tier.lanes) {
		p.runTurned(m, n, k, a, b, c, ldc, epilogue)
	} else {
		p.set(m, n, k, a, b, c, ldc, epilogue)
		p.run(workersFor(m, n, k))
	}
	p.release()
}

// workersFor returns the number of threads that a product is worth.
func workersFor(m, n, k int) int {
	if m*n*k < 2*parallelWork {
		return 1
	}
	return min(par.Workers(), m*n*k/parallelWork)
}

// check panics unless every element that a product of these sizes touches exists.
func check[T float32 | float64](m, n, k int, a, b MatrixOf[T], lenC, ldc int) {
	if min(a.RowStride, a.ColStride, b.RowStride, b.ColStride) < 0 {
		panic("matmul: negative stride")
	}
	if ldc < n && m > 1 {
		panic(fmt.Sprintf("matmul: leading dimension %d of C is less than its %d columns", ldc, n))
	}
	need := func(operand string, have, rows, rowStride, columns, colStride int) {
		if need := (rows-1)*rowStride + (columns-1)*colStride + 1; have < need {
			panic(fmt.Sprintf("matmul: %s has %d elements, needs %d", operand, have, need))
		}
	}
	need("C", lenC, m, ldc, n, 1)
	if k > 0 {
		need("A", len(a.Data), m, a.RowStride, k, a.ColStride)
		need("B", len(b.Data), k, b.RowStride, n, b.ColStride)
	}
}
