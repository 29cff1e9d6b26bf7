package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Depthwise convolutions, whose products have one row for each group: what is many in them are the positions, or the
// groups, and these are the elements of vectors.

// fewRows is how many channels of the result a group has at most for its products to be computed term by term.
const fewRows = 2

// blockColumns is about how many elements a term is added to at a time.
const blockColumns = 512

var vecFMA = vec.Instr("fma")

// termByTerm computes parts whose products have few rows and one chunk of terms. Blocks of rows of the plane, with what
// is between these, are added up term by term.
func termByTerm(u *unfolding[float32], parts []part[float32]) {
	plane, work := kernels.Count(u.plane), 0
	for i := range parts {
		work += kernels.Count(parts[i].size[:]) * len(parts[i].taps) * u.channels
	}
	par.For(u.images*u.groups, 1+rowGrain/max(1, work/4), func(lo, hi int) {
		var data []float32
		channel := u.strides[1]
		if !u.inPlace {
			memory, done := lend[float32](append([]int{u.channels}, u.plane...)...)
			defer done()
			clear(memory)
			data, channel = memory, plane
		}
		rows := make([]termRow, len(parts)*u.m)
		for i := range rows {
			defer rows[i].prepare(u, &parts[i/u.m])()
		}
		for i, last := lo, -1; i < hi; i++ { // the images of a group follow each other
			image, g := i%u.images, i/u.images
			if u.inPlace && u.channels > 0 {
				data = u.src[image*u.strides[0]+g*u.channels*channel:]
			}
			for c := 0; c < u.channels && !u.inPlace; c++ {
				u.copyChannel(data[c*plane:(c+1)*plane], image, g*u.channels+c)
			}
			for k := range rows {
				row := g*u.m + k%u.m
				if g != last {
					rows[k].setRow(row)
				}
				rows[k].run(data, channel, u.dst[image*u.dstImage+row*u.dstChannel:])
			}
			last = g
		}
	})
}

// A termRow computes one channel of the result of an image.
type termRow struct {
	part[float32]
	spatial [3]int    // strides of what is read
	rows, n int       // of a block, and its elements with what is between the rows
	sum     []float32 // n
	weights []float32 // of each term n times
	biases  []float32
	bias    float32
}

// prepare sets r up for a part and returns the function that gives its memory back.
func (r *termRow) prepare(u *unfolding[float32], p *part[float32]) (done func()) {
	r.part, r.spatial, r.rows, r.biases = *p, u.spatial(), 1, u.bias
	if r.spatial[1] >= p.size[2] {
		r.rows = max(1, min(p.size[1], (blockColumns-p.size[2])/r.spatial[1]+1))
	}
	r.n = (r.rows-1)*r.spatial[1] + p.size[2]
	r.sum, done = lend[float32](len(p.taps)*u.channels+1, r.n)
	r.sum, r.weights = r.sum[:r.n], r.sum[r.n:]
	return done
}

// setRow takes the weights of a channel of the result.
func (r *termRow) setRow(row int) {
	terms := len(r.weights) / max(1, r.n)
	for i, w := range r.weight[row*terms : (row+1)*terms] {
		vec.Fill(r.weights[i*r.n:(i+1)*r.n], w)
	}
	if r.biases != nil {
		r.bias = r.biases[row]
	}
}

// run computes the channel at dst from channels that are so far apart in data.
func (r *termRow) run(data []float32, channel int, dst []float32) {
	width := r.size[2]
	for first := 0; first < r.size[0]*r.size[1]; {
		d, h := first/r.size[1], first%r.size[1]
		count := min(r.rows, r.size[1]-h)
		sum := r.sum[:(count-1)*r.spatial[1]+width]
		clear(sum)
		at := d*r.spatial[0] + h*r.spatial[1]
		for i := 0; i*r.n < len(r.weights); i++ {
			from := at + i/len(r.taps)*channel + r.taps[i%len(r.taps)]
			vecFMA(sum, r.weights[i*r.n:][:len(sum)], data[from:from+len(sum)], sum)
		}
		for i := range count {
			out, x := dst[r.base+d*r.step[0]+(h+i)*r.step[1]:], sum[i*r.spatial[1]:i*r.spatial[1]+width]
			if r.biases != nil {
				addNumber(x, x, r.bias)
			}
			if r.step[2] == 1 {
				copy(out, x)
				continue
			}
			for w, v := range x {
				out[w*r.step[2]] = v
			}
		}
		first += count
	}
}

// blockChannels is how many channels are the elements of a vector in depthwiseWeight.
const blockChannels = 64

// depthwiseWeight computes the gradient of a weight that has one channel for each group.
func depthwiseWeight(x *channelsLast[float32], w, y []float32) {
	wantRoom(x.length[:])
	par.For((x.groups+blockChannels-1)/blockChannels, 1, func(lo, hi int) {
		for first := lo * blockChannels; first < min(hi*blockChannels, x.groups); first += blockChannels {
			depthwiseBlock(x, w, y, first, min(blockChannels, x.groups-first))
		}
	})
}

// depthwiseBlock computes some channels: chunk by chunk of the positions of all images, the chains of all elements of
// the window. Those along the last axis are neighbours in memory, unless the window is dilated.
func depthwiseBlock(x *channelsLast[float32], w, y []float32, first, channels int) {
	positions, taps, run := kernels.Count(x.y[:]), kernels.Count(x.k[:]), 1
	if x.dilation[2] == 1 {
		run = x.k[2]
	}
	image, done := lend[float32](append([]int{channels}, x.length[:]...)...)
	defer done()
	grads, done := lend[float32](positions, run, channels) // run times each
	defer done()
	sums, done := lend[float32](2, taps, channels)
	defer done()
	chain, sum := sums[:taps*channels], sums[taps*channels:]
	clear(chain)
	strides, n := rowMajor(x.length), run*channels
	var offsets []int
	eachOf([3]int{x.k[0], x.k[1], x.k[2] / run}, func(t [3]int) {
		for d := range t {
			t[d] *= x.dilation[d]
		}
		offsets = append(offsets, offsetIn(t, strides)*channels)
	})
	for term := range x.images * positions {
		i, p := term/positions, term%positions
		if p == 0 {
			x.copyImage(image, i, first, channels)
			from := matmul.Matrix{Data: y[(i*x.groups+first)*positions:], RowStride: positions, ColStride: 1}
			matmul.Transpose(grads, n, from, channels, positions)
			for at := 0; at < len(grads); at += n {
				for r := channels; r < n; r += channels {
					copy(grads[at+r:at+r+channels], grads[at:])
				}
			}
		}
		at := [3]int{p / (x.y[1] * x.y[2]) * x.stride[0], p / x.y[2] % x.y[1] * x.stride[1], p % x.y[2] * x.stride[2]}
		seen := image[offsetIn(at, strides)*channels:]
		for k, offset := range offsets {
			part := chain[k*n : (k+1)*n]
			vecFMA(part, grads[p*n:(p+1)*n], seen[offset:offset+n], part)
		}
		if last := term+1 == x.images*positions; last || (term+1)%matmul.Chunk == 0 {
			if term < matmul.Chunk {
				copy(sum, chain)
			} else {
				vecAdd(sum, sum, chain, nil)
			}
			clear(chain)
		}
	}
	if x.images*positions == 0 {
		clear(sum)
	}
	for c := range channels {
		for t := range taps {
			w[(first+c)*taps+t] = sum[t*channels+c]
		}
	}
}
