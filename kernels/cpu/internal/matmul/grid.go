package matmul

import "math"

const (
	// blockRows is the most rows of C in a block. For each chunk of k, the block of C and a chunk of B pass through the
	// L2 cache.
	blockRows = 144
	// packCost is about the cost, in multiply-adds, of packing an element that comes from the L3 cache.
	packCost = 12
)

// A grid cuts C into down*across blocks of rows rows and cols columns; the last ones may be smaller.
type grid struct{ down, across, rows, cols int }

// newGrid returns the grid with at most the given numbers of blocks; columns are cut at strips of the given width.
func newGrid(m, n, width, down, across int) grid {
	rows := divideUp(divideUp(m, down), 4) * 4
	cols := divideUp(divideUp(n, across), width) * width
	return grid{divideUp(m, rows), divideUp(n, cols), rows, cols}
}

// chooseGrid picks the grid, of blocks of at most blockCols columns, that keeps the workers busy and lets them pack
// little.
func chooseGrid(m, n, width, blockCols, workers int) grid {
	down, across := divideUp(m, blockRows), divideUp(n, blockCols)
	best := newGrid(m, n, width, down, across)
	if workers == 1 {
		return best
	}
	least := math.MaxInt
	for ; across == 1 || n/across >= width; across *= 2 {
		for each := 1; each <= 4; each++ { // blocks for each worker
			g := newGrid(m, n, width, max(down, divideUp(each*workers, across)), across)
			if each > 1 && g.rows < groupRows {
				break
			}
			if cost := g.cost(workers); cost < least {
				least, best = cost, g
			}
		}
	}
	return best
}

// cost estimates the time of one index of k, in multiply-adds of one worker. Its last term is the time that workers
// wait at the end, because they are not equally fast.
func (g grid) cost(workers int) int {
	tasks := divideUp(g.down*g.across, workers)
	panels := divideUp(tasks, g.down)
	return tasks*(g.rows*g.cols+packCost*g.rows) + panels*packCost*g.cols + g.rows*g.cols/32
}

func divideUp(n, unit int) int { return (n + unit - 1) / unit }
