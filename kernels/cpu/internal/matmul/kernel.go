package matmul

// tileFunc is a micro-kernel for tiles of some rows and columns of C. It computes, for one chunk of k,
//
//	C[i, j] = or += sum over p of A[i, p] B[p, j], one chain of fused multiply-adds from +0
//
// for a column of tiles, one in each of some panels of A, and that for some strips of B. In panel q, element (i, p) of A
// is a[q*aPanel+i*aRow+p*aCol] and element (i, j) of C is c[q*cPanel+i*ldc+j]; in strip s, element (p, j) of B is
// b[s*bStrip+p*bRow+j]. Strips are as wide as the tile and lie side by side in C. When cols is less than that width
// there is one strip of cols columns, of which B must nevertheless have the full width. If add is false C is overwritten.
type tileFunc func(k int, a *float32, aRow, aCol, aPanel int, b *float32, bRow, bStrip int, c *float32, ldc, cPanel, panels, strips, cols int, add bool)

// kernels is the assembly of one tier.
type kernels struct {
	lanes  int        // columns of a vector; a strip has two vectors
	rows   int        // most rows of a micro-kernel
	wide   []tileFunc // micro-kernels of one strip's width by number of rows
	narrow []tileFunc // micro-kernels of half that width

	// copyStrips copies k rows to packed strips: strips full ones and, if cols > 0, one of cols columns and padding.
	copyStrips func(dst, src *float32, row, k, strips, cols int)
	// copyPanels does the same for panels of A: dst[q*12*k+p*12+r] = src[p*row+q*12+r] for q < panels, p < k, r < 12.
	copyPanels func(dst, src *float32, row, k, panels int)
	// transpose8 sets dst[p*step+r] = src[r*row+p] for r < 8 and p < k, with k a multiple of 4; transpose4 for r < 4.
	transpose8, transpose4 func(dst *float32, step int, src *float32, row, k int)
}

// width is the number of columns of a strip.
func (t *kernels) width() int { return 2 * t.lanes }
