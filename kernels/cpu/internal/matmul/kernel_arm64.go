package matmul

import "github.com/weft-ml/weft/kernels/cpu/internal/vec"

var kernelsNEON = assembly{
	lanes: 4,
	rows:  12,
	wide: []tileFunc{
		nil, tile1x8NEON, tile2x8NEON, tile3x8NEON, tile4x8NEON, tile5x8NEON, tile6x8NEON, tile7x8NEON, tile8x8NEON,
		tile9x8NEON, tile10x8NEON, tile11x8NEON, tile12x8NEON},
	narrow: []tileFunc{
		nil, tile1x4NEON, tile2x4NEON, tile3x4NEON, tile4x4NEON, tile5x4NEON, tile6x4NEON, tile7x4NEON, tile8x4NEON,
		tile9x4NEON, tile10x4NEON, tile11x4NEON, tile12x4NEON},
	columns: 1024,

	packRowsA:    96,
	packColumnsA: byApart{96, 96},
	packB:        byApart{96, 96},

	correlate: []correlateFunc{nil, correlate1NEON, correlate2NEON, correlate3NEON, correlate4NEON,
		correlate5NEON, correlate6NEON, correlate7NEON},
	copyStrips:  copyStripsNEON,
	gatherStrip: gatherStripNEON,
	copyPieces:  copyPiecesNEON,
	copyPanels:  copyPanels,
	gatherPanel: gatherPanel,
	transpose8:  transpose8,
	transpose4:  transpose4,
}

// current returns the assembly of the tier in use, nil for the portable one.
func current() *assembly {
	if vec.Current() == vec.NEON {
		return &kernelsNEON
	}
	return nil
}

// peakLoop returns a loop of independent multiply-adds of vectors, and the elements of all of them.
func peakLoop(tier vec.Tier) (loop func(n int, x float32), elements int) {
	if tier == vec.NEON {
		return peakNEON, 24 * 4
	}
	return nil, 0
}
