package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Convolutions of many images with many channels: of each image the result is computed with its channels last, pixel by
// pixel, and transposed. What is read is neither packed nor shifted, and parts a stride apart fall into place.

// mostResult is how many elements of an image's result fit into the level-2 cache beside what is read, and mostWeights
// how many of weights.
const mostResult, mostWeights = 1 << 17, 1 << 17

// pixelsFit reports whether the result may be computed so, and there are images for all threads.
func (u *unfolding[T]) pixelsFit(all [3][]reach) bool {
	if matmul.PixelLanes() == 0 || u.channels == 0 || u.m*u.dstChannel > mostResult ||
		u.images*u.groups < 2*par.Workers() {
		return false
	}
	pixels := 0
	eachCombination(all, func(r [3]reach) {
		pixels += r[0].count * r[1].count * r[2].count
	})
	return pixels == u.dstChannel
}

// pixelCost is about what a part costs, for each group, in multiply-adds: rows of pixels in pieces, for each of which a
// term takes at least the latency of a multiply-add, or the time of weights from a far cache; their sums, packing the
// weights, and the transposition of the result.
func (u *unfolding[T]) pixelCost(r [3]reach) int {
	const farWeights = 24
	k, lanes := len(r[0].taps)*len(r[1].taps)*len(r[2].taps)*u.channels, matmul.PixelLanes()
	vector, transpose, pack := lanes/2, 7*lanes/16, 2*lanes
	least, strips := 128/lanes, (u.m+lanes-1)/lanes
	if k*u.m > mostWeights {
		least = farWeights
	}
	width, rows := r[2].count, u.images*r[0].count*r[1].count
	pieces := (width + matmul.MostPixels() - 1) / matmul.MostPixels()
	row := k*max(2*width, least*pieces) + (k+matmul.Chunk-1)/matmul.Chunk*(5*width+20*pieces)
	return rows*(strips*row*vector+transpose*u.m*width) + pack*k*u.m
}

// pixelByPixel computes the parts.
func pixelByPixel(u *unfolding[float32], parts []part[float32]) {
	spatial, plane, lanes := u.spatial(), kernels.Count(u.plane), matmul.PixelLanes()
	channel, padded := plane, (u.m+lanes-1)/lanes*lanes
	if u.inPlace {
		channel = u.strides[1]
	}
	products := make([]*matmul.Pixels, u.groups*len(parts))
	for i := range parts {
		rows, columns, chunks := u.terms(&parts[i], channel)
		memory, done := lend[float32](u.groups, padded*len(rows))
		defer done()
		for g := range u.groups {
			weight := matmul.Matrix{Data: u.weight[g*u.weightGroup:], RowStride: u.weightRow, ColStride: 1}
			products[g*len(parts)+i] = matmul.NewPixels(weight, u.m, columns, rows, chunks, memory[g*padded*len(rows):])
		}
	}
	par.For(u.images*u.groups, 1, func(lo, hi int) {
		result, done := lend[float32](u.dstChannel, padded)
		defer done()
		var data []float32
		if !u.inPlace {
			memory, done := lend[float32](u.channels, plane)
			defer done()
			clear(memory)
			data = memory
		}
		for i := lo; i < hi; i++ {
			image, g := i/u.groups, i%u.groups
			if u.inPlace {
				data = u.src[image*u.strides[0]+g*u.channels*channel:]
			} else {
				for c := range u.channels {
					u.copyChannel(data[c*plane:(c+1)*plane], image, g*u.channels+c)
				}
			}
			dst := u.dst[image*u.dstImage+g*u.m*u.dstChannel:]
			var after *matmul.Fetch
			if u.images*u.dstImage > mostResult {
				after = fetch(u, i, i+1 < hi)
			}
			for k := range parts {
				p := &parts[k]
				for d := range p.size[0] {
					products[g*len(parts)+k].Multiply(result[(p.base+d*p.step[0])*padded:], p.step[1]*padded,
						p.step[2]*padded, data[d*spatial[0]:], spatial[1], spatial[2], p.size[1], p.size[2], after)
				}
			}
			matmul.Transpose(dst, u.dstChannel, matmul.Matrix{Data: result, RowStride: padded, ColStride: 1},
				u.dstChannel, u.m)
			if finish := u.finish(g); finish != nil {
				for j := range u.m {
					finish(j, 0, dst[j*u.dstChannel:][:u.dstChannel])
				}
			}
		}
	})
}

// fetch is the result of an image and, if it follows, what is read of the next one. Groups count as images.
func fetch(u *unfolding[float32], i int, follows bool) *matmul.Fetch {
	of := func(data []float32, i, image, channels, channel int) []float32 {
		data = data[i/u.groups*image+i%u.groups*channels*channel:]
		return data[:min(len(data), channels*channel)]
	}
	f := &matmul.Fetch{Write: of(u.dst, i, u.dstImage, u.m, u.dstChannel)}
	if follows {
		f.Read = of(u.src, i+1, u.strides[0], u.channels, u.strides[1])
	}
	return f
}

// pixelsPay reports whether the gradient of the weight is computed so, its columns taking the place of pixels: vectors
// are of channels of y, where the neighbours among the columns would fill none.
func (x *channelsLast[T]) pixelsPay() bool {
	lanes, run := matmul.PixelLanes(), x.k[2]*x.in
	if _, ok := any(x.src).([]float32); !ok || lanes == 0 || run%lanes == 0 || x.dilation[2] != 1 {
		return false
	}
	vector, pack, least := lanes/2, 3*lanes/8, 192/lanes
	columns, rows := kernels.Count(x.k[:])*x.in, x.k[0]*x.k[1]
	pieces := (run + matmul.MostPixels() - 1) / matmul.MostPixels()
	strips := (x.out + lanes - 1) / lanes
	return rows*strips*max(2*run, least*pieces)*vector < (columns+vector-1)/vector*vector*x.out+pack*columns
}

// addPixels does what multiply does, in a product whose rows are the columns, of so many elements each. Some chunks are
// computed at a time, each by one thread, and added in order.
func (x *channelsLast[T]) addPixels(p *weightPart, product []float32, padded int, a matmul.Matrix,
	b *matmul.UnfoldedOf[float32], add bool) {
	n, rows, row := p.size[2]*x.in, p.size[0]*p.size[1], x.length[2]*x.in
	product = product[p.column*x.in*padded:][:rows*n*padded]
	if len(b.Rows) == 0 && !add {
		clear(product)
	}
	most := 4 * par.Workers()
	sums, done := lend[float32](most, len(product))
	defer done()
	for k := 0; k < len(b.Rows); {
		ends := []int{k}
		for len(ends) <= most && ends[len(ends)-1] < len(b.Rows) {
			ends = append(ends, b.ChunkEnd(ends[len(ends)-1]))
		}
		par.For(len(ends)-1, 1, func(lo, hi int) {
			memory, done := lend[float32](matmul.Chunk, padded)
			defer done()
			for i := lo; i < hi; i++ {
				from, to, a, columns := ends[i], ends[i+1], a, []int(nil)
				if b.LeftColumns != nil {
					columns = b.LeftColumns[from:to]
				} else {
					a.Data = a.Data[from*a.ColStride:]
				}
				w := matmul.NewPixels(a, x.out, columns, b.Rows[from:to], nil, memory)
				for d := range p.size[0] {
					w.Multiply(sums[i*len(product)+d*p.size[1]*n*padded:], n*padded, padded,
						b.Data[d*x.dilation[0]*x.length[1]*row:], x.dilation[1]*row, 1, p.size[1], n, nil)
				}
			}
		})
		for i := range len(ends) - 1 {
			if from := sums[i*len(product):][:len(product)]; add || k > 0 || i > 0 {
				vec.Axpy(product, from, product, 1)
			} else {
				copy(product, from)
			}
		}
		k = ends[len(ends)-1]
	}
}
