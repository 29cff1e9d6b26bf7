package cpu

import (
	"math"
	"sync/atomic"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
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
	phases  []phase
	inPlace bool   // the operand is what is read
	within  bool   // so it is, of any windows, since nothing outside of it is read
	steps   [3]int // of these windows
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
	s.addPhases()
	return s
}

// spatial are the strides of what is read along the spatial axes.
func (s *sampled[T]) spatial() (strides [3]int) {
	if s.within {
		for d := range strides {
			strides[d] = s.strides[2+d] * s.steps[d]
		}
		return strides
	}
	if s.inPlace {
		return [3]int(s.strides[2:])
	}
	return rowMajor(s.length)
}

// A phase is the elements of one start of each axis that are on all axes: where they are in a channel of the operand,
// and where in what is read of it.
type phase struct {
	from, to int
	size     [3]int
	step     [3]int // in the operand
}

// addPhases lists the phases, in the order in which they follow each other.
func (s *sampled[T]) addPhases() {
	to := 0
	for _, d := range s.axes[0].starts {
		for _, h := range s.axes[1].starts {
			for _, w := range s.axes[2].starts {
				p, first := phase{}, [3]int{}
				for axis, start := range [3]int{d, h, w} {
					lo, hi := s.axes[axis].within(start)
					first[axis], p.size[axis] = lo, hi-lo
					p.step[axis] = s.axes[axis].step * s.strides[2+axis]
					p.from += start*s.strides[2+axis] + lo*p.step[axis]
				}
				p.to = to + offsetIn(first, rowMajor(s.length))
				to += kernels.Count(s.length[:])
				if kernels.Count(p.size[:]) > 0 {
					s.phases = append(s.phases, p)
				}
			}
		}
	}
}

// copyChannel copies a channel of an image to dst. What is outside of the operand it leaves alone: dst was cleared.
func (s *sampled[T]) copyChannel(dst []T, image, channel int) {
	src := s.src[image*s.strides[0]+channel*s.strides[1]:]
	for i := range s.phases {
		p := &s.phases[i]
		for j := range p.size[0] {
			matmul.CopyPlane(dst[p.to+j*s.length[1]*s.length[2]:], s.length[2], src[p.from+j*p.step[0]:], p.step[1],
				p.size[1], p.size[2], p.step[2])
		}
	}
}

// A part is the elements of the result that one product computes.
type part[T floating] struct {
	size    [3]int // how many, of each channel
	base    int    // offset of the first one
	step    [3]int // strides
	taps    []int  // the terms of a channel: offsets in what is read of it
	numbers []int  // which elements of the window these are
	order   []int  // and which of all terms of a channel, as the canonical order numbers them
	terms   int    // how many these are

	rows, columns, chunks []int // of all terms, see unfolding.terms
	copied                []T   // matrices of these columns of the weight, if they were copied
}

// newPart is the part of a reach along each axis, for windows of size k and a result with the given strides.
func newPart[T floating](k [3]int, r [3]reach, step [3]int) part[T] {
	p := part[T]{step: step, terms: 1}
	var taps, terms [3]int
	for d := range r {
		p.size[d], taps[d], terms[d] = r[d].count, len(r[d].taps), r[d].terms
		p.base += r[d].base
		p.terms *= terms[d]
	}
	eachOf(taps, func(at [3]int) {
		var tap, number [3]int
		offset := 0
		for d, i := range at {
			tap[d], number[d] = r[d].taps[i], r[d].numbers[i]
			offset += r[d].offsets[i]
		}
		p.taps = append(p.taps, offset)
		p.numbers = append(p.numbers, offsetIn(tap, rowMajor(k)))
		p.order = append(p.order, offsetIn(number, rowMajor(terms)))
	})
	return p
}

// An unfolding is a convolution of the weight with a sampled operand, as products in parts.
type unfolding[T floating] struct {
	sampled[T]
	images, groups       int
	m, channels          int // channels of a group: of the result, of the operand
	dst                  []T
	dstImage, dstChannel int // strides
	bias                 []T

	weight                                []T
	weightGroup, weightRow, weightChannel int // strides; rows are channels of the result

	byRows   bool        // rowByRow computes it
	pixels   bool        // each result is computed with its channels last
	split    bool        // terms that are known to be zero are left out
	negative atomic.Bool // and a sum was -0
}

// prepare takes the bias of an op call that has one, and decides how windows of so many taps are computed, on which it
// depends where they find what they see.
func (u *unfolding[T]) prepare(l *kernels.Launch, taps int) {
	if len(l.In) > 2 {
		u.bias = contiguousOf[T](l.In[2])
	}
	_, single := any(u).(*unfolding[float32])
	if single && u.m <= fewRows && taps*u.channels <= matmul.Chunk && u.channels > 0 {
		u.byRows, u.inPlace = true, false // rowByRow copies planes
	}
}

const (
	directColumns = 512  // columns of an image from which on its product goes directly into the result
	mergedColumns = 2048 // columns of several images that are computed together
)

// runParts computes the result in parts: those of the reaches along each axis, for windows of size k and a result with
// the given strides. Where much of the operand is padding, its terms are left out along some axes, if that is cheaper.
//
// That changes no bits if all weights are finite: a chain of fused multiply-adds, which begins at +0, stays as it is
// when the product of such a weight and 0 is added, unless it is -0, which tiny products can make it. That shows in a
// result only where all chains are zeros, as -0: then everything is computed anew with all terms.
func (u *unfolding[T]) runParts(k, step [3]int, reaches func(d int, split bool) []reach) {
	var all, split [3][]reach
	for d := range all {
		all[d], split[d] = reaches(d, false), reaches(d, true)
	}
	if single, ok := any(u.weight).([]float32); ok && u.m > fewRows {
		which, cost := cheapest(all, split, u.cost)
		if u.pixelsFit(all) {
			other, less := cheapest(all, split, u.pixelCost)
			if u.pixels = less < cost; u.pixels {
				which = other
			}
		}
		if which != [3]bool{} && finite(single) {
			u.split, u.within = true, true
			for d := range which {
				u.within = u.within && (which[d] || pairs(split[d]) == pairs(all[d]))
			}
			var parts [3][]reach
			for d := range parts {
				parts[d] = reaches(d, which[d])
			}
			before := u.inPlace
			u.inPlace = before || u.within
			u.run(partsOf[T](k, step, parts))
			if !u.negative.Load() {
				return
			}
			u.split, u.within, u.inPlace = false, false, before
		}
	}
	u.run(partsOf[T](k, step, all))
}

// partsOf are the parts of the reaches along each axis.
func partsOf[T floating](k, step [3]int, reaches [3][]reach) (parts []part[T]) {
	eachCombination(reaches, func(r [3]reach) { parts = append(parts, newPart[T](k, r, step)) })
	return parts
}

// pairs is how many elements of the window reach elements along an axis.
func pairs(reaches []reach) (n int) {
	for _, r := range reaches {
		n += r.count * len(r.taps)
	}
	return n
}

// worthSplitting is the share of the costs that split reaches may have, with one thread and with more. Tests raise it.
var worthSplitting = [2]float64{0.97, 0.94}

// cheapest tells along which axes to take split reaches, none unless that is cheaper than all, and what it costs.
func cheapest(all, split [3][]reach, cost func(r [3]reach) int) (which [3]bool, least int) {
	total := func(reaches [3][]reach) (sum int) {
		eachCombination(reaches, func(r [3]reach) { sum += cost(r) })
		return sum
	}
	whole := total(all)
	least = int(worthSplitting[min(par.Workers(), 2)-1] * float64(whole))
	for choice := 1; choice < 8; choice++ {
		reaches, splits, same := all, [3]bool{}, false
		for d := range reaches {
			if choice>>d&1 == 1 {
				reaches[d], splits[d] = split[d], true
				same = same || pairs(split[d]) == pairs(all[d])
			}
		}
		if same {
			continue
		}
		if c := total(reaches); c < least {
			least, which = c, splits
		}
	}
	if which == [3]bool{} {
		least = whole
	}
	return which, least
}

// productCost is about what a product of such matrices costs, in multiply-adds, if neighbours in memory are so many
// columns: those of the product, gathering A, copying B and storing the result.
func productCost(m, n, k, neighbours int) int {
	const vector, panel, gather, row = 16, 1024, 20, 400
	copies := min(vector, 2+40/neighbours)
	return m*k*((n+vector-1)/vector*vector+gather*((n+panel-1)/panel)) + copies*k*n + (vector+row/neighbours)*m*n
}

// cost is about what a part costs, for each group.
func (u *unfolding[T]) cost(r [3]reach) int {
	n, width := r[0].count*r[1].count*r[2].count, r[2].count
	if n == 1 {
		width = u.images
	}
	return productCost(u.m, u.images*n, len(r[0].taps)*len(r[1].taps)*len(r[2].taps)*u.channels, max(1, width))
}

// finite reports whether there is neither an infinity nor a NaN.
func finite(x []float32) bool { return vec.AbsMax(x) <= math.MaxFloat32 }

// run computes the parts.
func (u *unfolding[T]) run(parts []part[T]) {
	columns := 0
	for i := range parts {
		columns = max(columns, kernels.Count(parts[i].size[:]))
	}
	if u.images*u.groups*u.m*columns == 0 {
		return
	}
	if u.byRows {
		rowByRow(any(u).(*unfolding[float32]), any(parts).([]part[float32]))
		return
	}
	u.inPlace = u.inPlace && u.channels > 0
	if u.pixels {
		pixelByPixel(any(u).(*unfolding[float32]), any(parts).([]part[float32]))
		return
	}
	block := min(u.images, max(1, mergedColumns/columns))
	channels, plane := u.groups*u.channels, kernels.Count(u.plane)
	data, image, channel := u.src, u.strides[0], u.strides[1]
	if !u.inPlace { // one plane more, since columns may run past the last row
		memory, done := lend[T](append([]int{block*channels + 1}, u.plane...)...)
		defer done()
		clear(memory)
		data, image, channel = memory, channels*plane, plane
	}
	often := (u.images+block-1)/block*((block*columns+1023)/1024) > 2
	for i := range parts {
		p := &parts[i]
		if p.rows, p.columns, p.chunks = u.terms(p, channel); p.columns != nil && often {
			var done func()
			p.copied, done = lend[T](u.groups*u.m, len(p.rows))
			defer done()
			u.copyWeight(p)
		}
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
	a := matmul.MatrixOf[T]{Data: u.weight[g*u.weightGroup:], RowStride: u.weightRow, ColStride: 1}
	b := matmul.UnfoldedOf[T]{Data: data, Rows: p.rows, LeftColumns: p.columns, Chunks: p.chunks}
	switch {
	case p.copied != nil:
		k := len(p.rows)
		a, b.LeftColumns = matmul.MatrixOf[T]{Data: p.copied[g*u.m*k:], RowStride: k, ColStride: 1}, nil
	case len(p.taps) == 1 && min(u.weightRow, u.weightChannel) == 1:
		a.Data, a.ColStride, b.LeftColumns = a.Data[p.numbers[0]:], u.weightChannel, nil
	}
	dst, columns, spatial := u.dst[p.base+first*u.dstImage+g*u.m*u.dstChannel:], kernels.Count(p.size[:]), u.spatial()
	finish := u.finish(g)
	var to kernels.Dims
	to.PushAll(p.size[:], p.step[:])
	contiguous := to.Contiguous()
	run, wide := u.runs(p, contiguous)
	if !wide && run == 0 && columns >= directColumns && contiguous {
		b.Columns.PushAll(p.size[:], spatial[:])
		for i := range count {
			b.Data = data[i*image:]
			matmul.Unfold(u.m, a, b, dst[i*u.dstImage:], u.dstChannel, false, finish)
		}
		return
	}
	size := p.size
	if wide {
		size[2] = spatial[1]
	}
	b.Columns.Push(count, image)
	b.Columns.PushAll(size[:], spatial[:])
	b.Run = run
	if run > 0 && p.step[2] == 1 {
		b.Result.Push(count, u.dstImage)
		b.Result.PushAll(p.size[:], p.step[:])
		matmul.Unfold(u.m, a, b, dst, u.dstChannel, false, finish)
		return
	}
	columns = count * kernels.Count(size[:])
	b.Result.Push(columns, 1)
	memory, done := lend[T](u.m, columns)
	defer done()
	rows := newRowList(p, size[2], count, u.dstImage)
	matmul.Unfold(u.m, a, b, memory, columns, false, func(i, j int, row []T) {
		if finish != nil {
			finish(i, j, row)
		}
		scatter(dst[i*u.dstChannel:], &rows, j, row)
	})
}

// terms are the rows of the unfolded operand, whose channels are so far apart, the columns of the weight that they are
// multiplied by, and the ends of chunks.
func (u *unfolding[T]) terms(p *part[T], channel int) (rows, columns, chunks []int) {
	n := u.channels * len(p.taps)
	rows, columns = make([]int, 0, n), make([]int, 0, n)
	var ends chunkEnds
	for c := range u.channels {
		for i, t := range p.taps {
			if u.split {
				ends.before(c*p.terms+p.order[i], len(rows))
			}
			rows, columns = append(rows, c*channel+t), append(columns, c*u.weightChannel+p.numbers[i])
		}
	}
	if u.split && n > 0 {
		chunks = append(ends.of, n)
	}
	if n > 0 && columns[n-1] == n-1 { // all columns, in order
		columns = nil
	}
	return rows, columns, chunks
}

// chunkEnds are the ends of chunks in a list of terms of which some are left out.
type chunkEnds struct {
	of    []int
	chunk int // of the last term
}

// before ends a chunk if the next term, of which all are numbered, belongs to another one; the list has n so far.
func (e *chunkEnds) before(term, n int) {
	at := term / matmul.Chunk
	if at != e.chunk && n > 0 {
		e.of = append(e.of, n)
	}
	e.chunk = at
}

// copyWeight copies the columns of the weight that a part takes.
func (u *unfolding[T]) copyWeight(p *part[T]) {
	k := len(p.rows)
	par.For(u.groups*u.m, 1+rowGrain/max(1, k), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := u.weight[i/u.m*u.weightGroup+i%u.m*u.weightRow:], p.copied[i*k:(i+1)*k]
			for j, column := range p.columns {
				to[j] = from[column]
			}
		}
	})
}

// finish is what is done with finished rows of the result of a group; nil if nothing.
func (u *unfolding[T]) finish(g int) func(i, j int, row []T) {
	if u.bias == nil && !u.split {
		return nil
	}
	return func(i, _ int, row []T) {
		if single, ok := any(row).([]float32); ok && u.split && hasNegativeZero(single) {
			u.negative.Store(true)
		}
		if u.bias != nil {
			addNumber(row, row, u.bias[g*u.m+i])
		}
	}
}

// hasNegativeZero reports whether an element is -0.
func hasNegativeZero(x []float32) bool {
	const negativeZero = 1 << 31
	if vec.AbsMin(x) > 0 {
		return false
	}
	for _, v := range x {
		if math.Float32bits(v) == negativeZero {
			return true
		}
	}
	return false
}

// packCost and putCost are about what it costs, in multiply-adds, to pack an element of what is read, and to take one
// of the result to its place, and a call for a strip, for each term. Two pieces make a vector at the cost of a row of
// splitRows.
const packCost, putCost, callCost, splitRows = 12, 40, 8, 12

// runs tells how a product reads its columns: packed; in runs that are read in place, each by vectors of its own, the
// last of which may have lanes too many: rows of the result, or all of an image, of which vectors take pieces of two
// rows; or wide, in place as well: with columns that are whole rows of what is read, the elements between those of the
// result, too.
func (u *unfolding[T]) runs(p *part[T], contiguous bool) (run int, wide bool) {
	lanes, spatial, terms := matmul.Lanes[T](), u.spatial(), u.channels*len(p.taps)
	if lanes == 0 || terms == 0 || spatial[2] != 1 && p.size[2] > 1 || len(p.taps) == 1 {
		return 0, false // or columns have nothing in common
	}
	width, pitch := p.size[2], spatial[1]
	run = width
	if contiguous && pitch == width {
		run *= p.size[1]
	}
	put := u.m * putCost * width
	least := packCost * terms * width
	if !contiguous {
		least += put
	}
	calls := func(columns int) int { return callCost * columns / (2 * lanes) }
	inRuns := terms * (u.m*((run+lanes-1)/lanes*lanes-run) + calls(min(run, 2*lanes))) * width / run
	inRows := u.m*terms*(pitch-width) + put
	if p.step[2] != 1 {
		inRuns += put
	}
	if plane := kernels.Count(p.size[:]); contiguous && run < plane && matmul.Splits[T](plane, run) {
		empty, split := (plane+lanes-1)/lanes*lanes-plane, (plane*min(run, 2*lanes)/run+splitRows-1)/splitRows
		if cost := terms * (u.m*(empty+split) + calls(plane)) * width / plane; cost < inRuns {
			run, inRuns = plane, cost
		}
	}
	if !u.inPlace && !u.split && pitch > width && inRows < min(least, inRuns) {
		return 0, matmul.InPlace[T](u.m)
	}
	if inRuns < least {
		return run, false
	}
	return 0, false
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
	for at := to.starts.Cursor(j / to.pitch); len(columns) > 0; x = 0 {
		rows, apart := 1, 0
		if last := to.starts.Rank - 1; last >= 0 && x == 0 && len(columns) >= to.pitch {
			rows, apart = min(at.Run(), len(columns)/to.pitch), to.starts.Strides[last]
		}
		n := min(len(columns), to.pitch-x)
		matmul.PutPlane(dst[at.Offset+x*to.stride:], apart, columns, to.pitch, rows, min(n, to.width-x), to.stride)
		columns = columns[min(len(columns), rows*n):]
		at.Skip(rows)
	}
}

// addNumber sets dst to x plus a number.
func addNumber[T floating](dst, x []T, number T) {
	if single, ok := any(x).([]float32); ok {
		vec.Shift(any(dst).([]float32), single, float32(number))
		return
	}
	for i, v := range x {
		dst[i] = v + number
	}
}
