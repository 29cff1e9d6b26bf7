package matmul

import (
	"fmt"
	"slices"
)

// Pixels is the product of an unfolded operand and a weight, in the canonical order: that of [Unfold], but the result
// has its channels last. Its rows are pixels. Their terms are read where they are, as numbers that vectors of the
// weight are multiplied by, so that no lane is idle however narrow images are.
type Pixels struct {
	terms, ends []int
	last        int // the largest of terms
	strips      int
	weights     []float32 // chunk by chunk, in each strip by strip, in each term by term
}

// PixelLanes is what numbers of channels are rounded up to a multiple of; 0 if this tier has no kernels for [Pixels].
func PixelLanes() int {
	if tier := current(); tier != nil && tier.pixels != nil {
		return tier.width()
	}
	return 0
}

// MostPixels is how many neighbours are computed together.
func MostPixels() int { return len(current().pixels) - 1 }

// NewPixels prepares the product for a weight [m k], which it packs into memory of k elements for each of the rounded
// number of channels. The list has the offsets of its columns, if these are not ColStride apart; terms are those of
// what they meet, from where a pixel begins. Chunks end at ends, if these have not 256 terms each.
func NewPixels(weight Matrix, m int, columns, terms, ends []int, memory []float32) *Pixels {
	width := current().width()
	p := &Pixels{terms: terms, ends: ends, strips: divideUp(m, width), weights: memory}
	if len(terms) == 0 {
		return p
	}
	p.last = slices.Max(terms)
	if need := p.strips * width * len(terms); len(memory) < need || slices.Min(terms) < 0 {
		panic(fmt.Sprintf("matmul: memory of %d weights, not %d, terms %v", len(memory), need, terms))
	}
	for k0, k1 := 0, 0; k0 < len(terms); k0 = k1 {
		k1 = p.chunkEnd(k0)
		for k, run := k0, 0; k < k1; k += run {
			column := k * weight.ColStride
			if run = k1 - k; columns != nil {
				column, run = columns[k], runLength(columns[k:k1], weight.ColStride)
			}
			for j := 0; j < m; j += width {
				from := weight.from(j)
				from.Data = from.Data[column:]
				Transpose(memory[p.strips*width*k0+j*(k1-k0)+(k-k0)*width:], width, from, min(width, m-j), run)
			}
		}
	}
	return p
}

// chunkEnd is the end of the chunk that begins with term k.
func (p *Pixels) chunkEnd(k int) int {
	return (&UnfoldedOf[float32]{Rows: p.terms, Chunks: p.ends}).ChunkEnd(k)
}

// Fetch is what is read and what is written after a product, which brings it to the level-2 cache: multiplications
// leave memory idle.
type Fetch struct {
	Read, Write []float32
	lines       int // that came
}

// next is where to go on and how many lines are left. Where there is nothing, hot stands in for it.
func (f *Fetch) next(hot *float32) (read, write *float32, lines int) {
	const line = 16
	if f == nil {
		return hot, hot, 0
	}
	at := func(memory []float32) *float32 {
		if i := f.lines * line; i < len(memory) {
			return &memory[i]
		}
		return hot
	}
	return at(f.Read), at(f.Write), divideUp(max(len(f.Read), len(f.Write)), line) - f.lines
}

// Multiply computes rows of n pixels. In data rows are row and pixels step elements apart, in dst dstRow and dstStep.
// f, unless it is nil, goes on.
func (p *Pixels) Multiply(dst []float32, dstRow, dstStep int, data []float32, row, step, rows, n int, f *Fetch) {
	tier := current()
	width := p.strips * tier.width()
	from, to := p.last+(rows-1)*row+(n-1)*step, (rows-1)*dstRow+(n-1)*dstStep+width
	if min(rows, n) <= 0 || from >= len(data) && len(p.terms) > 0 || to > len(dst) {
		panic(fmt.Sprintf("matmul: %d rows of %d pixels read %d of %d, write %d of %d", rows, n, from, len(data), to,
			len(dst)))
	}
	if len(p.terms) == 0 {
		for i := range rows * n {
			clear(dst[i/n*dstRow+i%n*dstStep:][:width])
		}
	}
	pieces := divideUp(n, MostPixels())
	for k0, k1 := 0, 0; k0 < len(p.terms); k0 = k1 {
		k1 = p.chunkEnd(k0)
		for i := range pieces {
			from, to := i*n/pieces, (i+1)*n/pieces
			read, write, lines := f.next(&dst[0])
			tier.pixels[to-from](k1-k0, &data[from*step], step, &p.terms[k0], row, &p.weights[width*k0],
				&dst[from*dstStep], dstStep, dstRow, rows, p.strips, k0 > 0, read, write, lines)
			if f != nil {
				f.lines += min(lines, (k1-k0)*rows*p.strips)
			}
		}
	}
}
