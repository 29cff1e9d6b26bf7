//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() { plans["matmul"] = planMatMul }

// product is the struct Product of batch.cuh: equal matrix products, whose results [m n] follow each other in memory.
type product struct {
	c, a, b, bias uint64
	m, n, k, cRow uint32
	aRow, aCol    int64
	bRow, bCol    int64
	biasStep      int64
}

// productBatch is the struct Batch of batch.cuh: where the operands of each product lie.
type productBatch struct {
	rank  uint64
	size  [kernels.MaxDims]int64
	steps [2][kernels.MaxDims]int64 // of a and b
}

// Tiles of matmul.cu, and the threads of a block for both.
const smallTile, largeTile, matmulThreads = 32, 128, 256

// planMatMul multiplies the last two axes of two operands; those of rank 1 are a row on the left and a column on the
// right. Operation linear multiplies by the transposed matrix and adds a bias, if there is one.
func planMatMul(c *call, l *kernels.Launch) error {
	a, b, y := l.In[0], l.In[1], &l.Out[0]
	if y.Len() == 0 {
		return nil
	}
	if l.Op.Name == "linear" {
		shape, strides := [2]int{b.Shape[1], b.Shape[0]}, [2]int{b.Strides[1], b.Strides[0]}
		b.Shape, b.Strides = shape[:], strides[:]
	}
	p, batch, err := productsOf(c.op, &a, &b, y)
	if err != nil {
		return err
	}
	p.c, p.a, p.b = c.address(y), c.address(&a), c.address(&b)
	if len(l.In) > 2 {
		p.bias, p.biasStep = c.address(&l.In[2]), int64(l.In[2].Strides[0])
	}
	if y.DType.IsHalf() {
		return c.gemm(&p, &batch, y)
	}
	// Large tiles, where they keep every multiprocessor busy.
	if y.DType == kernels.Float32 && y.Len()/(int(p.m)*int(p.n))*p.tiles(largeTile) >= c.b.gpu.SMs {
		return c.products("matmul_large_f32", largeTile, matmulThreads, &p, &batch, y)
	}
	return c.products("matmul_"+suffixes[y.DType], smallTile, matmulThreads, &p, &batch, y)
}

// products launches a kernel with a block for each tile.
func (c *call) products(symbol string, tile int, threads uint32, p *product, batch *productBatch, y *kernels.Arg) error {
	blocks := y.Len() / (int(p.m) * int(p.n)) * p.tiles(tile)
	if blocks > math.MaxInt32 {
		return kernels.Errorf(kernels.ErrDevice, c.op, "the result %v is too large: %d tiles", y.Shape, blocks)
	}
	if err := c.start(symbol, dim{uint32(blocks), 1, 1}, threads); err != nil {
		return err
	}
	structure(c, p)
	structure(c, batch)
	return nil
}

// tiles is the number of tiles of one product.
func (p *product) tiles(size int) int {
	return ceilDiv(int(p.m), size) * ceilDiv(int(p.n), size)
}

// productsOf describes the products of two operands with the result y.
func productsOf(op string, a, b, y *kernels.Arg) (p product, batch productBatch, err error) {
	m, n := 1, 1
	lead := len(y.Shape)
	last := len(b.Shape) - 1
	if last > 0 {
		n, p.bRow, p.bCol = b.Shape[last], int64(b.Strides[last-1]), int64(b.Strides[last])
		lead--
	} else {
		p.bRow = int64(b.Strides[last])
	}
	last = len(a.Shape) - 1
	k := a.Shape[last]
	p.aCol = int64(a.Strides[last])
	if last > 0 {
		m, p.aRow = a.Shape[last-1], int64(a.Strides[last-1])
		lead--
	}
	for d, size := range y.Shape[:lead] {
		if size != 1 {
			batch.size[batch.rank] = int64(size)
			batch.steps[0][batch.rank] = batchStep(a, d-lead)
			batch.steps[1][batch.rank] = batchStep(b, d-lead)
			batch.rank++
		}
	}
	m = batch.merge(&p, m)
	if max(m, n, k) > math.MaxInt32 {
		return p, batch, kernels.Errorf(kernels.ErrDevice, op, "sizes above 2^31 are not supported: %d x %d x %d", m, k, n)
	}
	p.m, p.n, p.k, p.cRow = uint32(m), uint32(n), uint32(k), uint32(n)
	return p, batch, nil
}

// batchStep is the stride of batch axis d, counted from the end of the batch (-1 is the last), 0 if it repeats.
func batchStep(a *kernels.Arg, d int) int64 {
	d += len(a.Shape) - 2
	if d < 0 || a.Shape[d] == 1 {
		return 0
	}
	return int64(a.Strides[d])
}

// merge makes products with the same B, whose A follow each other, one product of more rows than m, and returns how many.
func (batch *productBatch) merge(p *product, m int) int {
	for batch.rank > 0 {
		d := batch.rank - 1
		if batch.steps[1][d] != 0 || m > 1 && batch.steps[0][d] != int64(m)*p.aRow {
			break
		}
		if m == 1 {
			p.aRow = batch.steps[0][d]
		}
		m *= int(batch.size[d])
		batch.rank--
	}
	return m
}
