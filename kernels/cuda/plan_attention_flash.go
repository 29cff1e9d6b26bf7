//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// Constants of attention_flash.cu.
const (
	flashThreads = 128
	flashPadded  = 64 // l and dot of each head have a multiple of so many elements
)

// flashTileRows is how many rows a tile of the other operands has, kTileRows of attention_flash.cu.
func flashTileRows(d int) int {
	if d == 128 {
		return 32
	}
	return 64
}

// usesFlash tells whether the kernels of attention_flash.cu take an attention of elements d: in half precision, with
// heads of 32, 64, 80, 96 or 128 contiguous elements, aligned to 16 bytes, without masks, windows, dropout and shared
// heads, which they do not have: attention.cu serves these. They take the maximum before they scale, so the scale must
// be positive.
func (z *attention) usesFlash(d kernels.DType, operands ...*heads) bool {
	scale := math.Float32frombits(uint32(z.scale))
	if z.mask.data != 0 || z.group != 1 || int(z.first)+int(z.t) > 1 {
		return false
	}
	if !d.IsHalf() || z.d != z.e || !flashHead(int(z.d)) || z.s == 0 ||
		!(scale > 0 && scale <= math.MaxFloat32) {
		return false
	}
	for _, h := range operands {
		if h.column != 1 || h.data%16 != 0 || (h.batch|h.head|h.row)%8 != 0 {
			return false
		}
	}
	return true
}

// flashHead tells whether there are kernels for heads of d elements.
func flashHead(d int) bool { return d == 32 || d == 64 || d == 80 || d == 96 || d == 128 }

// flashPitch is the size of a row of d elements in shared memory, kPitch of attention_flash.cu.
func flashPitch(d int) int {
	if d%3 == 0 || d%5 == 0 {
		return 2*d + 16
	}
	return 2 * d
}

// startFlash begins a launch of blocks for `most` rows or keys of n each. Their shared memory has `rows` rows of their
// own, if any, and tiles of the other operands.
func (c *call) startFlash(kind string, d kernels.DType, z *attention, n uint32, most, rows int) {
	blocks := int(z.count) * ceilDiv(int(n), most)
	if blocks == 0 {
		return
	}
	if blocks > math.MaxInt32 {
		c.refuse("%d heads with %d queries and %d keys; kernels on %s take fewer", z.count, z.t, z.s, c.b.Name())
	}
	shared := 0
	if rows > 0 {
		tiles := 4 * flashTileRows(int(z.d))                 // two of each of the other operands
		shared = flashPitch(int(z.d))*(rows+tiles) + 4*tiles // with l and dot of two tiles
	}
	c.startShared("flash_"+kind+itoa(int(z.d))+"_"+suffixes[d], dim{uint32(blocks), 1, 1}, flashThreads, shared)
	structure(c, z)
}

// flashGrad computes l and dot of each row, then dq, then dk and dv.
func (c *call) flashGrad(z *attention, d kernels.DType) {
	rows := roundUp(int(z.t), flashPadded)
	size := 4 * int(z.count) * rows
	z.scratch = c.scratch(2 * size)
	z.dot = z.scratch + uint64(size)
	units := int(z.d) / 8
	c.startFlash("dot_", d, z, uint32(rows), flashThreads/(units&-units), 0)
	most := 128
	if z.d > 64 {
		most = 64
	}
	c.startFlash("grad_rows_", d, z, z.t, most, 2*most)
	c.startFlash("grad_keys_", d, z, z.s, most, 2*most)
}
