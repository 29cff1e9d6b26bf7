package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// floating is what convolutions compute with.
type floating interface{ float32 | float64 }

// lend is memory for elements of the given shape, with any content, and the function that gives it back.
func lend[T floating](shape ...int) (memory []T, done func()) {
	var t T
	wantRoom(shape)
	b := borrow(kernels.Count(shape) * (sizeOf(t) / 4))
	return view[T](*b), func() { giveBack(b) }
}

// wantRoom fails for a shape that no memory holds.
func wantRoom(shape []int) {
	if !kernels.Fits(shape) {
		panic(kernels.Errorf(kernels.ErrMemory, "conv", "no memory holds a padded copy of %v elements", shape))
	}
}

// A sampling is some elements of an axis of n elements: for each start, start + q*step for 0 <= q < length. Those
// outside of the axis are zero.
type sampling struct {
	n, step, length int
	starts          []int
}

// find returns the start, by its number, and the q of an element, -1 if there are none.
func (s *sampling) find(element int) (start, q int) {
	for i, first := range s.starts {
		if d := element - first; d >= 0 && d%s.step == 0 {
			return i, d / s.step
		}
	}
	return -1, -1
}

// within are the q, from lo to below hi, of the elements of a start that are on the axis.
func (s *sampling) within(start int) (lo, hi int) {
	if start < 0 {
		lo = min(s.length, (-start+s.step-1)/s.step)
	}
	return lo, max(lo, min(s.length, (s.n-start+s.step-1)/s.step))
}

// sampled is what a convolution reads of an operand: of each channel of an image the samplings of its three axes, start
// by start, each in row-major order.
type sampled[T floating] struct {
	src     []T
	strides [5]int
	axes    [3]sampling
	length  [3]int
	plane   []int // the shape of a channel: starts and length of each axis
	inPlace bool  // the operand is what is read
}

func newSampled[T floating](src []T, strides [5]int, axes [3]sampling) sampled[T] {
	s := sampled[T]{src: src, strides: strides, axes: axes, inPlace: true}
	for d, a := range axes {
		s.length[d] = a.length
		s.plane = append(s.plane, len(a.starts), a.length)
		s.inPlace = s.inPlace && len(a.starts) == 1 && a.starts[0] == 0 && a.length <= a.n &&
			(a.step == 1 || a.length == 1)
	}
	s.inPlace = s.inPlace && (strides[4] == 1 || s.length[2] == 1)
	return s
}

// spatial are the strides of what is read along the spatial axes.
func (s *sampled[T]) spatial() [3]int {
	if s.inPlace {
		return [3]int(s.strides[2:])
	}
	return rowMajor(s.length)
}

// copyChannel copies a channel of an image to dst. What is outside of the operand it leaves alone: dst was cleared.
func (s *sampled[T]) copyChannel(dst []T, image, channel int) {
	src := s.src[image*s.strides[0]+channel*s.strides[1]:]
	for _, d := range s.axes[0].starts {
		for _, h := range s.axes[1].starts {
			for _, w := range s.axes[2].starts {
				s.copyPhase(dst, src, [3]int{d, h, w})
				dst = dst[kernels.Count(s.length[:]):]
			}
		}
	}
}

// copyPhase copies the elements of one start of each axis.
func (s *sampled[T]) copyPhase(dst, src []T, start [3]int) {
	var lo, hi, first, step [3]int
	for d := range start {
		lo[d], hi[d] = s.axes[d].within(start[d])
		step[d] = s.axes[d].step * s.strides[2+d]
		first[d] = start[d]*s.strides[2+d] + lo[d]*step[d]
	}
	if lo[2] == hi[2] {
		return
	}
	for i := lo[0]; i < hi[0]; i++ {
		for j := lo[1]; j < hi[1]; j++ {
			row := dst[(i*s.length[1]+j)*s.length[2]:][lo[2]:hi[2]]
			from := src[first[0]+(i-lo[0])*step[0]+first[1]+(j-lo[1])*step[1]+first[2]:]
			if step[2] == 1 {
				copy(row, from)
				continue
			}
			for q := range row {
				row[q] = from[q*step[2]]
			}
		}
	}
}

// A part is the elements of the result that one product computes.
type part[T floating] struct {
	size   [3]int // how many, of each channel
	base   int    // offset of the first one
	step   [3]int // strides
	taps   []int  // the terms of a channel: offsets in what is read of it
	weight []T    // matrices [m, (channel, tap)] of the groups
}

// An unfolding is a convolution of the weight with a sampled operand, as products in parts.
type unfolding[T floating] struct {
	sampled[T]
	images, groups       int
	m, channels          int // channels of a group: of the result, of the operand
	dst                  []T
	dstImage, dstChannel int // strides
	bias                 []T
}

// addBias takes the bias of an op call that has one.
func (u *unfolding[T]) addBias(l *kernels.Launch) {
	if len(l.In) > 2 {
		u.bias = contiguousOf[T](l.In[2])
	}
}

const (
	directColumns = 512  // columns of an image from which on its product goes directly into the result
	mergedColumns = 2048 // columns of several images that are computed together
)

// run computes the parts.
func (u *unfolding[T]) run(parts []part[T]) {
	columns, terms := 0, 0
	for i := range parts {
		columns, terms = max(columns, kernels.Count(parts[i].size[:])), max(terms, len(parts[i].taps)*u.channels)
	}
	if u.images*u.groups*u.m*columns == 0 {
		return
	}
	if single, ok := any(u).(*unfolding[float32]); ok && u.m <= fewRows && terms <= matmul.Chunk {
		termByTerm(single, any(parts).([]part[float32]))
		return
	}
	u.inPlace = u.inPlace && u.channels > 0
	block := min(u.images, max(1, mergedColumns/columns))
	channels, plane := u.groups*u.channels, kernels.Count(u.plane)
	data, image, channel := u.src, u.strides[0], u.strides[1]
	if !u.inPlace { // one plane more, since columns may run past the last row
		memory, done := lend[T](append([]int{block*channels + 1}, u.plane...)...)
		defer done()
		clear(memory)
		data, image, channel = memory, channels*plane, plane
	}
	for first := 0; first < u.images; first += block {
		count := min(block, u.images-first)
		if u.inPlace {
			data = u.src[first*image:]
		} else {
			par.For(count*channels, 1+rowGrain/plane, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					u.copyChannel(data[i*plane:(i+1)*plane], first+i/channels, i%channels)
				}
			})
		}
		for g := range u.groups {
			for i := range parts {
				u.product(&parts[i], g, first, count, data[g*u.channels*channel:], image, channel)
			}
		}
	}
}

// product computes a part for a group of channels and for count images from the given one on. data is what is read of
// these; image and channel are its strides.
func (u *unfolding[T]) product(p *part[T], g, first, count int, data []T, image, channel int) {
	k := u.channels * len(p.taps)
	a := matmul.MatrixOf[T]{Data: p.weight[g*u.m*k:], RowStride: k, ColStride: 1}
	b := matmul.UnfoldedOf[T]{Data: data, Rows: make([]int, 0, k)}
	for c := range u.channels {
		for _, t := range p.taps {
			b.Rows = append(b.Rows, c*channel+t)
		}
	}
	dst, columns, spatial := u.dst[p.base+first*u.dstImage+g*u.m*u.dstChannel:], kernels.Count(p.size[:]), u.spatial()
	var bias []T
	if u.bias != nil {
		bias = u.bias[g*u.m:]
	}
	size, wide := p.size, u.wide(p)
	var to kernels.Dims
	if to.PushAll(p.size[:], p.step[:]); !wide && columns >= directColumns && to.Contiguous() {
		b.Columns.PushAll(p.size[:], spatial[:])
		var epilogue func(i, j int, row []T)
		if bias != nil {
			epilogue = func(i, _ int, row []T) { addNumber(row, row, bias[i]) }
		}
		for i := range count {
			b.Data = data[i*image:]
			matmul.Unfold(u.m, a, b, dst[i*u.dstImage:], u.dstChannel, false, epilogue)
		}
		return
	}
	if wide {
		size[2] = spatial[1]
	}
	b.Columns.Push(count, image)
	b.Columns.PushAll(size[:], spatial[:])
	columns = count * kernels.Count(size[:])
	memory, done := lend[T](u.m, columns)
	defer done()
	rows := newRowList(p, size[2], count, u.dstImage)
	matmul.Unfold(u.m, a, b, memory, columns, false, func(i, j int, row []T) {
		if bias != nil {
			addNumber(row, row, bias[i])
		}
		scatter(dst[i*u.dstChannel:], &rows, j, row)
	})
}

// packCost and scatterCost are about the costs, in multiply-adds, of packing an element of what is read and of copying
// one of the result.
const packCost, scatterCost = 12, 8

// wide reports whether a product is faster with columns that are whole rows of what is read, the elements between those
// of the result too: these are neighbours in memory, and need not be packed.
func (u *unfolding[T]) wide(p *part[T]) bool {
	pitch, width, terms := u.spatial()[1], p.size[2], u.channels*len(p.taps)
	return matmul.InPlace[T](u.m) && !u.inPlace && pitch > width &&
		packCost*terms*width > u.m*(terms*(pitch-width)+scatterCost*width)
}

// A rowList is rows of the result: of each pitch columns of a product the first width belong to the next row.
type rowList struct {
	starts               kernels.Dims
	width, pitch, stride int
}

// newRowList lists the rows of a part in some images. Those that follow each other in memory are one.
func newRowList[T floating](p *part[T], pitch, images, image int) rowList {
	var all kernels.Dims
	all.Push(images, image)
	r := rowList{width: p.size[2], pitch: pitch, stride: p.step[2]}
	if all.PushAll(p.size[:], p.step[:]); pitch == r.width && all.Rank > 0 {
		last := all.Rank - 1
		r.width, r.pitch, r.stride = all.Shape[last], all.Shape[last], all.Strides[last]
		all.Rank--
		r.starts = all
		return r
	}
	r.starts.Push(images, image)
	r.starts.PushAll(p.size[:2], p.step[:2])
	return r
}

// scatter writes columns j, j+1, ... of a product.
func scatter[T floating](dst []T, to *rowList, j int, columns []T) {
	x := j % to.pitch
	for at := to.starts.Cursor(j / to.pitch); len(columns) > 0; at.Next() {
		n := min(len(columns), to.pitch-x)
		row := columns[:min(n, max(0, to.width-x))]
		if from := at.Offset + x*to.stride; to.stride == 1 {
			copy(dst[from:], row)
		} else {
			for i, v := range row {
				dst[from+i*to.stride] = v
			}
		}
		columns, x = columns[n:], 0
	}
}

// addNumber sets dst to x plus a number.
func addNumber[T floating](dst, x []T, number T) {
	for i, v := range x {
		dst[i] = v + number
	}
}

// channelsLast is the input of the product that is the gradient of the weight: of each image the elements that windows
// see, [d h w c].
type channelsLast[T floating] struct {
	*convolution
	src    []T
	axes   [3]sampling
	length [3]int
}

func newChannelsLast[T floating](c *convolution, src []T) *channelsLast[T] {
	x := &channelsLast[T]{convolution: c, src: src}
	for d := range x.axes {
		x.length[d] = (c.y[d]-1)*c.stride[d] + (c.k[d]-1)*c.dilation[d] + 1
		x.axes[d] = sampling{n: c.x[d], step: 1, length: x.length[d]}
	}
	return x
}

// copyImage copies channels from first on, as many as dst holds for each position, to dst.
func (x *channelsLast[T]) copyImage(dst []T, image, first, channels int) {
	lo, hi := x.axes[2].within(-x.before[2])
	for row := range x.length[0] * x.length[1] {
		to := dst[:x.length[2]*channels]
		dst = dst[len(to):]
		at := [3]int{row/x.length[1] - x.before[0], row%x.length[1] - x.before[1], lo - x.before[2]}
		if lo == hi || at[0] < 0 || at[0] >= x.x[0] || at[1] < 0 || at[1] >= x.x[1] {
			clear(to)
			continue
		}
		clear(to[:lo*channels])
		clear(to[hi*channels:])
		src := x.src[image*x.xStrides[0]+first*x.xStrides[1]+offsetIn(at, [3]int(x.xStrides[2:])):]
		matmul.Transpose(to[lo*channels:], channels,
			matmul.MatrixOf[T]{Data: src, RowStride: x.xStrides[1], ColStride: x.xStrides[4]}, channels, hi-lo)
	}
}

const (
	copyLimit = 1 << 21 // elements that are copied at a time, or of one image
	leastCopy = 2 * matmul.Chunk
)

// addTerms adds the terms from the given one on to product [out, (t, c)] of group g, those of some images, and returns
// the first that is left.
func (x *channelsLast[T]) addTerms(product, y []T, g, from int) int {
	positions, pixels := kernels.Count(x.y[:]), kernels.Count(x.length[:])
	wantRoom(x.length[:])
	first := from / positions
	count := max(copyLimit/(pixels*x.in), leastCopy/positions+2)
	last := min(first+count, x.images)
	to := last * positions
	if last < x.images {
		to -= to % matmul.Chunk
	}
	data, done := lend[T](append([]int{last - first, x.in}, x.length[:]...)...)
	defer done()
	par.For(last-first, 1+rowGrain/(pixels*x.in), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x.copyImage(data[i*pixels*x.in:], first+i, g*x.in, x.in)
		}
	})
	grads, done := lend[T](x.out, to-from)
	defer done()
	for o := range x.out {
		row := grads[o*(to-from) : (o+1)*(to-from)]
		for k := from; k < to; {
			n := min(to-k, positions-k%positions)
			copy(row[k-from:k-from+n], y[((k/positions*x.groups+g)*x.out+o)*positions+k%positions:])
			k += n
		}
	}
	strides := rowMajor(x.length)
	b := matmul.UnfoldedOf[T]{Data: data, Rows: make([]int, 0, to-from)}
	for k := from; k < to; k++ {
		p := k % positions
		at := [3]int{p / (x.y[1] * x.y[2]) * x.stride[0], p / x.y[2] % x.y[1] * x.stride[1], p % x.y[2] * x.stride[2]}
		b.Rows = append(b.Rows, ((k/positions-first)*pixels+offsetIn(at, strides))*x.in)
	}
	for d, size := range x.k {
		b.Columns.Push(size, x.dilation[d]*strides[d]*x.in)
	}
	b.Columns.Push(x.in, 1)
	a := matmul.MatrixOf[T]{Data: grads, RowStride: to - from, ColStride: 1}
	matmul.Unfold(x.out, a, b, product, b.Columns.Len(), from > 0, nil)
	return to
}
