package matmul

import "github.com/weft-ml/weft/kernels/cpu/internal/vec"

var kernelsAVX512 = assembly{
	lanes: 16,
	rows:  12,
	wide: []tileFunc{
		nil, tile1x32AVX512, tile2x32AVX512, tile3x32AVX512, tile4x32AVX512, tile5x32AVX512, tile6x32AVX512,
		tile7x32AVX512, tile8x32AVX512, tile9x32AVX512, tile10x32AVX512, tile11x32AVX512, tile12x32AVX512},
	narrow: []tileFunc{
		nil, tile1x16AVX512, tile2x16AVX512, tile3x16AVX512, tile4x16AVX512, tile5x16AVX512, tile6x16AVX512,
		tile7x16AVX512, tile8x16AVX512, tile9x16AVX512, tile10x16AVX512, tile11x16AVX512, tile12x16AVX512},
	splits:  true,
	columns: 1024,

	packRowsA:    never,
	packColumnsA: byApart{96, 96},
	packB:        byApart{257, 96},

	correlate: []correlateFunc{nil, correlate1AVX512, correlate2AVX512, correlate3AVX512, correlate4AVX512,
		correlate5AVX512, correlate6AVX512, correlate7AVX512},
	pixels: []pixelsFunc{nil, pixels1AVX512, pixels2AVX512, pixels3AVX512, pixels4AVX512, pixels5AVX512,
		pixels6AVX512, pixels7AVX512, pixels8AVX512, pixels9AVX512, pixels10AVX512, pixels11AVX512, pixels12AVX512,
		pixels13AVX512, pixels14AVX512},
	tiles64: tiles64{12, 16, []func(k int, a, b, sums *float64){
		nil, double1AVX512, double2AVX512, double3AVX512, double4AVX512, double5AVX512, double6AVX512, double7AVX512,
		double8AVX512, double9AVX512, double10AVX512, double11AVX512, double12AVX512}},
	slide:       slideAVX512,
	slideLeast:  1,
	copyStrips:  copyStripsAVX512,
	gatherStrip: gatherStripAVX512,
	copyPieces:  copyPiecesAVX512,
	copyPanels:  copyPanels,
	gatherPanel: gatherPanel,
	copyPlane:   [2]func(*float32, int, *float32, int, int, int){copyPlane1AVX512, copyPlane2AVX512},
	putPlane2:   putPlane2AVX512,
	leastCopy:   1,
	transpose8:  transpose8,
	transpose4:  transpose4,
}

var kernelsAVX2 = assembly{
	lanes:    8,
	rows:     6,
	wide:     []tileFunc{nil, tile1x16AVX2, tile2x16AVX2, tile3x16AVX2, tile4x16AVX2, tile5x16AVX2, tile6x16AVX2},
	narrow:   []tileFunc{nil, tile1x8AVX2, tile2x8AVX2, tile3x8AVX2, tile4x8AVX2, tile5x8AVX2, tile6x8AVX2},
	columns:  512,
	byGroups: true,

	packRowsA:    never,
	packColumnsA: byApart{257, 96},
	packB:        byApart{257, 96},

	correlate: []correlateFunc{nil, correlate1AVX2, correlate2AVX2, correlate3AVX2, correlate4AVX2,
		correlate5AVX2, correlate6AVX2, correlate7AVX2},
	pixels: []pixelsFunc{nil, pixels1AVX2, pixels2AVX2, pixels3AVX2, pixels4AVX2, pixels5AVX2, pixels6AVX2},
	tiles64: tiles64{6, 8, []func(k int, a, b, sums *float64){
		nil, double1AVX2, double2AVX2, double3AVX2, double4AVX2, double5AVX2, double6AVX2}},
	slide:       slideAVX2,
	slideLeast:  8,
	copyStrips:  copyStripsAVX2,
	gatherStrip: gatherStripAVX2,
	copyPieces:  copyPiecesAVX2,
	copyPanels:  copyPanels,
	gatherPanel: gatherPanel,
	copyPlane:   [2]func(*float32, int, *float32, int, int, int){copyPlane1, copyPlane2},
	putPlane2:   putPlane2,
	leastCopy:   4,
	transpose8:  transpose8,
	transpose4:  transpose4,
}

// current returns the assembly of the tier in use, nil for the portable one.
func current() *assembly {
	switch vec.Current() {
	case vec.AVX512:
		return &kernelsAVX512
	case vec.AVX2:
		return &kernelsAVX2
	}
	return nil
}

// peakLoop returns a loop of independent multiply-adds of vectors, and the elements of all of them.
func peakLoop(tier vec.Tier) (loop func(n int, x float32), elements int) {
	switch tier {
	case vec.AVX512:
		return peakAVX512, 12 * 16
	case vec.AVX2:
		return peakAVX2, 12 * 8
	}
	return nil, 0
}
