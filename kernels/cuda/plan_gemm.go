//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

// Of gemm.cu: the tiles, the threads of a block, and what may move 16 bytes at a time.
const (
	gemmTile, gemmThreads = 128, 128
	wideA, wideB, wideC   = 1, 2, 4
	wideBytes             = 16
)

// gemm launches products in half precision. Operands lie in shared memory as they do in global memory: rows side by
// side or columns side by side.
func (c *call) gemm(p *product, batch *productBatch, y *kernels.Arg) error {
	if p.m == 1 { // a single row or column has no pitch
		p.aRow = 0
	}
	if p.n == 1 {
		p.bCol = 0
	}
	layout, wide := []byte("nn"), uint32(0)
	aStep, aPitch := p.aCol, p.aRow
	if p.aRow == 1 && p.aCol != 1 {
		layout[0], aStep, aPitch = 't', p.aRow, p.aCol
	}
	bStep, bPitch := p.bCol, p.bRow
	if p.bCol != 1 {
		layout[1], bStep, bPitch = 't', p.bRow, p.bCol
	}
	if units(p.a, aStep, aPitch, batch.steps[0]) {
		wide |= wideA
	}
	if units(p.b, bStep, bPitch, batch.steps[1]) {
		wide |= wideB
	}
	if units(p.c, 1, int64(p.cRow), [kernels.MaxDims]int64{}) {
		wide |= wideC
	}
	if err := c.products("gemm_"+string(layout)+"_"+suffixes[y.DType], gemmTile, gemmThreads, p, batch, y); err != nil {
		return err
	}
	arg(c, wide)
	return nil
}

// units tells whether the elements of 2 bytes, `step` apart, at an address and everywhere pitches away are aligned units of 16 bytes.
func units(address uint64, step, pitch int64, batch [kernels.MaxDims]int64) bool {
	all := int64(address) | 2*pitch
	for _, s := range batch {
		all |= 2 * s
	}
	return step == 1 && all%wideBytes == 0
}
