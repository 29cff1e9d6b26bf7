//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	plans["attention"] = planAttention
	plans["attention_grad"] = planAttentionGrad
	plans["attention_packed"] = planAttentionPacked
	plans["attention_packed_grad"] = planAttentionPackedGrad
}

// heads is the struct Heads of attention.cuh: one matrix for each head of each batch entry.
type heads struct {
	data                     uint64
	batch, head, row, column int64
}

// attention is the struct Attention of attention.cuh.
type attention struct {
	q, k, v, y, g, dq, dk, dv, mask, kept  heads
	m, r, dot, scratch                     uint64
	count                                  uint64
	heads, t, s, d, e, last, group, cached uint32
	first                                  int32
	factor                                 float64
	scale                                  uint64 // the bits of a float32, or of a float64 where the elements are
}

// Of attention.cu.
const (
	attentionRows, attentionColumns, attentionThreads = 128, 64, 128

	attentionStages = 4 * 3 * (attentionRows + attentionColumns) * 20
)

// attentionTile is the number of rows or keys that a block works on, and of its threads.
func attentionTile(d kernels.DType) (rows, threads int) {
	if d != kernels.Float32 {
		return smallTile, smallThreads
	}
	return attentionRows, attentionThreads
}

// attentionShared is the shared memory of a block, of which two share a multiprocessor: for tiles of operands, and in
// turn for rows of scores, where there is much of it for more of them.
func (c *call) attentionShared(d, number kernels.DType) int {
	switch {
	case d != kernels.Float32:
		return number.Size() * 2 * smallTile * (smallTile + 1)
	case c.b.gpu.LargeShared():
		return 80 << 10
	}
	return attentionStages
}

// heads is an operand whose axes are in the given order.
func (c *call) heads(a *kernels.Arg, batch, head, row, column int) heads {
	st := a.Strides
	return heads{c.address(a), int64(st[batch]), int64(st[head]), int64(st[row]), int64(st[column])}
}

// packedHeads is q, k or v (0, 1 or 2) of an operand [B T 3*H*D], or an operand [B T H*D] with 0.
func (c *call) packedHeads(a *kernels.Arg, which, count, width int) heads {
	st := a.Strides
	at := c.address(a) + uint64(a.DType.Size()*which*count*width*st[2])
	return heads{at, int64(st[0]), int64(width * st[2]), int64(st[1]), int64(st[2])}
}

func attentionScale(l *kernels.Launch) uint64 {
	if l.In[0].DType == kernels.Float64 {
		return math.Float64bits(l.Floats[0])
	}
	return uint64(math.Float32bits(float32(l.Floats[0])))
}

// attentionOf describes a launch with operands q [B H T D], k [B H/group S D], v [B H/group S E] and, from operand
// `optional` on and if there are any, mask and kept [B H T S].
func (c *call) attentionOf(l *kernels.Launch, optional int) attention {
	q, k, v := &l.In[0], &l.In[1], &l.In[2]
	z := attention{
		q: c.heads(q, 0, 1, 2, 3), k: c.heads(k, 0, 1, 2, 3), v: c.heads(v, 0, 1, 2, 3),
		count: uint64(q.Shape[0] * q.Shape[1]), heads: uint32(q.Shape[1]), t: uint32(q.Shape[2]), s: uint32(k.Shape[2]),
		d: uint32(q.Shape[3]), e: uint32(v.Shape[3]), group: uint32(q.Shape[1] / max(1, k.Shape[1])),
	}
	if len(l.In) > optional {
		z.mask = c.heads(&l.In[optional], 0, 1, 2, 3)
	}
	if len(l.In) > optional+1 {
		z.kept, z.factor = c.heads(&l.In[optional+1], 0, 1, 2, 3), 1/(1-l.Floats[1])
	}
	z.setVisible(l)
	return z
}

// setVisible sets the scale and the visible keys, the same ones by numbers that cannot overflow.
func (z *attention) setVisible(l *kernels.Launch) {
	z.first, z.last = int32(min(max(l.Ints[0], -int(z.t)), int(z.s))), uint32(min(l.Ints[1], int(z.s)))
	z.scale = attentionScale(l)
}

// attentionPackedOf describes a launch with the operand qkv [B T 3*H*D], H being l.Ints[2].
func (c *call) attentionPackedOf(l *kernels.Launch) attention {
	x, n := &l.In[0], l.Ints[2]
	t, d := uint32(x.Shape[1]), x.Shape[2]/(3*n)
	z := attention{
		q: c.packedHeads(x, 0, n, d), k: c.packedHeads(x, 1, n, d), v: c.packedHeads(x, 2, n, d),
		count: uint64(x.Shape[0] * n), heads: uint32(n), t: t, s: t, d: uint32(d), e: uint32(d), group: 1,
	}
	z.setVisible(l)
	return z
}

// planAttention has the results y [B T H E], m and r [B H T].
func planAttention(c *call, l *kernels.Launch) {
	z := c.attentionOf(l, 3)
	z.y = c.heads(&l.Out[0], 0, 2, 1, 3)
	c.attend(&z, l)
}

func planAttentionPacked(c *call, l *kernels.Launch) {
	z := c.attentionPackedOf(l)
	z.y = c.packedHeads(&l.Out[0], 0, l.Ints[2], int(z.d))
	c.attend(&z, l)
}

// planAttentionGrad has the operands q, k, v, y, m, r, g [B H T E] and perhaps mask and kept, and the results
// dq [B T H D], dk [B S H D] and dv [B S H E].
func planAttentionGrad(c *call, l *kernels.Launch) {
	z := c.attentionOf(l, 7)
	z.y, z.g = c.heads(&l.In[3], 0, 2, 1, 3), c.heads(&l.In[6], 0, 1, 2, 3)
	z.dq, z.dk, z.dv = c.heads(&l.Out[0], 0, 2, 1, 3), c.heads(&l.Out[1], 0, 2, 1, 3), c.heads(&l.Out[2], 0, 2, 1, 3)
	c.attendGrad(&z, l, 4)
}

func planAttentionPackedGrad(c *call, l *kernels.Launch) {
	z := c.attentionPackedOf(l)
	n, d, dx := l.Ints[2], int(z.d), &l.Out[0]
	z.y, z.g = c.packedHeads(&l.In[1], 0, n, d), c.packedHeads(&l.In[4], 0, n, d)
	z.dq, z.dk, z.dv = c.packedHeads(dx, 0, n, d), c.packedHeads(dx, 1, n, d), c.packedHeads(dx, 2, n, d)
	c.attendGrad(&z, l, 2)
}

func (c *call) attend(z *attention, l *kernels.Launch) {
	z.m, z.r = c.address(&l.Out[1]), c.address(&l.Out[2])
	if d := l.In[0].DType; z.usesFlash(d, &z.q, &z.k, &z.v, &z.y) {
		c.flash(z, d)
		return
	}
	blocks := c.attentionBlocks(z, z.t, l.In[0].DType)
	z.scratch = c.scratch(blocks * attentionScratch(1, z.s, l.In[0].DType, l.Out[1].DType))
	c.startAttention("attention", l.In[0].DType, l.Out[1].DType, blocks, z)
}

// attendGrad computes dq first, with dot of each row, which follows the blocks' own scratch memory. Operands stat and
// stat+1 are m and r.
func (c *call) attendGrad(z *attention, l *kernels.Launch, stat int) {
	m, r, d := &l.In[stat], &l.In[stat+1], l.In[0].DType
	if !m.Contiguous() || !r.Contiguous() {
		c.refuse("m and r with strides %v and %v; kernels on %s take contiguous ones", m.Strides, r.Strides, c.b.Name())
	}
	z.m, z.r = c.address(m), c.address(r)
	if z.usesFlash(d, &z.q, &z.k, &z.v, &z.y, &z.g, &z.dq, &z.dk, &z.dv) {
		c.flashGrad(z, d)
		return
	}
	rows, keys := c.attentionBlocks(z, z.t, d), c.attentionBlocks(z, z.s, d)
	own := max(rows*attentionScratch(2, z.s, d, m.DType), keys*attentionScratch(2, z.t, d, m.DType))
	z.scratch = c.scratch(own + m.DType.Size()*int(z.count)*int(z.t))
	z.dot = z.scratch + uint64(own)
	c.startAttention("attention_grad_rows", d, m.DType, rows, z)
	c.startAttention("attention_grad_keys", d, m.DType, keys, z)
}

// attentionScratch is the bytes of a block's scratch: tiles of n numbers in a row, and sums, of type `number`.
func attentionScratch(tiles int, n uint32, d, number kernels.DType) int {
	rows, _ := attentionTile(d)
	return number.Size() * rows * (tiles*ceilDiv(int(n), 4)*4 + attentionColumns)
}

// attentionBlocks is the number of blocks for tiles of n rows or keys, two at most for each multiprocessor.
func (c *call) attentionBlocks(z *attention, n uint32, d kernels.DType) int {
	if max(z.t, z.s) >= maxRow || z.count >= maxRow {
		c.refuse("%d heads with %d queries and %d keys; kernels on %s take fewer than %d",
			z.count, z.t, z.s, c.b.Name(), maxRow)
	}
	rows, _ := attentionTile(d)
	return min(int(z.count)*ceilDiv(int(n), rows), 2*c.b.gpu.SMs)
}

// startAttention begins a launch for elements of type d, computed as `number`.
func (c *call) startAttention(symbol string, d, number kernels.DType, blocks int, z *attention) {
	if blocks == 0 {
		return
	}
	_, threads := attentionTile(d)
	shared := c.attentionShared(d, number)
	z.cached = uint32(shared / (threads / 32) / number.Size() / 4 * 4)
	c.startShared(symbol+"_"+suffixes[d], dim{uint32(blocks), 1, 1}, uint32(threads), shared)
	structure(c, z)
}
