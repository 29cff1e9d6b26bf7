package matmul

import (
	"math"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// strip is the number of columns that the portable loops compute together.
const strip = 64

// grainFlops is the number of multiply-adds that are worth a second thread in the portable loops.
const grainFlops = 1 << 14

// portable is the tier without assembly: the canonical order as loops over strips of each row of C.
func portable(m, n, k int, a, b Matrix, c []float32, ldc int, epilogue Epilogue) {
	par.For(m, max(1, grainFlops/(n*max(k, 1))), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := c[i*ldc:][:n]
			for j := 0; j < n; j += strip {
				portableStrip(row[j:min(j+strip, n)], k, a, b, i, j)
			}
			if epilogue != nil {
				epilogue(i, 0, row)
			}
		}
	})
}

// portableStrip computes dst[j] = C[i, j0+j].
func portableStrip(dst []float32, k int, a, b Matrix, i, j0 int) {
	if k == 0 {
		clear(dst)
	}
	for k0 := 0; k0 < k; k0 += Chunk {
		rows := Matrix{a.Data[i*a.RowStride+k0*a.ColStride:], a.RowStride, a.ColStride}
		columns := Matrix{b.Data[k0*b.RowStride+j0*b.ColStride:], b.RowStride, b.ColStride}
		portableChunk(dst, min(Chunk, k-k0), rows, columns, k0 > 0)
	}
}

// portableChunk sets dst[j], or adds to it, the chain of terms p < k of row 0 of A and column j of B.
func portableChunk[T float32 | float64](dst []T, k int, a, b MatrixOf[T], add bool) {
	var sums [strip]T
	sum := sums[:len(dst)]
	for p := range k {
		x, y := a.Data[p*a.ColStride], b.Data[p*b.RowStride:]
		switch sum := any(sum).(type) {
		case []float32:
			addMultiple(sum, float32(x), any(y).([]float32), b.ColStride)
		case []float64:
			addMultiple64(sum, float64(x), any(y).([]float64), b.ColStride)
		}
	}
	if !add {
		copy(dst, sum)
		return
	}
	for j, s := range sum {
		dst[j] += s
	}
}

// addMultiple sets sum[j] = fma(x, y[j*stride], sum[j]).
//
// It has the common case of lane.FMA32 in the loop: the float64 sum is a normal float32, too, and not halfway between
// two of them, so that rounding it once more gives the right result.
func addMultiple(sum []float32, x float32, y []float32, stride int) {
	const (
		below = 1<<29 - 1 // the bits of a float64 that float32 lacks
		half  = 1 << 28
	)
	least := math.Float64bits(0x1p-126) << 1
	x64 := float64(x)
	for j := range sum {
		v := y[j*stride]
		s := x64*float64(v) + float64(sum[j])
		if bits := math.Float64bits(s); bits&below != half && bits<<1 > least {
			sum[j] = float32(s)
		} else {
			sum[j] = lane.FMA32(x, v, sum[j])
		}
	}
}

// addMultiple64 is addMultiple in float64.
func addMultiple64(sum []float64, x float64, y []float64, stride int) {
	if stride == 1 {
		for j, v := range y[:len(sum)] {
			sum[j] = math.FMA(x, v, sum[j])
		}
		return
	}
	for j := range sum {
		sum[j] = math.FMA(x, y[j*stride], sum[j])
	}
}
