//go:build cuda && cgo && linux

package cuda

import (
	"math"
	"math/bits"

	"github.com/weft-ml/weft/kernels"
)

// Operations with operands of indices. An index outside its axis is an error that the host learns of later: see
// index_error.go.
func init() {
	plans["embedding"] = planIndexSelect
	plans["index_select"] = planIndexSelect
	plans["gather"] = planGather
	plans["index_add"] = planIndexAdd
	plans["scatter_add"] = planScatterAdd
	plans["scatter"] = scatterPlan("scatter_", func(d kernels.DType) string { return widthSuffixes[d.Size()] })
	plans["scatter_prod"] = scatterPlan("scatter_prod_", elementSuffix)
	plans["scatter_max"] = scatterPlan("scatter_max_", elementSuffix)
	plans["scatter_min"] = scatterPlan("scatter_min_", elementSuffix)
	plans["one_hot"] = planOneHot
}

// indices is the struct Indices of index.cu.
type indices struct {
	data        uint64
	errors      indexErrors
	bytes, size uint64
}

// indexedAxis is the struct IndexedAxis of index.cu.
type indexedAxis struct {
	bytes, size uint64
	stride      int64
	errors      indexErrors
}

// digit is the struct Digit of index.cu.
type digit struct{ shift, bits uint32 }

// addColumns is the struct Columns of index.cu.
type addColumns struct {
	size, width, count uint64
	tiles, lanes       uint32
	axes               kernels.Dims
}

// indices appends the struct Indices of index.cu.
func (c *call) indices(a *kernels.Arg, x indexed) {
	structure(c, &indices{c.address(a), c.report(a, x), uint64(a.DType.Size()), uint64(x.size)})
}

// planIndexSelect takes, along axis l.Ints[0] of the first operand, the entries with the indices of the second.
func planIndexSelect(c *call, l *kernels.Launch) {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	behind := axis + len(chosen.Shape)
	var from, at, number [kernels.MaxDims]int
	copy(from[:], x.Strides[:axis])
	copy(from[behind:], x.Strides[axis+1:])
	copy(at[axis:], chosen.Strides)
	kernels.RowMajor(number[axis:], chosen.Shape)
	c.gather(y, x, chosen, axis, from[:len(y.Shape)], at[:len(y.Shape)], number[:len(y.Shape)])
}

// planGather takes the elements of the first operand whose index along axis l.Ints[0] the second one gives.
func planGather(c *call, l *kernels.Launch) {
	x, chosen, y, axis := &l.In[0], &l.In[1], &l.Out[0], l.Ints[0]
	var from, number [kernels.MaxDims]int
	copy(from[:], x.Strides)
	from[axis] = 0
	c.gather(y, x, chosen, axis, from[:len(y.Shape)], chosen.Strides, kernels.RowMajor(number[:], chosen.Shape))
}

// gather takes the elements of x that indices select along an axis. By the axes of y, `from` are the strides of x
// without that axis, `at` those of the indices, and `number` those of their numbers in row-major order.
func (c *call) gather(y, x, chosen *kernels.Arg, axis int, from, at, number []int) {
	if y.Len() == 0 {
		return
	}
	along := func(strides []int) kernels.Arg { return kernels.Arg{Layout: kernels.Layout{Strides: strides}} }
	var w stridedCopy
	w.set(y.Shape, y.DType.Size(), *y, along(from), along(at), along(number))
	w.begin[0], w.begin[1], w.begin[2] = c.address(y), c.address(x), c.address(chosen)
	w.scale[2] = chosen.DType.Size()
	size, stride := x.Shape[axis], x.Strides[axis]
	stride /= w.vectorise(uint64(stride * w.elementBytes))
	chosenAxis := indexedAxis{uint64(chosen.DType.Size()), uint64(size), int64(stride), indexErrors{}}
	if chosenAxis.bytes < 8 {
		chosenAxis.size = min(chosenAxis.size, 1<<31)
	}
	c.stridedCopy("gather", &w, func([kernels.MaxDims]int) {
		chosenAxis.errors = c.report(chosen, indexedAlong(x, axis))
		structure(c, &chosenAxis)
	})
}

// Constants of index.cu: the sort of additions.
const (
	sortThreads  = 512
	sortMoved    = 8
	digitBits    = 9 // so that a digit has no more values than a block has threads
	addThreads   = 256
	maxAdditions = math.MaxUint32
)

// shortLine is the length of the longest lines that a thread of scatter_add has: it compares their indices with each
// other.
const shortLine = 32

// sortBlocks is the most blocks of a sort: each reads the counts of all. A variable so that tests can make it small.
var sortBlocks = 128

// sortedAdditions are n additions to entries of a result, in the order of these entries; `none`, the number of entries,
// is that of additions without effect.
type sortedAdditions struct {
	at      uint64
	n, none int
}

// planIndexAdd copies the first operand and adds to it, at the indices of the second along axis l.Ints[0], the entries
// of the third.
func planIndexAdd(c *call, l *kernels.Launch) {
	y, chosen, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	if c.relayout(y, &l.In[0]); added.Len() == 0 {
		return
	}
	var others [kernels.MaxDims]int
	s := c.sortAdditions(chosen, indexedAlong(y, axis), y.Shape[axis], 1, chosen.Shape, others[:len(chosen.Shape)])
	behind := axis + len(chosen.Shape)
	var columns, entries kernels.Dims
	columns.PushAll(added.Shape[:axis], added.Strides[:axis])
	columns.PushAll(added.Shape[behind:], added.Strides[behind:])
	entries.PushAll(added.Shape[axis:behind], added.Strides[axis:behind])
	c.indexAdd(y, added, s, y.Shape[axis], kernels.Count(y.Shape[axis+1:]), &columns, &entries)
}

// planScatterAdd copies the first operand and adds to it the elements of the third, where the second gives the index
// along axis l.Ints[0].
func planScatterAdd(c *call, l *kernels.Launch) {
	y, added := &l.Out[0], &l.In[2]
	if c.scatterAddTiles(l) {
		return
	}
	if added.Len() > 0 && added.Shape[l.Ints[0]] <= shortLine {
		c.scatterAddLines(l)
		return
	}
	if s, ok := c.sortScattered(l); ok {
		var columns, entries kernels.Dims
		entries.PushAll(added.Shape, added.Strides)
		c.indexAdd(y, added, s, y.Len(), 1, &columns, &entries)
	}
}

// lines is the struct Lines of index.cu.
type lines struct {
	count, length uint64
	step          [4]int64
}

// Constants of index.cu: elements of lines that are in shared memory at a time, and what lines of y may take there.
// With 32 KiB several blocks are on a multiprocessor.
const (
	addStaged   = 1024
	tileBytes   = 32 << 10
	mostOfTiles = 64 << 10
	mostLines   = 32
	longLine    = 8 << 10 // elements, of which few blocks take longer than a sort
)

// lineTiles is the struct LineTiles of index.cu.
type lineTiles struct {
	count, length, size uint64
	step                [5]int64
	tile, owners, along uint32
}

// scatterAddTiles is planScatterAdd for lines of y that fit in shared memory, if all of them get elements, and a few
// not very many.
func (c *call) scatterAddTiles(l *kernels.Launch) bool {
	y, chosen, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	size, each := y.Shape[axis], computeType(y.DType).Size()
	if y.DType == kernels.Int32 || y.DType == kernels.Uint8 {
		each = y.DType.Size()
	}
	if y.Len() == 0 || added.Len() == 0 || size*each > mostOfTiles {
		return false
	}
	for d := range y.Shape {
		if d != axis && y.Shape[d] != added.Shape[d] {
			return false
		}
	}
	v := lineTiles{count: uint64(y.Len() / size), length: uint64(added.Shape[axis]), size: uint64(size)}
	if v.length > longLine && int(v.count) < c.b.gpu.SMs {
		return false
	}
	least := min(3, bits.Len(uint(y.Strides[axis]-1))) // log2 of neighbours that make whole sectors
	if y.Strides[axis] == 1 {
		v.along = 1
	}
	fits := func(tile, bytes int) bool { return size*each<<tile <= bytes }
	if !fits(least, mostOfTiles) {
		return false
	}
	tile := least
	for 1<<tile < mostLines && fits(tile+1, tileBytes) && int(v.count)>>(tile+1) >= c.b.gpu.SMs {
		tile++
	}
	v.tile, v.owners = uint32(tile), uint32(max(3, 5-tile))
	var number [kernels.MaxDims]int
	var others space
	others.lines(y.Shape, axis, v.step[:], y.Strides, l.In[0].Strides, added.Strides, chosen.Strides,
		kernels.RowMajor(number[:], added.Shape))
	shared := 4*addStaged + each*(addStaged+size<<tile)
	c.startShared("scatter_add_tiles_"+suffixes[y.DType], blocks(int(v.count), 1<<tile), addThreads, shared)
	c.pointer(y)
	c.pointer(&l.In[0])
	c.pointer(added)
	c.indices(chosen, indexedAlong(y, axis))
	structure(c, &v)
	others.shape64(c)
	return true
}

// scatterAddLines is planScatterAdd for short lines.
func (c *call) scatterAddLines(l *kernels.Launch) {
	y, chosen, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	c.relayout(y, &l.In[0])
	length := added.Shape[axis]
	v := lines{uint64(added.Len() / length), uint64(length), [4]int64{}}
	var number [kernels.MaxDims]int
	var others space
	others.lines(added.Shape, axis, v.step[:], y.Strides, added.Strides, chosen.Strides,
		kernels.RowMajor(number[:], added.Shape))
	c.start("scatter_add_lines_"+suffixes[y.DType], blocks(int(v.count), addThreads), addThreads)
	c.pointer(y)
	c.pointer(added)
	c.indices(chosen, indexedAlong(y, axis))
	structure(c, &v)
	others.shape64(c)
}

// widthSuffixes end the symbols of kernels for elements of so many bytes.
var widthSuffixes = [9]string{1: "b1", 2: "b2", 4: "b4", 8: "b8"}

// scatterPlan is planScatterAdd for elements that are combined by a kernel, with a suffix for their type.
func scatterPlan(kernel string, suffix func(d kernels.DType) string) plan {
	return func(c *call, l *kernels.Launch) {
		y, added := &l.Out[0], &l.In[2]
		s, ok := c.sortScattered(l)
		if !ok {
			return
		}
		var entries kernels.Dims
		entries.PushAll(added.Shape, added.Strides)
		c.start(kernel+suffix(y.DType), blocks(s.n, addThreads), addThreads)
		for _, v := range [5]uint64{c.address(y), c.address(added), s.at, uint64(s.n), uint64(s.none)} {
			arg(c, v)
		}
		structure(c, &entries)
	}
}

// sortScattered copies the first operand, and sorts the elements of the third by where they go, if there are any.
func (c *call) sortScattered(l *kernels.Launch) (s sortedAdditions, ok bool) {
	y, chosen, added, axis := &l.Out[0], &l.In[1], &l.In[2], l.Ints[0]
	if c.relayout(y, &l.In[0]); added.Len() == 0 {
		return s, false
	}
	var others [kernels.MaxDims]int
	copy(others[:], y.Strides)
	others[axis] = 0
	s = c.sortAdditions(chosen, indexedAlong(y, axis), y.Len(), y.Strides[axis], added.Shape, others[:len(y.Shape)])
	return s, true
}

// sortAdditions sorts additions to `none` entries of a result. An addition to each element of the given shape, of which
// `chosen` has the index along an axis of so many entries: it goes to the entry whose number is the index times stride
// plus a linear function of its coordinates, with the strides `others`.
func (c *call) sortAdditions(chosen *kernels.Arg, x indexed, none, stride int, shape, others []int) sortedAdditions {
	n := kernels.Count(shape)
	if n > maxAdditions || none > maxAdditions {
		c.refuse("%d additions to %d entries; kernels on %s take fewer than %d", n, none, c.b.Name(), maxAdditions)
	}
	digits := ceilDiv(bits.Len(uint(none)), digitBits)
	each := uint32(ceilDiv(bits.Len(uint(none)), digits)) // bits of a digit
	part := roundUp(ceilDiv(n, sortBlocks), sortThreads*sortMoved)
	grid := blocks(n, part)
	countBytes := 4 * sortThreads * int(grid.X)
	counts := c.scratch(countBytes + 2*8*n)
	from := counts + uint64(countBytes)
	to := from + uint64(8*n)
	start := func(kernel string, number int, addresses ...uint64) {
		c.start(kernel, grid, sortThreads)
		for _, address := range addresses {
			arg(c, address)
		}
		arg(c, uint64(n))
		arg(c, uint64(part))
		structure(c, &digit{uint32(number) * each, each})
	}
	for k := range digits {
		if k == 0 {
			start("additions_begin", 0, counts, from)
			c.indices(chosen, x)
			arg(c, uint64(stride))
			arg(c, uint64(none))
			var targets space
			targets.collapse([]kernels.Arg{*chosen, {Layout: kernels.Layout{Strides: others}}}, shape)
			targets.shape64(c)
		} else {
			start("additions_count", k, counts, from)
		}
		start("additions_place", k, to, from, counts)
		from, to = to, from
	}
	return sortedAdditions{from, n, none}
}

// indexAdd launches sorted additions to y [outer, size, width]. Those of an entry of `added` go to the columns, one to
// each element of the outer and inner axes.
func (c *call) indexAdd(y, added *kernels.Arg, s sortedAdditions, size, width int, axes, entries *kernels.Dims) {
	count, way := axes.Len(), ""
	to, from := c.address(y), c.address(added)
	if v := copyBytes / y.DType.Size(); (to|from)%copyBytes == 0 && width%v == 0 && entries.Rank <= 1 &&
		vectorise(axes, entries, v) {
		way, width, count = "_vector", width/v, count/v
	}
	lanes := min(5, bits.Len(uint(count-1)))
	tiles := ceilDiv(count, 1<<lanes)
	groups := ceilDiv(s.n, addThreads>>lanes)
	if groups*tiles > math.MaxInt32 {
		c.refuse("%d additions to %d columns are too many for one launch", s.n, count)
	}
	c.start("index_add_"+suffixes[y.DType]+way, dim{uint32(groups * tiles), 1, 1}, addThreads)
	for _, v := range [5]uint64{to, from, s.at, uint64(s.n), uint64(s.none)} {
		arg(c, v)
	}
	structure(c, &addColumns{uint64(size), uint64(width), uint64(count), uint32(tiles), uint32(lanes), *axes})
	structure(c, entries)
}

// vectorise makes v columns one, if they are neighbours in memory and aligned alike in every entry.
func vectorise(columns, entries *kernels.Dims, v int) bool {
	last := columns.Rank - 1
	if last < 0 || columns.Strides[last] != 1 || columns.Shape[last]%v != 0 ||
		!multiples(columns.Strides[:last], v) || !multiples(entries.Strides[:entries.Rank], v) {
		return false
	}
	columns.Shape[last] /= v
	columns.Strides[last] = v
	return true
}

// multiples tells whether all numbers are multiples of v.
func multiples(numbers []int, v int) bool {
	for _, n := range numbers {
		if n%v != 0 {
			return false
		}
	}
	return true
}

// planOneHot sets 1 where the index along the new last axis, of size l.Ints[0], is the operand's value.
func planOneHot(c *call, l *kernels.Launch) {
	y := &l.Out[0]
	if y.Len() == 0 {
		return
	}
	c.startEach("one_hot", y.Len())
	c.pointer(y)
	arg(c, uint64(y.Len()))
	c.indices(&l.In[0], indexed{size: l.Ints[0]})
	var axes kernels.Dims
	axes.PushAll(l.In[0].Shape, l.In[0].Strides)
	structure(c, &axes)
}
