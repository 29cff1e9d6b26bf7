//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// Constants of attention_flash.cuh, attention_flash.cu, attention_flash_hopper.cu and attention_flash_hopper_grad.cu.
const (
	flashThreads = 128
	flashPadded  = 128 // l and dot of each head have a multiple of so many elements
	flashTurn    = 32  // rows for each counter of turns

	flashHopperThreads = 384 // of the gradient
	flashHopperKeys    = 128
)

// flashHopper is the number of rows, and of keys, from which on heads of 64 and 128 are taken by wgmma: that of a tile.
// flashHopperGrad is the same for the gradient. flashThree is the number of rows from which on heads of 64 have three
// warpgroups that multiply, not two. flashCache is how many bytes of keys and values may be in use at once: the L2
// cache of an H200. Variables for tests.
var flashHopper, flashHopperGrad, flashThree, flashCache = 128, 256, 1536, 64 << 20

// flashWide is the number of blocks of 8 warps and 128 keys from which on the gradient of heads of 128 has them: enough
// for the multiprocessors of an H200. It is a variable for tests.
var flashWide = 132

// flashTileRows is how many rows a tile of the other operands has, kTileRows of attention_flash.cu.
func flashTileRows(d int) int {
	if d == 128 {
		return 32
	}
	return 64
}

// flashTurnRows is the same in the gradient, kTurnRows.
func flashTurnRows(d int) int {
	if d > 80 {
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
	if !d.IsHalf() || z.d != z.e || !flashHead(int(z.d)) || z.t == 0 || z.s == 0 ||
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

// flashShared is the shared memory of a block with rows of its own and two tiles each of two other operands, of l and
// of dot.
func flashShared(d, rows, tile int) int { return flashPitch(d)*(rows+4*tile) + 4*4*tile }

// flashBlocks is the number of blocks for `most` rows or keys of n each, of all heads.
func (c *call) flashBlocks(z *attention, n uint32, most int) int {
	blocks := int(z.count) * ceilDiv(int(n), most)
	if blocks > math.MaxInt32 {
		c.refuse("%d heads with %d queries and %d keys; kernels on %s take fewer", z.count, z.t, z.s, c.b.Name())
	}
	return blocks
}

// startFlash begins a launch of blocks for `most` rows or keys of n each.
func (c *call) startFlash(kind string, d kernels.DType, z *attention, n uint32, most, shared int) {
	blocks := c.flashBlocks(z, n, most)
	if blocks == 0 {
		return
	}
	threads := uint32(flashThreads)
	if kind == "grad_wide_" {
		threads *= 2
	}
	c.startShared("flash_"+kind+itoa(int(z.d))+"_"+suffixes[d], dim{uint32(blocks), 1, 1}, threads, shared)
	structure(c, z)
}

// flash computes y, m and r.
func (c *call) flash(z *attention, dtype kernels.DType) {
	d := int(z.d)
	if d%64 == 0 && int(min(z.t, z.s)) >= flashHopper && c.b.gpu.WGMMA() {
		c.startFlashHopper(z, dtype)
		return
	}
	c.startFlash("", dtype, z, z.t, 128, flashShared(d, 128, flashTileRows(d)))
}

// flashItems is the struct Items of attention_flash_hopper.cu.
type flashItems struct{ count, sorted uint32 }

// startFlashHopper launches a block for each multiprocessor. Shared memory is the rows of q, four tiles of 128 keys or
// values, and rows of results.
func (c *call) startFlashHopper(z *attention, dtype kernels.DType) {
	d, groups, name := int(z.d), 2, "flash_hopper_"+itoa(int(z.d))
	if d == 64 && int(z.t) >= flashThree {
		groups, name = 3, name+"_three"
	}
	rows := 64 * groups
	n := c.flashBlocks(z, z.t, rows)
	if n == 0 {
		return
	}
	items := flashItems{count: uint32(n)}
	if n <= c.b.gpu.SMs || 4*int(z.s)*d*int(z.count) <= flashCache {
		items.sorted = 1
	}
	const barriers = 2 * 5
	c.startShared(name+"_"+suffixes[dtype], dim{uint32(min(n, c.b.gpu.SMs)), 1, 1}, uint32(128*(groups+1)),
		2*d*(rows+4*128+rows)+8*barriers)
	structure(c, z)
	structure(c, &items)
}

// startFlashHopperGrad launches a block for each multiprocessor. Shared memory is two stages of q and g, of ds, l and
// dot, one of sums, two of k and v with heads of 64, else one, and numbers of two items.
func (c *call) startFlashHopperGrad(z *attention, dtype kernels.DType) {
	n := c.flashBlocks(z, z.s, flashHopperKeys)
	if n == 0 {
		return
	}
	d := int(z.d)
	const tile = 8192 // elements of q, g and sums
	rows, stages := tile/d, 128/d
	c.startShared("flash_grad_hopper_"+itoa(d)+"_"+suffixes[dtype], dim{uint32(min(n, c.b.gpu.SMs)), 1, 1},
		flashHopperThreads, 4*(3*tile+rows*flashHopperKeys+4*rows)+stages*4*d*flashHopperKeys+16+8*2*(5*2+1+2*stages))
	structure(c, z)
}

// flashGrad computes l and dot of each row, then dq, dk and dv.
func (c *call) flashGrad(z *attention, dtype kernels.DType) {
	d, rows := int(z.d), roundUp(int(z.t), flashPadded)
	n := int(z.count) * rows
	z.scratch = c.scratch(4 * (2*n + roundUp(n/flashTurn+1, 4) + n*d))
	z.dot = z.scratch + uint64(4*n)
	units := d / 8
	c.startFlash("dot_", dtype, z, uint32(rows), flashThreads/(units&-units), 0)
	tile, most := flashTurnRows(d), 128
	if d > 64 {
		most = 64
	}
	switch {
	case d%64 == 0 && int(min(z.t, z.s)) >= flashHopperGrad && c.b.gpu.WGMMA():
		c.startFlashHopperGrad(z, dtype)
	case d == 128 && c.b.gpu.LargeShared() && int(z.count)*ceilDiv(int(z.s), 128) >= flashWide:
		c.startFlash("grad_wide_", dtype, z, z.s, 128, flashShared(d, 256, tile)+256*tile+4*tile*d)
	default:
		c.startFlash("grad_turns_", dtype, z, z.s, most, flashShared(d, 2*most, tile)+2*most*tile)
	}
}
