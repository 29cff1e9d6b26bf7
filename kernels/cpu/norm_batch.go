package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Batch norm works on the channels of x = [N C ...]: a channel is N planes of more than one element, and its sums are
// rows of the canonical order. All that is computed of a channel is computed while its elements are in the cache: they
// are read from memory once.

// A channelSpace is the planes of contiguous elements [N C ...].
type channelSpace struct{ images, channels, plane int }

func channelsOf(a kernels.Arg) channelSpace {
	return channelSpace{a.Shape[0], a.Shape[1], kernels.Count(a.Shape[2:])}
}

// count is the number of elements of a channel.
func (s channelSpace) count() int { return s.images * s.plane }

// blocks is the number of blocks of a channel's sums.
func (s channelSpace) blocks() int { return (s.count() + rowBlock - 1) / rowBlock }

// planeOf is a plane of the elements x.
func (s channelSpace) planeOf(x []float32, image, channel int) []float32 {
	at := (image*s.channels + channel) * s.plane
	return x[at : at+s.plane : at+s.plane]
}

// block is block b of a channel: in place if it lies in one plane, else copied to buf.
func (s channelSpace) block(buf, x []float32, channel, b int) []float32 {
	from := b * rowBlock
	n := min(rowBlock, s.count()-from)
	image, at := from/s.plane, from%s.plane
	if at+n <= s.plane {
		return s.planeOf(x, image, channel)[at : at+n]
	}
	for i := 0; i < n; image, at = image+1, 0 {
		i += copy(buf[i:n], s.planeOf(x, image, channel)[at:])
	}
	return buf[:n]
}

// put copies buf to block b of a channel of x.
func (s channelSpace) put(x, buf []float32, channel, b int) {
	image, at := b*rowBlock/s.plane, b*rowBlock%s.plane
	for i := 0; i < len(buf); image, at = image+1, 0 {
		i += copy(s.planeOf(x, image, channel)[at:], buf[i:])
	}
}

// A channelWork is what a goroutine needs for a channel: memory for two blocks of elements and for two numbers of each
// block, and the arguments of a pointwise kernel.
type channelWork struct {
	copies, ofBlocks [2][]float32
	out              [1][]float32
	in               [2][]float32
	scalars          [4]float32
}

// each calls f for all channels.
func (s channelSpace) each(f func(channel int, w *channelWork)) {
	parRows(s.channels, s.count(), func(lo, hi int) {
		blocks := s.blocks()
		memory := borrow(2 * (rowBlock + blocks))
		copies, ofBlocks := *memory, (*memory)[2*rowBlock:]
		w := channelWork{copies: [2][]float32{copies[:rowBlock], copies[rowBlock : 2*rowBlock]},
			ofBlocks: [2][]float32{ofBlocks[:blocks], ofBlocks[blocks : 2*blocks]}}
		for channel := lo; channel < hi; channel++ {
			f(channel, &w)
		}
		giveBack(memory)
	})
}

// leastPlane is the least number of elements for which a call for each plane takes less time than copies of blocks.
const leastPlane = 512

// run computes out from the operands in: plane by plane, or block by block in copies.
func (s channelSpace) run(f *vec.Fused, channel int, w *channelWork, out []float32, in ...[]float32) {
	scalars := w.scalars[:f.Scalars]
	if s.plane >= leastPlane {
		for image := range s.images {
			w.out[0] = s.planeOf(out, image, channel)
			for i, x := range in {
				w.in[i] = s.planeOf(x, image, channel)
			}
			f.Run(w.out[:], w.in[:len(in)], scalars)
		}
		return
	}
	for b := range s.blocks() {
		for i, x := range in {
			w.in[i] = s.block(w.copies[i], x, channel, b)
		}
		w.out[0] = w.copies[0][:len(w.in[0])]
		f.Run(w.out[:], w.in[:len(in)], scalars)
		s.put(out, w.out[0], channel, b)
	}
}

var (
	batchNorm     = vec.Pointwise("batch_norm")
	batchNormGrad = vec.Pointwise("batch_norm_grad")
)

// BatchNorm normalises the channels of x by their own mean and variance, those of [Mean] and [Var]:
//
//	y = (x - mean) * scale + bias, with scale = weight / sqrt(variance + eps)
//
// The operands are x, weight and bias; the results are y, mean and variance; l.Floats[0] is eps.
func BatchNorm(l *kernels.Launch) {
	s := channelsOf(l.In[0])
	x, weight, bias := contiguousElements(l.In[0]), parameter(l, 1), parameter(l, 2)
	y, means, variances := Slice[float32](l.Out[0]), Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	eps, n := float32(l.Floats[0]), float32(s.count())
	s.each(func(channel int, w *channelWork) {
		first := x[channel*s.plane]
		sums, distances := w.ofBlocks[0], w.ofBlocks[1]
		for b := range sums {
			block := s.block(w.copies[0], x, channel, b)
			sums[b], distances[b] = vec.Sum(block), vec.SumSub(block, first)
		}
		mean, center := vec.Sum(sums)/n, first+vec.Sum(distances)/n
		squares := sums
		for b := range squares {
			squares[b] = vec.SumSquaresSub(s.block(w.copies[0], x, channel, b), center)
		}
		variance := vec.Sum(squares) / n
		means[channel], variances[channel] = mean, variance
		w.scalars = [4]float32{mean, inverseRoot(variance+eps) * weight[channel], bias[channel]}
		s.run(batchNorm, channel, w, y, x)
	})
}

// BatchNormGrad computes the gradients of [BatchNorm] for x, if l.Ints[0] is 1, weight and bias:
//
//	dbias   = sum(g)
//	dweight = sum(g * (x - mean)) * rstd, with rstd = 1 / sqrt(variance + eps)
//	dx      = (g - dbias/n - (x - mean) * (dweight*rstd/n)) * (rstd*weight)
//
// The operands are x, g, mean, variance and weight; l.Floats[0] is eps.
func BatchNormGrad(l *kernels.Launch) {
	s := channelsOf(l.In[0])
	x, g := contiguousElements(l.In[0]), contiguousElements(l.In[1])
	means, variances, weight := parameter(l, 2), parameter(l, 3), parameter(l, 4)
	dx, dweight, dbias := Slice[float32](l.Out[0]), Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	eps, share := float32(l.Floats[0]), float32(1/float64(s.count()))
	s.each(func(channel int, w *channelWork) {
		mean := means[channel]
		sums, products := w.ofBlocks[0], w.ofBlocks[1]
		for b := range sums {
			ofG, ofX := s.block(w.copies[0], g, channel, b), s.block(w.copies[1], x, channel, b)
			sums[b], products[b] = vec.NormGradSums(ofG, ofX, mean, 1)
		}
		rstd := inverseRoot(variances[channel] + eps)
		forBias, forWeight := vec.Sum(sums), vec.Sum(products)*rstd
		dbias[channel], dweight[channel] = forBias, forWeight
		if l.Ints[0] != 1 {
			return
		}
		w.scalars = [4]float32{mean, forBias * share, forWeight * rstd * share, rstd * weight[channel]}
		s.run(batchNormGrad, channel, w, dx, g, x)
	})
}
