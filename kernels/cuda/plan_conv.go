//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// Convolutions are products with an operand that is unfolded, some images at a time: see conv.cu. Where windows are one
// element each, in order, as those of 1x1 with stride 1, the operand is taken as it is. The order of the terms is that
// of kernels/cpu; products in half precision have an order of their own, and results that need more than one product,
// or a bias, are added up in float32 and rounded once.
func init() {
	plans["conv"] = planConv
	plans["conv_transpose"] = planConvTranspose
	plans["conv_weight"] = planConvWeight
}

const (
	matmulChunk = 256      // terms of a chunk of the canonical order of products
	convScratch = 64 << 20 // bytes of unfolded operands and products, unless an image or a chunk takes more
	convTiles   = 256      // of products that make up a gradient of weights in half precision, unless chunks are short
	convAligned = 256      // bytes
)

// unfoldAxis is the struct UnfoldAxis of conv.cu.
type unfoldAxis struct {
	n, step, start, stride, dilation int64
	positions, size                  uint32
}

// unfolding is the struct Unfolding of conv.cu.
type unfolding struct {
	axis                                    [3]unfoldAxis
	image, channel, toImage, toRow          int64
	first, columns, each, positions, window uint32
}

// A convolution is the geometry of an op call, with three spatial axes; those that are missing have size 1.
type convolution struct {
	x, y, weight             convArg
	groups                   int
	stride, before, dilation [3]int
}

// A convArg is an operand or the result: its first two axes, then the spatial ones.
type convArg struct {
	at             uint64 // address
	shape, strides [2]int
	size, step     [3]int // of the spatial axes: sizes and strides
	dtype          kernels.DType
}

func (c *call) convArg(a *kernels.Arg) convArg {
	v := convArg{at: c.address(a), shape: [2]int(a.Shape), strides: [2]int(a.Strides), size: [3]int{1, 1, 1},
		dtype: a.DType}
	first := 5 - len(a.Shape)
	copy(v.size[first:], a.Shape[2:])
	copy(v.step[first:], a.Strides[2:])
	return v
}

// from is the address of an image.
func (a *convArg) from(image int) uint64 { return a.at + uint64(image*a.strides[0]*a.dtype.Size()) }

func (c *call) convolution(x, weight, y *kernels.Arg, ints []int) *convolution {
	v := &convolution{x: c.convArg(x), y: c.convArg(y), weight: c.convArg(weight), groups: ints[len(ints)-1],
		stride: [3]int{1, 1, 1}, dilation: [3]int{1, 1, 1}}
	axes := len(ints) / 4
	copy(v.stride[3-axes:], ints)
	copy(v.before[3-axes:], ints[axes:])
	copy(v.dilation[3-axes:], ints[2*axes:])
	return v
}

// seen is what windows see of x, along each axis.
func (v *convolution) seen() (axes [3]unfoldAxis) {
	for d := range axes {
		axes[d] = unfoldAxis{int64(v.x.size[d]), int64(v.x.step[d]), -int64(v.before[d]), int64(v.stride[d]),
			int64(v.dilation[d]), uint32(v.y.size[d]), uint32(v.weight.size[d])}
	}
	return axes
}

// elements are those of the operand a, in places or some of them, as windows of one element.
func (a *convArg) elements() (axes [3]unfoldAxis) {
	for d := range axes {
		axes[d] = unfoldAxis{n: int64(a.size[d]), step: int64(a.step[d]), stride: 1, positions: uint32(a.size[d]),
			size: 1}
	}
	return axes
}

// newUnfolding reads a; positions and elements of the window are those of its axes. Images follow each other in the
// matrix, whose rows have room for n columns.
func (c *call) newUnfolding(a *convArg, axes [3]unfoldAxis, n int) unfolding {
	u := unfolding{axis: axes, image: int64(a.strides[0]), channel: int64(a.strides[1])}
	positions, window := 1, 1
	for _, axis := range axes {
		positions *= int(axis.positions)
		window *= int(axis.size)
	}
	c.wantConv(positions)
	c.wantConv(window)
	u.positions, u.each, u.window = uint32(positions), uint32(positions), uint32(window)
	u.toImage, u.toRow = int64(positions), int64(unfoldedRow(n, a.dtype))
	return u
}

// unfoldedRow is how many elements of type d a row of n elements of a matrix takes.
func unfoldedRow(n int, d kernels.DType) int { return roundUp(n, copyBytes/d.Size()) }

// wantConv refuses sizes that the kernels have no numbers for.
func (c *call) wantConv(size int) {
	if size > math.MaxInt32 {
		c.refuse("sizes above 2^31 are not supported: %d", size)
	}
}

// unfold launches a copy to matrix `to` of so many rows and columns.
func (c *call) unfold(to, from uint64, d kernels.DType, rows, columns int, u *unfolding) {
	c.wantConv(rows)
	c.wantConv(int(u.first) + columns)
	if rows*columns == 0 {
		return
	}
	u.columns = uint32(columns)
	n := rows * (unfoldedRow(columns, d) * d.Size() / copyBytes)
	c.startWindows("conv_unfold_"+widthSuffixes[d.Size()], n)
	arg(c, to)
	arg(c, from)
	arg(c, uint64(n))
	structure(c, u)
}

// A convPart is elements of the result, which one product for each image and group computes.
type convPart struct {
	seen   [3]unfoldAxis // of the operand
	weight [3]unfoldAxis // the elements of the window that take part, as positions
	size   [3]int        // of the elements in the result
	first  int           // offset of the first of them
	step   [3]int        // their strides
}

// plane is the distance of the positions of a, if they have one and the windows are one element each, in order.
func plane(a *convArg, seen *[3]unfoldAxis) (step int, ok bool) {
	step, next := 1, 0
	for d := 2; d >= 0; d-- {
		if v := &seen[d]; v.size != 1 || v.start != 0 || v.stride != 1 || int(v.positions) != a.size[d] {
			return 0, false
		}
		switch {
		case a.size[d] == 1:
			continue
		case next == 0 && a.step[d] > 0:
			step = a.step[d]
		case a.step[d] != next || next == 0:
			return 0, false
		}
		next = a.step[d] * a.size[d]
	}
	return step, true
}

func (p *convPart) taps() (n int) {
	n = 1
	for _, a := range p.weight {
		n *= int(a.positions)
	}
	return n
}

// planConv multiplies the weight [o, (c, t)] by the unfolded x.
func planConv(c *call, l *kernels.Launch) {
	v := c.convolution(&l.In[0], &l.In[1], &l.Out[0], l.Ints)
	part := convPart{v.seen(), v.weight.elements(), v.y.size, 0, v.y.step}
	weight := v.weight
	weight.shape = [2]int{weight.shape[1], weight.shape[0]}
	weight.strides = [2]int{weight.strides[1], weight.strides[0]}
	c.convParts(l, v.groups, &v.x, &weight, &v.y, []convPart{part})
}

// planConvTranspose has a part for each phase of the stride, to which the same elements of the window contribute, and
// multiplies these, [c, (o, t)], by the unfolded y.
func planConvTranspose(c *call, l *kernels.Launch) {
	v := c.convolution(&l.Out[0], &l.In[1], &l.In[0], l.Ints)
	if l.Out[0].Len() == 0 {
		return
	}
	phases := [3]int{}
	for d := range phases {
		phases[d] = min(v.stride[d], v.x.size[d])
	}
	var parts []convPart
	for number := range kernels.Count(phases[:]) {
		part := convPart{step: v.x.step}
		for d, rest := 2, number; d >= 0; d-- {
			first := rest % phases[d]
			rest /= phases[d]
			part.size[d] = (v.x.size[d] - first + v.stride[d] - 1) / v.stride[d]
			part.first += first * v.x.step[d]
			part.step[d] = v.stride[d] * v.x.step[d]
			part.seen[d], part.weight[d] = v.reaching(d, first)
			part.seen[d].positions = uint32(part.size[d])
		}
		parts = append(parts, part)
	}
	c.convParts(l, v.groups, &v.y, &v.weight, &v.x, parts)
}

// reaching is what elements first, first + stride, ... of x along axis d get: of y, and from which elements t of the
// window. These are those for which the stride divides first + before - t*dilation, which are equally far apart.
func (v *convolution) reaching(d, first int) (seen, weight unfoldAxis) {
	last := -1
	for t := range v.weight.size[d] {
		from := first + v.before[d] - t*v.dilation[d]
		if from%v.stride[d] != 0 {
			continue
		}
		at := int64(from / v.stride[d])
		switch weight.positions {
		case 0:
			weight.start, seen.start = int64(t), at
		case 1:
			weight.stride, seen.dilation = int64(t-last), at-seen.start
		}
		last = t
		weight.positions++
	}
	weight.n, weight.step, weight.size = int64(v.weight.size[d]), int64(v.weight.step[d]), 1
	seen.n, seen.step, seen.stride, seen.size = int64(v.y.size[d]), int64(v.y.step[d]), 1, weight.positions
	return seen, weight
}

// convParts computes the parts of result y. The first axis of the weight is the channels of x, of all groups or of one;
// the second those of y. A part that is all of y needs no places.
func (c *call) convParts(l *kernels.Launch, groups int, x, weight, y *convArg, parts []convPart) {
	d := y.dtype
	if l.Out[0].Len() == 0 {
		return
	}
	images, channels, m := x.shape[0], x.shape[1]/groups, y.shape[1]/groups
	direct := func(part *convPart) (step int, ok bool) {
		step, ok = plane(x, &part.seen)
		return step, ok && (step == 1 || !d.IsHalf()) // not all layouts have a kernel whose results are float32
	}
	apart := len(parts) > 1 || d.IsHalf() && len(l.In) > 2 // products that are not the result
	weights, unfolded, products := 0, 0, 0                 // bytes
	for i := range parts {
		taps, columns := parts[i].taps(), kernels.Count(parts[i].size[:])
		row := unfoldedRow(weight.shape[0]*taps, d)
		weights = max(weights, roundUp(weight.shape[1]*row*d.Size(), convAligned))
		if _, ok := direct(&parts[i]); !ok {
			unfolded = max(unfolded, roundUp(x.shape[1]*taps*unfoldedRow(columns, d)*d.Size(), convAligned))
		}
		if apart {
			products = max(products, roundUp(y.shape[1]*columns*computeType(d).Size(), convAligned))
		}
	}
	block := max(1, min(images, convScratch/max(1, unfolded+products)))
	matrix := c.scratch(weights + block*(unfolded+products))
	columnsAt := matrix + uint64(weights)
	productsAt := columnsAt + uint64(block*unfolded)
	for i := range parts {
		part := &parts[i]
		taps, columns := part.taps(), kernels.Count(part.size[:])
		terms := channels * taps
		u := c.newUnfolding(weight, part.weight, weight.shape[0]*taps)
		c.unfold(matrix, weight.at, d, weight.shape[1], weight.shape[0]*taps, &u)
		p := product{a: matrix, m: uint32(m), n: uint32(columns), k: uint32(terms), cRow: uint32(columns),
			aRow: u.toRow, aColumn: 1}
		batch := productBatch{rank: 2}
		batch.stride[0] = [kernels.MaxDims]int64{0, int64(m) * u.toRow}
		if weight.shape[1] == m { // its first axis has the groups
			batch.stride[0][1] = int64(terms)
		}
		step, asIs := direct(part)
		u = c.newUnfolding(x, part.seen, columns)
		if asIs {
			p.bRow, p.bColumn = int64(x.strides[1]), int64(step)
			batch.stride[1] = [kernels.MaxDims]int64{int64(x.strides[0]), int64(channels * x.strides[1])}
		} else {
			u.each, u.toImage = uint32(u.toRow), int64(x.shape[1]*taps)*u.toRow
			p.bRow, p.bColumn = u.toRow, 1
			batch.stride[1] = [kernels.MaxDims]int64{u.toImage, int64(terms) * u.toRow}
		}
		for first := 0; first < images; first += block {
			count := min(block, images-first)
			if p.b = x.from(first); !asIs {
				p.b = columnsAt
				c.unfold(columnsAt, x.from(first), d, x.shape[1]*taps, count*int(u.each), &u)
			}
			if p.c = y.from(first); apart {
				p.c = productsAt
			}
			batch.size = [kernels.MaxDims]int64{int64(count), int64(groups)}
			c.convProducts(&p, &batch, count*groups, d, apart)
			if apart || len(l.In) > 2 {
				c.place(l, y, part, p.c, first, count)
			}
		}
	}
}

// convProducts multiplies; results apart are of the compute type. There the rows of A, and in half precision those of B
// ("n") or its columns ("t"), are contiguous.
func (c *call) convProducts(p *product, batch *productBatch, count int, d kernels.DType, apart bool) {
	switch {
	case !d.IsHalf():
		c.multiply(p, batch, count, d)
	case !apart:
		c.matmulHalf(p, batch, count, d, 1)
	default:
		layout, wide := p.halfOperands(batch)
		if p.c%8 == 0 && p.cRow%2 == 0 {
			wide |= wideC
		}
		c.startHalf("matmul_half_sums_"+layout+"_"+suffixes[d], p, batch, c.blocks(p, halfTile, halfTile, count), wide,
			halfParts{count: 1, k: p.k})
	}
}

// place moves finished products of a part, for count images, to their places in y, adds the bias, and rounds.
func (c *call) place(l *kernels.Launch, y *convArg, part *convPart, from uint64, first, count int) {
	positions := kernels.Count(part.size[:])
	n := count * y.shape[1] * positions
	if n == 0 {
		return
	}
	var axes kernels.Dims
	axes.PushAll([]int{count, y.shape[1]}, y.strides[:])
	axes.PushAll(part.size[:], part.step[:])
	c.startWindows("conv_place_"+suffixes[y.dtype], n)
	arg(c, y.from(first)+uint64(part.first*y.dtype.Size()))
	arg(c, from)
	if len(l.In) > 2 {
		c.pointer(&l.In[2])
		arg(c, int64(l.In[2].Strides[0]))
	} else {
		arg(c, uint64(0))
		arg(c, int64(0))
	}
	arg(c, uint64(n))
	arg(c, uint64(y.shape[1]))
	arg(c, uint64(positions))
	structure(c, &axes)
}

// planConvWeight multiplies y [o, (n, p)] by the transposed unfolded x [(c, t), (n, p)], one product for each chunk of
// terms, and adds these in their order. Chunks of half precision are longer.
func planConvWeight(c *call, l *kernels.Launch) {
	v := c.convolution(&l.In[0], &l.Out[0], &l.In[1], l.Ints)
	d, n := v.x.dtype, l.Out[0].Len()
	if n == 0 {
		return
	}
	seen := v.seen()
	positions := kernels.Count(v.y.size[:])
	terms := v.x.shape[0] * positions
	if terms == 0 {
		c.fill(result{to: v.weight.at, dtype: uint64(d.Code())}, 0, n)
		return
	}
	out, columns := v.weight.shape[0]/v.groups, v.weight.shape[1]*kernels.Count(v.weight.size[:])
	p := product{m: uint32(out), n: uint32(columns), cRow: uint32(columns), aColumn: 1, bRow: 1}
	sum := computeType(d).Size()
	bytes := roundUp(n*sum, convAligned)
	if d.IsHalf() && positions >= matmulChunk && c.convWeightByImages(l, v, p, bytes) {
		return
	}
	rowsX, rowsY, chunk, total := v.groups*columns, v.weight.shape[0], matmulChunk, v.weight.at
	if d.IsHalf() {
		tiles := v.groups * p.tiles(halfTile, halfTile)
		chunk = roundUp(ceilDiv(terms, max(1, convTiles/tiles)), matmulChunk)
		chunk = min(chunk, max(matmulChunk, convScratch/2/(rowsX+rowsY)/d.Size()&^(matmulChunk-1)))
	} else {
		bytes = 0
	}
	chunks := min(ceilDiv(terms, chunk), max(1, convScratch/(chunk*(rowsX+rowsY)*d.Size()+n*sum)))
	piece := chunks * chunk
	unfolded := c.scratch(bytes + piece*(rowsX+rowsY)*d.Size() + chunks*n*sum)
	if bytes > 0 {
		total = unfolded
		unfolded += uint64(bytes)
	}
	grads := unfolded + uint64(piece*rowsX*d.Size())
	products := grads + uint64(piece*rowsY*d.Size())
	for first := 0; first < terms; first += piece {
		count := min(piece, terms-first)
		ux, uy := c.newUnfolding(&v.x, seen, count), c.newUnfolding(&v.y, v.y.elements(), count)
		ux.first = uint32(first % positions)
		uy.first = ux.first
		c.unfold(unfolded, v.x.from(first/positions), d, rowsX, count, &ux)
		c.unfold(grads, v.y.from(first/positions), d, rowsY, count, &uy)
		p.a, p.b, p.c, p.k, p.aRow, p.bColumn = grads, unfolded, products, uint32(chunk), uy.toRow, ux.toRow
		batch := productBatch{rank: 2, stride: [2][kernels.MaxDims]int64{
			{int64(chunk), int64(out) * uy.toRow}, {int64(chunk), int64(columns) * ux.toRow}}}
		whole, rest := count/chunk, count%chunk
		if whole > 0 {
			batch.size = [kernels.MaxDims]int64{int64(whole), int64(v.groups)}
			c.convProducts(&p, &batch, whole*v.groups, d, true)
		}
		if rest > 0 {
			done := uint64(whole * chunk * d.Size())
			p.a, p.b, p.c, p.k = p.a+done, p.b+done, p.c+uint64(whole*n*sum), uint32(rest)
			batch.size = [kernels.MaxDims]int64{1, int64(v.groups)}
			c.convProducts(&p, &batch, v.groups, d, true)
		}
		c.addProducts(total, products, computeType(d), n, ceilDiv(count, chunk), first > 0)
	}
	if bytes > 0 {
		c.placeSums(l, total, n)
	}
}

// convWeightByImages is planConvWeight in half precision where the operands can be taken as they are: images are
// chunks, whose sums take so many bytes.
func (c *call) convWeightByImages(l *kernels.Launch, v *convolution, p product, bytes int) bool {
	seen, elements := v.seen(), v.y.elements()
	stepX, okX := plane(&v.x, &seen)
	stepY, okY := plane(&v.y, &elements)
	if !okX || !okY || stepX != 1 || stepY != 1 {
		return false
	}
	n := l.Out[0].Len()
	each := max(1, min(v.x.shape[0], convScratch/bytes))
	total := c.scratch(bytes + each*n*computeType(v.x.dtype).Size())
	p.c, p.k = total+uint64(bytes), uint32(kernels.Count(v.y.size[:]))
	p.aRow, p.bColumn = int64(v.y.strides[1]), int64(v.x.strides[1])
	batch := productBatch{rank: 2, stride: [2][kernels.MaxDims]int64{
		{int64(v.y.strides[0]), int64(int(p.m) * v.y.strides[1])},
		{int64(v.x.strides[0]), int64(int(p.n) * v.x.strides[1])}}}
	for first := 0; first < v.x.shape[0]; first += each {
		count := min(each, v.x.shape[0]-first)
		p.a, p.b = v.y.from(first), v.x.from(first)
		batch.size = [kernels.MaxDims]int64{int64(count), int64(v.groups)}
		c.convProducts(&p, &batch, count*v.groups, v.x.dtype, true)
		c.addProducts(total, p.c, kernels.Float32, n, count, first > 0)
	}
	c.placeSums(l, total, n)
	return true
}

// addProducts adds so many products of n elements of type d, one after the other, behind the total if there is `more`.
func (c *call) addProducts(total, products uint64, d kernels.DType, n, count int, more bool) {
	c.startWindows("conv_add_"+suffixes[d], n)
	arg(c, total)
	arg(c, products)
	arg(c, uint64(n))
	arg(c, uint64(count))
	if more {
		arg(c, uint32(1))
	} else {
		arg(c, uint32(0))
	}
}

// placeSums rounds n sums of float32 to the result.
func (c *call) placeSums(l *kernels.Launch, sums uint64, n int) {
	y := convArg{at: c.address(&l.Out[0]), shape: [2]int{1, 1}, dtype: l.Out[0].DType}
	c.place(&kernels.Launch{}, &y, &convPart{size: [3]int{1, 1, n}, step: [3]int{0, 0, 1}}, sums, 0, 1)
}
