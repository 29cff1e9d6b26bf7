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
	clear(dst)
	var sums [strip]float32
	sum := sums[:len(dst)]
	for k0 := 0; k0 < k; k0 += chunk {
		clear(sum)
		for p := k0; p < min(k0+chunk, k); p++ {
			addMultiple(sum, a.Data[i*a.RowStride+p*a.ColStride], b.Data[p*b.RowStride+j0*b.ColStride:], b.ColStride)
		}
		for j, s := range sum {
			if k0 == 0 {
				dst[j] = s
			} else {
				dst[j] += s
			}
		}
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

// Float64 computes C = A B in float64 in the same canonical order, by plain loops.
func Float64(m, n, k int, a, b Matrix64, c []float64, ldc int) {
	if m <= 0 || n <= 0 {
		return
	}
	check(m, n, k, len(a.Data), a.RowStride, a.ColStride, len(b.Data), b.RowStride, b.ColStride, len(c), ldc)
	par.For(m, max(1, grainFlops/(n*max(k, 1))), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j := 0; j < n; j += strip {
				strip64(c[i*ldc+j:i*ldc+min(j+strip, n)], k, a, b, i, j)
			}
		}
	})
}

// strip64 is portableStrip in float64.
func strip64(dst []float64, k int, a, b Matrix64, i, j0 int) {
	clear(dst)
	var sums [strip]float64
	sum := sums[:len(dst)]
	for k0 := 0; k0 < k; k0 += chunk {
		clear(sum)
		for p := k0; p < min(k0+chunk, k); p++ {
			x := a.Data[i*a.RowStride+p*a.ColStride]
			y := b.Data[p*b.RowStride+j0*b.ColStride:]
			if b.ColStride == 1 {
				for j, v := range y[:len(sum)] {
					sum[j] = math.FMA(x, v, sum[j])
				}
				continue
			}
			for j := range sum {
				sum[j] = math.FMA(x, y[j*b.ColStride], sum[j])
			}
		}
		for j, s := range sum {
			if k0 == 0 {
				dst[j] = s
			} else {
				dst[j] += s
			}
		}
	}
}
