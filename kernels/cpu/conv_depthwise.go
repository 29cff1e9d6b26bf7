package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Depthwise convolutions, whose products have one row for each group: what is many in them are the positions, or the
// groups, and these are the elements of vectors.

// fewRows is how many channels of the result a group has at most for its products to be computed row by row.
const fewRows = 2

// blockColumns is about how many elements of a row are computed at a time.
const blockColumns = 2048

// rowByRow computes parts whose products have few rows and one chunk of terms. Their columns are blocks of rows of the
// plane, with what is between these.
func rowByRow(u *unfolding[float32], parts []part[float32]) {
	plane, work := kernels.Count(u.plane), 0
	for i := range parts {
		work += kernels.Count(parts[i].size[:]) * len(parts[i].taps) * u.channels
	}
	if len(parts) == 1 && slideOver(u, &parts[0], 1+rowGrain/max(1, work/4)) {
		return
	}
	wantRoom(append([]int{u.channels}, u.plane...))
	par.For(u.images*u.groups, 1+rowGrain/max(1, work/4), func(lo, hi int) {
		data, done := lend[float32](u.channels*plane + matmul.Room)
		defer done()
		clear(data)
		rows := make([]planeRow, len(parts)*u.m)
		for i := range rows {
			defer rows[i].prepare(u, &parts[i/u.m])()
		}
		for i := lo; i < hi; i++ { // in the order of memory
			image, g := i/u.groups, i%u.groups
			for c := range u.channels {
				u.copyChannel(data[c*plane:(c+1)*plane], image, g*u.channels+c)
			}
			for k := range rows {
				rows[k].run(data, g, k%u.m, u.dst[image*u.dstImage+(g*u.m+k%u.m)*u.dstChannel:])
			}
		}
	})
}

// slideOver computes a part from the operand itself, plane by plane, with masks for its padding. It reports whether it
// did: windows must be neighbours that see neighbours.
func slideOver(u *unfolding[float32], p *part[float32], grain int) bool {
	for d, a := range u.axes {
		if len(a.starts) != 1 || a.step != 1 || d == 0 && (a.starts[0] != 0 || a.length != 1) {
			return false
		}
	}
	h, w := &u.axes[1], &u.axes[2]
	if u.strides[4] != 1 || p.step[2] != 1 || h.n*w.n == 0 {
		return false
	}
	var taps []matmul.Tap
	for c := range u.channels {
		for _, t := range p.taps {
			taps = append(taps, matmul.Tap{Offset: c * u.strides[1], H: h.starts[0] + t/u.length[2],
				W: w.starts[0] + t%u.length[2]})
		}
	}
	windows := matmul.NewWindows([2]int(p.size[1:]), p.step[1], [2]int{h.n, w.n}, u.strides[3],
		u.channels*u.strides[1], taps)
	if windows == nil {
		return false
	}
	_, columns, _ := u.terms(p, 0)
	rows, width := p.size[1], p.size[2] // of the result, as far as they follow each other
	if p.step[1] == width {
		rows, width = 1, rows*width
	}
	par.For(u.images*u.groups, grain, func(lo, hi int) {
		copied := make([]float32, len(columns))
		for i := lo; i < hi; i++ { // in the order of memory
			image, g := i/u.groups, i%u.groups
			src, finish := u.src[image*u.strides[0]+g*u.channels*u.strides[1]:], u.finish(g)
			for row := range u.m {
				weights := u.weight[g*u.weightGroup+row*u.weightRow:]
				for i, column := range columns {
					copied[i] = weights[column]
				}
				if columns != nil {
					weights = copied
				}
				dst := u.dst[p.base+image*u.dstImage+(g*u.m+row)*u.dstChannel:]
				windows.Slide(dst, src, weights)
				for r := 0; finish != nil && r < rows; r++ {
					finish(row, 0, dst[r*p.step[1]:][:width])
				}
			}
		}
	})
	return true
}

// A planeRow computes one channel of the result of an image.
type planeRow struct {
	*unfolding[float32]
	part[float32]
	spatial [3]int    // strides of what is read
	at      []int     // where each term is in what is read
	columns []int     // and in its row of the weight, if not behind the one before
	weights []float32 // of a row
	rows    int       // of a block
	sum     []float32 // a block, with what is between its rows
}

// prepare sets r up for a part and returns the function that gives its memory back.
func (r *planeRow) prepare(u *unfolding[float32], p *part[float32]) (done func()) {
	r.unfolding, r.part, r.spatial, r.rows = u, *p, u.spatial(), 1
	if r.spatial[1] >= p.size[2] {
		r.rows = max(1, min(p.size[1], (blockColumns-p.size[2])/r.spatial[1]+1))
	}
	r.at, r.columns, _ = u.terms(p, kernels.Count(u.plane))
	r.weights = make([]float32, len(r.at))
	r.sum, done = lend[float32]((r.rows-1)*r.spatial[1] + p.size[2])
	return done
}

// run computes a channel of the result of a group, which is at dst.
func (r *planeRow) run(data []float32, g, row int, dst []float32) {
	weights := r.weight[g*r.weightGroup+row*r.weightRow:]
	for i, column := range r.columns {
		r.weights[i] = weights[column]
	}
	if r.columns != nil {
		weights = r.weights
	}
	width, finish := r.size[2], r.finish(g)
	for first := 0; first < r.size[0]*r.size[1]; {
		d, h := first/r.size[1], first%r.size[1]
		count := min(r.rows, r.size[1]-h)
		sum := r.sum[:(count-1)*r.spatial[1]+width]
		matmul.Chains(sum, weights[:len(r.at)], data[d*r.spatial[0]+h*r.spatial[1]:], r.at)
		if finish != nil {
			finish(row, 0, sum)
		}
		out := dst[r.base+d*r.step[0]+h*r.step[1]:]
		matmul.PutPlane(out, r.step[1], sum, r.spatial[1], count, width, r.step[2])
		first += count
	}
}

// blockChannels is how many channels are the elements of vectors in depthwiseWeight.
const blockChannels = 2 * matmul.Unit

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
// the window, of which those along the last axis are the taps of one pass.
func depthwiseBlock(x *channelsLast[float32], w, y []float32, first, channels int) {
	pitch := (channels + matmul.Unit - 1) / matmul.Unit * matmul.Unit
	positions, taps := len(x.at), kernels.Count(x.k[:])
	image, done := lend[float32](append([]int{pitch}, x.length[:]...)...)
	defer done()
	grads, done := lend[float32](positions, pitch)
	defer done()
	sums, done := lend[float32](2, taps, pitch)
	defer done()
	chain, sum := sums[:taps*pitch], sums[taps*pitch:]
	clear(sums)
	clear(image)
	clear(grads)
	rows := make([]int, positions)
	for p, at := range x.at {
		rows[p] = at * pitch
	}
	strides := rowMajor(x.length)
	terms, last := 0, x.images*positions
	for i := range x.images {
		x.copyImage(image, pitch, i, first, channels)
		from := matmul.Matrix{Data: y[(i*x.groups+first)*positions:], RowStride: positions, ColStride: 1}
		matmul.Transpose(grads, pitch, from, channels, positions)
		for p := 0; p < positions; {
			n := min(positions-p, matmul.Chunk-terms%matmul.Chunk)
			at := 0
			eachOf([3]int{x.k[0], x.k[1], 1}, func(t [3]int) {
				offset := (t[0]*x.dilation[0]*strides[0] + t[1]*x.dilation[1]*strides[1]) * pitch
				matmul.Correlate(chain[at:], grads[p*pitch:], image[offset:], rows[p:p+n], x.k[2],
					x.dilation[2]*pitch, pitch)
				at += x.k[2] * pitch
			})
			p += n
			if terms += n; terms == last || terms%matmul.Chunk == 0 {
				if terms <= matmul.Chunk {
					copy(sum, chain)
				} else {
					vecAdd(sum, sum, chain, nil)
				}
				clear(chain)
			}
		}
	}
	for c := range channels {
		for t := range taps {
			w[(first+c)*taps+t] = sum[t*pitch+c]
		}
	}
}
