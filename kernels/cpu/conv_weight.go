package cpu

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// channelsLast is the input of the product that is the gradient of the weight: of each image the elements that windows
// see, [d h w c].
type channelsLast[T floating] struct {
	*convolution
	src    []T
	axes   [3]sampling
	length [3]int
	at     []int // where, in channels, the window of each element of y begins
	parts  []weightPart
	split  bool // terms that are known to be zero are left out
	pixels int  // elements of a row of the product, if these are its columns; see [channelsLast.addPixels]

	rows, columns []int // memory of multiply
}

// A weightPart is elements of the window, neighbours along each axis, that see the same elements of y within x.
type weightPart struct {
	first, size [3]int
	column      int   // of the first one, among the elements of all parts
	positions   []int // of the elements of y
}

// setParts lists the parts, of which there is one unless terms that are known to be zero are left out. It does not, and
// says so, if that is not cheaper.
func (x *channelsLast[T]) setParts(split bool) bool {
	x.parts, x.split = nil, split
	var all, some [3][]reach
	for d := range all {
		see := func(t, o int) (seen, within bool) {
			i := o*x.stride[d] - x.before[d] + t*x.dilation[d]
			return true, i >= 0 && i < x.x[d]
		}
		nowhere := func(_, _ int) int { return 0 }
		all[d], some[d] = reachesOf(x.k[d], x.y[d], false, see, nowhere), reachesOf(x.k[d], x.y[d], true, see, nowhere)
	}
	if split {
		which, _ := cheapest(all, some, func(r [3]reach) int {
			positions := len(r[0].taps) * len(r[1].taps) * len(r[2].taps)
			return productCost(x.out, r[0].count*r[1].count*r[2].count*x.in, x.images*positions, x.in)
		})
		for d := range which {
			if which[d] {
				all[d] = some[d]
			}
		}
		if which == [3]bool{} {
			return false
		}
	}
	column := 0
	eachCombination(all, func(r [3]reach) {
		p := weightPart{column: column}
		var count [3]int
		for d := range r {
			p.first[d], p.size[d], count[d] = r[d].first, r[d].count, len(r[d].taps)
		}
		eachOf(count, func(at [3]int) {
			p.positions = append(p.positions,
				offsetIn([3]int{r[0].taps[at[0]], r[1].taps[at[1]], r[2].taps[at[2]]}, rowMajor(x.y)))
		})
		column += kernels.Count(p.size[:])
		x.parts = append(x.parts, p)
	})
	return true
}

func newChannelsLast[T floating](c *convolution, src []T) *channelsLast[T] {
	x := &channelsLast[T]{convolution: c, src: src}
	if x.pixelsPay() {
		lanes := matmul.PixelLanes()
		x.pixels = (c.out + lanes - 1) / lanes * lanes
	}
	for d := range x.axes {
		x.length[d] = (c.y[d]-1)*c.stride[d] + (c.k[d]-1)*c.dilation[d] + 1
		x.axes[d] = sampling{n: c.x[d], step: 1, length: x.length[d]}
	}
	strides := rowMajor(x.length)
	for d := range strides {
		strides[d] *= c.stride[d]
	}
	eachOf(c.y, func(at [3]int) { x.at = append(x.at, offsetIn(at, strides)) })
	return x
}

// copyImage copies channels from first on to dst, which has pitch elements for each position. Those that it has beyond
// the channels are left or cleared.
func (x *channelsLast[T]) copyImage(dst []T, pitch, image, first, channels int) {
	lo, hi := x.axes[2].within(-x.before[2])
	for row := range x.length[0] * x.length[1] {
		to := dst[:x.length[2]*pitch]
		dst = dst[len(to):]
		at := [3]int{row/x.length[1] - x.before[0], row%x.length[1] - x.before[1], lo - x.before[2]}
		if lo == hi || at[0] < 0 || at[0] >= x.x[0] || at[1] < 0 || at[1] >= x.x[1] {
			clear(to)
			continue
		}
		clear(to[:lo*pitch])
		clear(to[hi*pitch:])
		src := x.src[image*x.xStrides[0]+first*x.xStrides[1]+offsetIn(at, [3]int(x.xStrides[2:])):]
		matmul.Transpose(to[lo*pitch:], pitch,
			matmul.MatrixOf[T]{Data: src, RowStride: x.xStrides[1], ColStride: x.xStrides[4]}, channels, hi-lo)
	}
}

// copyLimit is how many elements are copied at a time, for at most mostTerms, or of as many images as have leastTerms.
// Tests lower it.
var copyLimit = 1 << 18

const leastTerms, mostTerms = 2 * matmul.Chunk, 1 << 13

// addTerms adds the terms from the given one on to product [out, (t, c)] of group g, those of some images, and returns
// the first that is left.
func (x *channelsLast[T]) addTerms(product, y []T, g, from int) int {
	positions, pixels := kernels.Count(x.y[:]), kernels.Count(x.length[:])
	wantRoom(x.length[:])
	first := from / positions
	count := max(min(copyLimit/(pixels*x.in), mostTerms/positions), leastTerms/positions+2)
	last := min(first+count, x.images)
	to := last * positions
	if last < x.images {
		to -= to % matmul.Chunk
	}
	wantRoom(append([]int{last - first, x.in}, x.length[:]...))
	data, done := lend[T]((last-first)*x.in*pixels + matmul.Room)
	defer done()
	par.For(last-first, 1+rowGrain/(pixels*x.in), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			x.copyImage(data[i*pixels*x.in:], x.in, first+i, g*x.in, x.in)
		}
	})
	for i := range x.parts {
		y := y[(first*x.groups+g)*x.out*positions:]
		x.multiply(&x.parts[i], product, y, data, from-first*positions, to-from, from > 0)
	}
	return to
}

// multiply computes the sums of count terms, from the given one on, in the columns of a part, or adds to them. y and
// data begin at the same image.
func (x *channelsLast[T]) multiply(p *weightPart, product, y, data []T, from, count int, add bool) {
	positions, pixels, strides := len(x.at), kernels.Count(x.length[:]), rowMajor(x.length)
	for d := range strides {
		strides[d] *= x.dilation[d] * x.in
	}
	b := matmul.UnfoldedOf[T]{Rows: x.rows[:0], LeftColumns: x.columns[:0]}
	var ends chunkEnds
	for i := from / positions; i*positions < from+count; i++ {
		begin, pixel, row := i*positions-from, i*pixels, i*x.groups*x.out*positions
		lo, _ := slices.BinarySearch(p.positions, -begin)
		hi, _ := slices.BinarySearch(p.positions, count-begin)
		for _, o := range p.positions[lo:hi] {
			if x.split {
				ends.before(begin+o, len(b.Rows))
			}
			b.Rows = append(b.Rows, (pixel+x.at[o])*x.in)
			b.LeftColumns = append(b.LeftColumns, row+o)
		}
	}
	x.rows, x.columns = b.Rows, b.LeftColumns
	if x.split && len(b.Rows) > 0 {
		b.Chunks = append(ends.of, len(b.Rows))
	}
	for d, size := range p.size {
		b.Columns.Push(size, strides[d])
	}
	b.Columns.Push(x.in, 1)
	b.Data = data[offsetIn(p.first, strides):]
	a := matmul.MatrixOf[T]{Data: y, RowStride: positions, ColStride: 1}
	if positions == 1 { // the channels are neighbours, not the terms
		a.ColStride, b.LeftColumns = x.groups*x.out, nil
	}
	if x.pixels > 0 {
		of, a := any(b).(matmul.UnfoldedOf[float32]), any(a).(matmul.Matrix)
		x.addPixels(p, any(product).([]float32), x.pixels, a, &of, add)
		return
	}
	matmul.Unfold(x.out, a, b, product[p.column*x.in:], x.in*kernels.Count(x.k[:]), add, nil)
}

// store writes the product of a channel of the result, whose columns are (part, t, c), to w [c, t]. It reports whether
// one of these is -0, where terms are left out.
func (x *channelsLast[T]) store(w, product []T) (negative bool) {
	taps, strides := kernels.Count(x.k[:]), rowMajor(x.k)
	from, begin, run := product, 0, 0 // elements of the window that follow each other in w
	flush := func() {
		if run > 0 {
			matmul.Transpose(w[begin:], taps, matmul.MatrixOf[T]{Data: from, RowStride: x.in, ColStride: 1}, run, x.in)
			from = from[run*x.in:]
		}
	}
	for i := range x.parts {
		p := &x.parts[i]
		if single, ok := any(product).([]float32); ok && x.split && len(p.positions) > 0 {
			negative = negative || hasNegativeZero(single[p.column*x.in:][:kernels.Count(p.size[:])*x.in])
		}
		eachOf(p.size, func(t [3]int) {
			for d := range t {
				t[d] += p.first[d]
			}
			if at := offsetIn(t, strides); at != begin+run {
				flush()
				begin, run = at, 0
			}
			run++
		})
	}
	flush()
	return negative
}
