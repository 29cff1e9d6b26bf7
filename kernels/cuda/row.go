//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

const (
	rowWarps   = 4 // kRowWarps of row.cuh
	rowThreads = 32 * rowWarps
	maxRow     = 1 << 28 // elements of a row
	blockWarps = 8       // kBlockWarps

	// The longest rows that a warp caches, in bytes of the compute type.
	warpCached = 32 * 32 * 4
)

// shortRow is the length of the longest rows of elements of type d that a warp caches.
func shortRow(d kernels.DType) int { return warpCached / computeType(d).Size() }

// rows is the struct Rows of row.cuh.
type rows struct {
	data           uint64
	rows, elements kernels.Dims
	dtype, wide    uint32
}

// rowsOf describes a, the elements of a row being those along the given axes; nil is none.
func (c *call) rowsOf(a *kernels.Arg, axes []int) rows {
	if a == nil {
		return rows{wide: 1}
	}
	var r kernels.Reduction
	r.Set(&a.Layout, axes)
	x := rows{c.address(a), r.Kept, r.Reduced, uint32(a.DType.Code()), 0}
	if x.inFours(a.DType.Size()) {
		x.wide = 1
	}
	return x
}

// inFours tells whether rows are contiguous, and four elements of the given size, or 16 bytes if that is less, aligned
// from the first element of each row on.
func (x *rows) inFours(size int) bool {
	aligned := x.data%uint64(min(16, 4*size)) == 0 && x.elements.Contiguous()
	for _, stride := range x.rows.Strides[:x.rows.Rank] {
		aligned = aligned && stride%4 == 0
	}
	return aligned
}

// rows appends an operand as rowsOf describes it.
func (c *call) rows(a *kernels.Arg, axes []int) {
	r := c.rowsOf(a, axes)
	structure(c, &r)
}

// lastAxes are the last k axes of a.
func lastAxes(a *kernels.Arg, k int) []int { return allAxes[len(a.Shape)-k : len(a.Shape)] }

var allAxes = []int{0, 1, 2, 3, 4, 5, 6, 7}

// startRows begins a launch in which threads have rows of n elements of type d.
func (c *call) startRows(name string, d kernels.DType, rows, n int) {
	if n >= maxRow {
		c.refuse("rows of %d elements; kernels on %s take fewer than %d", n,
			c.b.Name(), maxRow)
	}
	c.start(name+"_"+typeSuffix(d), blocks(rows, rowThreads), rowThreads)
}

// startGroups begins a launch in which thread groups, warps or blocks where rows are long, have rows of n elements of
// type d.
func (c *call) startGroups(name string, d kernels.DType, rows, n int) {
	infix, each, threads := "_", rowWarps, rowThreads
	if n > shortRow(d) {
		infix, each, threads = "_long_", 1, blockThreads(n, blockWarps)
	}
	grid := ceilDiv(rows, each)
	if n >= maxRow || grid > math.MaxInt32 {
		c.refuse("%d rows of %d elements; kernels on %s take fewer than %d, of fewer than %d",
			rows, n, c.b.Name(), 1<<31, maxRow)
	}
	c.start(name+infix+typeSuffix(d), dim{uint32(grid), 1, 1}, uint32(threads))
}

// blockThreads is how many threads have a row of n elements, of at most so many warps: each has blocks of the canonical
// order, all the same number if that can be.
func blockThreads(n, warps int) int {
	folds := ceilDiv(n, foldBlock)
	return 32 * ceilDiv(folds, ceilDiv(folds, warps))
}

// extent is the number of rows of a along the given axes and their length.
func extent(a *kernels.Arg, axes []int) (rows, n int) {
	n = 1
	for _, i := range axes {
		n *= a.Shape[i]
	}
	if n == 0 {
		var r kernels.Reduction
		r.Set(&a.Layout, axes)
		return r.Results(), 0
	}
	return a.Len() / n, n
}

// startResults begins a launch of a kernel that reduces the first operand along the axes l.Ints. Its results are to
// follow, then [call.operand].
func (c *call) startResults(name string, l *kernels.Launch) {
	count, n := extent(&l.In[0], l.Ints)
	c.startGroups(name, l.In[0].DType, count, n)
}

// operand appends the first operand of such a launch, the number of rows and their length n.
func (c *call) operand(l *kernels.Launch) (n int) {
	count, n := extent(&l.In[0], l.Ints)
	c.rows(&l.In[0], l.Ints)
	c.extent(count, n)
	return n
}

// extent appends a number of rows and their length.
func (c *call) extent(rows, n int) {
	arg(c, uint64(rows))
	arg(c, uint32(n))
}

// result appends an operand as a struct Result.
func (c *call) result(a *kernels.Arg) {
	y := c.resultOf(a)
	structure(c, &y)
}
