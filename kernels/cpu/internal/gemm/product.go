package gemm

import (
	"sync"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

const (
	// panelRows is the number of rows in a packed panel of A: what one AVX-512 or two AVX2 tiles take.
	panelRows = 12
	// groupRows is the number of rows of A that are packed at a time when A is a transposed view: there, elements of
	// neighbouring rows share cache lines.
	groupRows = 4 * panelRows
	// taskRows is the most rows of C in one task. While the task goes from chunk to chunk of k, its part of C, 288 KB,
	// stays in the level-2 cache.
	taskRows = 144
	// panelCols is the number of columns in a panel of B: one chunk of it, 512 KB, stays in the level-2 cache.
	panelCols = 512
	// panelDepth is the number of rows in a panel of B, a multiple of chunk. The panel, 4 MB, stays in level 3.
	panelDepth = 8 * chunk
	// packGroup is the number of strips of B that are packed as one task.
	packGroup = 4
)

var (
	// packColumns is how many columns C must have for packing A to pay.
	packColumns = 96
	// packRows is how many rows C must have for packing a row-major B to pay.
	packRows = 96
)

// A product is one call of Float32 on an assembly tier.
//
// C is computed panel by panel: a panel is a block of B, packed into strips that the micro-kernels read from first to
// last, and shared by all threads. Then each thread takes blocks of rows, and runs along the panel with up to twelve
// rows of A at a time.
type product struct {
	tier     *kernels
	m, n, k  int
	a, b     Mat
	c        []float32
	ldc      int
	epilogue Epilogue
	firstCol int // what the epilogue calls column 0

	// transposed says that this is the product of the transposed operands, C a row here and a column for the caller.
	transposed bool

	packA bool // pack A before running along the panel
	packB bool // pack all strips of B, not only a last, narrow one

	k0, k1, j0, j1 int       // rows and columns of B in the panel at hand
	unpacked       int       // full strips that are read where they lie; the other ones follow them
	packed         []float32 // the packed strips, chunk by chunk

	rowsPerTask, columnTasks      int
	packTask, rowTask, columnTask func(worker, task int) // bound methods, made once
}

var products sync.Pool

// acquire returns a product from the pool.
func acquire(tier *kernels) *product {
	p, ok := products.Get().(*product)
	if !ok {
		p = new(product)
		p.packTask, p.rowTask, p.columnTask = p.doPack, p.doRows, p.doColumns
	}
	p.tier = tier
	return p
}

// release gives p back to the pool.
func (p *product) release() {
	p.a, p.b, p.c, p.epilogue = Mat{}, Mat{}, nil, nil
	products.Put(p)
}

// set prepares p for a product and chooses what to pack.
func (p *product) set(m, n, k int, a, b Mat, c []float32, ldc int, epilogue Epilogue) {
	p.firstCol = 0
	p.transposed = n == 1 && m > 1 && ldc == 1
	if p.transposed {
		// A vector would hold one element of the column: compute it as the row B' A'.
		m, n, ldc = 1, m, m
		a, b = Mat{b.Data, b.Col, b.Row}, Mat{a.Data, a.Col, a.Row}
	}
	if n == 1 {
		b.Col = 1
	}
	p.m, p.n, p.k, p.a, p.b, p.c, p.ldc, p.epilogue = m, n, k, a, b, c, ldc, epilogue
	p.packA = n >= packColumns && m >= panelRows && (a.Row == 1 || a.Col == 1)
	p.packB = b.Col != 1 || m >= packRows
}

// run computes the product with up to the given number of workers.
func (p *product) run(workers int) {
	if workers > 1 && p.m < 2*panelRows*workers {
		p.columnTasks = min(workers, divideUp(p.n, p.tier.width()))
		par.TilesOn(workers, p.columnTasks, p.columnTask)
		return
	}
	tasks := divideUp(divideUp(p.m, taskRows), workers) * workers
	p.rowsPerTask = divideUp(divideUp(p.m, tasks), 4) * 4
	for p.j0 = 0; p.j0 < p.n; p.j0 = p.j1 {
		p.j1 = min(p.j0+panelCols, p.n)
		for p.k0 = 0; p.k0 < p.k; p.k0 = p.k1 {
			p.k1 = min(p.k0+panelDepth, p.k)
			if packTasks := p.choosePacked(); packTasks > 0 {
				par.TilesOn(workers, packTasks, p.packTask)
			}
			par.TilesOn(workers, divideUp(p.m, p.rowsPerTask), p.rowTask)
		}
	}
}

// choosePacked decides which strips of the panel to pack, finds memory for them and returns the number of pack tasks.
func (p *product) choosePacked() int {
	width := p.tier.width()
	strips := divideUp(p.j1-p.j0, width)
	p.unpacked = 0
	if !p.packB {
		p.unpacked = strips
		// The micro-kernels read B in full vectors, so a strip that ends inside one is packed.
		if rest := (p.j1 - p.j0) % width; rest != 0 && rest != p.tier.lanes {
			p.unpacked--
		}
	}
	count := strips - p.unpacked
	if size := count * width * (p.k1 - p.k0); cap(p.packed) < size {
		p.packed = make([]float32, size)
	}
	p.packed = p.packed[:cap(p.packed)]
	return divideUp(count, packGroup) * divideUp(p.k1-p.k0, chunk)
}

// doColumns computes a share of the columns: how products with few rows are split.
func (p *product) doColumns(_, task int) {
	width := p.tier.width()
	strips := divideUp(p.n, width)
	lo, hi := strips*task/p.columnTasks*width, min(strips*(task+1)/p.columnTasks*width, p.n)
	q := acquire(p.tier)
	b := p.b
	b.Data = b.Data[lo*b.Col:]
	q.set(p.m, hi-lo, p.k, p.a, b, p.c[lo:], p.ldc, p.epilogue)
	q.firstCol, q.transposed = lo, p.transposed
	q.run(1)
	q.release()
}

// scratch holds memory for packed panels of A.
var scratch = sync.Pool{New: func() any { return new([groupRows * chunk]float32) }}

// doRows multiplies a block of rows of A with the panel.
func (p *product) doRows(_, task int) {
	i0 := task * p.rowsPerTask
	i1 := min(i0+p.rowsPerTask, p.m)
	group, packed := i1-i0, (*[groupRows * chunk]float32)(nil)
	if p.packA {
		packed = scratch.Get().(*[groupRows * chunk]float32)
		defer scratch.Put(packed)
		group = panelRows
		if p.a.Row == 1 {
			group = groupRows
		}
	}
	for k0 := p.k0; k0 < p.k1; k0 += chunk {
		kc := min(chunk, p.k1-k0)
		for i := i0; i < i1; i += group {
			p.doGroup(i, min(group, i1-i), k0, kc, packed)
		}
	}
}

// doGroup multiplies a group of rows of A with one chunk of the panel. It packs full panels of them if there is memory
// for that; the other rows are read where they lie.
func (p *product) doGroup(i, rows, k0, kc int, packed *[groupRows * chunk]float32) {
	a := Mat{p.a.Data[i*p.a.Row+k0*p.a.Col:], p.a.Row, p.a.Col}
	done := 0
	if packed != nil && rows >= panelRows {
		panels := rows / panelRows
		p.tier.packPanels(packed[:], a, kc, panels)
		for panel := range panels {
			p.doPanel(i+done, panelRows, k0, kc, Mat{packed[panel*panelRows*kc:], 1, panelRows})
			done += panelRows
		}
	}
	for ; done < rows; done += panelRows {
		p.doPanel(i+done, min(panelRows, rows-done), k0, kc, Mat{a.Data[done*a.Row:], a.Row, a.Col})
	}
}

// doPanel multiplies up to panelRows rows of A with one chunk of the panel.
func (p *product) doPanel(i, rows, k0, kc int, a Mat) {
	for r := 0; r < rows; r += p.tier.rows {
		p.doTiles(i+r, min(p.tier.rows, rows-r), k0, kc, Mat{a.Data[r*a.Row:], a.Row, a.Col})
	}
	if p.epilogue != nil && k0+kc == p.k {
		for r := i; r < i+rows; r++ {
			p.finish(r, p.c[r*p.ldc+p.j0:r*p.ldc+p.j1])
		}
	}
}

// finish hands a finished segment of row i to the epilogue.
func (p *product) finish(i int, segment []float32) {
	first := p.firstCol + p.j0
	if !p.transposed {
		p.epilogue(i, first, segment)
		return
	}
	for j := range segment {
		p.epilogue(first+j, 0, segment[j:j+1])
	}
}

// doTiles runs the micro-kernel for some rows of A along one chunk of the panel.
func (p *product) doTiles(i, rows, k0, kc int, a Mat) {
	width := p.tier.width()
	wide := p.tier.wide[rows]
	c := p.c[i*p.ldc+p.j0:]
	add := k0 > 0

	full := (p.j1 - p.j0) / width
	rest := p.j1 - p.j0 - full*width
	var b []float32
	var bRow, bStrip int
	if p.unpacked > 0 {
		b, bRow, bStrip = p.b.Data[k0*p.b.Row+p.j0:], p.b.Row, width
	} else {
		b, bRow, bStrip = p.packedStrip(k0, kc, 0), width, kc*width
	}
	if full > 0 {
		wide(kc, &a.Data[0], a.Row, a.Col, &b[0], bRow, bStrip, &c[0], p.ldc, full, width, add)
	}
	if rest == 0 {
		return
	}
	if p.unpacked > full {
		b = b[full*width:]
	} else {
		b, bRow = p.packedStrip(k0, kc, full), width
	}
	last := wide
	if rest <= p.tier.lanes {
		last = p.tier.narrow[rows]
	}
	last(kc, &a.Data[0], a.Row, a.Col, &b[0], bRow, 0, &c[full*width], p.ldc, 1, rest, add)
}

func divideUp(n, unit int) int { return (n + unit - 1) / unit }
