//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() { plans["matmul"] = planMatMul }

// product is the struct Product of matmul.cuh: equal matrix products, whose results [m n] follow each other in memory.
type product struct {
	c, a, b, bias uint64
	m, n, k, cRow uint32
	aRow, aColumn int64
	bRow, bColumn int64
	biasStep      int64
}

// productBatch is the struct Batch of matmul.cuh: the offsets of the operands of each product.
type productBatch struct {
	rank   uint64
	size   [kernels.MaxDims]int64
	stride [2][kernels.MaxDims]int64 // of a and b
}

// Constants of matmul_f32.cu: tiles, and threads of their blocks.
const (
	smallTile, mediumTile, largeTile          = 32, 64, 128
	smallThreads, mediumThreads, largeThreads = 256, 128, 256
)

// splitTiles is the number of medium tiles below which products are split: two for each of the 132 multiprocessors of
// an H200, whatever the GPU, so that it depends on shapes alone. splitBytes is the most memory of the chunks that are
// computed at once. Variables so that tests can change them.
var splitTiles, splitBytes = 264, 128 << 20

// A tile is a kernel of float32, with the time of a tile on an H200: multiply-adds by the share of their peak.
type tile struct {
	kernel  string
	size    int
	threads uint32
	time    int
}

// tiles of 0.59, 0.50 and 0.2 of the peak. A variable for tests.
var tiles = [...]tile{{"matmul_128_f32", largeTile, largeThreads, 68},
	{"matmul_64_f32", mediumTile, mediumThreads, 20}, {"matmul_f32", smallTile, smallThreads, 13}}

// Constants of matmul_half.cu and matmul_hopper.cu: tiles, values of k at once, threads of a block, warps that
// multiply, bytes of shared memory; and bits of vectorised operands.
const (
	halfTile, halfThreads      = 128, 128
	halfSteps                  = 32
	hopperRows, hopperColumns  = 128, 256
	hopperThreads, hopperWarps = 384, 8
	hopperSteps                = 64
	hopperShared               = 229440
	hopperPitch                = 1 << 22 // elements: offsets in a tile have 32 bits
	wideA, wideB, wideC        = 1, 2, 4
	wideBytes                  = 16
)

// planMatMul multiplies the last two axes of two operands; those of rank 1 are a row on the left and a column on the
// right. Operation linear multiplies by the transposed matrix and adds a bias, if there is one.
func planMatMul(c *call, l *kernels.Launch) {
	a, b, y := l.In[0], l.In[1], &l.Out[0]
	if y.Len() == 0 {
		return
	}
	if l.Op.Name == "linear" {
		shape, strides := [2]int{b.Shape[1], b.Shape[0]}, [2]int{b.Strides[1], b.Strides[0]}
		b.Shape, b.Strides = shape[:], strides[:]
	}
	p, batch := c.productsOf(&a, &b, y)
	p.c, p.a, p.b = c.address(y), c.address(&a), c.address(&b)
	if len(l.In) > 2 {
		p.bias, p.biasStep = c.address(&l.In[2]), int64(l.In[2].Strides[0])
	}
	count := y.Len() / (int(p.m) * int(p.n))
	if y.DType.IsHalf() {
		c.matmulHalf(&p, &batch, count, y.DType, maxParts)
		return
	}
	if y.DType == kernels.Float64 || !c.multiplyChunks(&p, &batch, count) {
		c.multiply(&p, &batch, count, y.DType)
	}
}

// multiply launches count products of float32 or float64. Their bits are those of all tiles.
func (c *call) multiply(p *product, batch *productBatch, count int, d kernels.DType) {
	t := &tile{kernel: "matmul_f64", size: smallTile, threads: smallThreads}
	if d == kernels.Float32 {
		t = p.fastest(tiles[:], count, c.b.gpu.SMs)
	}
	c.products(t.kernel, dim{uint32(c.blocks(p, t.size, t.size, count)), 1, 1}, t.threads, 0, p, batch)
}

// fastest are the tiles in which so many products take the least time, by the most that one multiprocessor has. Small
// ones are for few rows or columns.
func (p *product) fastest(among []tile, count, multiprocessors int) (best *tile) {
	least := math.MaxInt
	for i := range among {
		t := &among[i]
		time := t.time * ceilDiv(count*p.tiles(t.size, t.size), multiprocessors)
		if time < least && (t.size > smallTile || min(p.m, p.n) <= smallTile) {
			best, least = t, time
		}
	}
	return best
}

// multiplyChunks launches the chunks of products of float32 with few tiles, and the kernel that adds them in order, as
// often as their memory asks for; it returns false for other products. Two chunks are not worth that launch.
func (c *call) multiplyChunks(p *product, batch *productBatch, count int) bool {
	chunks, results := ceilDiv(int(p.k), matmulChunk), count*int(p.m)*int(p.n)
	most := min(splitBytes/(4*results), chunks, math.MaxUint16)
	if chunks < 3 || count*p.tiles(mediumTile, mediumTile) >= splitTiles || most < 3 {
		return false
	}
	planes := *p
	planes.c, planes.bias = c.scratch(4*most*results), 0
	for first := 0; first < chunks; first += most {
		now := min(most, chunks-first)
		planes.k = min(p.k-uint32(first*matmulChunk), uint32(now*matmulChunk))
		t := p.fastest(tiles[:2], count*now, c.b.gpu.SMs)
		grid := dim{uint32(c.blocks(p, t.size, t.size, count)), uint32(now), 1}
		c.products(t.kernel, grid, t.threads, 0, &planes, batch)
		planes.a += uint64(4 * int64(now*matmulChunk) * p.aColumn)
		planes.b += uint64(4 * int64(now*matmulChunk) * p.bRow)
		c.start("matmul_planes_f32", blocks(results, smallThreads), smallThreads)
		bias := p.bias
		if first+now < chunks {
			bias = 0
		}
		for _, v := range [5]uint64{p.c, planes.c, bias, uint64(p.biasStep), uint64(results)} {
			arg(c, v)
		}
		arg(c, p.n)
		arg(c, uint32(now))
		arg(c, uint32(min(first, 1)))
	}
	return true
}

// products launches a kernel of products; further arguments follow.
func (c *call) products(symbol string, grid dim, threads uint32, shared int, p *product, batch *productBatch) {
	c.startShared(symbol, grid, threads, shared)
	structure(c, p)
	structure(c, batch)
}

// blocks is the number of tiles, high and wide, of so many products, or of parts of them.
func (c *call) blocks(p *product, high, wide, count int) int {
	n := count * p.tiles(high, wide)
	if n > math.MaxInt32 {
		c.refuse("the results are too large: %d of %d x %d, %d tiles", count, p.m, p.n, n)
	}
	return n
}

// tiles is the number of tiles of one product.
func (p *product) tiles(high, wide int) int {
	return ceilDiv(int(p.m), high) * ceilDiv(int(p.n), wide)
}

// productsOf describes the products of two operands with the result y.
func (c *call) productsOf(a, b, y *kernels.Arg) (p product, batch productBatch) {
	m, n := 1, 1
	lead := len(y.Shape)
	last := len(b.Shape) - 1
	if last > 0 {
		n, p.bRow, p.bColumn = b.Shape[last], int64(b.Strides[last-1]), int64(b.Strides[last])
		lead--
	} else {
		p.bRow = int64(b.Strides[last])
	}
	last = len(a.Shape) - 1
	k := a.Shape[last]
	p.aColumn = int64(a.Strides[last])
	if last > 0 {
		m, p.aRow = a.Shape[last-1], int64(a.Strides[last-1])
		lead--
	}
	for d, size := range y.Shape[:lead] {
		if size != 1 {
			batch.size[batch.rank] = int64(size)
			batch.stride[0][batch.rank] = batchStride(a, d-lead)
			batch.stride[1][batch.rank] = batchStride(b, d-lead)
			batch.rank++
		}
	}
	m = batch.merge(&p, m)
	if max(m, n, k) > math.MaxInt32 {
		c.refuse("sizes above 2^31 are not supported: %d x %d x %d", m, k, n)
	}
	p.m, p.n, p.k, p.cRow = uint32(m), uint32(n), uint32(k), uint32(n)
	return p, batch
}

// batchStride is the stride of batch axis d, counted from the end of the batch (-1 is the last), 0 if it repeats.
func batchStride(a *kernels.Arg, d int) int64 {
	d += len(a.Shape) - 2
	if d < 0 || a.Shape[d] == 1 {
		return 0
	}
	return int64(a.Strides[d])
}

// merge makes products with the same B, whose A follow each other, one product of more rows than m, and returns how
// many.
func (batch *productBatch) merge(p *product, m int) int {
	for batch.rank > 0 {
		d := batch.rank - 1
		if batch.stride[1][d] != 0 || m > 1 && batch.stride[0][d] != int64(m)*p.aRow {
			break
		}
		if m == 1 {
			p.aRow = batch.stride[0][d]
		}
		m *= int(batch.size[d])
		batch.rank--
	}
	return m
}

// halfParts is the struct Parts of matmul_half.cuh.
type halfParts struct {
	sums, turns uint64
	count, k    uint32
}

// halfTiles are kernels of products in half precision: a tile, values of k at once, and words of a tile that count
// parts. Times are those of an H200 in ns, whatever the GPU, so that parts depend on shapes alone: of a wave of tiles,
// which run at once, for each k and besides. They are not for fewer tiles, of all parts, than `fewest`.
type halfTiles struct {
	high, wide, steps, turns    int
	wave, time, between, fewest int
}

// Variables for tests. partTime is the time of handing on the sums of a part.
var (
	mmaTiles    = halfTiles{halfTile, halfTile, halfSteps, 1, 264, 20, 0, 0}
	hopperTiles = halfTiles{hopperRows, hopperColumns, hopperSteps, hopperWarps, 132, 11, 2400, 40}
	partTime    = 3000
	maxParts    = 16
)

// split says in how many parts of k products take the least time, and that time: one if that is not longer by a fifth.
func (t *halfTiles) split(p *product, count, most int) (best, least int) {
	tiles, k := count*p.tiles(t.high, t.wide), int(p.k)
	best, least = 1, 4*ceilDiv(tiles, t.wave)*(k*t.time+t.between)
	for n := 2; n <= most; n++ {
		waves := ceilDiv(tiles*n, t.wave)
		if time := 5 * (waves*(k/n*t.time+partTime) + n*partTime); time < least {
			best, least = n, time
		}
	}
	return best, least
}

// fastestHalf are the tiles in which so many products take the least time, and in how many parts. Those of wgmma are
// for GPUs that have it and operands that are vectorised.
func (p *product) fastestHalf(count, most int, wgmma bool) (t *halfTiles, parts int) {
	parts, time := mmaTiles.split(p, count, most)
	if wgmma {
		t = &hopperTiles
		n, less := t.split(p, count, most)
		if less < time && n*count*p.tiles(t.high, t.wide) >= t.fewest {
			return t, n
		}
	}
	return &mmaTiles, parts
}

// partsOf are n parts of products of k, for a kernel with so many tiles. It launches the kernel that clears the turns.
func (c *call) partsOf(t *halfTiles, k, n, tiles int) halfParts {
	parts := halfParts{count: 1, k: uint32(roundUp(ceilDiv(k, n), t.steps))}
	if n == 1 || int(parts.k) >= k {
		return parts
	}
	parts.count = uint32(ceilDiv(k, int(parts.k)))
	sums, turns := 4*tiles*t.high*t.wide, t.turns*tiles+1
	parts.sums = c.scratch(sums + 4*turns)
	parts.turns = parts.sums + uint64(sums)
	c.startEach(sized("fill", 4), turns)
	arg(c, parts.turns)
	arg(c, uint32(0))
	arg(c, uint64(turns))
	return parts
}

// matmulHalf launches products in half precision, with k in `most` parts at most. Kernels are by the layouts of the
// operands, n for contiguous rows and t for contiguous columns, as in BLAS.
func (c *call) matmulHalf(p *product, batch *productBatch, count int, d kernels.DType, most int) {
	if p.m == 1 { // a single row or column has no pitch
		p.aRow = 0
	}
	if p.n == 1 {
		p.bColumn = 0
	}
	layout, wide := p.halfOperands(batch)
	if vectorised(p.c, 1, int64(p.cRow), [kernels.MaxDims]int64{}) {
		wide |= wideC
	}
	t, n := p.fastestHalf(count, most, wide == wideA|wideB|wideC && p.pitch() <= hopperPitch && c.b.gpu.WGMMA())
	tiles := c.blocks(p, t.high, t.wide, count)
	parts := c.partsOf(t, int(p.k), n, tiles)
	if t == &hopperTiles {
		c.startHopper("matmul_hopper_"+layout+"_"+suffixes[d], p, batch, tiles, parts)
	} else {
		c.startHalf("matmul_half_"+layout+"_"+suffixes[d], p, batch, tiles, wide, parts)
	}
}

// startHalf launches a kernel of matmul_half.cu with a block for each tile and each part of k.
func (c *call) startHalf(symbol string, p *product, batch *productBatch, tiles int, wide uint32, parts halfParts) {
	c.products(symbol, dim{uint32(tiles) * parts.count, 1, 1}, halfThreads, 0, p, batch)
	arg(c, wide)
	structure(c, &parts)
}

// startHopper launches a kernel of matmul_hopper.cu with a block for each multiprocessor, or with several parts of k
// for each tile and part.
func (c *call) startHopper(symbol string, p *product, batch *productBatch, tiles int, parts halfParts) {
	grid := dim{uint32(tiles) * parts.count, 1, 1}
	if parts.count == 1 {
		grid.X = min(grid.X, uint32(c.b.gpu.SMs))
	}
	c.products(symbol, grid, hopperThreads, hopperShared, p, batch)
	structure(c, &parts)
	arg(c, uint32(tiles))
}

// halfOperands is the layout of the operands of products in half precision, and which of them are vectorised.
func (p *product) halfOperands(batch *productBatch) (layout string, wide uint32) {
	a, b := "n", "n"
	aStride, aPitch := p.aColumn, p.aRow
	if p.aRow == 1 && p.aColumn != 1 {
		a, aStride, aPitch = "t", p.aRow, p.aColumn
	}
	bStride, bPitch := p.bColumn, p.bRow
	if p.bColumn != 1 {
		b, bStride, bPitch = "t", p.bRow, p.bColumn
	}
	if vectorised(p.a, aStride, aPitch, batch.stride[0]) {
		wide |= wideA
	}
	if vectorised(p.b, bStride, bPitch, batch.stride[1]) {
		wide |= wideB
	}
	return a + b, wide
}

// pitch is the larger distance of rows, or columns, of the operands.
func (p *product) pitch() int64 { return max(p.aRow, p.aColumn, p.bRow, p.bColumn) }

// vectorised tells whether elements of 2 bytes with the given strides can be moved 16 bytes at a time.
func vectorised(address uint64, stride, pitch int64, batch [kernels.MaxDims]int64) bool {
	all := int64(address) | 2*pitch
	for _, s := range batch {
		all |= 2 * s
	}
	return stride == 1 && all%wideBytes == 0
}
