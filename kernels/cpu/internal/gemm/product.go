package gemm

import (
	"sync"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

const (
	// panelRows is the number of rows of A that are packed together: what one AVX-512 or two AVX2 tiles take.
	panelRows = 12
	// panelCols is the number of columns of a panel of B: one chunk of it, 512 KB, stays in the level-2 cache.
	panelCols = 512
	// panelDepth is the number of rows of a panel of B, a multiple of chunk. The panel, 4 MB, stays in level 3.
	panelDepth = 8 * chunk
	// packGroup is the number of strips of B that are packed as one task.
	packGroup = 4
	// taskRows is about the number of rows of C in one task of a large product.
	taskRows = 96
	// parallelWork is the number of multiply-adds that are worth a thread.
	parallelWork = 1 << 20
)

var (
	// packColumns is how many columns B must have for packing A to pay.
	packColumns = 96
	// packRows is how many rows A must have for packing a row-major B to pay.
	packRows = 96
)

// A product is one call of Float32 on an assembly tier.
//
// C is computed panel by panel: a panel is a block of B, packed into strips that the micro-kernels read from first to
// last, and shared by all threads. Then each thread takes blocks of rows, and runs along the panel with twelve rows of
// A at a time.
type product struct {
	tier     *kernels
	m, n, k  int
	a, b     Mat
	c        []float32
	ldc      int
	epilogue func(i, j int, dst []float32)
	firstCol int // what the epilogue calls column 0

	packA       bool // copy twelve rows of A before running along the panel
	packB       bool // pack all strips of B, not only a last, narrow one
	rowsPerTask int  // what one task of doRows computes
	columnTasks int  // the number of tasks of doColumns

	k0, k1, j0, j1 int       // rows and columns of B in the panel at hand
	unpacked       int       // full strips that are read where they lie; the other ones follow them
	packed         []float32 // the packed strips, chunk by chunk

	// Bound methods, made once.
	packTask, rowTask, columnTask func(worker, task int)
}

var products sync.Pool

// acquire returns a product from the pool.
func acquire(tier *kernels) *product {
	p, ok := products.Get().(*product)
	if !ok {
		p = new(product)
		p.packTask, p.rowTask, p.columnTask = p.doPack, p.doRows, p.doColumns
	}
	p.tier, p.firstCol = tier, 0
	return p
}

// set prepares p for a product and chooses what to pack.
func (p *product) set(m, n, k int, a, b Mat, c []float32, ldc int, epilogue func(i, j int, dst []float32)) {
	p.m, p.n, p.k, p.a, p.b, p.c, p.ldc, p.epilogue = m, n, k, a, b, c, ldc, epilogue
	if n == 1 {
		p.b.Col = 1
	}
	p.packA = n >= packColumns && (a.Row == 1 || a.Col == 1)
	p.packB = p.b.Col != 1 || m >= packRows
}

// release gives p back to the pool.
func (p *product) release() {
	p.a, p.b, p.c, p.epilogue = Mat{}, Mat{}, nil, nil
	products.Put(p)
}

// run computes the product with several workers, or with one.
func (p *product) run(workers int) {
	if workers > 1 && p.m < 2*panelRows*workers {
		p.columnTasks = min(workers, divideUp(p.n, p.tier.width()))
		par.TilesOn(workers, p.columnTasks, p.columnTask)
		return
	}
	tasks := workers
	if workers > 1 {
		tasks = workers * max(1, min(4, p.m/(workers*taskRows)))
	}
	p.rowsPerTask = divideUp(divideUp(p.m, tasks), 4) * 4
	for p.j0 = 0; p.j0 < p.n; p.j0 = p.j1 {
		p.j1 = min(p.j0+panelCols, p.n)
		for p.k0 = 0; p.k0 < p.k; p.k0 = p.k1 {
			p.k1 = min(p.k0+panelDepth, p.k)
			p.runPanel(workers)
		}
	}
}

// runPanel packs the panel at hand and multiplies it with all rows of A.
func (p *product) runPanel(workers int) {
	strips := divideUp(p.j1-p.j0, p.tier.width())
	p.unpacked = 0
	if !p.packB {
		// Half a strip is a full strip of the narrow kernels.
		p.unpacked = strips
		if rest := (p.j1 - p.j0) % p.tier.width(); rest != 0 && rest != p.tier.lanes {
			p.unpacked--
		}
	}
	if count := strips - p.unpacked; count > 0 {
		buffer := buffers.Get().(*[]float32)
		defer buffers.Put(buffer)
		if size := count * p.tier.width() * (p.k1 - p.k0); cap(*buffer) < size {
			*buffer = make([]float32, size)
		}
		p.packed = (*buffer)[:cap(*buffer)]
		par.TilesOn(workers, divideUp(count, packGroup)*divideUp(p.k1-p.k0, chunk), p.packTask)
	}
	par.TilesOn(workers, divideUp(p.m, p.rowsPerTask), p.rowTask)
	p.packed = nil
}

// buffers holds memory for packed panels of B, scratch for twelve packed rows of A.
var (
	buffers = sync.Pool{New: func() any { return new([]float32) }}
	scratch = sync.Pool{New: func() any { return new([panelRows * chunk]float32) }}
)

// doColumns computes a share of the columns, for products with few rows.
func (p *product) doColumns(_, task int) {
	width := p.tier.width()
	strips := divideUp(p.n, width)
	lo, hi := strips*task/p.columnTasks*width, min(strips*(task+1)/p.columnTasks*width, p.n)
	q := acquire(p.tier)
	q.firstCol = p.firstCol + lo
	b := p.b
	b.Data = b.Data[lo*b.Col:]
	q.set(p.m, hi-lo, p.k, p.a, b, p.c[lo:], p.ldc, p.epilogue)
	q.run(1)
	q.release()
}

// doRows multiplies a block of rows of A with the panel.
func (p *product) doRows(_, task int) {
	i0 := task * p.rowsPerTask
	i1 := min(i0+p.rowsPerTask, p.m)
	rowsOfA := scratch.Get().(*[panelRows * chunk]float32)
	defer scratch.Put(rowsOfA)
	for k0 := p.k0; k0 < p.k1; k0 += chunk {
		kc := min(chunk, p.k1-k0)
		for i := i0; i < i1; i += panelRows {
			rows := min(panelRows, i1-i)
			a := Mat{p.a.Data[i*p.a.Row+k0*p.a.Col:], p.a.Row, p.a.Col}
			if p.packA && rows == panelRows {
				p.tier.packA(rowsOfA[:], a, kc)
				a = Mat{rowsOfA[:], 1, panelRows}
			}
			for r := 0; r < rows; r += p.tier.rows {
				p.along(i+r, min(p.tier.rows, rows-r), k0, kc, a.Data[r*a.Row:], a.Row, a.Col)
			}
			if p.epilogue != nil && k0+kc == p.k {
				for r := i; r < i+rows; r++ {
					p.epilogue(r, p.firstCol+p.j0, p.c[r*p.ldc+p.j0:r*p.ldc+p.j1])
				}
			}
		}
	}
}

// along runs the micro-kernel of some rows along one chunk of the panel.
func (p *product) along(i, rows, k0, kc int, a []float32, aRow, aCol int) {
	width := p.tier.width()
	wide, narrow := p.tier.wide[rows], p.tier.narrow[rows]
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
		wide(kc, &a[0], aRow, aCol, &b[0], bRow, bStrip, &c[0], p.ldc, full, width, add)
	}
	if rest == 0 {
		return
	}
	if p.unpacked > full {
		b = b[full*width:]
	} else {
		b, bRow = p.packedStrip(k0, kc, full), width
	}
	if rest > p.tier.lanes {
		wide(kc, &a[0], aRow, aCol, &b[0], bRow, 0, &c[full*width], p.ldc, 1, rest, add)
	} else {
		narrow(kc, &a[0], aRow, aCol, &b[0], bRow, 0, &c[full*width], p.ldc, 1, rest, add)
	}
}

func divideUp(n, unit int) int { return (n + unit - 1) / unit }
