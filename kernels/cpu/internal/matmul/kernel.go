package matmul

// tileFunc is a micro-kernel for tiles of some rows and columns of C. It computes, for one chunk of k,
//
//	C[i, j] = or += sum over p of A[i, p] B[p, j], one chain of fused multiply-adds from +0
//
// for some strips of B (BLIS calls them micro-panels), and in each for a tile of each of some panels of A. The
// parameters after a, b and c are strides. In panel q, element (i, p) of A is a[q*aPanel+i*aRow+p*aCol] and element (i,
// j) of C is c[q*cPanel+i*ldc+j]; in strip s, element (p, j) of B is b[s*bStrip+p*bRow+j], or b[s*bStrip+bRows[p]+j] if
// bRows is not nil. A strip is a vector or two. The second one begins cApart columns behind the first one in C, and
// bApart in B if there is bRows. Strips are adjacent in C. When cols or cols2, the columns of these vectors, are less
// than the vectors have, there is one strip, of which B must still have the full vectors. If add is false, C is
// overwritten. With bRows and if bSplit is not nil, the vectors of the one strip are in two pieces: of vector v lanes i
// with bit i in bSplit[2+v] are b[bRows[p]+bSplit[v]+i]. Tiers with assembly.splits know that.
type tileFunc func(k int, a *float32, aRow, aCol, aPanel int, b *float32, bRow int, bRows *int, bApart int,
	bSplit *int, bStrip int, c *float32, ldc, cApart, cPanel, panels, strips, cols, cols2 int, add bool)

// correlateFunc goes on with two vectors of chains, for a number of taps t and k terms, at least one:
//
//	c[t*cRow+j] = fma(grad[p*gradRow+j], x[rows[p]+t*step+j], c[t*cRow+j]) for p = 0 ... k-1
type correlateFunc func(k int, grad *float32, gradRow int, x *float32, rows *int, step int, c *float32, cRow int)

// pixelsFunc computes, for one chunk of k, tiles of some panels of A, of so many rows as the kernel has, and strips of
// B, two vectors wide: the chains of a[q*aPanel+i*aRow+aCols[p]] b[(s*k+p)*width+j], of at least one p, are stored in
// or added to c[q*cPanel+i*ldc+s*width+j]. Meanwhile lines of 16 elements from read and from write on come to the
// level-2 cache, one of both for each p of the first tiles, until there are as many as given.
type pixelsFunc func(k int, a *float32, aRow int, aCols *int, aPanel int, b *float32, c *float32,
	ldc, cPanel, panels, strips int, add bool, read, write *float32, lines int)

// assembly is the micro-kernels of one tier.
type assembly struct {
	lanes  int        // float32 elements of a vector; a strip is two vectors wide
	rows   int        // most rows of a micro-kernel
	wide   []tileFunc // micro-kernels of one strip's width by number of rows
	narrow []tileFunc // micro-kernels of half that width
	splits bool       // they take vectors of B in two pieces
	// columns is the most columns of a block of C. A chunk of B of so many takes the level-2 cache of its processors:
	// with 512 KB instead of 1 MB, products of 1024 and 2048 take 0.95 of the time on Zen 3.
	columns int
	// byGroups tells that a group of rows of A takes all chunks of B before the next group does: its part of C stays in
	// the level-2 cache, where a chunk of B does not. Products of 512 to 2048 take 0.92 to 0.99 of the time on Zen 3.
	byGroups bool
	// packRowsA is how many columns a block of C must have for packing A to pay if its rows are contiguous,
	// packColumnsA the same if its columns are. packB is how many rows C must have for packing a B with contiguous
	// rows to pay. Where less is packed products of training take 0.95 to 0.99 of the time with AVX2 on Zen 4, and 0.87
	// to 1 with AVX-512 on Emerald Rapids.
	packRowsA    int
	packColumnsA byApart
	packB        byApart

	correlate []correlateFunc // by the number of taps

	pixels []pixelsFunc // by the number of rows; nil where there are none

	tiles64 tiles64 // of float64 products; the portable ones where there are none

	// slide is nil or computes blocks of chains: of windows at neighbouring elements of some rows, a vector in each. A
	// block is rows, its offsets in dst and src, the lanes that are stored, and for each tap the offset of what it sees
	// and the lanes that see something; the others see 0. What is ahead elements further on is fetched.
	slide func(dst *float32, dstRow int, src *float32, srcRow, ahead int, weights *float32, taps int,
		blocks *int, count int)
	slideLeast int // how many windows a row must have: with AVX2 vectors are stored whole

	// copyStrips copies k rows to packed strips: some full ones and, if cols > 0, one of cols columns and padding.
	copyStrips func(dst, src *float32, srcStride, k, strips, cols int)
	// gatherStrip copies k rows, at least one, to a packed strip: dst[p*width+x] = src[rows[p]+columns[x]].
	gatherStrip func(dst, src *float32, rows *int, k int, columns *int)
	// copyPieces copies k rows, at least one, to a packed strip, some vectors of each in this order: a vector at
	// src[rows[p]+pieces[2*i]] to dst[p*width+pieces[2*i+1]]. The last ones may reach into what follows the strip.
	copyPieces func(dst, src *float32, rows *int, k int, pieces *int, count int)
	// copyPanels copies panels of A: dst[q*12*k+p*12+r] = src[p*srcStride+q*12+r] for q < panels, p < k, r < 12.
	copyPanels func(dst, src *float32, srcStride, k, panels int)
	// gatherPanel packs one: dst[p*12+r] = src[columns[p]+r*row] for p < k, at least one, and r < 12.
	gatherPanel func(dst, src *float32, row int, columns *int, k int)
	// copyPlane are for steps 1 and 2, nil where there are none: dst[i*dstRow+j] = src[i*srcRow+step*j] for i < rows,
	// at least one, and j < n, at least leastCopy.
	copyPlane [2]func(dst *float32, dstRow int, src *float32, srcRow, rows, n int)
	leastCopy int
	// putPlane2 is nil or sets dst[i*dstRow+2*j] = src[i*srcRow+j], for j < n, at least one. It may write to the
	// elements between these what is there.
	putPlane2 func(dst *float32, dstRow int, src *float32, srcRow, rows, n int)
	// transpose8 sets dst[p*dstStride+r] = src[r*srcStride+p] for r < 8 and p < k, a multiple of 4; transpose4 for r <
	// 4.
	transpose8, transpose4 func(dst *float32, dstStride int, src *float32, srcStride, k int)
}

// width is the number of columns of a strip.
func (t *assembly) width() int { return 2 * t.lanes }
