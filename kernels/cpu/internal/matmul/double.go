package matmul

import (
	"math"
	"sync"
	"unsafe"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// tiles64 computes tiles of float64 products. For one chunk of k, at least one term, run[r] sets
//
//	sums[i*columns+j] = the chain of a[p*rows+i] b[p*columns+j]
//
// for at least r rows i and all columns j.
type tiles64 struct {
	rows, columns int
	run           []func(k int, a, b, sums *float64)
}

const (
	maxRows64, maxColumns64 = 12, 16 // of a tile
	// blockColumns64 is the most columns of a block of C: a chunk of B of so many takes half a megabyte.
	blockColumns64 = 256
)

// A product64 is one call of Float64.
type product64 struct {
	tiles   *tiles64
	m, n, k int
	a, b    Matrix64
	c       []float64
	ldc     int
}

// Float64 computes C = A B in float64 in the same canonical order.
func Float64(m, n, k int, a, b Matrix64, c []float64, ldc int) {
	if m > 0 && n > 0 {
		p := newProduct64(m, n, k, a, b, c, ldc)
		p.run(workersFor(m, n, k))
	}
}

// Batch64 is [Batch] in float64.
func Batch64(count, m, n, k int, a, b func(i int) Matrix64, c func(i int) (data []float64, ldc int)) {
	if m <= 0 || n <= 0 {
		return
	}
	run := func(lo, hi, workers int) {
		for i := lo; i < hi; i++ {
			data, ldc := c(i)
			p := newProduct64(m, n, k, a(i), b(i), data, ldc)
			p.run(workers)
		}
	}
	if workers := workersFor(m, n, k); workers > 1 && count < 4*par.Workers() {
		run(0, count, workers)
		return
	}
	work := m*n*k + packCost*(m*k+k*n+m*n) // most of small products is packing
	par.For(count, max(1, parallelWork/work), func(lo, hi int) { run(lo, hi, 1) })
}

// newProduct64 returns a product, or panics if that would leave its operands.
func newProduct64(m, n, k int, a, b Matrix64, c []float64, ldc int) product64 {
	check(m, n, k, a, b, len(c), ldc)
	return product64{currentTiles64(), m, n, k, a, b, c, ldc}
}

// run computes the blocks of C. One worker allocates nothing.
func (p *product64) run(workers int) {
	g := chooseGrid(p.m, p.n, p.tiles.columns, blockColumns64, workers)
	if workers == 1 {
		for task := range g.down * g.across {
			p.block(g, task)
		}
		return
	}
	shared := *p
	par.Tiles(workers, g.down*g.across, func(_, task int) { shared.block(g, task) })
}

// packed64 is the memory for a panel of A, the strips of B of a block, and a tile.
type packed64 struct {
	a    [maxRows64 * Chunk]float64
	b    [blockColumns64 * Chunk]float64
	sums [maxRows64 * maxColumns64]float64
}

var memory64 = sync.Pool{New: func() any { return new(packed64) }}

// block computes a block of C.
func (p *product64) block(g grid, task int) {
	i0, j0 := task%g.down*g.rows, task/g.down*g.cols
	i1, j1 := min(i0+g.rows, p.m), min(j0+g.cols, p.n)
	if p.k <= 0 {
		for i := i0; i < i1; i++ {
			clear(p.c[i*p.ldc+j0 : i*p.ldc+j1])
		}
		return
	}
	memory := memory64.Get().(*packed64)
	defer memory64.Put(memory)
	t, width := p.tiles, p.tiles.columns
	for k0 := 0; k0 < p.k; k0 += Chunk {
		k := min(Chunk, p.k-k0)
		for j := j0; j < j1; j += width {
			from := Matrix64{p.b.Data[k0*p.b.RowStride+j*p.b.ColStride:], p.b.RowStride, p.b.ColStride}
			pack64(memory.b[(j-j0)*k:], width, from, k, min(width, j1-j))
		}
		for i, rows := i0, 0; i < i1; i += rows {
			rows = divideUp(i1-i, divideUp(i1-i, t.rows))
			from := Matrix64{p.a.Data[i*p.a.RowStride+k0*p.a.ColStride:], p.a.ColStride, p.a.RowStride}
			pack64(memory.a[:], t.rows, from, k, rows)
			for j := j0; j < j1; j += width {
				t.run[rows](k, &memory.a[0], &memory.b[(j-j0)*k], &memory.sums[0])
				p.store(memory.sums[:], i, rows, j, min(width, j1-j), k0 > 0)
			}
		}
	}
}

// pack64 sets dst[p*width+x] = src[p, x] for p < k and x < count. What is between is left as it is.
func pack64(dst []float64, width int, src Matrix64, k, count int) {
	if src.ColStride == 1 {
		for p := range k {
			copy(dst[p*width:][:count], src.Data[p*src.RowStride:])
		}
		return
	}
	x := 0
	for ; src.RowStride == 1 && x+4 <= count; x += 4 {
		column := func(i int) []float64 { return src.Data[(x+i)*src.ColStride:][:k] }
		x0, x1, x2, x3 := column(0), column(1), column(2), column(3)
		for p := range k {
			*(*[4]float64)(dst[p*width+x:]) = [4]float64{x0[p], x1[p], x2[p], x3[p]}
		}
	}
	for ; x < count; x++ {
		column := src.Data[x*src.ColStride:]
		for p := range k {
			dst[p*width+x] = column[p*src.RowStride]
		}
	}
}

// store writes the first rows and columns of a tile to C from element (i, j) on, or adds them.
func (p *product64) store(sums []float64, i, rows, j, columns int, add bool) {
	for r := range rows {
		sum := sums[r*p.tiles.columns:][:columns]
		row := p.c[(i+r)*p.ldc+j:][:columns]
		if !add {
			copy(row, sum)
			continue
		}
		for x, s := range sum {
			row[x] += s
		}
	}
}

// portableTiles64 are the tiles without assembly.
var portableTiles64 = tiles64{4, 4, []func(k int, a, b, sums *float64){nil, tile64, tile64, tile64, tile64}}

// tile64 computes tiles of 4 rows and 4 columns.
func tile64(k int, a, b, sums *float64) {
	var s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33 float64
	as, bs := unsafe.Slice((*[4]float64)(unsafe.Pointer(a)), k), unsafe.Slice((*[4]float64)(unsafe.Pointer(b)), k)
	for p := range min(len(as), len(bs)) {
		x, y := &as[p], &bs[p]
		s00, s01 = math.FMA(x[0], y[0], s00), math.FMA(x[0], y[1], s01)
		s02, s03 = math.FMA(x[0], y[2], s02), math.FMA(x[0], y[3], s03)
		s10, s11 = math.FMA(x[1], y[0], s10), math.FMA(x[1], y[1], s11)
		s12, s13 = math.FMA(x[1], y[2], s12), math.FMA(x[1], y[3], s13)
		s20, s21 = math.FMA(x[2], y[0], s20), math.FMA(x[2], y[1], s21)
		s22, s23 = math.FMA(x[2], y[2], s22), math.FMA(x[2], y[3], s23)
		s30, s31 = math.FMA(x[3], y[0], s30), math.FMA(x[3], y[1], s31)
		s32, s33 = math.FMA(x[3], y[2], s32), math.FMA(x[3], y[3], s33)
	}
	*(*[16]float64)(unsafe.Pointer(sums)) = [16]float64{
		s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33}
}

// currentTiles64 returns the tiles of the tier in use.
func currentTiles64() *tiles64 {
	if tier := current(); tier != nil && tier.tiles64.run != nil {
		return &tier.tiles64
	}
	return &portableTiles64
}
