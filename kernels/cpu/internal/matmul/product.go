package matmul

import (
	"math"
	"sync"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

const (
	// panelRows is the number of rows in a packed panel of A: what one AVX-512 or NEON tile or two AVX2 tiles take.
	panelRows = 12
	// groupRows is the number of rows of A that are packed at a time. The 48 KB of a chunk of them stay in the level-2
	// cache while the strips of B go by.
	groupRows = 4 * panelRows
	// packRows is how many rows C must have for packing an unfolded B to pay, and farRows the same where its rows are
	// apart by farApart elements and more: they fall into few sets of the level-1 cache.
	packRows, farRows, farApart = 96, 32, 1024
	// narrowRows is the most rows of A for which a B that is transposed on the way has narrow panels: packing takes as
	// long as the product, which finds them in the level-1 or level-2 cache. One to twelve rows by 768x768 take 0.7 to
	// 0.77 of the time with AVX-512 on Emerald Rapids, thirty 0.87.
	narrowRows = 32

	never = math.MaxInt
)

// byApart is a number for lines of a matrix that are less than farApart elements apart, and one for others.
type byApart struct{ near, far int }

func (b byApart) at(apart int) int {
	if apart < farApart {
		return b.near
	}
	return b.far
}

// A product is one call of Float32 on an assembly tier.
//
// C is cut into blocks. The columns of B that belong to a block are packed into a panel of strips, which the
// micro-kernels read from first to last. Of A, some panels of twelve rows are packed at a time; each strip is
// multiplied by all of them.
//
// Each thread computes blocks and packs what it needs, so that some of B is packed twice. If all threads used the same
// panels, these would move between caches, which costs more where caches are far apart.
type product struct {
	tier     *assembly
	m, n, k  int
	a, b     Matrix
	unfolded *UnfoldedOf[float32] // takes the place of b
	lastRow  int                  // the largest of its rows
	c        []float32
	ldc      int
	add      bool // C holds the sum of earlier terms
	epilogue Epilogue

	// transposed: this is the product of the transposed operands; C is a row here and a column for the caller.
	transposed bool

	packA bool // pack A before running along the panel
	packB bool // pack all strips of B, not only a last, narrow one

	turned []float32 // C of runTurned

	grid   grid
	k0, k1 int     // the rows of B that are multiplied now
	depth  int     // most rows of a panel, but one chunk fits
	panels []panel // one for each worker

	task func(worker, task int) // the bound method runTask, made once
}

var products sync.Pool

// acquire returns a product from the pool.
func acquire(tier *assembly) *product {
	p, ok := products.Get().(*product)
	if !ok {
		p = new(product)
		p.task = p.runTask
	}
	p.tier = tier
	return p
}

// release gives p back to the pool.
func (p *product) release() {
	p.a, p.b, p.unfolded, p.c, p.add, p.epilogue = Matrix{}, Matrix{}, nil, nil, false, nil
	products.Put(p)
}

// set prepares p for a product.
func (p *product) set(m, n, k int, a, b Matrix, c []float32, ldc int, epilogue Epilogue) {
	p.transposed = n == 1 && m > 1 && ldc == 1 && p.unfolded == nil
	if p.transposed {
		// A vector would hold one element of the column: compute it as the row B' A'.
		m, n, ldc = 1, m, m
		a, b = Matrix{b.Data, b.ColStride, b.RowStride}, Matrix{a.Data, a.ColStride, a.RowStride}
	}
	if n == 1 {
		b.ColStride = 1
	}
	p.m, p.n, p.k, p.a, p.b, p.c, p.ldc, p.epilogue = m, n, k, a, b, c, ldc, epilogue
}

// run computes the product with up to the given number of workers.
func (p *product) run(workers int) {
	columns := p.tier.columns
	if p.m <= narrowRows && p.b.ColStride != 1 && p.unfolded == nil {
		columns = 4 * p.tier.width()
	}
	p.grid = chooseGrid(p.m, p.n, p.tier.width(), columns, workers)
	p.packA = p.m >= panelRows && p.grid.cols >= p.columnsToPack() || p.unfolded != nil && p.unfolded.LeftColumns != nil
	p.packB = p.unfolded != nil || p.b.ColStride != 1 || p.m >= p.tier.packB.at(p.b.RowStride)
	for len(p.panels) < workers {
		p.panels = append(p.panels, panel{})
	}
	round := panelDepth
	if !p.tier.byGroups && (p.grid.down == 1 || p.grid.across == 1 && p.m*p.n <= smallResult) {
		round = Chunk
	}
	if p.depth = round; p.grid.down == 1 {
		round = p.k // each task has a panel of its own
	}
	for p.k0 = 0; p.k0 < p.k; p.k0 = p.k1 {
		p.k1 = p.chunksEnd(p.k0, p.k, round)
		for w := range workers {
			p.panels[w].j0 = -1
		}
		par.Tiles(workers, p.grid.down*p.grid.across, p.task)
	}
}

// turnPays reports whether C' = B' A' is the cheaper product: few rows of A meet a large B, whose columns are in memory
// what rows should be, as a layer's weights are. Then B is read in place, and A and C are transposed instead: on
// Emerald Rapids 16 rows by 512x512 take 0.51 of the time, 128 by 2048x2048 0.88, but 512 of them 1.06.
func turnPays(m, n, k int, a, b Matrix, lanes int) bool {
	return a.ColStride == 1 && b.RowStride == 1 && b.ColStride != 1 && m <= 256 && m%lanes == 0 && n >= panelRows &&
		4*m*(n+k) < 3*n*k
}

// runTurned computes the product as C' = B' A'.
func (p *product) runTurned(m, n, k int, a, b Matrix, c []float32, ldc int, epilogue Epilogue) {
	if len(p.turned) < m*n {
		p.turned = make([]float32, m*n)
	}
	p.set(n, m, k, Matrix{b.Data, b.ColStride, b.RowStride}, Matrix{a.Data, a.ColStride, a.RowStride}, p.turned, m, nil)
	p.run(workersFor(m, n, k))
	par.For(m, 1+1<<14/n, func(lo, hi int) {
		Transpose(c[lo*ldc:], ldc, Matrix{p.turned[lo:], m, 1}, n, hi-lo)
		for i := lo; i < hi && epilogue != nil; i++ {
			epilogue(i, 0, c[i*ldc:][:n])
		}
	})
}

// columnsToPack is how many columns a block of C must have for packing A to pay.
func (p *product) columnsToPack() int {
	switch {
	case p.a.ColStride == 1:
		return p.tier.packRowsA
	case p.a.RowStride == 1:
		return p.tier.packColumnsA.at(p.a.ColStride)
	}
	return never
}

// chunkEnd is the end of the chunk that begins with term k.
func (p *product) chunkEnd(k int) int {
	if p.unfolded != nil {
		return p.unfolded.ChunkEnd(k)
	}
	return min(k+Chunk, p.k)
}

// chunksEnd is the end of as many chunks from term k on, but at least one, as end at limit and have depth terms
// together.
func (p *product) chunksEnd(k, limit, depth int) int {
	end := p.chunkEnd(k)
	for end < limit && p.chunkEnd(end) <= k+depth {
		end = p.chunkEnd(end)
	}
	return end
}

// runTask adds what the present rows of B contribute to one block of C. The tasks of a column of blocks follow each
// other, so that a worker seldom needs another panel.
func (p *product) runTask(worker, task int) {
	b := &p.panels[worker]
	i := task % p.grid.down * p.grid.rows
	j0 := task / p.grid.down * p.grid.cols
	rows := min(i+p.grid.rows, p.m)
	for k0 := p.k0; k0 < p.k1; k0 = b.k1 {
		if b.j0 != j0 || b.k0 != k0 {
			b.j0, b.j1, b.k0, b.k1 = j0, min(j0+p.grid.cols, p.n), k0, p.chunksEnd(k0, p.k1, p.depth)
			p.pack(b)
		}
		p.doBlock(b, i, rows)
	}
}

// scratch holds memory for packed panels of A.
var scratch = sync.Pool{New: func() any { return new([groupRows * Chunk]float32) }}

// doBlock multiplies rows [i0, i1) of A by a panel of B.
func (p *product) doBlock(b *panel, i0, i1 int) {
	group, packed := i1-i0, []float32(nil)
	if p.packA {
		memory := scratch.Get().(*[groupRows * Chunk]float32)
		defer scratch.Put(memory)
		group, packed = groupRows, memory[:]
	}
	span := i1 - i0
	if p.tier.byGroups {
		span = group
	}
	for from := i0; from < i1; from += span {
		to := min(from+span, i1)
		for k0, kc := b.k0, 0; k0 < b.k1; k0 += kc {
			kc = p.chunkEnd(k0) - k0
			for i := from; i < to; i += group {
				rows := min(group, to-i)
				p.doGroup(b, i, rows, k0, kc, packed)
				if p.epilogue != nil && k0+kc == p.k {
					p.finishRows(b, i, i+rows)
				}
			}
		}
	}
}

// finishRows hands finished rows of a block to the epilogue.
func (p *product) finishRows(b *panel, i0, i1 int) {
	for i := i0; i < i1; i++ {
		for _, s := range b.segments {
			p.finish(i, s[0], p.c[i*p.ldc+s[0]:i*p.ldc+s[1]])
		}
	}
}

// finish hands a finished segment of row i, from column j on, to the epilogue.
func (p *product) finish(i, j int, segment []float32) {
	if !p.transposed {
		p.epilogue(i, j, segment)
		return
	}
	for x := range segment {
		p.epilogue(j+x, 0, segment[x:x+1])
	}
}

// doGroup multiplies a group of rows of A by one chunk of a panel of B. It packs full panels of A if there is memory
// for that; other rows are read in place, if their columns are neighbours.
func (p *product) doGroup(b *panel, i, rows, k0, kc int, packed []float32) {
	a, neighbours, offset := p.a.from(i), true, k0*p.a.ColStride
	if p.unfolded != nil {
		neighbours, offset = p.unfolded.neighbours(&a, k0, k0+kc), p.unfolded.columnOfA(&a, k0)
	}
	if neighbours {
		a.Data = a.Data[offset:]
	}
	panels, panelStride := rows/panelRows, panelRows*a.RowStride
	source, rest := a, a
	if neighbours && rows > panels*panelRows {
		rest = a.from(panels * panelRows)
	}
	if !neighbours || packed != nil && panels > 0 {
		source, panelStride = Matrix{packed, 1, panelRows}, panelRows*kc
		if neighbours {
			p.tier.packPanels(packed, a, kc, panels)
		} else {
			p.packColumns(packed, a, rows, p.unfolded.LeftColumns[k0:k0+kc])
			rest = source.from(panels * panelStride)
		}
	}
	for r := 0; r < panelRows && panels > 0; r += p.tier.rows {
		p.doTiles(b, i+r, k0, kc, p.tier.rows, panels, source.from(r), panelStride)
	}
	i += panels * panelRows
	rows -= panels * panelRows
	for r, n := 0, 0; r < rows; r += n { // evenly: eight rows take longer as six and two than as four and four
		n = divideUp(rows-r, divideUp(rows-r, p.tier.rows))
		p.doTiles(b, i+r, k0, kc, n, 1, rest.from(r), 0)
	}
}

// from returns the matrix without its first rows.
func (m MatrixOf[T]) from(row int) MatrixOf[T] {
	return MatrixOf[T]{m.Data[row*m.RowStride:], m.RowStride, m.ColStride}
}

// doTiles runs the micro-kernel of some rows over one chunk of a panel of B: on rows i, i+1, ... of C and on those of
// the following panels of A, which are panelStride elements apart.
func (p *product) doTiles(b *panel, i, k0, kc, rows, panels int, a Matrix, panelStride int) {
	c, lanes, width := p.c[i*p.ldc:], p.tier.lanes, p.tier.width()
	run := func(b []float32, bRow int, bRows *int, bApart int, bSplit *int, bStrip int, c []float32,
		cApart, strips, cols, cols2 int) {
		tile := p.tier.wide[rows]
		if cols2 == 0 {
			tile = p.tier.narrow[rows]
		}
		tile(kc, &a.Data[0], a.RowStride, a.ColStride, panelStride, &b[0], bRow, bRows, bApart, bSplit, bStrip,
			&c[0], p.ldc, cApart, panelRows*p.ldc, panels, strips, cols, cols2, p.add || k0 > 0)
	}
	if p.unfolded == nil {
		full, rest := (b.j1-b.j0)/width, (b.j1-b.j0)%width
		if full > 0 {
			strips, bRow, bStrip := p.strip(b, 0, k0, kc)
			run(strips, bRow, nil, 0, nil, bStrip, c[b.j0:], lanes, full, lanes, lanes)
		}
		if rest > 0 {
			strip, bRow, _ := p.strip(b, full, k0, kc)
			run(strip, bRow, nil, 0, nil, 0, c[b.j1-rest:], lanes, 1, min(rest, lanes), max(0, rest-lanes))
		}
		return
	}
	for s, count := 0, 1; s < len(b.strips); s, count = s+count, 1 {
		at := &b.strips[s]
		for s+count < len(b.strips) && b.strips[s+count].follows(&b.strips[s+count-1], lanes) {
			count++
		}
		first, second := &at.vectors[0], &at.vectors[1]
		if first.data >= 0 {
			run(p.unfolded.Data[first.data:], 0, &p.unfolded.Rows[k0], second.data-first.data, at.pieces(), width,
				c[first.c:], second.c-first.c, count, first.columns, second.columns)
			continue
		}
		strips, bRow, bStrip := p.strip(b, s, k0, kc)
		run(strips, bRow, nil, 0, nil, bStrip, c[first.c:], second.c-first.c, count, first.columns, second.columns)
	}
}
